"""What is killed: commands on a small generated world, and what each leaves on disk and finally returns."""

import contextlib
import json
import re
import sqlite3
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corpora.index.manifest import INFO_FILE, LOCK_FILE, REBUILD, STATE_FILE
from corpora.index.open import open_index
from corpora.questions import read_questions
from experiments.world.generate import generate
from programs.artifact import load
from signatures.common.errors import UserError
from signatures.common.files import sha256_file, sha256_text
from tests.experiments.campaigns.chat_server import MODEL
from tests.forked import RUN, Forked

Parts = dict[str, str]  # name of a complete part on disk -> hash of its content
CACHE, EMBEDDERS = "cache", "embedders"

# What may differ between a run that was stopped and one that was not: time, and what the reply cache answered.
_COSTS = frozenset(
    {"seconds", "wait_seconds", "retries", "cached_calls", "prompt_tokens", "completion_tokens", "cached_tokens"}
    | {"usd", "cached_usd"}
)
_UUID = re.compile(r"[0-9a-f]{32}")  # names of tantivy's segments
_COMPLETE = """
    SELECT (SELECT group_concat(param_name || '=' || param_value, ', ') FROM
            (SELECT * FROM trial_params WHERE trial_id = trials.trial_id ORDER BY param_name)), value
    FROM trials JOIN trial_values USING (trial_id) WHERE state = 'COMPLETE'
"""
_SIMULATED = "--lm simulated --index GIVEN/index --threads 4 --quiet"
_SERVER = f"--lm {MODEL} --api-base BASE --threads 4 --quiet"
_SHARD = f"eval GIVEN/questions.jsonl --program rag --out OUT {_SIMULATED}"
# Folder of what commands read -> the command that makes it.
GIVEN = {
    "index": "index GIVEN/passages.jsonl --retriever bm25 --out OUT --quiet",
    "hybrid": "index GIVEN/few.jsonl --retriever hybrid --out OUT --quiet",
    "shard-1": f"{_SHARD} --shard 1/2",
    "shard-2": f"{_SHARD} --shard 2/2",
    "rag": _SHARD,
    "genground": f"eval GIVEN/questions.jsonl --program genground --out OUT {_SIMULATED}",
    "artifact": f"compile GIVEN/questions.jsonl --program genground --limit 10 --max-demos 1 --out OUT {_SIMULATED}",
}


def rows_of(out: Path) -> Parts:
    """Return the complete rows by id; an incomplete last line is none."""
    path = out / "rows.jsonl"
    rows = [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1] if line] if path.exists() else []
    return {
        row["id"]: sha256_text(json.dumps({key: row[key] for key in row if key not in _COSTS}, sort_keys=True))
        for row in rows
    }


def nothing(out: Path) -> Parts:
    return {}


def never(out: Path) -> bool:
    return False


@dataclass(frozen=True)
class Case:
    """A command.

    Args:
        command: With OUT for what it writes, GIVEN for the folder of what it reads, BASE for the URL of the server.
        result: Returns the final result, without what may differ between runs.
        parts: Returns the complete parts on disk, which a resumed command must keep.
        missing: Returns whether something that must always be there is not.
        before: What is at OUT before it starts, of `GIVEN`.
        resumed: Returns the command that resumes it; `--resume` is the default.
    """

    command: str
    result: Callable[[Path], Any]
    parts: Callable[[Path], Parts] = rows_of
    missing: Callable[[Path], bool] = never
    before: str | None = None
    resumed: Callable[[str, Path], str] = lambda command, out: f"{command} --resume"


def again(command: str, out: Path) -> str:
    return command


def read_json(path: Path) -> Any:
    return json.loads(path.read_text())


def opens_not(index: Path) -> bool:
    try:
        open_index(index)("harbour", 1)
    except UserError:
        return True
    return False


def loads_not(artifact: Path) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            load(artifact)
    except UserError:
        return True
    return False


def files_of(index: Path) -> Parts:
    """Return the finished files, without those about the build; shards of vectors are joined into one file."""
    return {
        str(path.relative_to(index)): sha256_file(path)
        for path in index.rglob("*")
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(index).parts)
        if not path.name.startswith("shard-") and path.name not in (INFO_FILE, STATE_FILE, LOCK_FILE)
    }


def found_by(index: Path) -> Any:
    """Return the fingerprint and what is found for some queries."""
    opened = open_index(index)
    queries = [question.question for question in read_questions(index.parents[1] / "given" / "questions.jsonl")[:30]]
    return [opened.fingerprint, [[(one.id, one.score) for one in many] for many in opened.many(queries, 5)]]


def rebuilt(command: str, out: Path) -> str:
    """A replacement that was not started is started again."""
    started = (out / REBUILD / STATE_FILE).exists() or not (out / INFO_FILE).exists()
    return f"{command.replace(' --overwrite', '')} --resume" if started else command


def summarised(*names: str) -> Callable[[Path], Any]:
    return lambda out: [rows_of(out), {name: read_json(out / "summary.json")[name] for name in names}]


def rows_and(file: str, rows: str = ".") -> Callable[[Path], Any]:
    return lambda out: [rows_of(out / rows), sha256_file(out / file)]


def compiled(out: Path) -> Any:
    about = read_json(out / "artifact.json")
    return [sha256_file(out / "program.json"), about["knobs"], about["metric"], about["optimizer"]["accepted"]]


