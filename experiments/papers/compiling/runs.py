"""Makes the rows of the comparison and asks each the test questions; what is finished is not made again."""

import secrets
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.papers.compiling.rows import Work, limits_of, make
from experiments.papers.compiling.shared_replies import row_connection
from signatures.common.errors import UserError

if TYPE_CHECKING:
    import dspy

    from corpora.questions import Question
    from experiments.runs.files import Row
    from programs.lms.connect import Connection

METRIC = "f1[hotpot]"
METRICS = ("em", METRIC, "passage_recall@5")
_FINISHED = "row.json"
_PAID = ("calls", "tokens")


@dataclass(frozen=True)
class Comparison:
    """What all rows of a program share.

    Args:
        program: Name in the catalog.
        student: The uncompiled program.
        splits: Train and dev questions.
        test: Test questions to ask.
        connection: The common LM, without limits.
        budget: LM calls of a row.
        folder: For all rows and seeds.
    """

    program: str
    student: "dspy.Module"
    splits: "Mapping[str, Sequence[Question]]"
    test: "Sequence[Question]"
    connection: "Connection"
    budget: int
    folder: Path

    def made(self, row: str, seed: int) -> dict[str, Any]:
        """Return the record of a row, made unless it is finished: its artifact, what it cost, and how it ended.

        A row that was stopped is made anew, so that it keeps to its budget; replies are shared, so that what it had
        asked is not computed again.

        Raises:
            UserError: The finished row was made with other settings.
        """
        from experiments.runs.files import read_json, write_json

        folder = self.folder / row / str(seed)
        if (folder / _FINISHED).is_file():
            found: dict[str, Any] = read_json(folder / _FINISHED)
            if found["made_with"] != self._made_with:
                raise UserError(f"{str(folder)!r} was made with other settings: delete it, or choose another folder.")
            return found
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        budgets: list[Any] = []
        started = time.monotonic()
        artifact = make(row, self._work(seed, folder, budgets))
        spent = {name: sum(budget.spent[name] for budget in budgets) for name in _PAID}
        record = {
            "artifact": str(artifact.relative_to(folder)) if artifact else None,
            "spent": spent,
            "seconds": round(time.monotonic() - started),
            "made_with": self._made_with,
            **(_described(artifact) if artifact else {}),
        }
        write_json(folder / _FINISHED, record)
        return record

    def finished(self, row: str, seed: int) -> bool:
        """Return whether a row is made and has answered the test questions."""
        folder = self.folder / row / str(seed)
        return (folder / _FINISHED).is_file() and (folder / self._run / "summary.json").is_file()

    @property
    def _made_with(self) -> dict[str, Any]:
        """What decides a row, beside its name and seed."""
        from experiments.runs.config import describe_questions
        from programs.parts.knobs import knob_values

        return {
            "calls": self.budget,
            "knobs": knob_values(self.student),
            "splits": {split: describe_questions(found)["sha256"] for split, found in self.splits.items()},
            **limits_of(self.program),
        }

    @property
    def _run(self) -> str:
        return f"test-{len(self.test)}"

    def rows(self, row: str, seed: int) -> "list[Row]":
        """Return the answers of a row to the test questions, asked unless they are there."""
        from experiments.pipeline.evaluate import evaluate
        from experiments.runs.config import RunConfig
        from experiments.runs.files import read_rows
        from programs.artifact import load

        record = self.made(row, seed)
        folder = self.folder / row / str(seed)
        run = folder / self._run
        if not self.finished(row, seed):
            program = self.student
            if record["artifact"]:
                program = load(folder / record["artifact"], getattr(self.student, "retrieve", None))
            config = RunConfig(metrics=METRICS, threads=8)
            evaluate(program, self.test, config, connection=self.connection, folder=run, resume=run.exists())
        order = {question.id: place for place, question in enumerate(self.test)}
        return sorted(read_rows(run), key=lambda answered: order[answered["id"]])

    def _work(self, seed: int, folder: Path, budgets: list[Any]) -> Work:
        from optimizers.metrics.catalog import get_metric
        from programs.lms.calls.budget import Budget

        name = secrets.token_hex(6)  # an attempt pays for all of its calls

        def connect(calls: int) -> "Connection":
            budgets.append(Budget(calls=calls))
            return row_connection(self.connection, name, budgets[-1])

        learned = {split: list(self.splits[split]) for split in ("train", "dev")}
        return Work(self.program, self.student, learned, get_metric(METRIC), connect, self.budget, seed, folder)


def _described(artifact: Path) -> dict[str, Any]:
    """Return what an artifact says of itself that a reader of the table wants to know."""
    from programs.artifact import read_artifact

    found = read_artifact(artifact)
    optimizer = found.optimizer
    return {
        "kind": found.kind,
        "knobs": dict(found.knobs),
        "optimizer": optimizer.get("name"),
        "stopped": optimizer.get("stopped"),
        "demonstrations": optimizer.get("accepted"),
        "dev": found.metric.get("mean"),
        "race": optimizer.get("race"),
    }


def per_question(answers: "Sequence[Sequence[Row]]", value: "Callable[[Row], float | None]") -> list[float | None]:
    """Return the mean over seeds of a value of each question.

    Args:
        answers: The rows of each seed, all in one order of questions.
        value: Of a row; None where it is undefined, which it is for all seeds alike.
    """
    columns = []
    for of_question in zip(*answers, strict=True):
        defined = [number for number in map(value, of_question) if number is not None]
        columns.append(sum(defined) / len(defined) if defined else None)
    return columns
