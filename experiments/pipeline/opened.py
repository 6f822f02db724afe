"""A program opened with all it needs, which remembers where it came from: what `verihop.load` returns."""

import copy
import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from experiments.pipeline import setup
from experiments.pipeline.setup import OnServer, connection_of, lm_config, refused, with_defaults
from experiments.runs.config import prompts_hash
from experiments.runs.specs import ProgramSpec
from programs.artifacts.loading import notify
from programs.artifacts.record import RETRIEVAL
from programs.inference import Answerer
from programs.lms.calls.transport import most_connections
from programs.lms.spec import LMSpec
from programs.parts.knobs import with_knobs
from signatures.common.errors import UserError
from signatures.common.files import expanded, sha256_file

if TYPE_CHECKING:
    import dspy

    from programs.artifact import Artifact
    from programs.lms.calls.budget import Budget
    from programs.lms.connect import Connection
    from signatures.types import Retriever


@dataclass(frozen=True)
class Origin:
    """The artifact that a program was loaded from, as it was then.

    Args:
        record: Its `artifact.json`.
        prompts: Hash of the instructions and demonstrations of the loaded program.
    """

    record: "Artifact"
    sha256: str
    prompts: str


class OpenedProgram(Answerer):
    """An answerer whose artifacts can say which index they belong to.

    Args:
        config: What it was opened from, with defaults in place of what was not named; paths are absolute.
        origin: The artifact it was loaded from; None without one.
        retrieve: What was opened for it, also if it retrieves nothing; by default the retriever of the program.
        named: `config` before its defaults; None if that is not known.
    """

    def __init__(
        self,
        program: "dspy.Module",
        connection: "Connection",
        config: ProgramSpec = ProgramSpec(),
        origin: Origin | None = None,
        retrieve: "Retriever | None" = None,
        named: ProgramSpec | None = None,
    ):
        super().__init__(program, connection)
        self.config, self.origin, self._named = config, origin, named
        self.retrieve: Retriever | None = getattr(program, "retrieve", None) if retrieve is None else retrieve

    def __repr__(self) -> str:
        from programs.artifact import program_name

        named = {"lm": self.connection.id, "index": self.config.index, "artifact": self.config.artifact}
        shown = [f"{name}={str(value)!r}" for name, value in named.items() if value is not None]
        return f"OpenedProgram({', '.join([program_name(self.program), *shown])})"

    def open(self, *, contexts: bool = False) -> "OpenedProgram":
        """Return it as it is: it is open; see `AnswererSpec.open`."""
        return self

    def reopened(self, *, index: bool = True, artifact: bool = True) -> "OpenedProgram":
        """Return it opened anew from where it was, with the same connection.

        Args:
            index: Open the index as it is now; else keep what is open, unless the artifact says to search otherwise.
            artifact: Load the artifact as it is now; else keep the program.

        Raises:
            UserError: Something cannot be opened.
        """
        config, retrieve = self.config, self.retrieve
        if artifact and self._named is not None and self.origin is not None:  # what the user did not name it says
            config = replace(config, **{name: getattr(self._named, name) for name in RETRIEVAL})
            config, _ = setup.with_artifact_defaults(config, LMSpec(id=self.connection.id))
        if index or any(getattr(config, name) != getattr(self.config, name) for name in RETRIEVAL):
            retrieve = setup.open_retriever(config, lambda: self.connection)
        if artifact or self.origin is None:
            program = setup.open_program(config, retrieve, self.connection)
            origin = _origin(config.artifact, program)
        else:
            program, origin = _searching(self.program, retrieve), self.origin
        return OpenedProgram(program, self.connection, config, origin, retrieve, self._named)

    @property
    def cache(self) -> bool:
        """Whether replies are cached, and cached ones used."""
        return bool(getattr(self.connection.lm, "cache", True))

    def with_knobs(self, knobs: Mapping[str, Any]) -> "OpenedProgram":
        """Return it with other values of some knobs."""
        changed = with_knobs(self.program, **knobs)
        return OpenedProgram(changed, self.connection, self.config, self.origin, self.retrieve)

    def provenance(self) -> dict[str, str | int]:
        """Return retriever, reranker and sentences, if named, so that who loads an artifact need not name them."""
        from corpora.index.info import OPENED_AS

        stated = {name: getattr(self.config, name) for name in RETRIEVAL}
        if stated["retriever"] not in OPENED_AS:  # the user's own, or the web, which nobody opens unasked
            del stated["retriever"]
        return {name: value for name, value in stated.items() if value is not None}

    def compiled_into(self, artifact: Path) -> "OpenedProgram":
        """Return what a compilation of this program has frozen, with its retriever and LM."""
        from programs.artifact import load, needs_similarity

        similarity = getattr(self.program, "similarity", None) or (
            setup.open_similarity() if needs_similarity(artifact) else None
        )
        compiled = load(artifact, self.retrieve, connection=self.connection, similarity=similarity)
        config = replace(self.config, program=None, preset=None, artifact=artifact.absolute())
        return OpenedProgram(compiled, self.connection, config, _origin(artifact, compiled), self.retrieve)


def _searching(program: "dspy.Module", retrieve: "Retriever | None") -> "dspy.Module":
    """Return a copy of a program, and of those it contains, with another retriever."""
    own = (vars(module).get("retrieve") for _, module in program.named_sub_modules())
    return copy.deepcopy(program, {id(each): retrieve for each in own if each is not None})


def _origin(folder: Path | None, program: "dspy.Module") -> Origin | None:
    from programs.artifact import read_artifact

    if folder is None:
        return None
    return Origin(read_artifact(folder), sha256_file(folder / "artifact.json"), prompts_hash(program))


