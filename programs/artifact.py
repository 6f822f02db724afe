"""Freeze a compiled program into a folder, and load it for inference.

An artifact is two JSON files. `program.json` is DSPy's state: instructions and demonstrations. `artifact.json` says
what that state belongs to and where it came from: program and knobs, the fields of every signature, LM, corpus,
data, optimizer, metric and versions. Nothing in it is executed when it is read.
"""

import json
import shutil
import tempfile
import warnings
from pathlib import Path
from typing import Any

import dspy
from pydantic import BaseModel, ConfigDict, ValidationError

from programs.catalog import PROGRAMS, build
from programs.parts.knobs import knob_values
from signatures.errors import UserError
from signatures.files import atomic_write, sha256_file
from signatures.types import Retriever
from signatures.versions import installed_versions

SCHEMA_VERSION = 1
_PACKAGES = ("dspy", "faiss-cpu", "sentence-transformers", "tantivy", "openvino-genai", "verihop")


class LMRecord(BaseModel):
    """The LM a program was compiled with; compared on loading, a difference is a warning."""

    id: str
    weights_hash: str | None = None
    adapter: str
    probability_mode: str


class Artifact(BaseModel):
    """What `artifact.json` holds.

    Args:
        schema_version: Version of this layout; another one is refused.
        program: Name in the catalog.
        knobs: Every knob with its frozen value.
        signatures: For each predictor, its fields in order: name, role, type, description.
        state_sha256: Hash of `program.json`.
        lm: The task LM.
        corpus: Fingerprint of the retriever; None for programs that were compiled without one.
        data: Hashes, sizes and paths of the question sets.
        optimizer: Name, arguments, seed, budget, cost, accepted demonstrations.
        metric: Name, definition, per-question scores, mean, 95 % interval.
        versions: Versions of the libraries that take part.
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
    """Return the catalog name of a program.

    Raises:
        UserError: Its class is not in the catalog.
    """
    for name, cls in PROGRAMS.items():
        if type(program) is cls:
            return name
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
    """Write a program to a folder that `load` can read; the folder appears whole or not at all.

    Args:
        program: A program of the catalog, compiled or not.
        folder: Where the artifact shall stand.
        overwrite: Replace an artifact that stands there.
        provenance: Values for the fields `lm`, `corpus`, `data`, `optimizer`, `metric`, `revision` of `Artifact`.

    Raises:
        UserError: The folder exists, or the program is not in the catalog.
    """
    folder = Path(folder)
    if folder.exists() and not (overwrite and (folder / "artifact.json").exists()):
        raise UserError(f"{folder} exists already. Choose another folder, or overwrite an artifact with --overwrite.")
    name = program_name(program)
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    try:
        _dump(temporary / "program.json", program.dump_state())
        artifact = Artifact(
            program=name,
            knobs=knob_values(program),
            signatures=signature_fields(program),
            state_sha256=sha256_file(temporary / "program.json"),
            versions=installed_versions(_PACKAGES),
            **provenance,
        )
        _dump(temporary / "artifact.json", artifact.model_dump(mode="json"))
        temporary.chmod(0o755)
        if folder.exists():
            shutil.rmtree(folder)
        temporary.rename(folder)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    return artifact


def _dump(path: Path, value: Any) -> None:
    with atomic_write(path) as file:
        json.dump(value, file, ensure_ascii=False, indent=1)


def read_artifact(folder: Path | str) -> Artifact:
    """Return the description of a frozen program, checked for shape and version.

    Raises:
        UserError: There is no artifact, it is damaged, or it was written by another version.
    """
    path = Path(folder) / "artifact.json"
    try:
        artifact = Artifact.model_validate_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{folder} holds no artifact (no artifact.json). Make one with `verihop compile`.") from None
    except (ValidationError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is damaged ({str(error).splitlines()[0]}). Compile the program again.") from None
    if artifact.schema_version != SCHEMA_VERSION:
        raise UserError(
            f"{path} has schema version {artifact.schema_version}, this verihop reads {SCHEMA_VERSION}. "
            "Compile the program again."
        )
    return artifact


def load(folder: Path | str, retrieve: Retriever | None = None, *, connection: Any = None) -> dspy.Module:
    """Return a frozen program, ready to answer exactly as the one that was frozen.

    Args:
        folder: What `freeze` wrote.
        retrieve: Ranks passages; another corpus than the frozen one is a warning.
        connection: The `programs.lms.connect.Connection` it will run on; another LM is a warning.

    Raises:
        UserError: The artifact is missing or damaged, or a signature has changed since (the field is named).
    """
    artifact = read_artifact(folder)
    state_path = Path(folder) / "program.json"
    if not state_path.exists() or sha256_file(state_path) != artifact.state_sha256:
        raise UserError(f"{state_path} is not the file that was frozen (its hash differs). Compile the program again.")
    program = build(artifact.program, retrieve, **artifact.knobs)
    _check_signatures(artifact, program)
    _warn_about_strangers(artifact, retrieve, connection)
    program.load_state(json.loads(state_path.read_text(encoding="utf-8")))
    return program


def _check_signatures(artifact: Artifact, program: dspy.Module) -> None:
    """Refuse a state whose fields are not today's; DSPy itself would load it by position and swap descriptions."""
    today = signature_fields(program)
    if artifact.signatures.keys() != today.keys():
        raise UserError(
            f"Program {artifact.program} had the predictors {', '.join(artifact.signatures)} when it was frozen "
            f"and has {', '.join(today)} now. Compile it again."
        )
    for name, fields in artifact.signatures.items():
        for frozen, now in zip(fields, today[name], strict=False):
            if frozen["name"] != now["name"] or (frozen["role"], frozen["type"]) != (now["role"], now["type"]):
                raise UserError(
                    f"Field {frozen['name']!r} of predictor {name} was {frozen['role']} {frozen['type']} when it was "
                    f"frozen; now there is {now['name']!r}, {now['role']} {now['type']}. Compile the program again."
                )
        if len(fields) != len(today[name]):
            longer = max(fields, today[name], key=len)
            field = longer[min(len(fields), len(today[name]))]["name"]
            raise UserError(f"Field {field!r} of predictor {name} came or went since. Compile the program again.")


def _warn_about_strangers(artifact: Artifact, retrieve: Retriever | None, connection: Any) -> None:
    if retrieve is not None and artifact.corpus is not None and retrieve.fingerprint != artifact.corpus:
        warnings.warn(
            f"The program was compiled on corpus {artifact.corpus}, this one is {retrieve.fingerprint}.", stacklevel=3
        )
    if connection is None or artifact.lm is None:
        return
    if (connection.id, connection.weights_hash) != (artifact.lm.id, artifact.lm.weights_hash):
        warnings.warn(
            f"The program was compiled for LM {artifact.lm.id} (weights {artifact.lm.weights_hash}), "
            f"this one is {connection.id} (weights {connection.weights_hash}).",
            stacklevel=3,
        )
    elif connection.probability_mode != artifact.lm.probability_mode:
        warnings.warn(
            f"Thresholds were tuned with P(yes) read by {artifact.lm.probability_mode}, "
            f"this connection reads it by {connection.probability_mode}.",
            stacklevel=3,
        )


def lm_record(connection: Any) -> LMRecord:
    """Return what an artifact keeps of a connection; never a key or an address."""
    return LMRecord(
        id=connection.id,
        weights_hash=connection.weights_hash,
        adapter=type(connection.adapter).__name__,
        probability_mode=connection.probability_mode,
    )
