"""What a program is bound to when it is loaded, retriever, LM and similarity, compared with what was recorded."""

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from programs.artifacts.record import Artifact, LMRecord, read_artifact
from signatures.common.errors import UserError, UserNotice
from signatures.types import Retriever, Similarity

if TYPE_CHECKING:
    from programs.lms.connect import Connection

# Program -> its knobs that are compared with P(yes), or with the probabilities of tokens, which come from the same
# log-probabilities; they hold for one way of computing it only. A cascade's threshold depends on P(yes) where its cheap
# program computes it, which is then refused itself. A program that only compares one P(yes) with another, or with the
# 0.5 that means yes in every way of computing it, has none.
PROBABILITY_KNOBS: dict[str, tuple[str, ...]] = {
    "retro_rag": ("threshold", "relevance_gate", "attribution_gate"),
    "self_rag": ("threshold",),
    "flare": ("confidence", "mask_below"),
    "searchain": ("threshold",),
    "meta_rag": (),
    "corag": (),
}


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
    """Return the knobs of the artifact's own program that are compared with P(yes)."""
    return PROBABILITY_KNOBS.get(artifact.program, ())


def notify(notices: list[str]) -> None:
    """Show each notice once, as of the caller of `load`."""
    for notice in dict.fromkeys(notices):
        warnings.warn(notice, UserNotice, stacklevel=3)
