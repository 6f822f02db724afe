"""A library that finds by query, and the actions of scripted agents."""

from signatures.types import Passage
from tests.programs.fakes import Fake, block


def act(action, argument, thought=""):
    return {"thought": thought, "action": action, "argument": argument}


class Library(Fake):
    """Finds passages by query, nothing for others."""

    def __init__(self, **found):
        super().__init__()
        self.found = {query.replace("_", " "): passages for query, passages in found.items()}

    def find(self, query, k):
        return self.found.get(query, [])


def page(id, title, text):
    return Passage(id=id, title=title, text=text)


QUILLON = page("q", "Quillon", "Quillon is an island. It has a harbour. Its harbour master is Ansa Merrow.")
MERROW = page("m", "Ansa Merrow", "Ansa Merrow was born on Tren.")


def field(prompt, name):
    """Return the lines of an input field as a prompt shows them."""
    return block(prompt, name).split("\n")
