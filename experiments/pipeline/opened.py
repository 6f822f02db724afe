"""A program opened with all it needs, which remembers where it came from: what `verihop.load` returns."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.pipeline import setup
from experiments.pipeline.corpus_notes import run_notes
from experiments.pipeline.setup import (
    OnServer,
    ProgramConfig,
    connection_of,
    judge_of,
    lm_config,
    metrics_of,
    path_of,
    refused,
    shard_of,
    with_defaults,
)
from experiments.runs.config import LMConfig, RunConfig, prompts_hash
from programs.artifacts.loading import notify
from programs.inference import Answerer
from signatures.common.errors import UserError
from signatures.common.files import expanded, sha256_file

if TYPE_CHECKING:
    import dspy

    from corpora.questions import Question
    from programs.artifact import Artifact
    from programs.lms.connect import Connection
    from signatures.types import Retriever


@dataclass(frozen=True)
class Origin:
    """The artifact that a program was loaded from, as it was then.

    Args:
        record: Its `artifact.json`.
        sha256: Of that file.
        prompts: Hash of the instructions and demonstrations of the loaded program.
    """

    record: "Artifact"
    sha256: str
    prompts: str


class OpenedProgram(Answerer):
    """An answerer whose artifacts can say which index they belong to.

    Args:
        program: The program.
        connection: The LM.
        config: What it was opened from, with defaults in place of what was not named; paths are absolute.
        origin: The artifact it was loaded from; None without one.
    """

    def __init__(
        self,
        program: "dspy.Module",
        connection: "Connection",
        config: ProgramConfig = ProgramConfig(),
        origin: Origin | None = None,
    ):
        super().__init__(program, connection)
        self.config, self.origin = config, origin

    def __repr__(self) -> str:
        from programs.artifact import program_name

        named = {"lm": self.connection.id, "index": self.config.index, "artifact": self.config.artifact}
        shown = [f"{name}={str(value)!r}" for name, value in named.items() if value is not None]
        return f"OpenedProgram({', '.join([program_name(self.program), *shown])})"

    @property
    def retrieve(self) -> "Retriever | None":
        """The retriever; None for a program that has none."""
        found: Retriever | None = getattr(self.program, "retrieve", None)
        return found

    def provenance(self) -> dict[str, str]:
        """Return the reranker by name, so that who loads an artifact need not name it; nothing without one."""
        return {} if self.config.rerank is None else {"rerank": self.config.rerank}

    def compiled_into(self, artifact: Path) -> "OpenedProgram":
        """Return what a compilation of this program has frozen, with its retriever and LM."""
        from programs.artifact import load, needs_similarity

        similarity = getattr(self.program, "similarity", None) or (
            setup.open_similarity() if needs_similarity(artifact) else None
        )
        compiled = load(artifact, self.retrieve, connection=self.connection, similarity=similarity)
        config = replace(self.config, program=None, preset=None, artifact=artifact.absolute())
        return OpenedProgram(compiled, self.connection, config, _origin(artifact, compiled))


def _origin(folder: Path | None, program: "dspy.Module") -> Origin | None:
    from programs.artifact import read_artifact

    if folder is None:
        return None
    return Origin(read_artifact(folder), sha256_file(folder / "artifact.json"), prompts_hash(program))


def open_answerer(
    config: ProgramConfig, *, index: "Retriever | Path | str | None" = None, lm: "Connection | str | None" = None
) -> OpenedProgram:
    """Return a program with its retriever and LM, where nothing is named with the defaults of the command line.

    Its paths are absolute, so that it does not matter in which folder the process is later.

    Args:
        config: Which program; its index is that of `index`.
        index: An index folder, or an opened retriever.
        lm: An LM that is connected, or its id.

    Raises:
        UserError: Something cannot be opened, an argument is of a wrong kind, or a program that retrieves has no index.
    """
    retrieve = None if isinstance(index, Path | str) else index
    if retrieve is not None and not (callable(retrieve) and hasattr(retrieve, "many")):
        raise refused("index", index, "the folder of an index, or a retriever (verihop.open_index)")
    if retrieve is not None and config.rerank is not None:
        raise UserError(f"A retriever is used as it is: name the reranker {config.rerank} where you open its index.")
    connected = None if isinstance(lm, str) else connection_of("lm", lm)
    named = lm_config(lm) if isinstance(lm, str) else LMConfig() if connected is None else _config_of(connected)
    config = replace(
        config,
        artifact=None if config.artifact is None else config.artifact.absolute(),
        index=expanded(index).absolute() if isinstance(index, Path | str) else None,
    )
    try:
        config, named, note = with_defaults(config, named, retriever_is_open=retrieve is not None)
    except OnServer as error:
        cure = f'name it as lm=verihop.connect({error.lm!r}, api_base="http://HOST:PORT/v1"), or another LM'
        raise UserError(f"{config.artifact} was compiled with LM {error.lm!r} on a server: {cure}.") from None
    if note:
        notify([note])
    if retrieve is None:
        retrieve = setup.open_retriever(config)
    else:  # if it knows where it was opened, artifacts can say so
        reranker = getattr(retrieve, "name", None)
        config = replace(config, index=getattr(retrieve, "folder", None), rerank=reranker)
    connection = connected or setup.open_lm(lm_config(named.id or "embedded"))
    program = setup.open_program(config, retrieve, connection)
    return OpenedProgram(program, connection, config, _origin(config.artifact, program))


def _config_of(connection: "Connection") -> LMConfig:
    """Return what decides the defaults of a program on this LM."""
    return LMConfig(connection.id, getattr(connection.lm, "address", None))


def with_origin(program: Answerer) -> OpenedProgram:
    """Return the answerer itself if it knows what it was opened from, else one that says it was nothing.

    Raises:
        UserError: It is no answerer.
    """
    if isinstance(program, OpenedProgram):
        return program
    if isinstance(program, Answerer):
        return OpenedProgram(program.program, program.connection)
    raise refused("program", program, "what verihop.load returns, or an Answerer(program, connection)")


def run_config(
    opened: OpenedProgram, questions: "list[Question]", given: Any, metrics: Any, oracle: str | None, **settings: Any
) -> RunConfig:
    """Return the configuration of a run, with its notes.

    Args:
        opened: The program.
        questions: To be asked.
        given: What they were read from.
        metrics: By name, or as they are.
        oracle: Entailment oracle of the metrics that need one.
        **settings: Further fields of `RunConfig`; judge and shard also as texts.

    Raises:
        UserError: A name is unknown, or an argument is of a wrong kind.
        TypeError: A setting is unknown.
    """
    scored = metrics_of(metrics, oracle)
    notes = settings.pop("notes", ())
    config = RunConfig(
        metrics=scored,
        judge=judge_of(settings.pop("judge", None), opened.connection, scored),
        shard=shard_of(settings.pop("shard", None)),
        artifact=opened.config.artifact,
        artifact_sha256=None if opened.origin is None else opened.origin.sha256,
        questions_path=path_of(given),
        **settings,
    )
    found = run_notes(opened.program, opened.retrieve, questions, config, lm_id=opened.connection.id)
    return replace(config, notes=[*([notes] if isinstance(notes, str) else notes), *found])
