"""A story for SearChain: what a search finds, scripted chains, what is read for a query, and what is trusted."""

from programs.lms.adapter import JsonForm
from signatures.types import Passage
from tests.programs.fakes import Fake, block

QUESTION = "In which sea lies the island where the harbour master of Quillon was born?"
WHO, BORN, SEA = "Who is the harbour master of Quillon?", "Where was Ansa Merrow born?", "In which sea lies Tren?"
CONTENT = "The harbour master is Ansa Merrow [1]. She was born on Tren [2]. It lies in the Amber Sea [3]. "
CONTENT += "So the answer is: the Amber Sea."
SHELVES = {
    WHO: ("who", "The harbour master of Quillon is Ansa Merrow."),
    BORN: ("born", "Ansa Merrow was born on Tren."),
    SEA: ("sea", "Tren lies in the Amber Sea."),
}


class Shelves(Fake):
    """Finds the passage of a query, nothing for others."""

    def __init__(self, shelves=SHELVES):
        super().__init__()
        self.shelves = shelves

    def find(self, query, k):
        found = [self.shelves[query]] if query in self.shelves else []
        return [Passage(id=id, title=id.title(), text=text) for id, text in found]


def chain(*steps, content=""):
    return {"chain": [f"{query} -> {answer}" for query, answer in steps], "response": content}


READ = {WHO: "Ansa Merrow", BORN: "Tren", SEA: "Amber Sea", QUESTION: "Amber Sea"}
KNOWN = chain((WHO, "Ansa Merrow"), (BORN, "Tren"), (SEA, "the Amber Sea"), content=CONTENT)


def field(prompt, name):
    """Return the lines of an input field as a prompt shows them."""
    return block(prompt, name).split("\n")


def teller(scripted):
    """Return a function that scripts chains in order, the last for ever, what is read for a query, and P(yes)."""

    def start(*chains, read=READ, trusted=0.9, mode="verbalised"):
        left = list(chains)

        def reply(system, user):
            if system.startswith("Plan the whole way"):
                return left.pop(0) if len(left) > 1 else left[0]
            if system.startswith("Decide whether the passages give this answer"):
                return {"probability": trusted} if mode == "verbalised" else "yes" if trusted > 0.5 else "no"
            said = read.get(field(user, "question")[0], "unknown")
            return said if said == "?" else {"answer": said}

        return scripted(reply, JsonForm(probability_mode=mode))

    return start


def kinds(engine):
    heads = {"Plan": "plan", "Answer": "read", "Decide": "trust"}
    return [heads[str(request.system).split(" ")[0]] for request in engine.requests]


def plans(engine):
    return [prompt for prompt in engine.prompts if "`chain`" in prompt]
