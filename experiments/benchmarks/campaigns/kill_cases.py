"""What is killed: commands on a small generated world, and what each leaves on disk and finally returns."""

import json
import re
import shutil
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corpora.index.manifest import INFO_FILE, LOCK_FILE, REBUILD, STATE_FILE
from signatures.common.errors import UserError
from signatures.common.files import sha256_file, sha256_text

Parts = dict[str, str]  # name of a complete part on disk -> hash of its content

# What may differ between a run that was stopped and one that was not: time, and what the reply cache answered.
_COSTS = frozenset(
    {"seconds", "wait_seconds", "retries", "cached_calls", "prompt_tokens", "completion_tokens", "cached_tokens"}
    | {"usd", "cached_usd"}
)
_UUID = re.compile(r"[0-9a-f]{32}")  # names of tantivy's segments
CACHE = "cache"
SHARDS, SMALL = ("shard-1", "shard-2"), ("small", "small-hybrid")


@dataclass(frozen=True)
class Materials:
    """What the commands read.

    Args:
        folder: Contains the world, indexes, two runs, two shards of one and an artifact.
        base: URL of the chat server.
        model: The model's name there.
    """

    folder: Path
    base: str
    model: str

    @property
    def world(self) -> Path:
        """The folder with passages.jsonl and questions.jsonl."""
        return self.folder / "world"


class Case:
    """A command, in variants that take turns.

    Args:
        materials: What it reads.
        variant: Number of the variant, from 0.
    """

    variants = 1

    def __init__(self, materials: Materials, variant: int):
        self.materials, self.variant = materials, variant

    def prepare(self, work: Path) -> None:
        """Put into the working folder what is there before the command starts."""

    def arguments(self, work: Path) -> list[str]:
        """Return the command line, without `--resume`."""
        raise NotImplementedError

    def resumed(self, work: Path) -> list[str]:
        """Return the command line that resumes it."""
        return [*self.arguments(work), "--resume"]

    def parts(self, work: Path) -> Parts:
        """Return the complete parts on disk, which a resumed command must keep."""
        return rows_of(work / "out")

    def result(self, work: Path) -> Any:
        """Return the final result, without what may differ between runs."""
        return self.parts(work)

    def missing(self, work: Path) -> bool:
        """Return whether something that must always be there is not."""
        return False

    def _simulated(self) -> list[str]:
        return ["--lm", "simulated", "--index", str(self.materials.folder / "index"), "--threads", "4", "--quiet"]


class Index(Case):
    """`index`: full text; in the second variant vectors too; the third replaces an index."""

    variants = 3

    def prepare(self, work: Path) -> None:
        """Copy the index that is replaced."""
        if self.variant == 2:
            shutil.copytree(self.materials.folder / "index", work / "out")

    def arguments(self, work: Path) -> list[str]:
        """Return the command line."""
        kind = ("bm25s", "hybrid", "bm25s")[self.variant]
        passages = self.materials.world / ("few.jsonl" if kind == "hybrid" else "passages.jsonl")
        replacing = ["--overwrite"] if self.variant == 2 else []
        return ["index", str(passages), "--retriever", kind, "--out", str(work / "out"), "--quiet", *replacing]

    def resumed(self, work: Path) -> list[str]:
        """Return the command line that resumes it; a replacement that was not started is started again."""
        started = (work / "out" / REBUILD / STATE_FILE).exists() or not (work / "out" / INFO_FILE).exists()
        if self.variant == 2 and not started:
            return self.arguments(work)
        return [argument for argument in super().resumed(work) if argument != "--overwrite"]

    def missing(self, work: Path) -> bool:
        """Return whether neither the old nor the new index can be opened."""
        return self.variant == 2 and not opens(work / "out")

    def parts(self, work: Path) -> Parts:
        """Return the finished files, without those about the build; shards of vectors are joined into one file."""
        if self.variant == 2:
            return {}  # those of the old index go
        files = [path for path in (work / "out").rglob("*") if path.is_file() and not _hidden(path, work)]
        return {
            str(path.relative_to(work)): sha256_file(path)
            for path in files
            if not path.name.startswith("shard-") and path.name not in (INFO_FILE, STATE_FILE, LOCK_FILE)
        }

    def result(self, work: Path) -> Any:
        """Return the fingerprint and what is found for some queries."""
        from corpora.index.open import open_index
        from corpora.questions import read_questions

        index = open_index(work / "out")
        queries = [question.question for question in read_questions(self.materials.world / "questions.jsonl")[:30]]
        found = index.many(queries, 5)
        return [index.fingerprint, [[(passage.id, passage.score) for passage in passages] for passages in found]]


