"""Readers of files on changed bytes of valid files of every kind: each is accepted or refused by a UserError."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from corpora.datasets.readers import read_source
from corpora.index.manifest import read_info
from corpora.passages import read_passages
from corpora.questions import read_questions
from corpora.retrievers.faiss_files import check_faiss_file
from experiments.runs.files import read_json, read_rows
from experiments.runs.models import AnswerRow, parse_row
from programs.artifact import read_artifact
from programs.artifacts.state import check_pool, check_state
from programs.single_step.rag import RAG
from signatures.common.errors import UserError
from signatures.common.strict_json import parse_strict_json
from tests.experiments.campaigns.changes import changed
from tests.experiments.campaigns.inputs import INPUTS

ROUNDS = 12  # of changes of every valid file, for each reader
LONGEST = 4096  # bytes of one input
KINDS = ("run", "artifact", "index dense rabitq", "index dense ivf_rabitq", "questions", "corpus gz")
Read = Callable[[Path], Any]


def below(read: Callable[[bytes], Any]) -> Read:
    """A reader below the commands, whose callers expect ValueError."""

    def read_or_refuse(path: Path) -> Any:
        try:
            return read(path.read_bytes())
        except ValueError as error:
            raise UserError(str(error)) from None

    return read_or_refuse


def faiss(kind: bytes) -> Read:
    def read(path: Path) -> Any:
        try:
            return check_faiss_file(path, kind, 3, 8)
        except ValueError as error:
            raise UserError(str(error)) from None

    return read


def listed(path: Path) -> Any:
    return list(read_passages(path))


def source(path: Path) -> Any:
    return list(read_source(str(path), ["data"] if path.suffix == ".json" else ())[0])


PROGRAM = RAG(None)
READERS: dict[str, tuple[str, Read]] = {
    **{name: (name, listed) for name in ("passages.jsonl", "passages.jsonl.gz", "passages.jsonl.zst", "p.jsonl.bz2")},
    **{name: (name, source) for name in ("benchmark.json", "benchmark.csv", "benchmark.tar")},
    "artifact.json": ("artifact.json", lambda path: read_artifact(path.parent)),
    "program.json": ("state", below(lambda content: check_state(parse_strict_json(content), PROGRAM))),
    "pool.json": ("pool", below(lambda content: check_pool(parse_strict_json(content), PROGRAM))),
    "index.json": ("index.json", lambda path: read_info(path.parent)),
    "questions.jsonl": ("questions.jsonl", read_questions),
    "rows.jsonl": ("rows.jsonl", lambda path: read_rows(path.parent)),
    "row": ("row", below(lambda content: parse_row(content, AnswerRow))),
    "run.json": ("other.json", read_json),
    "codes.faiss": ("codes.faiss", faiss(b"Ixrq")),
    "cells.faiss": ("codes.faiss", faiss(b"Iwrn")),
    "refine.faiss": ("codes.faiss", faiss(b"IxSQ")),
}


@pytest.fixture(scope="module")
def valid(tmp_path_factory) -> list[bytes]:
    """Return the beginning of a valid file of each kind; whole lines of a JSON Lines file."""
    root, found = tmp_path_factory.mktemp("valid"), []
    for kind in KINDS:
        (root / kind).mkdir()
        INPUTS[kind].make(root / kind)
    for path in sorted(root.rglob("*")):
        content = path.read_bytes()[:LONGEST] if path.is_file() else b""
        found.append(content[: content.rfind(b"\n") + 1] if path.suffix == ".jsonl" else content)
    return [content for content in found if content]


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_a_reader_accepts_or_refuses_whatever_it_reads(name: str, valid: list[bytes], tmp_path: Path) -> None:
    rng = random.Random(name)
    file, read = READERS[name]
    random_bytes = [rng.randbytes(rng.randrange(80)) for _ in range(40)]
    inputs = [*valid, *random_bytes, b"", b"[" * 4000, *(changed(one, rng)[0] for one in valid * ROUNDS)]
    accepted = 0
    for content in inputs:
        (tmp_path / file).write_bytes(content)
        try:
            read(tmp_path / file)
            accepted += 1
        except UserError:
            continue
    assert accepted < len(inputs)
    assert accepted or name not in ("artifact.json", "passages.jsonl", "questions.jsonl", "rows.jsonl", "run.json")
