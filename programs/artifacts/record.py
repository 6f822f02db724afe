"""What `artifact.json` says: its layout, its digest, and reading it without trusting it."""

import json
import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints, ValidationError

from programs.artifacts.folder import complete_artifact
from programs.artifacts.state import FieldRecord
from programs.lms.spec import ON_SERVER
from signatures.common.errors import UserError, first_problem
from signatures.common.files import sha256_text
from signatures.common.strict_json import read_strict_json

SCHEMA_VERSION = 3
RETRIEVAL = ("retriever", "rerank", "sentences")  # entries of `data`: how the index is searched
_WITHOUT_DIGEST = 1  # the version before `artifact.json` had a digest of itself; still read
_WITHOUT_KIND = 2  # the version before there was anything but single programs; still read
_OF_VERSION_3 = ("kind", "children", "pool_sha256", "similarity")
_PICKLES = re.compile(r"\.(pkl|pickle|cloudpickle|joblib|dill)$", re.IGNORECASE)

# Shown to the user, so on one line and without control characters.
Text = Annotated[str, StringConstraints(max_length=1000, pattern=r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]*$")]
ChildName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9_]{1,30}$")]  # also the name of its folder


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

    id: Annotated[Text, AfterValidator(_without_address)]
    model: Text | None = None
    weights_hash: Text | None = None
    adapter: Text
    probability_mode: Text

    @property
    def on_server(self) -> bool:
        """Whether it was on a server, whose URL artifacts do not store."""
        return (self.model or "").startswith(ON_SERVER)


class Artifact(BaseModel):
    """The contents of `artifact.json`.

    Args:
        schema_version: Version of this layout; other versions are refused.
        kind: "program", "module" (a module of the user's that is no program), or how other artifacts are combined
            (`programs.artifacts.state.KINDS`).
        program: Name in the catalog, or that of a module's class; the kind, if it is another.
        knobs: Every knob with its frozen value.
        signatures: For each predictor, its fields in order: name, role, type, description.
        state_sha256: Hash of `program.json`; None for kinds that have no state but that of their children.
        children: Name of each part, which is that of its folder in `children/` -> digest of its `artifact.json`.
        pool_sha256: Hash of `pool.json`, the demonstrations to choose from; None for kinds without.
        similarity: Fingerprint of the similarity by which they, or texts, are chosen; None for programs without.
        lm: The task LM.
        corpus: Fingerprint of the retriever; None for programs that were compiled without one.
        data: Hashes, sizes and paths of the question sets; `index` is the index folder, relative to the artifact's;
            `RETRIEVAL` says how it is searched.
        optimizer: Name, arguments (including the seed), budget (None if unlimited), cost, accepted demonstrations, and
            a hash of all settings.
        metric: Name, definition, per-question scores, mean, 95 % interval.
        versions: Versions of the libraries involved.
        revision: Revision of the source code; None outside a checkout.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    schema_version: int = SCHEMA_VERSION
    kind: Literal["program", "module", "ensemble", "knn", "cascade", "selective"] = "program"
    program: Text
    knobs: dict[Text, bool | int | float | Text | None]
    signatures: dict[Text, list[FieldRecord]] = {}
    state_sha256: Text | None = None
    children: dict[ChildName, Text] = {}
    pool_sha256: Text | None = None
    similarity: Text | None = None
    lm: LMRecord | None = None
    corpus: Text | None = None
    data: dict[str, Any] = {}
    optimizer: dict[str, Any] = {}
    metric: dict[str, Any] = {}
    versions: dict[str, str] = {}
    revision: Text | None = None

    @property
    def compares(self) -> bool:
        """Whether the program itself, not one within it, compares texts by a similarity."""
        return self.pool_sha256 is not None or self.similarity is not None


def digest_of(record: dict[str, Any]) -> str:
    """Return the SHA-256 of the contents of `artifact.json` without its `digest`, as canonical JSON."""
    rest = {key: value for key, value in record.items() if key != "digest"}
    return sha256_text(json.dumps(rest, sort_keys=True, separators=(",", ":")))


def read_artifact(folder: Path | str) -> Artifact:
    """Return the contents of `artifact.json`, validated.

    Raises:
        UserError: There is no artifact, it is damaged, or it has another schema version.
    """
    return read_with_digest(complete_artifact(Path(folder)))[0]


def read_with_digest(folder: Path) -> tuple[Artifact, str]:
    """Return the same with its digest, which was verified.

    Raises:
        UserError: See `read_artifact`; or a file of the folder is a pickle.
    """
    path = folder / "artifact.json"
    refuse_pickles(folder)
    try:
        record = read_strict_json(path)
        if not isinstance(record, dict):
            raise ValueError(f"a JSON object was expected, not {type(record).__name__}")
    except FileNotFoundError:
        raise UserError(f"{folder} contains no artifact (no artifact.json). Compile a program into it first.") from None
    except ValueError as error:
        raise damaged(path, error) from None
    version, digest = record.get("schema_version"), record.pop("digest", None)
    if not isinstance(version, int):
        raise damaged(path, "it states no schema_version")
    if version not in (SCHEMA_VERSION, _WITHOUT_KIND, _WITHOUT_DIGEST):
        raise UserError(
            f"{path} has schema version {version!r:.20}, this verihop reads {SCHEMA_VERSION}. "
            "Compile the program again, or use the verihop that wrote it."
        )
    if digest != (None if version == _WITHOUT_DIGEST else digest_of(record)):
        raise UserError(f"{path} has changed since it was frozen (its digest differs). Compile the program again.")
    if version < SCHEMA_VERSION and (newer := [name for name in _OF_VERSION_3 if name in record]):
        raise damaged(path, f"{newer[0]!r} is not a field of schema version {version}")
    try:
        return Artifact.model_validate(record), digest_of(record)
    except ValidationError as error:
        raise damaged(path, first_problem(error)) from None


def damaged(path: Path, why: object) -> UserError:
    """Return the error of a file of an artifact that is not as `freeze` writes it."""
    return UserError(f"{path} is damaged ({why}). Compile the program again.")


def refuse_pickles(folder: Path) -> None:
    """Raise UserError if the path is a pickle or its folder contains one, which could run code when it is opened."""
    try:
        listed = [folder, *(folder.iterdir() if folder.is_dir() else ())]
    except OSError:  # what is wrong with the folder is said when it is read
        return
    for path in listed:
        if _PICKLES.search(path.name) and not (path == folder and path.is_dir()):
            raise UserError(
                f"{path} is a pickle, which can run any code when it is opened: it is never opened. Remove it, or "
                "freeze the program where it was made."
            )


def lm_record(connection: Any) -> LMRecord:
    """Return the record of a connection in an artifact; it contains no key and no address."""
    return LMRecord(
        id=connection.id,
        model=connection.lm.model,
        weights_hash=connection.weights_hash,
        adapter=type(connection.adapter).__name__,
        probability_mode=connection.probability_mode,
    )