def trials_of(out: Path) -> Parts:
    """Return the complete trials of the study, by their settings."""
    if not (out / "study.db").exists():
        return {}
    with contextlib.closing(sqlite3.connect(out / "study.db")) as database:
        try:
            return {settings: str(value) for settings, value in database.execute(_COMPLETE)}
        except sqlite3.OperationalError:  # its tables were not made yet
            return {}


def tuned(out: Path) -> Any:
    study = read_json(out / "study.json")
    chosen = next((trial["setting"] for trial in study["trials"] if trial["number"] == study["frozen"]), None)
    return [trials_of(out), chosen, sha256_file(out / "artifact" / "program.json")]


CASES = {
    "index": Case(GIVEN["hybrid"], found_by, files_of),
    "index that is replaced": Case(
        "index GIVEN/passages.jsonl --retriever bm25s --out OUT --quiet --overwrite",
        found_by, nothing, opens_not, "index", rebuilt,
    ),
    "index --add": Case(
        "index --add GIVEN/more.jsonl --out OUT --quiet", found_by, nothing, opens_not, "hybrid", again
    ),
    "eval": Case(GIVEN["genground"], summarised("metrics", "complete", "errors", "parse_failures")),
    "compile": Case(  # it replaces an artifact, which must be there at every moment
        f"compile GIVEN/train.jsonl --program genground --out OUT {_SIMULATED} --max-demos 16 --val GIVEN/val.jsonl "
        "--val-limit 20 --overwrite",
        compiled, nothing, loads_not, "artifact",
    ),
    "judge": Case(
        f"judge GIVEN/rag GIVEN/genground --passages GIVEN/passages.jsonl --out OUT {_SERVER}", rows_of
    ),
    "keyfacts build": Case(
        f"keyfacts build GIVEN/questions.jsonl --passages GIVEN/passages.jsonl --oracle lexical --out OUT {_SERVER}",
        rows_and("questions.jsonl"),
    ),
    "tune": Case(
        f"tune GIVEN/val.jsonl --program genground --out OUT {_SIMULATED} --trials 3 --limit 4 --sampler random",
        tuned, trials_of,
    ),
    "distill synthesize": Case(
        f"distill synthesize world=GIVEN/train.jsonl --program genground --out OUT --student chat "
        f"{_SIMULATED.replace('--lm', '--teacher')}",
        rows_and("examples.jsonl", "questions"), lambda out: rows_of(out / "questions"),
    ),
    "merge": Case(
        "merge GIVEN/shard-1 GIVEN/shard-2 --out OUT", summarised("metrics"),
        missing=lambda out: out.exists() and not (out / "summary.json").exists(),
        # A merged run, which it would refuse to replace, is read by another command.
        resumed=lambda command, out: f"trace {out}" if out.exists() else command,
    ),
    "ingest": Case(
        "ingest GIVEN/documents --out OUT/passages.jsonl --processes 2 --overwrite",
        lambda out: sha256_file(out / "passages.jsonl"), nothing, resumed=again,
    ),
    "sync": Case(
        "sync GIVEN/documents --out OUT --retriever bm25 --processes 2",
        lambda out: read_json(out / "index.json")["corpus_hash"], nothing, resumed=again,
    ),
}  # fmt: skip


class Materials:
    """What the commands read: made when it is needed, in a folder that is named `given`, by processes of `forked`."""

    def __init__(self, folder: Path, base: str, questions: int, forked: Forked):
        self.folder, self.base, self.forked = folder, base, forked
        passages, asked = generate(folder, questions=questions, seed=0)
        lines = passages.read_text(encoding="utf-8").splitlines(keepends=True)
        half = asked.read_text(encoding="utf-8").splitlines(keepends=True)
        parts = {"few": lines[:40], "more": lines[40:60], "train": half[: questions // 2]}
        for name, some in {**parts, "val": half[questions // 2 :]}.items():
            (folder / f"{name}.jsonl").write_text("".join(some), encoding="utf-8")
        (folder / "documents").mkdir()
        for number in range(20):
            texts = [json.loads(line) for line in lines[10 * number : 10 * number + 10]]
            document = "\n\n".join(f"## {text['title']}\n\n{text['text']}" for text in texts)
            (folder / "documents" / f"{number}.md").write_text(document, encoding="utf-8")

    def words(self, command: str, out: Path) -> list[str]:
        """Return the words of a command; what it reads is there then."""
        for name in re.findall(r"GIVEN/([\w-]+)(?= |$)", command):
            if name in GIVEN:
                self.need(name)
        places = {"GIVEN": str(self.folder), "OUT": str(out), "BASE": self.base}
        return [re.sub("GIVEN|OUT|BASE", lambda found: places[found[0]], word) for word in command.split()]

    def embedders(self) -> Path:
        """Return where the embedder is kept, converted once for all commands: each would take long to convert it."""
        self.need("hybrid")
        return self.folder / CACHE / EMBEDDERS

    def need(self, name: str) -> Path:
        """Return a folder of `GIVEN`."""
        out = self.folder / name
        if not out.exists():
            environment = {"VERIHOP_CACHE_DIR": str(self.folder / CACHE)}
            self.forked.run(RUN, *self.words(GIVEN[name], out), environment=environment).check_returncode()
        return out


def names_of(work: Path) -> list[str]:
    """Return the names of all files and folders but those of the cache, hidden ones included."""
    paths = (path.relative_to(work) for path in work.rglob("*"))
    return sorted({_UUID.sub("ID", str(path)) for path in paths if path.parts[0] != CACHE})


def differing(first: Parts, second: Parts) -> list[str]:
    """Return the names of the parts of `first` that `second` lacks, or has with another content."""
    return [name for name, content in first.items() if second.get(name) != content]
