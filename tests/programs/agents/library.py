"""A library that finds by query, and the actions of scripted agents."""

from signatures.types import Passage


def act(action, argument, thought=""):
    return {"thought": thought, "action": action, "argument": argument}


class Library:
    """Finds passages by query, nothing for others, and remembers what was asked."""

    fingerprint = "library"

    def __init__(self, **found):
        self.found = {query.replace("_", " "): passages for query, passages in found.items()}
        self.asked = []

    def __call__(self, query, k):
        self.asked.append((query, k))
        return self.found.get(query, [])[:k]

    def many(self, queries, k):
        return [self(query, k) for query in queries]

    def __deepcopy__(self, memo):
        return self


def page(id, title, text):
    return Passage(id=id, title=title, text=text)


QUILLON = page("q", "Quillon", "Quillon is an island. It has a harbour. Its harbour master is Ansa Merrow.")
MERROW = page("m", "Ansa Merrow", "Ansa Merrow was born on Tren.")


def field(prompt, name):
    """Return the lines of an input field as a prompt shows them."""
    return prompt.partition(f"[[ ## {name} ## ]]\n")[2].partition("\n\n")[0].split("\n")
