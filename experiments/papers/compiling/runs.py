"""Makes the rows of the comparison and asks each the test questions; what is recorded is not made again."""

import secrets
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.papers.compiling.records import Key, Record, Records, require_same
from experiments.papers.compiling.rows import Work, limits_of, make
from experiments.papers.compiling.shared_replies import row_connection
from optimizers.metrics.cost import tokens_of

if TYPE_CHECKING:
    import dspy

    from corpora.questions import Question
    from experiments.runs.files import Row
    from programs.lms.connect import Connection

METRIC = "f1[hotpot]"
METRICS = ("em", METRIC, "passage_recall@5")
_MADE, _TEST = "row.json", "test"
_PAID = ("calls", "tokens")


@dataclass(frozen=True)
class Comparison:
    """What all rows of a program share.

    Args:
        program: Name in the catalog.
        student: The uncompiled program.
        splits: Train, dev and test questions.
        connection: The common LM, without limits.
        budget: LM calls of a row.
        records: Of finished rows.
        folder: For artifacts and answers.
    """

    program: str
    student: "dspy.Module"
    splits: "Mapping[str, Sequence[Question]]"
    connection: "Connection"
    budget: int
    records: Records
    folder: Path

    def measure(self, row: str, seed: int) -> Record:
        """Return the record of a row; where there is none, make the row, ask it the test questions and record both.

        Raises:
            UserError: It was recorded, or is half finished in its folder, with other settings.
        """
        key, made_with = Key(self.connection.id, self.program, row, seed), self.made_with()
        if (known := self.records.find(key, made_with)) is not None:
            return known
        folder = self.folder / row / str(seed)
        made = self._made(row, seed, folder)
        require_same(made["made_with"], made_with, str(folder))
        record = {**key._asdict(), **made, **_measured(self._ask(made, folder))}
        self.records.add(record)
        return record

    def made_with(self) -> dict[str, Any]:
        """Return what decides the rows and their answers, beside row and seed."""
        from experiments.runs.config import describe_questions
        from programs.artifact import lm_record
        from programs.parts.knobs import knob_values

        described = {split: describe_questions(found) for split, found in self.splits.items()}
        retrieve = getattr(self.student, "retrieve", None)
        return {
            "lm": lm_record(self.connection).model_dump(exclude={"id"}),
            "retriever": getattr(retrieve, "fingerprint", None),
            "calls": self.budget,
            "knobs": knob_values(self.student),
            "questions": {split: {name: of[name] for name in ("n", "sha256")} for split, of in described.items()},
            **limits_of(self.program),
        }

    def _made(self, row: str, seed: int, folder: Path) -> dict[str, Any]:
        """Return what is known of a row's artifact, made unless that is finished.

        A row that was stopped is made anew, so that it keeps to its budget; replies are shared, so that what it had
        asked is not computed again.
        """
        from experiments.runs.files import git_revision, read_json, write_json

        if (folder / _MADE).is_file():
            return read_json(folder / _MADE)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        budgets: list[Any] = []
        started = time.monotonic()
        artifact = make(row, self._work(seed, folder, budgets))
        made = {
            "artifact": str(artifact.relative_to(folder)) if artifact else None,
            "spent": {name: sum(budget.spent[name] for budget in budgets) for name in _PAID},
            "seconds": round(time.monotonic() - started),
            **(_described(artifact) if artifact else {}),
            "made_with": self.made_with(),
            "revision": git_revision(),
        }
        write_json(folder / _MADE, made)
        return made

    def _ask(self, made: Mapping[str, Any], folder: Path) -> "list[Row]":
        """Return the answers of a row to the test questions, in their order."""
        from experiments.pipeline.evaluate import evaluate
        from experiments.runs.config import RunConfig
        from experiments.runs.files import read_rows
        from programs.artifact import load

        program, run, test = self.student, folder / _TEST, self.splits["test"]
        if made["artifact"]:
            program = load(folder / made["artifact"], getattr(self.student, "retrieve", None))
        config = RunConfig(metrics=METRICS, threads=8)
        evaluate(program, test, config, connection=self.connection, folder=run, resume=run.exists())
        order = {question.id: place for place, question in enumerate(test)}
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


def _measured(rows: "Sequence[Row]") -> dict[str, Any]:
    """Return scores and costs of every answer, in the order of the questions, and how many failed."""
    scores = {name: [_rounded(answered["scores"][name]) for answered in rows] for name in METRICS}
    costs = {"calls": [answered["calls"] for answered in rows], "tokens": [int(tokens_of(row)) for row in rows]}
    return {
        "answers": {**scores, **costs},
        "errors": sum(answered["error"] is not None for answered in rows),
        "truncated": sum(bool(answered["truncated"]) for answered in rows),
    }


def _rounded(score: float | None) -> float | None:
    return None if score is None else round(score, 4)


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
