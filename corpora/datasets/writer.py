"""The two files that a conversion writes, each completely or not at all, and counts of their content."""

import contextlib
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from corpora.compressed import atomic_bytes
from corpora.datasets.schema import Item
from corpora.jsonl import dump_line
from corpora.questions import Question
from signatures.common.errors import UserError
from signatures.common.files import atomic_write


@contextlib.contextmanager
def open_writer(questions: Path | None, passages: Path | None, *, distinct: bool = False) -> Iterator["Writer"]:
    """Yield a writer of questions and passages; both files appear if the block ends without an error, else neither.

    After an error, folders created for them are removed.

    Args:
        questions: None if there are none.
        passages: None if there are none; a suffix `.gz` or `.zst` compresses them.
        distinct: Whether no passage occurs twice, so that their ids need not be kept in memory.
    """
    folder = (questions or passages or Path()).parent
    created = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    try:
        with contextlib.ExitStack() as files:
            # The file entered last is renamed first: questions never appear without their passages.
            question_file = files.enter_context(atomic_write(questions, "wb")) if questions else None
            passage_file = files.enter_context(atomic_bytes(passages)) if passages else None
            yield Writer(question_file, passage_file, distinct=distinct)
            if question_file is not None:
                question_file.flush()  # a full disk must raise before the passages are renamed
                os.fsync(question_file.fileno())
    except BaseException:
        for parent in created:
            with contextlib.suppress(OSError):
                parent.rmdir()
        raise


class Writer:
    """Writes items to the two files, every passage once, and counts them; created by `open_writer`."""

    def __init__(self, questions: IO[bytes] | None, passages: IO[bytes] | None, *, distinct: bool) -> None:
        self.questions, self.passages, self.distinct = questions, passages, distinct
        self.counts: Counter[str] = Counter()
        if questions is not None:
            self.counts.update(questions=0)
        if passages is not None:
            self.counts.update(passages=0, paragraphs=0)
        self._sizes: dict[str, int] = {}  # passage id -> number of sentences written
        self._ids: Counter[str] = Counter()  # how often a question id occurred

    def write(self, location: str, item: Item) -> None:
        """Write one item.

        Raises:
            UserError: A question has the id of an earlier one.
        """
        self.counts.update(item.notes)
        if self.passages is not None:
            for passage in item.passages:
                self.counts["paragraphs"] += 1
                size = len(passage.sentences or ())
                if self.distinct or passage.id not in self._sizes:
                    self.passages.write(dump_line(passage))
                    self.counts["passages"] += 1
                    if not self.distinct:
                        self._sizes[passage.id] = size
                elif self._sizes[passage.id] != size:
                    self.counts["sentences_differ"] += 1
        if item.question is not None and self.questions is not None:
            question = self._with_unique_id(location, item.question, item.has_id)
            self.questions.write(dump_line(question))
            self.counts["questions"] += 1
            self.counts["questions_without_answer"] += not question.answers
            self.counts["gold_sentences"] += len(question.gold_sentences)

    def _with_unique_id(self, location: str, question: Question, has_id: bool) -> Question:
        """Return the question; a repeated id that was made from its text gets the number of the repeat appended."""
        self._ids[question.id] += 1
        times = self._ids[question.id]
        if times == 1:
            return question
        if has_id:
            raise UserError(
                f"{location}: the question id {question.id!r} is used twice. Give each question its own id."
            )
        self.counts["repeated_questions"] += 1
        return question.model_copy(update={"id": f"{question.id}-{times}"})
