"""Makes the rows of the comparison and asks each the test questions; what is recorded is not made again."""

import secrets
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.papers.compiling.records import (
    COSTS,
    FAULTS,
    METRIC,
    METRICS,
    Key,
    Record,
    Records,
)
from experiments.papers.compiling.rows import Work, limits_of, make
from experiments.papers.compiling.shared_replies import row_connection
from experiments.papers.record_file import as_stored, require_same, rounded
from optimizers.metrics.cost import tokens_of
from signatures.common.errors import UserError

if TYPE_CHECKING:
    import dspy

    from corpora.questions import Question
    from experiments.runs.files import Row
    from programs.lms.connect import Connection

_MADE, _TEST = "row.json", "test"


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
            UserError: Rows to compare with were made with other settings, another process makes this row, or not all
                test questions were asked.
        """
        from signatures.common.files import exclusive_lock

        key, made_with = Key(as_stored(self.connection.id), self.program, row, seed), self.made_with()
        self.records.check(key[:2], made_with)
        if (known := self.records.find(key)) is not None:
            return known
        folder = self.folder / row / str(seed)
        busy = f"Another process is making {key} in {folder}: wait for it, or choose another folder for work."
        with exclusive_lock(folder.with_name(f".{seed}.lock"), busy):
            made = self._made(row, seed, folder, made_with)
            require_same(made["made_with"], made_with, str(folder))
            record = Record(**key._asdict(), **made, **_measured(self._ask(made, folder)))
        self.records.add(record)
        return record

    def made_with(self) -> dict[str, Any]:
        """Return what decides all rows of this program and their answers, beside row and seed, as it is recorded."""
        from experiments.runs.config import describe_lm, describe_questions
        from programs.parts.knobs import knob_values

        described = {split: describe_questions(found) for split, found in self.splits.items()}
        found: dict[str, Any] = {
            "lm": {name: value for name, value in describe_lm(self.connection).items() if name != "id"},
            "retriever": getattr(getattr(self.student, "retrieve", None), "fingerprint", None),
            "calls": self.budget,
            "metric": METRIC,
            "knobs": knob_values(self.student),
            "questions": {split: {name: of[name] for name in ("n", "sha256")} for split, of in described.items()},
            **limits_of(self.program),
        }
        return as_stored(found)

    def _made(self, row: str, seed: int, folder: Path, made_with: Mapping[str, Any]) -> dict[str, Any]:
        """Return what is known of a row's artifact, made unless that is finished.

        A row that was stopped is made anew, so that it keeps to its budget; replies are shared, so that what it had
        asked is not computed again.
        """
        from experiments.runs.config import describe_session
        from experiments.runs.files import read_json, write_json
        from experiments.runs.provenance import machine

        if (folder / _MADE).is_file():
            return read_json(folder / _MADE)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        budgets: list[Any] = []
        session, started = {**describe_session(), "machine": machine()}, time.monotonic()
        artifact = make(row, self._work(seed, folder, budgets))
        made = {
            "made_with": made_with,
            "session": session,
            "spent": {name: sum(budget.spent[name] for budget in budgets) for name in COSTS},
            "seconds": round(time.monotonic() - started, 1),
            "artifact": _described(artifact, folder) if artifact else None,
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
            program = load(folder / made["artifact"]["folder"], getattr(self.student, "retrieve", None))
        config = RunConfig(metrics=METRICS, threads=8)
        summary = evaluate(program, test, config, connection=self.connection, folder=run, resume=run.exists())
        if not summary.complete:
            raise UserError(f"{run} lacks answers ({summary.stopped}): start the command again.")
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
    """Return scores and costs of every answer, in the order of the questions, and how many have which fault."""
    scores = {name: [rounded(answered["scores"][name]) for answered in rows] for name in METRICS}
    costs = {"calls": [float(answered["calls"]) for answered in rows], "tokens": [tokens_of(row) for row in rows]}
    fields = {name: "error" if name == "errors" else name for name in FAULTS}
    faults = {name: sum(bool(row[field]) for row in rows) for name, field in fields.items()}
    return {"answers": {**scores, **costs}, "faults": faults}


def _described(artifact: Path, folder: Path) -> dict[str, Any]:
    """Return what an artifact says of itself that a reader of the table wants to know."""
    from experiments.runs.files import read_json
    from programs.artifact import read_artifact

    found = read_artifact(artifact)
    optimizer = found.optimizer
    state, study = artifact / "program.json", artifact.parent / "study.json"
    demos = {name: len(of["demos"]) for name, of in read_json(state).items()} if state.is_file() else None
    of_study = read_json(study) if study.is_file() else {}
    return {
        "folder": str(artifact.relative_to(folder)),
        "kind": found.kind,
        "knobs": dict(found.knobs),
        "optimizer": optimizer.get("name"),
        "stopped": of_study.get("stopped", optimizer.get("stopped")),
        "trials": of_study.get("counts"),
        "demonstrations": demos,
        "dev": found.metric.get("mean"),
        "race": optimizer.get("race"),
    }
