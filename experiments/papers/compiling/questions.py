"""The questions of the comparison: three real sets over one pooled corpus, split into train, dev (validation) and test.

The embedded LM was trained on the `train` files of these sets, so its answers to them say nothing. All questions here
are those that nobody trained on: HotpotQA's dev questions and the held-back ones of 2WikiMultihopQA and MuSiQue.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from signatures.common.errors import UserError

if TYPE_CHECKING:
    from corpora.questions import Question
    from signatures.types import Retriever

HOTPOTQA_FILE = "hotpotqa/hotpot_dev_500.ircot.jsonl"
HELD_BACK = ("2wikimultihopqa", "musique")
SPLITS = ("train", "dev", "test")
# Set -> its questions in each split; MuSiQue has 30 that are held back.
SHARES: dict[str, dict[str, int]] = {
    "hotpotqa": {"train": 30, "dev": 160, "test": 195},
    "2wikimultihopqa": {"train": 14, "dev": 26, "test": 40},
    "musique": {"train": 6, "dev": 9, "test": 15},
}


@dataclass(frozen=True)
class Questions:
    """The splits and the corpus they share.

    Args:
        splits: Split -> its questions, the sets mixed; where fewer are wanted, the first are taken.
        retrieve: Hybrid over the pooled passages, without a reranker.
        index: Its folder.
    """

    splits: "dict[str, list[Question]]"
    retrieve: "Retriever"
    index: Path


def open_questions(data: Path, work: Path) -> Questions:
    """Convert, pool and index the sets under `work`, unless they are there, and return the splits.

    Args:
        data: Folder with the official files.
        work: Folder for converted files and the index.

    Raises:
        UserError: A file is missing, or a set has too few questions.
    """
    from corpora.datasets.convert import pool
    from corpora.index.build import build_index
    from corpora.index.open import open_index

    by_set, passages = _sets(data, work)
    corpus, index = work / "pool" / "passages.jsonl", work / "pool" / "index"
    if not corpus.is_file():
        corpus.parent.mkdir(parents=True, exist_ok=True)
        pool(passages, corpus)
    if not (index / "index.json").is_file():
        build_index(corpus, index, resume=index.exists(), progress=True)
    return Questions(divide(by_set), open_index(index, corpus), index)


def divide(by_set: "Mapping[str, Sequence[Question]]") -> "dict[str, list[Question]]":
    """Return the splits: in each set the questions are ordered by a hash of their ids, and so is every split.

    Raises:
        UserError: A set has fewer questions than `SHARES` takes.
    """
    from signatures.common.files import sha256_text

    def order(question: "Question") -> str:
        return sha256_text(f"compiling {question.id}")

    splits: dict[str, list[Question]] = {split: [] for split in SPLITS}
    for name, questions in by_set.items():
        left = sorted(questions, key=order)
        if len(left) < (needed := sum(SHARES[name].values())):
            raise UserError(f"{name} has {len(left)} questions here; the comparison takes {needed}.")
        for split in SPLITS:
            taken, left = left[: SHARES[name][split]], left[SHARES[name][split] :]
            splits[split] += [question.model_copy(update={"split": split}) for question in taken]
    return {split: sorted(questions, key=order) for split, questions in splits.items()}


def _sets(data: Path, work: Path) -> "tuple[dict[str, list[Question]], list[Path]]":
    """Return the questions of each set, converted under `work`, and the files of their passages."""
    from corpora.datasets.convert import convert
    from corpora.questions import read_questions
    from experiments.papers.embedded_lm.sources import SOURCES, convert_source, held_back_questions, passage_files

    hotpotqa = work / "hotpotqa"
    if not (hotpotqa / "questions.jsonl").is_file():
        convert("hotpotqa", data / HOTPOTQA_FILE, hotpotqa, overwrite=True)
    found, passages = {"hotpotqa": read_questions(hotpotqa / "questions.jsonl")}, [hotpotqa / "passages.jsonl"]
    for name in HELD_BACK:
        convert_source(SOURCES[name], data, work)
        found[name] = held_back_questions(work, name)
        passages += passage_files(SOURCES[name], work)
    return found, passages