class Eval(Case):
    """`eval` of GenGround."""

    def arguments(self, work: Path) -> list[str]:
        """Return the command line."""
        questions = str(self.materials.world / "questions.jsonl")
        return ["eval", questions, "--program", "genground", "--out", str(work / "out"), *self._simulated()]

    def result(self, work: Path) -> Any:
        """Return the rows and the means."""
        summary = json.loads((work / "out" / "summary.json").read_text())
        return [self.parts(work), summary["metrics"], summary["complete"], summary["errors"], summary["parse_failures"]]


class Compile(Case):
    """`compile` of GenGround; the second variant replaces an artifact."""

    variants = 2

    def prepare(self, work: Path) -> None:
        """Copy the artifact that is replaced."""
        if self.variant:
            shutil.copytree(self.materials.folder / "artifact", work / "out")

    def arguments(self, work: Path) -> list[str]:
        """Return the command line."""
        options = ["--max-demos", "16", "--val", str(self.materials.world / "val.jsonl"), "--val-limit", "20"]
        replacing = ["--overwrite"] if self.variant else []
        return ["compile", str(self.materials.world / "train.jsonl"), "--program", "genground",
                "--out", str(work / "out"), *self._simulated(), *options, *replacing]  # fmt: skip

    def parts(self, work: Path) -> Parts:
        """Return the rows of the validation that is in progress; the finished compilation has none."""
        return {}

    def result(self, work: Path) -> Any:
        """Return the state of the program, and its scores."""
        artifact = json.loads((work / "out" / "artifact.json").read_text())
        state = sha256_file(work / "out" / "program.json")
        return [state, artifact["knobs"], artifact["metric"], artifact["optimizer"]["accepted"]]

    def missing(self, work: Path) -> bool:
        """Return whether neither the old nor the new artifact can be loaded."""
        from programs.artifact import load

        if not self.variant and not (work / "out").exists():
            return False
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                load(work / "out")
        except UserError:
            return True
        return False


class Judge(Case):
    """`judge` of two runs, by the chat server."""

    def arguments(self, work: Path) -> list[str]:
        """Return the command line."""
        runs = [str(self.materials.folder / name) for name in ("rag", "genground")]
        return ["judge", *runs, "--passages", str(self.materials.world / "passages.jsonl"), "--out", str(work / "out"),
                *_server(self.materials)]  # fmt: skip


class KeyFacts(Case):
    """`keyfacts build`, by the chat server."""

    def arguments(self, work: Path) -> list[str]:
        """Return the command line."""
        world = self.materials.world
        return ["keyfacts", "build", str(world / "questions.jsonl"), "--passages", str(world / "passages.jsonl"),
                "--oracle", "lexical", "--out", str(work / "out"), *_server(self.materials)]  # fmt: skip

    def result(self, work: Path) -> Any:
        """Return the rows and the questions written from them."""
        return [self.parts(work), sha256_file(work / "out" / "questions.jsonl")]


def names_of(work: Path) -> list[str]:
    """Return the names of all files and folders but those of the cache, hidden ones included."""
    paths = (path.relative_to(work) for path in work.rglob("*"))
    return sorted({_UUID.sub("ID", str(path)) for path in paths if path.parts[0] != CACHE})


def _server(materials: Materials) -> list[str]:
    return ["--lm", materials.model, "--api-base", materials.base, "--threads", "4", "--quiet"]


def opens(index: Path) -> bool:
    """Return whether an index can be opened and asked."""
    from corpora.index.open import open_index

    try:
        open_index(index)("harbour", 1)
    except UserError:
        return False
    return True


def _hidden(path: Path, work: Path) -> bool:
    return any(part.startswith(".") for part in path.relative_to(work).parts)


def rows_of(folder: Path) -> Parts:
    """Return the complete rows by id; an incomplete last line is none."""
    path = folder / "rows.jsonl"
    if not path.exists():
        return {}
    rows = [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1] if line]
    return {row["id"]: sha256_text(json.dumps(_without_costs(row), sort_keys=True)) for row in rows}


def _without_costs(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in _COSTS}


def differing(first: Parts, second: Parts) -> Sequence[str]:
    """Return the names of the parts of `first` that `second` lacks, or has with another content."""
    return [name for name, content in first.items() if second.get(name) != content]
