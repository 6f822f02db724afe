"""Read an artifact, check all of it, and return the program that was frozen."""

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import dspy

from programs.artifacts import state as states
from programs.artifacts.folder import complete_artifact
from programs.artifacts.freezing import CHILDREN, DEEPEST
from programs.artifacts.record import Artifact, LMRecord, damaged, read_artifact, read_with_digest
from programs.catalog import build_class, known_program
from programs.nearest_demos import PoolQuestion
from programs.parts.knobs import check_knobs
from programs.parts.logistic import parse_weights
from signatures.common.errors import UserError, UserNotice
from signatures.common.files import sha256_bytes
from signatures.common.strict_json import parse_strict_json, read_limited
from signatures.types import Retriever, Similarity

if TYPE_CHECKING:
    from programs.lms.connect import Connection

Module = TypeVar("Module", bound=dspy.Module)


# Program -> its knobs that are compared with P(yes), or with the probabilities of tokens, which come from the same
# log-probabilities; they hold for one way of computing it only. A program that only compares one P(yes) with another,
# or with the 0.5 that means yes in every way of computing it, has none.
PROBABILITY_KNOBS: dict[str, tuple[str, ...]] = {
    "retro_rag": ("threshold", "relevance_gate", "attribution_gate"),
    "self_rag": ("threshold",),
    "flare": ("confidence", "mask_below"),
    "searchain": ("threshold",),
    "meta_rag": (),
    "corag": (),
}

# Program that weighs features -> its threshold. That depends on P(yes) where a program within it computes it, which is
# then refused itself, or where its weights name what `rag` states, which is not.
WEIGHING = {"cascade": "threshold", "selective": "least"}
_STATED = {"confidence", "unscored"}

# Program -> knobs that its earlier artifacts do not name, with what they did; their defaults now are those of papers.
EARLIER_KNOBS: dict[str, dict[str, Any]] = {"retro_rag": {"limit_inferences": True}}


@dataclass(frozen=True)
class Bindings:
    """What is given to `load`.

    Args:
        retrieve: Ranks passages.
        connection: The `programs.lms.connect.Connection` that the program will run on.
        similarity: Compares texts, for programs that choose demonstrations, sentences or documents by it.
        accept_probability_mode: Load a program although its thresholds hold for another way of computing P(yes).
    """

    retrieve: Retriever | None = None
    connection: Any = None
    similarity: Similarity | None = None
    accept_probability_mode: bool = False


def recorded_connection(folder: Path | str) -> "Connection":
    """Return a connection to the LM that an artifact names, to the embedded one if it names none.

    Raises:
        UserError: There is no artifact, it is damaged, or its LM cannot be connected by its name.
    """
    from programs.lms.connect import UnknownLM, connect

    lm = read_artifact(folder).lm
    if lm is None:
        return connect("embedded")
    try:
        return connect(lm.id)
    except UnknownLM:
        raise UserError(
            f"The program was compiled for LM {lm.id!r:.80}, which cannot be connected by that name alone: pass the "
            "connection, e.g. that of its server."
        ) from None


def check_bindings(artifact: Artifact, given: Bindings) -> list[str]:
    """Return what differs from the record and may change answers, one line each.

    Raises:
        UserError: The program's thresholds are compared with P(yes), which this connection computes in another way; or
            it needs a similarity.
    """
    notices = []
    if given.retrieve is not None and artifact.corpus is not None and given.retrieve.fingerprint != artifact.corpus:
        notices.append(
            f"The program was compiled on corpus {artifact.corpus}, this one is {given.retrieve.fingerprint}."
        )
    if artifact.compares:
        notices += _check_similarity(artifact, given.similarity)
    if given.connection is not None and artifact.lm is not None:
        notices += _check_connection(artifact, artifact.lm, given)
    return notices


def _check_similarity(artifact: Artifact, similarity: Similarity | None) -> list[str]:
    if similarity is None:
        raise UserError(
            f"This artifact chooses {_chosen(artifact)} by a similarity: pass the one it was made with "
            f"({artifact.similarity or 'none is recorded'})."
        )
    fingerprint = getattr(similarity, "fingerprint", None)
    if artifact.similarity in (None, fingerprint):
        return []
    return [
        f"The artifact chooses {_chosen(artifact)} by similarity {artifact.similarity}, this one is {fingerprint}: "
        "others may be chosen."
    ]


def _chosen(artifact: Artifact) -> str:
    return "demonstrations" if artifact.pool_sha256 is not None else "texts"


