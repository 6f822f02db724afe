"""What a run uses where its configuration names nothing: what an artifact stores, or what suits a small LM."""

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from experiments.pipeline.setup import PAPER, ProgramConfig, check_program
from experiments.runs.config import LMConfig
from signatures.common.errors import UserError
from signatures.common.own_code import is_own

if TYPE_CHECKING:
    from programs.artifact import Artifact

SMALL = "small"  # preset of the programs that read passages
# One LM call a question. `iter_retgen` takes twice as many, and is level or better: on 100 questions each, F1 39.1
# against 37.2 on HotpotQA, and 62.6 against 56.0 on 2WikiMultihopQA, +6.7 [0.2, 13.3]
# (`experiments/results/leaderboard.json`).
SMALL_PROGRAM = "rag"
SMALL_RERANK = "own"
_IN_PROCESS = ("embedded", "simulated", "gguf")  # what ids of LMs in this process begin with, before a colon
_SERVER_PREFIX = "server-"  # of the model strings of LMs on a server (`programs.lms.servers.server.prefix_of`)


class OnServer(UserError):
    """The LM of an artifact is on a server, whose URL artifacts do not store.

    Args:
        artifact: Its folder.
        lm: The id of the LM.
    """

    def __init__(self, artifact: Path, lm: str):
        super().__init__(f"{artifact} was compiled with LM {lm!r} on a server: name its URL (api_base), or another LM.")
        self.lm = lm


class Chosen(NamedTuple):
    """Both configurations, and what the user should know of the choice.

    Args:
        program: The program.
        lm: The LM.
        note: None if nothing was chosen that the user might not expect.
    """

    program: ProgramConfig
    lm: LMConfig
    note: str | None = None


def with_defaults(program: ProgramConfig, lm: LMConfig, *, retriever_is_open: bool = False) -> Chosen:
    """Return both configurations with defaults in place of None.

    An artifact gives its index, reranker and LM. An uncompiled program on the embedded LM, which reads few passages
    well, gets the preset `small` where it has one and our own reranker; without a program, it is `rag`.

    Args:
        program: The program.
        lm: The LM.
        retriever_is_open: There is a retriever already, so that none is chosen.

    Raises:
        UserError: No program is named; it, its preset or a knob is unknown; or a knob's value is not allowed. See
            `with_artifact_defaults`, too.
    """
    if program.artifact is not None:
        return Chosen(*with_artifact_defaults(program, lm, retriever_is_open=retriever_is_open))
    chosen = Chosen(program, lm) if not _is_embedded(lm) else _with_small_defaults(program, lm)
    check_program(chosen.program)
    return chosen


def _is_embedded(lm: LMConfig) -> bool:
    return lm.api_base is None and (lm.id is None or lm.id.partition(":")[0] == "embedded")


def _with_small_defaults(program: ProgramConfig, lm: LMConfig) -> Chosen:
    """Return the configurations for the embedded LM; named values stay."""
    from programs.catalog import chosen_knobs, presets_of, typed_program

    named = program.program or SMALL_PROGRAM
    chosen = replace(program, program=named)
    if program.preset is None and SMALL in presets_of(typed_program(named)):
        chosen = replace(chosen, preset=SMALL)
        if program.rerank is None and program.index is not None and not _own_search(program):
            chosen = replace(chosen, rerank=SMALL_RERANK)
    if chosen == program:
        return Chosen(program, lm)
    _, knobs = chosen_knobs(named, chosen.preset or PAPER, program.knobs)
    shown = [f"{name}={value}" for name, value in knobs.items()]
    shown += [f"reranker {chosen.rerank}"] if chosen.rerank != program.rerank else []
    return Chosen(chosen, lm, f"{named} with preset {chosen.preset or PAPER}: {', '.join(shown) or 'no knobs'}")


def _own_search(program: ProgramConfig) -> bool:
    """Return whether a retriever of the user's own is named, which has no reranker of ours."""
    return program.retriever is not None and is_own(program.retriever)


def with_artifact_defaults(
    program: ProgramConfig, lm: LMConfig, *, retriever_is_open: bool = False
) -> tuple[ProgramConfig, LMConfig]:
    """Return both configurations with the artifact's index, reranker and LM in place of None; without one, unchanged.

    Args:
        program: The program.
        lm: The LM.
        retriever_is_open: There is a retriever already: index and reranker of the artifact do not matter.

    Raises:
        UserError: There is no such artifact; its LM is on a server, whose URL artifacts do not store, or runs in this
            process although a URL is named; or the index it names is not the one it was compiled on.
    """
    if program.artifact is None:
        return program, lm
    from programs.artifact import read_artifact

    folder = program.artifact
    artifact = read_artifact(folder)
    lm = _with_recorded_lm(folder, artifact, lm)
    if retriever_is_open:
        return program, lm
    if program.index is None and (stored := artifact.data.get("index")):
        program = replace(program, index=_index_of(folder, stored, artifact.corpus))
    # A stranger's artifact could name any model, so that only our own rerankers are opened unasked.
    if (
        program.rerank is None
        and not _own_search(program)
        and (stored := artifact.data.get("rerank")) in ("own", "own-light")
    ):
        program = replace(program, rerank=stored)
    return program, lm


def _with_recorded_lm(folder: Path, artifact: "Artifact", lm: LMConfig) -> LMConfig:
    """Return the configuration with the LM of the artifact, unless another is named."""
    if lm.id is not None or not artifact.lm:
        return lm
    on_server = (artifact.lm.model or "").startswith(_SERVER_PREFIX)
    if lm.api_base is not None and not on_server and artifact.lm.id.partition(":")[0] in _IN_PROCESS:
        compiled = f"{folder} was compiled with LM {artifact.lm.id!r}, which runs in this process"
        raise UserError(f"{compiled}: name the model on the server (lm), or omit the address (api_base).")
    if lm.api_base is None and on_server:
        raise OnServer(folder, artifact.lm.id)
    return replace(lm, id=artifact.lm.id)


def _index_of(artifact: Path, stored: object, corpus: str | None) -> Path | None:
    """Return the index folder that an artifact names, relative to its own; None if there is no index.

    A stranger's artifact could name any folder, so only the index that it was compiled on is opened unasked.
    """
    from corpora.index.open import fingerprints
    from corpora.retrievers.rerank import without_reranking

    named = isinstance(stored, str) and "\0" not in stored
    index = Path(os.path.normpath(artifact.resolve() / str(stored))) if named else None
    try:
        if index is not None and not (index / "index.json").is_file():
            return None
    except OSError:  # a name that is too long
        index = None
    if index is None:
        raise UserError(f"{artifact} names no folder as its index: name the folder of an index (index).")
    if corpus is None or without_reranking(corpus) not in fingerprints(index):
        raise UserError(
            f"{artifact} names the index {index}, which is not the one it was compiled on: name the index yourself, "
            "if that is intended (index)."
        )
    return index
