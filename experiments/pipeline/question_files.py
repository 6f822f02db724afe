"""Reports on files of questions, those of benchmarks included."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from corpora.passages import read_passages
from experiments.pipeline import setup
from signatures.common.errors import UserError
from signatures.common.files import expanded

if TYPE_CHECKING:
    from corpora.questions import Question
    from experiments.analysis.question_report import QuestionReport
    from signatures.types import Passage


def report(
    questions: Any,
    *,
    dataset: str | None = None,
    split: str | None = None,
    passages: Path | str | None = None,
    train: Any = None,
) -> "QuestionReport":
    """Return what is known of a file of questions before anybody answers them.

    Args:
        questions: A `questions.jsonl`, an official file of `dataset`, or questions.
        dataset: Name of the dataset that the files are of; None means `questions.jsonl`.
        split: Only questions of this split.
        passages: The corpus; by default `passages.jsonl` next to the file, or the passages of the official file.
        train: Questions that were trained on, or their file; its corpus is `passages.jsonl` next to it, if there.

    Raises:
        UserError: A file is missing or broken, or no question has the split.
    """
    from corpora.questions import select
    from experiments.analysis.question_report import report_questions

    asked, corpus = _read(questions, dataset, None if passages is None else Path(passages))
    trained, around = (None, None) if train is None else _read(train, dataset, None)
    chosen = select(asked, split=split)
    return report_questions(chosen, passages=corpus, train=trained, train_passages=around)


def _read(
    given: Any, dataset: str | None, passages: Path | None
) -> "tuple[list[Question], Mapping[str, Passage] | None]":
    from corpora.questions import read_questions

    if not isinstance(given, Path | str):
        return setup.open_questions(given), _corpus(passages) if passages else None
    file = expanded(given)
    if dataset is None:
        names = ("passages.jsonl", "passages.jsonl.gz", "passages.jsonl.zst")
        corpus = passages or next((path for name in names if (path := file.parent / name).is_file()), None)
        return read_questions(file), None if corpus is None else _corpus(corpus)
    from corpora.datasets.convert import convert

    with tempfile.TemporaryDirectory() as folder:
        converted = convert(dataset, file, folder)
        if converted.questions_path is None:
            raise UserError(f"{dataset} has no questions: name a dataset of questions, or none for questions.jsonl.")
        corpus = passages or converted.passages_path
        return read_questions(converted.questions_path), None if corpus is None else _corpus(corpus)


def _corpus(path: Path) -> "Mapping[str, Passage]":
    return {passage.id: passage for passage in read_passages(path)}
