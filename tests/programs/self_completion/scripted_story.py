"""An LM that reflects and searches as a test tells it to, and a retriever with shelves."""

from signatures.types import Passage
from tests.programs.fakes import Fake

REFUSAL = "I'm sorry, I cannot answer the question based on the provided references."
KNOWS = "Ansa Merrow is the harbour master of Quillon [1]."


def reflection(sufficient=True, response=KNOWS):
    return {"missing": "" if sufficient else "her birthplace", "sufficient": sufficient, "response": response}


GAP = reflection(False, "")


def replies(reflections=(), queries=(), forced="Forced, but said [1].", short="Ansa Merrow", memory="Remembered."):
    """Reply as an LM that takes reflections and queries in their order; a text stands for one query."""
    reflections, queries = iter(reflections), iter(queries)

    def reply(system, user):
        if "decide whether they suffice" in system:
            return next(reflections)
        if "find what is missing" in system:
            found = next(queries)
            return "??" if found is None else {"queries": [found] if isinstance(found, str) else found}
        if "from what you know" in system:
            return {"response": memory}
        if "one to four full sentences with what" in system:
            return {"response": forced} if isinstance(forced, str) else "??"
        return {"answer": short}

    return reply


class Shelves(Fake):
    """Finds what stands under a query; under any other query, `rest`."""

    def __init__(self, rest=(), **shelves):
        super().__init__()
        self.rest, self.shelves, self.batches = rest, shelves, []

    def find(self, query, k):
        ids = self.shelves.get(query, self.rest)
        return [Passage(id=id, title=id, text=f"Text of {id}.") for id in ids]

    def many(self, queries, k):
        self.batches.append(list(queries))
        return [self(query, k) for query in queries]


def ids(count, letter="a"):
    return [f"{letter}{number}" for number in range(count)]
