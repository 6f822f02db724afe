"""Small valid contents, and an LM, a retriever and an embedder that need no model."""

import zlib

import numpy as np

from corpora.questions import Question
from corpora.retrievers.embedder import Embedder
from programs.lms.adapter import ChatForm
from programs.lms.calls.metered import metered_lm
from programs.lms.connect import Connection
from signatures.types import Passage
from tests.conftest import ListRetriever, ScriptedEngine

_WORDS = "amber brook cedar delta ember fjord grove harbor inlet jetty knoll lagoon meadow north oasis prairie".split()
_FIELDS = {"answer": "amber", "finished": "yes", "sub_question": "Where?", "response": "It is amber [1]."}
QUERIES = ["amber brook lagoon", "cedar", "which meadow lies north of the oasis"]


def _hashed(texts: list[str]) -> np.ndarray:
    """Embed texts by the words in them, so that no model is loaded."""
    rows = [np.full(64, 1e-3)]
    for text in texts:
        words = (np.random.default_rng(zlib.crc32(word.encode())).normal(size=64) for word in text.lower().split())
        rows.append(sum(words, start=np.full(64, 1e-3)))
    return np.array(rows[1:]).reshape(len(texts), 64)


EMBEDDER = Embedder("hashed words", encode=_hashed)


def connection() -> tuple[Connection, ScriptedEngine]:
    """Return a connection to a new LM, which answers every field that any of our programs asks for, and the LM."""
    text = "".join(f"[[ ## {name} ## ]]\n{value}\n\n" for name, value in _FIELDS.items())
    engine = ScriptedEngine(lambda system, user: text)
    lm = metered_lm("mutations/fixed", engine=engine, cache=False)
    return Connection("fixed", lm, ChatForm(), None, "samples"), engine


def retriever() -> ListRetriever:
    """Return a retriever that finds the same passages for every query."""
    return ListRetriever([Passage(id=f"p{n}", title="Title", text=f"Text {n}.", score=1.0) for n in range(100)])


def passages() -> list[Passage]:
    """Return a small corpus, the same each time."""
    rng = np.random.default_rng(0)
    return [
        Passage(id=f"p{n}", title=" ".join(rng.choice(_WORDS, 2)), text=" ".join(rng.choice(_WORDS, 12)) + ".")
        for n in range(80)
    ]


def questions() -> list[Question]:
    """Return a few questions with gold, the same each time."""
    return [
        Question(
            id=f"q{n}",
            question=f"Question {n}?",
            answers=["amber", "the amber"] if n % 2 else ["cedar"],
            gold_ids=[f"p{n}", f"p{n + 1}"],
            key_facts=[f"Fact {n}."],
            type="bridge",
        )
        for n in range(5)
    ]