def _check_connection(artifact: Artifact, recorded: LMRecord, given: Bindings) -> list[str]:
    connection, notices = given.connection, []
    if (connection.id, connection.weights_hash) != (recorded.id, recorded.weights_hash):
        notices.append(
            f"The program was compiled for LM {recorded.id} (weights {recorded.weights_hash}), "
            f"this one is {connection.id} (weights {connection.weights_hash})."
        )
    elif recorded.model not in (None, connection.lm.model):
        notices.append(
            f"The program was compiled for LM {recorded.id} as {recorded.model}, this one is "
            f"{connection.lm.model}: another server, or other weights."
        )
    adapter = type(connection.adapter).__name__
    if adapter != recorded.adapter:
        notices.append(
            f"The program was compiled with adapter {recorded.adapter}, this connection uses {adapter}: its prompts "
            "are worded differently."
        )
    if connection.probability_mode != recorded.probability_mode and (knobs := _probability_knobs(artifact)):
        text = (
            f"{', '.join(knobs)} of {artifact.program} were set for P(yes) from {recorded.probability_mode}, this "
            f"connection computes it from {connection.probability_mode}"
        )
        if not given.accept_probability_mode:
            raise UserError(
                f"{text}: they do not hold here. Use an LM that gives {recorded.probability_mode}, compile or tune the "
                "program for this one, or accept the other mode (accept_probability_mode)."
            )
        notices.append(f"{text}.")
    return notices


def _probability_knobs(artifact: Artifact) -> tuple[str, ...]:
    """Return the knobs of the artifact's own program that are compared with P(yes), or weigh a confidence."""
    if artifact.program not in WEIGHING:
        return PROBABILITY_KNOBS.get(artifact.program, ())
    weights = parse_weights(str(artifact.knobs.get("weights", "")))
    return (WEIGHING[artifact.program], "weights") if _STATED & weights.keys() else ()


def notify(notices: list[str]) -> None:
    """Show each notice once, as of the caller of `load`."""
    for notice in dict.fromkeys(notices):
        warnings.warn(notice, UserNotice, stacklevel=3)


def load(
    folder: Path | str,
    retrieve: Retriever | None = None,
    *,
    connection: Any = None,
    similarity: Similarity | None = None,
    accept_probability_mode: bool = False,
) -> dspy.Module:
    """Return a frozen program, which answers exactly as before it was frozen.

    The files need not be trusted: they decide the program, its knobs and the words of its prompts, and nothing else.
    Their hashes show damage, not who wrote them.

    Args:
        folder: The folder written by `freeze`.
        retrieve: Ranks passages; warns if its fingerprint differs from that of the frozen program.
        connection: The `programs.lms.connect.Connection` it will run on; warns if its LM or adapter differs.
        similarity: For an artifact that chooses demonstrations or texts by it; warns if its fingerprint differs.
        accept_probability_mode: Warn instead of refusing if the connection computes P(yes) in another way than the one
            that the program's thresholds were set for.

    Raises:
        UserError: The artifact is missing or damaged, contains anything that `freeze` does not write (predictor,
            demonstration and field are named), a signature has changed since (the field is named), thresholds do not
            hold for this connection's P(yes), or there is no similarity, but one is needed.
    """
    given = Bindings(retrieve, connection, similarity, accept_probability_mode)
    notices: list[str] = []
    program, _ = _load(complete_artifact(Path(folder)), given, notices)
    notify(notices)
    return program


def load_module(folder: Path | str, module: Module) -> Module:
    """Return a copy of a module with the instructions and demonstrations of an artifact of it.

    Args:
        folder: The folder written by `freeze_module`. It need not be trusted: nothing in it is executed.
        module: Constructed like the one that was compiled; it is not changed.

    Raises:
        UserError: The folder holds no artifact of a module, it is damaged, or this module has other predictors or
            fields.
    """
    complete = complete_artifact(Path(folder))
    artifact = read_artifact(complete)
    if artifact.kind != states.MODULE:
        raise UserError(f"{folder} holds the program {artifact.program}, not a module of your own: use verihop.load.")
    states.check_signatures(artifact.program, artifact.signatures, module)
    copy = module.deepcopy()
    states.apply_state(copy, read_state(complete / "program.json", artifact))
    return copy


def verify(folder: Path | str) -> Artifact:
    """Do all checks of `load` that need neither LM nor retriever, and return the artifact's record.

    Raises:
        UserError: `load` would refuse the artifact.
    """
    load_unbound(folder)
    return read_artifact(folder)


def load_unbound(folder: Path | str) -> dspy.Module:
    """Return a frozen program to look at: without LM, retriever and similarity it cannot answer.

    Raises:
        UserError: `load` would refuse the artifact.
    """
    return _load(complete_artifact(Path(folder)), Bindings(similarity=_NoSimilarity()), [])[0]