@dataclass(frozen=True)
class AnswererSpec:
    """Which program answers, on which LM.

    Args:
        program: The program, and what it retrieves from.
        lm: The LM, and how it is called.
        budget: Of the LM; None has no limits.
        retrieve: A retriever that is open, in place of that of `program`.
        connection: An LM that is connected, in place of `lm`, which then only decides defaults.
        named: `program` before its defaults; None if it has none.
    """

    program: ProgramSpec
    lm: LMSpec
    budget: "Budget | None" = None
    retrieve: "Retriever | None" = None
    connection: "Connection | None" = None
    named: ProgramSpec | None = None

    @property
    def cache(self) -> bool:
        """Whether replies are cached, and cached ones used."""
        return self.lm.cache if self.connection is None else bool(getattr(self.connection.lm, "cache", True))

    def with_knobs(self, knobs: Mapping[str, Any]) -> "AnswererSpec":
        """Return it with other values of some knobs."""
        return replace(self, program=replace(self.program, knobs={**self.program.knobs, **knobs}))

    def with_defaults(self) -> "tuple[AnswererSpec, str | None]":
        """Return it with defaults in place of what is not named, and what the user should know of the choice."""
        program, lm, note = with_defaults(self.program, self.lm, retriever_is_open=self.retrieve is not None)
        return replace(self, program=program, lm=lm, named=self.named or self.program), note

    def open(self, *, contexts: bool = False) -> OpenedProgram:
        """Return the program, ready to be asked.

        Args:
            contexts: Its questions have fixed contexts, so that it needs no retriever.

        Raises:
            UserError: Something cannot be opened, or a program that retrieves has no index.
        """
        from corpora.retrievers.own import OwnRetriever

        config, retrieve = self.program, self.retrieve
        connect = functools.cache(lambda: self.connection or setup.open_lm(self.lm, self.budget))
        if retrieve is None:
            retrieve = setup.open_retriever(config, connect)
        else:  # if it knows where it was opened, artifacts can say so
            config = replace(
                config,
                index=getattr(retrieve, "folder", None),
                retriever=setup.retriever_of(retrieve),
                rerank=None if isinstance(retrieve, OwnRetriever) else getattr(retrieve, "name", None),
                sentences=_whole(getattr(retrieve, "sentences", None)),
            )
        connection = connect()
        program = setup.open_program(config, retrieve, connection, contexts=contexts)
        return OpenedProgram(program, connection, config, _origin(config.artifact, program), retrieve, self.named)


def _whole(value: Any) -> int | None:
    """Return a whole number; a user's retriever may call anything else so."""
    return value if type(value) is int else None


def load(program: ProgramSpec, *, index: Any = None, lm: Any = None) -> OpenedProgram:
    """Return a program that is ready to be asked; its paths are absolute, so that the process may change its folder.

    Args:
        program: Its index is that of `index`.
        index: An index folder, or an opened retriever.
        lm: An LM that is connected, or its id.

    Raises:
        UserError: See `verihop.load`; or an argument is of a wrong kind.
    """
    folder = expanded(index).absolute() if isinstance(index, Path | str) else None
    retrieve = None if folder is not None or index is None else _given(index, program)
    connection = None if isinstance(lm, str) else connection_of("lm", lm)
    if connection is not None:  # what decides the defaults of a program on this LM
        named = LMSpec(id=connection.id, api_base=getattr(connection.lm, "address", None))
    else:
        named = LMSpec(connections=most_connections()) if lm is None else lm_config(lm)
    artifact = None if program.artifact is None else program.artifact.absolute()
    program = replace(program, artifact=artifact, index=folder)
    spec = AnswererSpec(program, named, retrieve=retrieve, connection=connection)
    try:
        spec, chosen = spec.with_defaults()
    except OnServer as error:
        cure = f'name it as lm=verihop.connect({error.lm!r}, api_base="http://HOST:PORT/v1"), or another LM'
        artifact = spec.program.artifact
        raise UserError(f"{artifact} was compiled with LM {error.lm!r} on a server: {cure}.") from None
    if chosen:
        notify([chosen])
    return spec.open()


def _given(index: Any, program: ProgramSpec) -> "Retriever":
    from corpora.retrievers.own import given_retriever

    retrieve = given_retriever(index)
    if retrieve is None:
        accepted = "the folder of an index, a retriever (verihop.open_index, or one of LangChain or LlamaIndex)"
        raise refused("index", index, f"{accepted}, or a function (query, k)")
    named = {"retriever": program.retriever, "reranker": program.rerank}
    for what, value in named.items():
        if value is not None:
            raise UserError(f"A retriever is used as it is: name the {what} {value} where you open its index.")
    if program.sentences is not None:
        raise UserError(f"A retriever is used as it is: name sentences={program.sentences} where you open its index.")
    return retrieve


@overload
def with_origin(program: AnswererSpec) -> AnswererSpec: ...


@overload
def with_origin(program: Answerer) -> OpenedProgram: ...


def with_origin(program: Answerer | AnswererSpec) -> OpenedProgram | AnswererSpec:
    """Return what knows where it comes from: an answerer of one's own says that it was opened from nothing.

    Raises:
        UserError: It is neither an answerer nor the specification of one.
    """
    if isinstance(program, OpenedProgram | AnswererSpec):
        return program
    if isinstance(program, Answerer):
        return OpenedProgram(program.program, program.connection)
    raise refused("program", program, "what verihop.load returns, or an Answerer(program, connection)")
