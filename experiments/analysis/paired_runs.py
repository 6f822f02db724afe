"""Reads runs to compare, with the rows of the questions that all of them answered."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from experiments.analysis.repeats import by_question
from experiments.runs.files import Json, Row, read_rows, read_run
from signatures.common.errors import UserError


@dataclass(frozen=True)
class Run:
    """One of the compared runs.

    Args:
        label: The part of its folder's path that tells it from the others.
        folder: Of the run.
        description: Its `run.json`.
        questions: The rows of each question that all runs answered, in one order for all runs.
        others: The rows of each question that some run has not answered.
    """

    label: str
    folder: Path
    description: Json
    questions: list[list[Row]]
    others: list[list[Row]] = field(default_factory=list)

    @property
    def rows(self) -> list[Row]:
        """Return all rows of the shared questions."""
        return [row for rows in self.questions for row in rows]


def labels_of(folders: Sequence[Path]) -> list[str]:
    """Return the shortest path suffixes that distinguish the folders."""
    parts = [folder.resolve().parts for folder in folders]
    for length in range(1, max(map(len, parts)) + 1):
        labels = ["/".join(part[-length:]) for part in parts]
        if len(set(labels)) == len(labels):
            return labels
    raise UserError("A run is named twice. Name each run once.")


def load_runs(folders: Sequence[Path]) -> list[Run]:
    """Read the runs and keep the rows of questions, by id and wording, that all of them answered.

    Raises:
        UserError: A folder contains no answered question, or the runs share none.
    """
    asked = [by_question(read_rows(folder, complete=True)) for folder in folders]
    descriptions = [read_run(folder) for folder in folders]
    for folder, own in zip(folders, asked, strict=True):
        if not own:
            raise UserError(f"{folder} has no answered question yet. Run it first.")
    common = set(asked[0]).intersection(*asked[1:])
    shared = sorted(common)
    if not shared:
        raise UserError("These runs share no question. Compare runs over the same question file.")
    return [
        Run(
            label,
            folder,
            description,
            [own[key] for key in shared],
            [rows for key, rows in own.items() if key not in common],
        )
        for label, folder, description, own in zip(labels_of(folders), folders, descriptions, asked, strict=True)
    ]