def needs_similarity(folder: Path | str) -> bool:
    """Return whether an artifact chooses demonstrations or texts by a similarity, which `load` must then be given.

    Raises:
        UserError: An `artifact.json` is missing or damaged.
    """
    return _needs_similarity(complete_artifact(Path(folder)), 1)


def _needs_similarity(folder: Path, depth: int) -> bool:
    artifact, _ = read_with_digest(folder)
    if artifact.compares or depth >= DEEPEST:
        return artifact.compares
    return any(_needs_similarity(folder / CHILDREN / name, depth + 1) for name in artifact.children)


class _NoSimilarity:
    """Stands for a similarity where nothing is asked."""

    fingerprint = "none"

    def __call__(self, left: Any, right: Any) -> Any:
        raise NotImplementedError


def _load(folder: Path, given: Bindings, notices: list[str], depth: int = 1) -> tuple[dspy.Module, str]:
    """Return the program of one folder and the digest of its record; append to `notices` what differs."""
    artifact, digest = read_with_digest(folder)
    if artifact.kind == states.MODULE:
        raise UserError(
            f"{folder} holds the state of {artifact.program}, a module of its author's: make one, and load it with "
            "verihop.load_module(folder, module)."
        )
    notices += check_bindings(artifact, given)
    if artifact.kind == states.SINGLE:
        return _load_single(folder, artifact, given), digest
    return _load_combined(folder, artifact, given, notices, depth), digest


def _load_single(folder: Path, artifact: Artifact, given: Bindings) -> dspy.Module:
    if artifact.children or artifact.pool_sha256 is not None:
        raise damaged(folder / "artifact.json", "a single program has neither children nor a pool")
    cls = known_program(artifact.program)
    knobs: dict[str, Any] = {**EARLIER_KNOBS.get(artifact.program, {}), **artifact.knobs}
    check_knobs(cls, knobs)  # before `build_class`, which has arguments that are no knobs
    path = folder / "program.json"
    state = read_state(path, artifact)
    similarity = given.similarity if artifact.compares else None
    program = build_class(cls, given.retrieve, similarity=similarity, **knobs)
    states.check_signatures(artifact.program, artifact.signatures, program)
    try:
        states.apply_state(program, state)
    except UserError as error:
        raise UserError(f"{path} is not the state of program {artifact.program}: {error}. Compile it again.") from None
    return program


def _load_combined(folder: Path, artifact: Artifact, given: Bindings, notices: list[str], depth: int) -> dspy.Module:
    record, kind = folder / "artifact.json", states.KINDS[artifact.kind]
    names = states.child_names(artifact.kind, len(artifact.children))
    if tuple(artifact.children) != names:
        had = ", ".join(artifact.children) or "none"
        raise damaged(record, f"its children are {had}, of kind {artifact.kind} they are {', '.join(names) or '1, 2'}")
    if artifact.program != artifact.kind or artifact.state_sha256 is not None or artifact.signatures:
        raise damaged(record, f"an artifact of kind {artifact.kind} has no program of its own")
    if depth >= DEEPEST:
        raise damaged(record, f"artifacts within artifacts, more than {DEEPEST} levels deep")
    check_knobs(kind.cls, dict(artifact.knobs))
    children = {}
    for name, digest in artifact.children.items():
        inside = folder / CHILDREN / name
        children[name], found = _load(inside, given, notices, depth + 1)
        if found != digest:
            raise UserError(f"{inside} is not the artifact that {record} was frozen with (its digest differs).")
    pool = _read_pool(folder, artifact, next(iter(children.values()))) if artifact.pool_sha256 is not None else None
    try:
        return kind.put_together(states.Parts(children, pool, given.similarity), artifact.knobs)
    except UserError as error:
        raise damaged(record, error) from None


def _read_pool(folder: Path, artifact: Artifact, program: dspy.Module) -> list[PoolQuestion]:
    path = folder / "pool.json"
    rows = _read_hashed(path, artifact.pool_sha256)
    try:
        return states.check_pool(rows, program)
    except UserError as error:
        raise damaged(path, error) from None


def read_state(path: Path, artifact: Artifact) -> Any:
    """Return the contents of `program.json`, not yet checked.

    Raises:
        UserError: The file is missing, no JSON, or not the one that was frozen with the record.
    """
    return _read_hashed(path, artifact.state_sha256)


def _read_hashed(path: Path, sha256: str | None) -> Any:
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
        raise damaged(path, error) from None
