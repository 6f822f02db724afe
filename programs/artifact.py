"""Freeze a compiled program into a folder, and load it for inference.

An artifact is two JSON files. `program.json` is DSPy's state: instructions and demonstrations. `artifact.json` records
its provenance: program and knobs, the fields of every signature, LM, corpus, data,
optimizer, metric and versions. Loading executes nothing from either file.
"""

import contextlib
import json
import re
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dspy
from pydantic import BaseModel, ConfigDict, ValidationError

from programs.catalog import PROGRAMS, build
from programs.parts.knobs import knob_values
from signatures.common.errors import UserError, UserNotice
from signatures.common.files import atomic_write, exclusive_lock, sha256_file
from signatures.common.versions import ANSWERING, installed_versions
from signatures.types import Retriever

SCHEMA_VERSION = 1
_TEMPORARY = ".freezing"  # suffix of a folder that is being written


class LMRecord(BaseModel):
    """The LM that a program was compiled with; loading for another one warns.

    Args:
        id: The id it was requested by.
        model: Its model name, which contains a hash of the weights or of the server's address.
        weights_hash: SHA-256 of the weights, if the file is available.
        adapter: Class of the adapter.
        probability_mode: How P(yes) was computed.
    """

    id: str
    model: str | None = None
    weights_hash: str | None = None
    adapter: str
    probability_mode: str


class Artifact(BaseModel):
    """The contents of `artifact.json`.

    Args:
        schema_version: Version of this layout; other versions are refused.
        program: Name in the catalog.
        knobs: Every knob with its frozen value.
        signatures: For each predictor, its fields in order: name, role, type, description.
        state_sha256: Hash of `program.json`.
        lm: The task LM.
        corpus: Fingerprint of the retriever; None for programs that were compiled without one.
        data: Hashes, sizes and paths of the question sets; `index` is the index folder, relative to the artifact's.
        optimizer: Name, arguments (including the seed), budget (None if unlimited), cost, accepted demonstrations, and
            a hash of all settings.
        metric: Name, definition, per-question scores, mean, 95 % interval.
        versions: Versions of the libraries involved.
        revision: Revision of the source code; None outside a checkout.
    """

    model_config = ConfigDict(extra="allow")

    schema_version: int = SCHEMA_VERSION
    program: str
    knobs: dict[str, Any]
    signatures: dict[str, list[dict[str, str]]]
    state_sha256: str
    lm: LMRecord | None = None
    corpus: str | None = None
    data: dict[str, Any] = {}
    optimizer: dict[str, Any] = {}
    metric: dict[str, Any] = {}
    versions: dict[str, str] = {}
    revision: str | None = None


def program_name(program: dspy.Module) -> str:
    """Return the program's name in the catalog, or the name of its class."""
    return next((name for name, cls in PROGRAMS.items() if cls is type(program)), type(program).__name__)


def check_freezable(program: dspy.Module) -> None:
    """Raise UserError unless the program's class is in the catalog, from which `load` rebuilds it."""
    if type(program) not in PROGRAMS.values():
        raise UserError(f"{type(program).__name__} is not in the catalog of programs; only those can be frozen.")


def signature_fields(program: dspy.Module) -> dict[str, list[dict[str, str]]]:
    """Return name, role, type and description of every field of every predictor, in prompt order."""
    return {
        name: [
            {
                "name": field_name,
                "role": str(field.json_schema_extra["__dspy_field_type"]),
                "type": str(field.annotation),
                "desc": str(field.json_schema_extra.get("desc", "")),
            }
            for field_name, field in predictor.signature.fields.items()
        ]
        for name, predictor in program.named_predictors()
    }


def freeze(program: dspy.Module, folder: Path | str, *, overwrite: bool = False, **provenance: Any) -> Artifact:
    """Write a program to a folder that `load` can read; the folder appears complete or not at all.

    Temporary folders of a killed call are removed, and an artifact that it had moved away is restored.

    Args:
        program: A program of the catalog, compiled or not.
        folder: The folder of the artifact.
        overwrite: Replace an existing artifact.
        provenance: Values for the fields `lm`, `corpus`, `data`, `optimizer`, `metric`, `revision` of `Artifact`.

    Raises:
        UserError: The folder exists, the program is not in the catalog, or another process is writing to the folder.
    """
    folder = Path(folder)
    check_freezable(program)
    with _replacing(folder, overwrite=overwrite) as temporary:
        _dump(temporary / "program.json", program.dump_state())
        artifact = Artifact(
            program=program_name(program),
            knobs=knob_values(program),
            signatures=signature_fields(program),
            state_sha256=sha256_file(temporary / "program.json"),
            versions=installed_versions(ANSWERING),
            **provenance,
        )
        _dump(temporary / "artifact.json", artifact.model_dump(mode="json"))
    return artifact


@contextlib.contextmanager
def _replacing(folder: Path, *, overwrite: bool) -> Iterator[Path]:
    """Yield an empty folder that replaces `folder` when the block ends without an error."""
    busy = f"Another process is writing an artifact to {folder}: wait for it or choose another folder."
    with exclusive_lock(folder.parent / f".{folder.name}.freezing.lock", busy):
        recover(folder)
        if folder.exists() and not (overwrite and (folder / "artifact.json").exists()):
            raise UserError(f"{folder} exists already. Choose another folder, or set overwrite to replace an artifact.")
        temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}.", suffix=_TEMPORARY))
        try:
            yield temporary
            temporary.chmod(0o755)
            if folder.exists():
                folder.rename(_backup(folder))
            temporary.rename(folder)
        finally:
            recover(folder)


