"""An LM and a retriever that answer anything, at random but the same thing each time; and programs on them."""

import hashlib
import random

import dspy

from optimizers.evaluating import Outcome
from optimizers.replay.record import Record
from optimizers.replay.replaying import Runner
from programs.cascade import Cascade
from programs.catalog import PROGRAMS
from programs.lms.adapter import JsonForm
from programs.lms.calls.metered import metered_lm
from programs.parts.knobs import knob_values, with_knobs
from programs.parts.meter import metered
from programs.selective import Selective
from signatures.types import Passage
from tests.conftest import ScriptedEngine

WEIGHTS = "bias=-1 refused=2 top_states=-1 margin=0.5 yes_no=1 answer_length=3"
SMALL = {
    "rag": {"k": 3},
    "cov_rag": {"k": 3, "gate": "threshold"},
    "self_completion": {"k": 2, "cap": 9},
    "retro_rag": {"k": 3, "source_size": 2, "inferential_size": 2, "max_rounds": 3},
}


def draw(*texts: str) -> random.Random:
    return random.Random(hashlib.sha256("|".join(texts).encode()).hexdigest())


def reply(system: str, user: str) -> dict | str:
    """Return a value for every field that any prompt asks for; one reply in 25 is unparseable."""
    chance = draw(system, user)
    if chance.random() < 0.04:
        return "??"
    word = chance.choice(["Quillon", "Merrow", "fog", "unknown", "Oyle"])
    scores = ("reference_correctness", "correctness", "citation_accuracy", "truthfulness", "bias", "conciseness")
    return {
        **{name: round(chance.random(), 2) for name in scores},
        "judgement": chance.choice(["true", "false", "unclear"]),
        "revised_question": chance.choice(["", f"Who is number {chance.randrange(99)}?"]),
        "response": chance.choice(["", f"It is {word} [{chance.randint(1, 3)}]."]),
        "sufficient": chance.random() < 0.15,
        "missing": "something",
        "queries": [f"query {chance.randrange(99)}"],
        "answer": word,
        "reasoning": f"because of {chance.randrange(99)}",
        "probability": round(chance.random(), 3),
        "entities": ["Quillon"],
        "inferences": [f"Claim {chance.randrange(99)} is so." for _ in range(3)],
        "query": f"search {chance.randrange(99)}",
    }


class Shelves:
    """Finds passages at random, the same for the same query."""

    fingerprint = "shelves"

    def __init__(self):
        self.searches = 0

    def __call__(self, query: str, k: int) -> list[Passage]:
        self.searches += 1
        numbers = draw(query).sample(range(40), 40)[:k]
        return [Passage(id=f"p{number}", title=f"T{number}", text=f"Text {number}.", score=1.5) for number in numbers]

    def many(self, queries, k):
        return [self(query, k) for query in queries]

    def __deepcopy__(self, memo):
        return self


def example(number: int) -> dspy.Example:
    return dspy.Example(id=f"q{number}", question=f"What is number {number}?", answers=["fog"]).with_inputs("question")


def scores(example: dspy.Example, prediction: dspy.Prediction) -> dict[str, float | None]:
    """Score by everything that a metric may read; one score in ten is undefined."""
    hops = [(hop.question, hop.answer, hop.draft, hop.verdict, hop.passage_ids) for hop in prediction.hops]
    seen = (example.id, prediction.answer, prediction.response, hops, prediction.citations, prediction.abstained)
    chance = draw(repr(seen), repr([passage.id for passage in prediction.passages]))
    return {"luck": None if chance.random() < 0.1 else chance.random(), "fog": float(prediction.answer == "fog")}


def connection(engine: ScriptedEngine | None = None, *, adapter: dspy.Adapter | None = None, **settings):
    """Return a context with a metered LM on the oracle; nothing is cached unless asked for."""
    engine = engine or ScriptedEngine(reply)
    lm = metered_lm("scripted/oracle", engine=engine, temperature=0.0, **{"cache": False, **settings})
    return dspy.context(lm=lm, adapter=adapter or JsonForm(probability_mode="verbalised"), disable_history=True)


def built(name: str, **knobs) -> dspy.Module:
    if name == "cascade":
        return Cascade(built("rag"), built("cov_rag"), **{"weights": WEIGHTS, **knobs})
    if name == "selective":
        return Selective(built("rag"), **{"weights": WEIGHTS, **knobs})
    return PROGRAMS[name](Shelves(), **{**SMALL[name], **knobs})


def run_description(program: dspy.Module, name: str) -> dict:
    return {
        "program": {"name": name, "knobs": knob_values(program), "state_sha256": "of the prompts"},
        "lm": {"id": "scripted", "model": "scripted/oracle"},
        "corpus": {"fingerprint": "shelves"},
        "metrics": {"luck": "at random", "fog": "is it fog"},
    }


def recorded(name: str, **knobs) -> tuple[Record, Runner]:
    """Return an empty record of a program, and its runner."""
    program = built(name, **knobs)
    record = Record(run_description(program, name))
    return record, Runner.for_program(program, record, scores)


def really(program: dspy.Module, question: dspy.Example, knobs: dict, metric: str) -> tuple[Outcome, str]:
    """Return what running the program with the knobs comes to, and its answer."""
    with metered() as meter, dspy.context(trace=None):
        prediction = with_knobs(program, **knobs)(**question.inputs())
    return Outcome(question.id, scores(question, prediction)[metric], meter.counts(), 0.0), prediction.answer
