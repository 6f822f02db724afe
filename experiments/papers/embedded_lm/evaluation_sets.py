"""Questions that nobody trained on and their corpora: what the experiments with the embedded LM ask."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from signatures.common.errors import unknown

if TYPE_CHECKING:
    from corpora.questions import Question
    from signatures.types import Passage, Retriever


HOTPOTQA, TWO_WIKI, MUSIQUE = "hotpotqa", "2wikimultihopqa", "musique"
SETS = (HOTPOTQA, TWO_WIKI, MUSIQUE)
"""The development sets near the official mix of questions (`corpora.datasets.development`)."""
WHOLE = {f"{HOTPOTQA}-whole": HOTPOTQA, f"{TWO_WIKI}-whole": TWO_WIKI}
"""Whole files, whose mix is another: the 500 dev questions of HotpotQA, and the 200 held back of 2WikiMultihopQA."""
_HOTPOTQA_FILE = "hotpotqa/hotpot_dev_500.ircot.jsonl"


@dataclass(frozen=True)
class EvaluationSet:
    """Questions that nobody trained on, over one pooled corpus.

    Args:
        name: One of `SETS` or `WHOLE`.
        questions: To ask.
        passages: The corpus.
        retrieve: Hybrid, without a reranker.
        files: Source files, name -> SHA-256.
    """

    name: str
    questions: "list[Question]"
    passages: "Sequence[Passage]"
    retrieve: "Retriever"
    files: dict[str, str]


def open_set(name: str, data: Path, work: Path, limit: int) -> EvaluationSet:
    """Convert and index a set under `work`, unless it is there, and return it with `limit` questions, drawn by a hash.

    Raises:
        UserError: The name is unknown, or a file is missing.
    """
    from corpora.datasets.development import DEVELOPMENT
    from corpora.questions import select
    from experiments.papers.embedded_lm.sources import SOURCES, open_held_back
    from signatures.common.files import sha256_file

    if name not in (*SETS, *WHOLE):
        raise unknown("set", name, (*SETS, *WHOLE))
    if name in SETS:
        files = DEVELOPMENT[f"{name}-dev"].files
        questions, passages, retrieve = _development(name, data, work)
    elif WHOLE[name] == HOTPOTQA:
        files = (_HOTPOTQA_FILE,)
        questions, passages, retrieve = _hotpotqa(data, work)
    else:
        files = (SOURCES[WHOLE[name]].file, *SOURCES[WHOLE[name]].more)
        questions, passages, retrieve = open_held_back(data, work, WHOLE[name])
    digests = {file.rsplit("/", 1)[-1]: sha256_file(data / file) for file in files}
    return EvaluationSet(name, select(questions, limit=limit), passages, retrieve, digests)


def _development(name: str, data: Path, work: Path) -> "tuple[list[Question], Sequence[Passage], Retriever]":
    from corpora.datasets.development import convert_development

    folder = work / "development" / name
    if not (folder / "questions.jsonl").is_file():
        convert_development(f"{name}-dev", data, folder, overwrite=True)
    return _indexed(folder)


def _hotpotqa(data: Path, work: Path) -> "tuple[list[Question], Sequence[Passage], Retriever]":
    from corpora.datasets.convert import convert

    folder = work / "evaluation" / "hotpotqa-dev"
    if not (folder / "questions.jsonl").is_file():
        convert("hotpotqa", data / _HOTPOTQA_FILE, folder, overwrite=True)
    return _indexed(folder)


def _indexed(folder: Path) -> "tuple[list[Question], Sequence[Passage], Retriever]":
    """Return the questions of a converted set, its passages and their index, built unless it is there."""
    from corpora.index.build import build_index
    from corpora.index.open import open_index
    from corpora.passages import read_passages
    from corpora.questions import read_questions

    passages, index = folder / "passages.jsonl", folder / "index"
    if not (index / "index.json").is_file():
        build_index(passages, index, resume=index.exists(), progress=True)
    return read_questions(folder / "questions.jsonl"), list(read_passages(passages)), open_index(index, passages)
