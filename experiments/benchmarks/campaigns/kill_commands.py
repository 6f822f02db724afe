"""The further commands that are killed, and all of them by name."""

import contextlib
import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

from experiments.benchmarks.campaigns.kill_cases import (
    SHARDS,
    SMALL,
    Case,
    Compile,
    Eval,
    Index,
    Judge,
    KeyFacts,
    Parts,
    opens,
    rows_of,
)  # fmt: skip
from signatures.common.files import sha256_file

_COMPLETE = """
    SELECT (SELECT group_concat(param_name || '=' || param_value, ', ') FROM
            (SELECT * FROM trial_params WHERE trial_id = trials.trial_id ORDER BY param_name)), value
    FROM trials JOIN trial_values USING (trial_id) WHERE state = 'COMPLETE'
"""


class Tune(Case):
    """`tune` of GenGround's knobs."""

    def arguments(self, work: Path) -> list[str]:
        """Return the command line."""
        limits = ["--trials", "6", "--limit", "12", "--sampler", "random"]
        return ["tune", str(self.materials.world / "val.jsonl"), "--program", "genground", "--out", str(work / "out"),
                *self._simulated(), *limits]  # fmt: skip

    def parts(self, work: Path) -> Parts:
        """Return the complete trials of the study, by their settings."""
        path = work / "out" / "study.db"
        if not path.exists():
            return {}
        with contextlib.closing(sqlite3.connect(path)) as database:
            try:
                return {settings: str(value) for settings, value in database.execute(_COMPLETE)}
            except sqlite3.OperationalError:  # its tables were not made yet
                return {}

    def result(self, work: Path) -> Any:
        """Return the settings with their scores, the chosen one, and the state of the artifact."""
        study = json.loads((work / "out" / "study.json").read_text())
        chosen = next((trial["setting"] for trial in study["trials"] if trial["number"] == study["frozen"]), None)
        return [self.parts(work), chosen, sha256_file(work / "out" / "artifact" / "program.json")]


class Synthesize(Case):
    """`distill synthesize` with the replies of GenGround."""

    def arguments(self, work: Path) -> list[str]:
        """Return the command line."""
        lm = ["--teacher", *self._simulated()[1:], "--student", "chat"]
        return ["distill", "synthesize", f"world={self.materials.world / 'train.jsonl'}", "--program", "genground",
                "--out", str(work / "out"), *lm]  # fmt: skip

    def parts(self, work: Path) -> Parts:
        """Return the rows of the questions."""
        return rows_of(work / "out" / "questions")

    def result(self, work: Path) -> Any:
        """Return the rows and the examples made of them."""
        return [self.parts(work), sha256_file(work / "out" / "examples.jsonl")]


class Merge(Case):
    """`merge` of two shards."""

    def arguments(self, work: Path) -> list[str]:
        """Return the command line."""
        return ["merge", *(str(self.materials.folder / name) for name in SHARDS), "--out", str(work / "out")]

    def resumed(self, work: Path) -> list[str]:
        """Return the same command; a merged run, which it would refuse to replace, is read by another one."""
        return ["trace", str(work / "out")] if (work / "out").exists() else self.arguments(work)

    def missing(self, work: Path) -> bool:
        """Return whether there is a run, but not a whole one."""
        return (work / "out").exists() and not (work / "out" / "summary.json").exists()

    def result(self, work: Path) -> Any:
        """Return the rows and the means."""
        return [self.parts(work), json.loads((work / "out" / "summary.json").read_text())["metrics"]]


class Add(Index):
    """`index --add` to an index of full texts; in the second variant to one of vectors, too."""

    variants = 2

    def prepare(self, work: Path) -> None:
        """Copy the index that is changed."""
        shutil.copytree(self.materials.folder / SMALL[self.variant], work / "out")

    def arguments(self, work: Path) -> list[str]:
        """Return the command line."""
        return ["index", "--add", str(self.materials.world / "more.jsonl"), "--out", str(work / "out"), "--quiet"]

    def resumed(self, work: Path) -> list[str]:
        """Return the same command, which goes on."""
        return self.arguments(work)

    def missing(self, work: Path) -> bool:
        """Return whether neither the old nor the new index can be opened."""
        return not opens(work / "out")

    def parts(self, work: Path) -> Parts:
        """Return nothing: the files of the old index go."""
        return {}


class Ingest(Case):
    """`ingest` of a folder of documents."""

    def arguments(self, work: Path) -> list[str]:
        """Return the command line."""
        out = str(work / "out" / "passages.jsonl")
        return ["ingest", str(self.materials.world / "documents"), "--out", out, "--processes", "2", "--overwrite"]

    def resumed(self, work: Path) -> list[str]:
        """Return the same command, which starts again."""
        return self.arguments(work)

    def parts(self, work: Path) -> Parts:
        """Return nothing: it appears whole."""
        return {}

    def result(self, work: Path) -> Any:
        """Return the passages."""
        return sha256_file(work / "out" / "passages.jsonl")


CASES: dict[str, type[Case]] = {
    "index": Index,
    "eval": Eval,
    "compile": Compile,
    "judge": Judge,
    "keyfacts build": KeyFacts,
    "tune": Tune,
    "distill synthesize": Synthesize,
    "merge": Merge,
    "index --add": Add,
    "ingest": Ingest,
}
