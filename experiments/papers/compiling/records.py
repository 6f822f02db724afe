"""The finished rows of the comparison: one JSON line each, with the scores and costs of every test question."""

from pathlib import Path
from typing import Annotated, Any, NamedTuple, Self

from pydantic import Field, model_validator

from experiments.papers.compiling.rows import ROWS
from experiments.papers.record_file import Recorded, RecordFile

METRIC = "f1[hotpot]"
METRICS = ("em", METRIC, "passage_recall@5")
COSTS = ("calls", "tokens")
FAULTS = ("errors", "abstained", "parse_failures", "truncated")


class Key(NamedTuple):
    """Names a row: the id of the LM without local folders, the program, the row of `ROWS`, and the seed."""

    lm: str
    program: str
    row: str
    seed: int

    def __str__(self) -> str:
        return f"{self.lm}, {self.program}, {self.row}, seed {self.seed}"


class Record(Recorded):
    """A finished row: what it was made with, what that cost, and how it answered the test questions.

    Args:
        lm: See `Key`, and so the next three.
        program: Name in the catalog.
        row: A name of `ROWS`.
        seed: Of the row.
        made_with: What decides all rows of this LM and program; rows can be compared only if it is the same.
        session: Revision, library versions, start (UTC) and machine.
        spent: LM calls and tokens that making it cost, as if it had been alone.
        seconds: Wall clock of making it; what other rows had asked before took no time.
        artifact: What the artifact says of itself; None if the row is the uncompiled program.
        answers: Metric (in [0, 1], None where it is undefined) or cost (LM calls; tokens, cached ones included) -> one
            number per test question, in their order.
        faults: Name of `FAULTS` -> number of test questions.
    """

    lm: str
    program: str
    row: str
    seed: Annotated[int, Field(ge=0)]
    session: dict[str, Any]
    spent: dict[str, float]
    seconds: float
    artifact: dict[str, Any] | None
    answers: dict[str, list[float | None]]
    faults: dict[str, int]

    @property
    def key(self) -> Key:
        """Its name."""
        return Key(self.lm, self.program, self.row, self.seed)

    @property
    def group(self) -> tuple[str, str]:
        """The LM and the program."""
        return self.key[:2]

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.row not in ROWS:
            raise ValueError(f"{self.row!r} is no row")
        if set(self.answers) != {*METRICS, *COSTS} or len({len(values) for values in self.answers.values()}) != 1:
            raise ValueError(f"'answers' needs {', '.join((*METRICS, *COSTS))}, with one number per question each")
        if set(self.faults) != set(FAULTS):
            raise ValueError(f"'faults' needs {', '.join(FAULTS)}")
        return self


class Records(RecordFile[Record]):
    """The records in a file; see `RecordFile`."""

    def __init__(self, path: Path):
        super().__init__(path, Record)

    def groups(self) -> dict[tuple[str, str], dict[str, dict[int, Record]]]:
        """Return the records that can be compared: (LM, program) -> row -> seed -> record."""
        found: dict[tuple[str, str], dict[str, dict[int, Record]]] = {}
        for key, record in sorted(self.found.items()):
            found.setdefault((key.lm, key.program), {}).setdefault(key.row, {})[key.seed] = record
        return found
