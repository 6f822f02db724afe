"""Combine artifacts into one, file by file, so that each part keeps its own provenance."""

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from programs.artifacts.folder import complete_artifact
from programs.artifacts.freezing import CHILDREN, sealed, write_texts
from programs.artifacts.loading import load_unbound
from programs.artifacts.record import RETRIEVAL, Artifact, read_with_digest
from programs.artifacts.state import KINDS, Parts, child_names
from programs.parts.knobs import check_knobs, knob_values
from signatures.common.errors import UserError, unknown
from signatures.common.strict_json import read_limited
from signatures.common.versions import ANSWERING, installed_versions

_FILES = ("artifact.json", "program.json", "pool.json")

Value = TypeVar("Value")


def combine(
    kind: str,
    folders: Sequence[Path | str],
    out: Path | str,
    *,
    knobs: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    revision: str | None = None,
    made: Mapping[str, Any] | None = None,
) -> Artifact:
    """Write an artifact that consists of others, which are copied into it unchanged.

    LM, corpus and index are recorded if the parts agree on them, or as `made` says.

    Args:
        kind: "ensemble", or another of `KINDS` that has no parts but programs.
        folders: The artifacts, in the order of the kind's programs; they are only read.
        out: The folder of the new artifact.
        knobs: Of the kind; others have their defaults.
        overwrite: Replace an existing artifact.
        revision: Revision of the source code.
        made: How the knobs were found, if they were fitted: the fields `lm`, `corpus`, `data`, `optimizer` and `metric`
            of the record; `data` is added to index, retriever, reranker and sentences.

    Raises:
        UserError: A part is missing or damaged, there are too few or too many, a knob is unknown, or `out` exists.
    """
    if kind not in KINDS:
        raise unknown("kind", kind, KINDS)
    table = KINDS[kind]
    names = child_names(kind, len(folders))
    if len(names) != len(folders):
        raise UserError(f"A {kind} consists of {len(names)} artifacts ({', '.join(names)}), got {len(folders)}.")
    if table.pooled:
        raise UserError(f"A {kind} has demonstrations to choose from, too: compile a program by the optimizer {kind}.")
    check_knobs(table.cls, dict(knobs or {}))
    parts = {name: complete_artifact(Path(folder)) for name, folder in zip(names, folders, strict=True)}
    programs = {name: load_unbound(folder) for name, folder in parts.items()}
    combined = table.put_together(Parts(programs), dict(knobs or {}))
    read = {name: read_with_digest(folder) for name, folder in parts.items()}
    records = [record for record, _ in read.values()]
    out, found = Path(out), dict(made or {})
    agreed = {
        "lm": _same(record.lm for record in records),
        "corpus": _same(record.corpus for record in records if record.corpus is not None),
    }
    artifact = Artifact(
        kind=kind,  # type: ignore[arg-type]
        program=kind,
        knobs=knob_values(combined),
        children={name: digest for name, (_, digest) in read.items()},
        data={**_data(parts, records, out), **found.pop("data", {})},
        **{**agreed, **found},
        versions=installed_versions(ANSWERING),
        revision=revision,
    )
    copied = ((name, file, text) for name, folder in parts.items() for file, text in _files(folder))
    texts = {f"{CHILDREN}/{name}/{file}": text.decode() for name, file, text in copied}
    write_texts(out, {**texts, "artifact.json": sealed(artifact)[0]}, overwrite=overwrite)
    return artifact


def _files(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the files of an artifact and of those within it, by their path; other files are left behind."""
    for name in _FILES:
        if (folder / name).exists():
            yield name, read_limited(folder / name)
    for child in read_with_digest(folder)[0].children:
        for name, text in _files(folder / CHILDREN / child):
            yield f"{CHILDREN}/{child}/{name}", text


def _data(parts: Mapping[str, Path], records: Sequence[Artifact], out: Path) -> dict[str, Any]:
    """Return where the index is, relative to `out`, and how it is searched, if the parts that name one agree.

    Of parts with different indexes only that is kept in whose search they agree: another index must be named then.
    """
    named = [
        (
            os.path.normpath(folder.resolve() / str(record.data["index"])),
            {name: record.data[name] for name in RETRIEVAL if record.data.get(name) is not None},
        )
        for folder, record in zip(parts.values(), records, strict=True)
        if record.data.get("index")
    ]
    if (same := _same(iter(named))) is None:
        shared = {name: _same(read.get(name) for _, read in named) for name in RETRIEVAL}
        return {name: value for name, value in shared.items() if value is not None}
    index, read = same
    with contextlib.suppress(ValueError):  # on another drive
        index = os.path.relpath(index, out.resolve())
    return {"index": index, **read}


def _same(values: Iterator[Value]) -> Value | None:
    """Return the value that all have; None if they differ or there are none."""
    found = list(values)
    return found[0] if found and all(value == found[0] for value in found) else None
