"""Freeze a compiled program into a folder, and load it for inference.

An artifact is two JSON files. `program.json` is DSPy's state: instructions and demonstrations. `artifact.json` records
its provenance: program and knobs, the fields of every signature, LM, corpus, data,
optimizer, metric and versions.

Loading executes nothing from either file, and accepts nothing but what `freeze` writes: both may come from a stranger.
The digests in `artifact.json` reveal damage; they do not say who wrote the files, since anybody can compute them.
"""

import json
import warnings
from pathlib import Path
from typing import Annotated, Any

import dspy
from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints, ValidationError

from programs.artifact_folder import complete_artifact, replacing
from programs.catalog import PROGRAMS, build
from programs.parts.knobs import check_knobs, knob_values
from programs.state import FieldRecord, apply_state, check_signatures, dump_state, signature_fields
from signatures.common.errors import UserError, UserNotice, first_problem, unknown
from signatures.common.files import atomic_write, sha256_bytes, sha256_text
from signatures.common.strict_json import parse_strict_json, read_limited, read_strict_json
from signatures.common.versions import ANSWERING, installed_versions
from signatures.types import Retriever

SCHEMA_VERSION = 2
_WITHOUT_DIGEST = 1  # the schema version before `artifact.json` had a digest of itself; still read


# Shown to the user, so on one line and without control characters.
_Text = Annotated[str, StringConstraints(max_length=1000, pattern=r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]*$")]


def _without_address(lm_id: str) -> str:
    if "://" in lm_id:
        raise ValueError("an artifact may not name the address of a server")
    return lm_id


class LMRecord(BaseModel):
    """The LM that a program was compiled with; loading for another one warns.

    Args:
        id: The id it was requested by.
        model: Its model name, which contains a hash of the weights or of the server's address.
        weights_hash: SHA-256 of the weights, if the file is available.
        adapter: Class of the adapter.
        probability_mode: How P(yes) was computed.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    id: Annotated[_Text, AfterValidator(_without_address)]
    model: _Text | None = None
    weights_hash: _Text | None = None
    adapter: _Text
    probability_mode: _Text


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

    model_config = ConfigDict(extra="forbid", strict=True)

    schema_version: int = SCHEMA_VERSION
    program: _Text
    knobs: dict[_Text, bool | int | float | _Text | None]
    signatures: dict[_Text, list[FieldRecord]]
    state_sha256: _Text
    lm: LMRecord | None = None
    corpus: _Text | None = None
    data: dict[str, Any] = {}
    optimizer: dict[str, Any] = {}
    metric: dict[str, Any] = {}
    versions: dict[str, str] = {}
    revision: _Text | None = None


def program_name(program: dspy.Module) -> str:
    """Return the program's name in the catalog, or the name of its class."""
    return next((name for name, cls in PROGRAMS.items() if cls is type(program)), type(program).__name__)


def check_freezable(program: dspy.Module) -> None:
    """Raise UserError unless `load` can rebuild the program: it is of the catalog and has no LM of its own."""
    if type(program) not in PROGRAMS.values():
        raise UserError(f"{type(program).__name__} is not in the catalog of programs; only those can be frozen.")
    if own := [name for name, predictor in program.named_predictors() if predictor.lm is not None]:
        raise UserError(
            f"Predictor {own[0]} has an LM of its own, which an artifact never holds: call set_lm(None) on the program "
            "and name the LM when it is loaded."
        )


def freeze(program: dspy.Module, folder: Path | str, *, overwrite: bool = False, **provenance: Any) -> Artifact:
    """Write a program to a folder that `load` can read; the folder appears complete or not at all.

    Temporary folders of a killed call are removed, and an artifact that it had moved away is restored.

    Args:
        program: A program of the catalog, compiled or not.
        folder: The folder of the artifact.
        overwrite: Replace an existing artifact.
        provenance: Values for the fields `lm`, `corpus`, `data`, `optimizer`, `metric`, `revision` of `Artifact`.

    Raises:
        UserError: The folder exists, the program is not in the catalog or has an LM of its own, a demonstration is not
            one of its signature, or another process is writing to the folder.
    """
    folder = Path(folder)
    check_freezable(program)
    try:
        state = json.dumps(dump_state(program), ensure_ascii=False, indent=1)
    except UserError as error:
        raise UserError(f"The program cannot be frozen: {error}. Remove or correct that demonstration.") from None
    artifact = Artifact(
        program=program_name(program),
        knobs=knob_values(program),
        signatures=signature_fields(program),
        state_sha256=sha256_text(state),
        versions=installed_versions(ANSWERING),
        **provenance,
    )
    text = json.dumps(artifact.model_dump(mode="json"), ensure_ascii=False)
    record = parse_strict_json(text.encode("utf-8", "replace"))  # as it is read back; a path may not be valid Unicode
    with replacing(folder, overwrite=overwrite) as temporary:
        _dump(temporary / "program.json", state)
        _dump(temporary / "artifact.json", json.dumps({**record, "digest": digest_of(record)}, indent=1))
    return artifact


def digest_of(record: dict[str, Any]) -> str:
    """Return the SHA-256 of the contents of `artifact.json` without its `digest`, as canonical JSON."""
    rest = {key: value for key, value in record.items() if key != "digest"}
    return sha256_text(json.dumps(rest, sort_keys=True, separators=(",", ":")))


def _dump(path: Path, text: str) -> None:
    with atomic_write(path, "wb") as file:
        file.write(text.encode())


def read_artifact(folder: Path | str) -> Artifact:
    """Return the contents of `artifact.json`, validated.

    Raises:
        UserError: There is no artifact, it is damaged, or it has another schema version.
    """
    path = complete_artifact(Path(folder)) / "artifact.json"
    try:
        record = read_strict_json(path)
        if not isinstance(record, dict):
            raise ValueError(f"a JSON object was expected, not {type(record).__name__}")
    except FileNotFoundError:
        raise UserError(f"{folder} contains no artifact (no artifact.json). Compile a program into it first.") from None
    except ValueError as error:
        raise UserError(f"{path} is damaged ({error}). Compile the program again.") from None
    version, digest = record.get("schema_version"), record.pop("digest", None)
    if not isinstance(version, int):
        raise UserError(f"{path} is damaged (it states no schema_version). Compile the program again.")
    if version not in (SCHEMA_VERSION, _WITHOUT_DIGEST):
        raise UserError(
            f"{path} has schema version {version!r:.20}, this verihop reads {SCHEMA_VERSION}. "
            "Compile the program again."
        )
    if digest != (digest_of(record) if version == SCHEMA_VERSION else None):
        raise UserError(f"{path} has changed since it was frozen (its digest differs). Compile the program again.")
    try:
        return Artifact.model_validate(record)
    except ValidationError as error:
        raise UserError(f"{path} is damaged ({first_problem(error)}). Compile the program again.") from None


def load(folder: Path | str, retrieve: Retriever | None = None, *, connection: Any = None) -> dspy.Module:
    """Return a frozen program, which answers exactly as before it was frozen.

    The files need not be trusted: they decide the program, its knobs and the words of its prompts, and nothing else.
    Their hashes show damage, not who wrote them.

    Args:
        folder: The folder written by `freeze`.
        retrieve: Ranks passages; warns if its fingerprint differs from that of the frozen program.
        connection: The `programs.lms.connect.Connection` it will run on; warns if its LM differs.

    Raises:
        UserError: The artifact is missing or damaged, contains anything that `freeze` does not write (predictor,
            demonstration and field are named), or a signature has changed since (the field is named).
    """
    artifact = read_artifact(folder)
    path = complete_artifact(Path(folder)) / "program.json"
    state = _read_state(path, artifact.state_sha256)
    if artifact.program not in PROGRAMS:
        raise unknown("program", artifact.program, PROGRAMS)
    knobs: dict[str, Any] = dict(artifact.knobs)
    check_knobs(PROGRAMS[artifact.program], knobs)  # before `build`, which has arguments that are no knobs
    program = build(artifact.program, retrieve, **knobs)
    check_signatures(artifact.program, artifact.signatures, program)
    _warn_about_differences(artifact, retrieve, connection)
    try:
        apply_state(program, state)
    except UserError as error:
        raise UserError(f"{path} is not the state of program {artifact.program}: {error}. Compile it again.") from None
    return program


def _read_state(path: Path, sha256: str) -> Any:
    try:
        raw = read_limited(path)
    except FileNotFoundError:
        raw = b""
    except ValueError as error:
        raise UserError(f"{path} cannot be read ({error}). Compile the program again.") from None
    if sha256_bytes(raw) != sha256:
        raise UserError(f"{path} has changed since it was frozen (its hash differs). Compile the program again.")
    try:
        return parse_strict_json(raw)
    except ValueError as error:
        raise UserError(f"{path} is damaged ({error}). Compile the program again.") from None


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