def _backup(folder: Path) -> Path:
    return folder.parent / f".{folder.name}.replaced"


def recover(folder: Path) -> None:
    """Clean up after a killed `freeze` to `folder`: restore an artifact moved away, remove incomplete ones."""
    backup = _backup(folder)
    if (backup / "artifact.json").is_file() and not folder.exists():
        backup.rename(folder)
    ours = re.compile(rf"\.{re.escape(folder.name)}\.([a-z0-9_]{{8}}{re.escape(_TEMPORARY)}|replaced)")
    for left in folder.parent.iterdir() if folder.parent.is_dir() else ():
        if ours.fullmatch(left.name) and left.is_dir():
            shutil.rmtree(left)


def _dump(path: Path, value: Any) -> None:
    with atomic_write(path) as file:
        json.dump(value, file, ensure_ascii=False, indent=1)


def read_artifact(folder: Path | str) -> Artifact:
    """Return the contents of `artifact.json`, validated.

    Raises:
        UserError: There is no artifact, it is damaged, or it has another schema version.
    """
    path = Path(folder) / "artifact.json"
    try:
        artifact = Artifact.model_validate_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{folder} contains no artifact (no artifact.json). Compile a program into it first.") from None
    except (ValidationError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is damaged ({str(error).splitlines()[0]}). Compile the program again.") from None
    if artifact.schema_version != SCHEMA_VERSION:
        raise UserError(
            f"{path} has schema version {artifact.schema_version}, this verihop reads {SCHEMA_VERSION}. "
            "Compile the program again."
        )
    return artifact


def load(folder: Path | str, retrieve: Retriever | None = None, *, connection: Any = None) -> dspy.Module:
    """Return a frozen program, which answers exactly as before it was frozen.

    Args:
        folder: The folder written by `freeze`.
        retrieve: Ranks passages; warns if its fingerprint differs from that of the frozen program.
        connection: The `programs.lms.connect.Connection` it will run on; warns if its LM differs.

    Raises:
        UserError: The artifact is missing or damaged, or a signature has changed since (the field is named).
    """
    artifact = read_artifact(folder)
    state_path = Path(folder) / "program.json"
    if not state_path.exists() or sha256_file(state_path) != artifact.state_sha256:
        raise UserError(f"{state_path} has changed since it was frozen (its hash differs). Compile the program again.")
    program = build(artifact.program, retrieve, **artifact.knobs)
    _check_signatures(artifact, program)
    _warn_about_differences(artifact, retrieve, connection)
    program.load_state(json.loads(state_path.read_text(encoding="utf-8")))
    return program


def _check_signatures(artifact: Artifact, program: dspy.Module) -> None:
    """Raise UserError if a signature has changed; DSPy would load the state by position and swap descriptions."""
    current = signature_fields(program)
    if artifact.signatures.keys() != current.keys():
        raise UserError(
            f"Program {artifact.program} had the predictors {', '.join(artifact.signatures)} when it was frozen "
            f"and has {', '.join(current)} now. Compile it again."
        )
    for name, fields in artifact.signatures.items():
        for frozen, now in zip(fields, current[name], strict=False):
            if frozen["name"] != now["name"] or (frozen["role"], frozen["type"]) != (now["role"], now["type"]):
                raise UserError(
                    f"Field {frozen['name']!r} of predictor {name} was {frozen['role']} {frozen['type']} when it was "
                    f"frozen; now there is {now['name']!r}, {now['role']} {now['type']}. Compile the program again."
                )
        if len(fields) != len(current[name]):
            longer = max(fields, current[name], key=len)
            field = longer[min(len(fields), len(current[name]))]["name"]
            raise UserError(f"Field {field!r} of predictor {name} was added or removed. Compile the program again.")


def _warn_about_differences(artifact: Artifact, retrieve: Retriever | None, connection: Any) -> None:
    if retrieve is not None and artifact.corpus is not None and retrieve.fingerprint != artifact.corpus:
        _notice(f"The program was compiled on corpus {artifact.corpus}, this one is {retrieve.fingerprint}.")
    if connection is None or artifact.lm is None:
        return
    if (connection.id, connection.weights_hash) != (artifact.lm.id, artifact.lm.weights_hash):
        _notice(
            f"The program was compiled for LM {artifact.lm.id} (weights {artifact.lm.weights_hash}), "
            f"this one is {connection.id} (weights {connection.weights_hash})."
        )
    elif artifact.lm.model not in (None, connection.lm.model):
        _notice(
            f"The program was compiled for LM {artifact.lm.id} as {artifact.lm.model}, this one is "
            f"{connection.lm.model}: another server, or other weights."
        )
    elif connection.probability_mode != artifact.lm.probability_mode:
        _notice(
            f"Thresholds were tuned with P(yes) from {artifact.lm.probability_mode}, "
            f"this connection computes it from {connection.probability_mode}."
        )


def _notice(text: str) -> None:
    warnings.warn(text, UserNotice, stacklevel=4)


def lm_record(connection: Any) -> LMRecord:
    """Return the record of a connection in an artifact; it contains no key and no address."""
    return LMRecord(
        id=connection.id,
        model=connection.lm.model,
        weights_hash=connection.weights_hash,
        adapter=type(connection.adapter).__name__,
        probability_mode=connection.probability_mode,
    )
