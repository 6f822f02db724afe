"""What the programs are compared on: the simulated world, and real questions that the embedded LM never saw."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.papers.embedded_lm.evaluation_sets import SETS, WHOLE
from experiments.papers.record_file import as_stored
from experiments.pipeline.setup import PAPER, SMALL
from signatures.common.errors import unknown

if TYPE_CHECKING:
    from corpora.questions import Question
    from programs.lms.connect import Connection
    from signatures.types import Retriever

WORLD = "world"
# Board -> its questions, unless fewer are asked for.
SIZES = {WORLD: 300, **dict.fromkeys((*SETS, *WHOLE), 100)}
TITLES = {
    WORLD: "simulated world",
    "hotpotqa": "HotpotQA",
    "2wikimultihopqa": "2WikiMultihopQA",
    "musique": "MuSiQue",
    "hotpotqa-whole": "HotpotQA, whole file",
    "2wikimultihopqa-whole": "2WikiMultihopQA, whole file",
}
_SEED = 0


@dataclass(frozen=True)
class Board:
    """Questions, and what every program answers them with.

    Args:
        name: A name of `SIZES`.
        questions: To ask.
        retrieve: Ranks the passages of their corpus.
        connection: The LM, without a cache, so that seconds are those of computing.
        preset: Of the programs, where they have it.
    """

    name: str
    questions: "Sequence[Question]"
    retrieve: "Retriever"
    connection: "Connection"
    preset: str

    def made_with(self) -> dict[str, Any]:
        """Return what decides the answers of all programs, beside their knobs, as it is recorded."""
        from experiments.runs.config import describe_lm, describe_questions

        questions = describe_questions(self.questions)
        described: dict[str, Any] = as_stored(
            {
                "lm": describe_lm(self.connection),
                "retriever": self.retrieve.fingerprint,
                "questions": {name: questions[name] for name in ("n", "sha256")},
            }
        )
        return described


def open_board(name: str, *, data: Path, work: Path, questions: int | None = None, lm: str = "embedded") -> Board:
    """Convert and index the questions of a board under `work`, unless they are there, and return it.

    Args:
        name: A name of `SIZES`.
        data: Folder with the official files.
        work: Folder for converted files and indexes.
        questions: How many; None means `SIZES`.
        lm: Answers the real questions.

    Raises:
        UserError: The name is unknown, or a file is missing.
    """
    if name not in SIZES:
        raise unknown("board", name, SIZES)
    asked = questions or SIZES[name]
    return _world(work, asked) if name == WORLD else _real(name, data, work, asked, lm)


def _world(work: Path, asked: int) -> Board:
    from corpora.index.build import build_index
    from corpora.index.open import open_index
    from corpora.questions import read_questions
    from experiments.world.connect import connect_any
    from experiments.world.generate import generate

    folder = work / f"{WORLD}-{asked}"
    passages, questions = generate(folder, questions=asked, seed=_SEED)
    build_index(passages, folder / "index", retriever="bm25", overwrite=True)
    connection = connect_any(f"simulated:{_SEED}", cache=False)
    return Board(WORLD, read_questions(questions), open_index(folder / "index"), connection, PAPER)


def _real(name: str, data: Path, work: Path, asked: int, lm: str) -> Board:
    from corpora.retrievers.rerank import OWN, open_reranker
    from experiments.papers.embedded_lm.evaluation_sets import open_set
    from experiments.pipeline.setup import open_lm
    from programs.lms.spec import LMSpec

    of = open_set(name, data, work, asked)
    return Board(name, of.questions, open_reranker(of.retrieve, OWN), open_lm(LMSpec(id=lm, cache=False)), SMALL)
