"""Open what a run needs from its configuration: LM, retriever, metrics, questions, fixed contexts, program."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.runs.config import Connected, LMConfig
from signatures.common.errors import UserError
from signatures.common.own_code import is_own
from signatures.common.secrets import without_secrets

if TYPE_CHECKING:
    import dspy

    from corpora.questions import Question
    from experiments.runs.fixed_contexts import Chosen
    from optimizers.metrics.metric import Metric
    from programs.lms.calls.budget import Budget
    from programs.lms.connect import Connection
    from signatures.types import Retriever, Similarity

HALLUCINATION = "hallucination[halluqa]"
PAPER = "paper"  # preset


@dataclass(frozen=True)
class ProgramConfig:
    """Which program to open, and what it retrieves from.

    Args:
        program: Name in the catalog, or `module:Class` of an own program, which is imported, so that it must come from
            the user. None for a compiled program, unless that is an own one.
        artifact: Folder of a compiled program; None for an uncompiled one.
        preset: Named knobs of an uncompiled program; None means "paper", unless `with_defaults` chose another.
        knobs: Override those of the preset or of the artifact.
        index: Index folder; None if the program retrieves nothing.
        retriever: Another retriever of the index than it was built for, or `module:name` of an own one, which is
            imported, so that it must come from the user (`corpora.retrievers.own`).
        rerank: "own", "own-light", "none", or a cross-encoder by folder or name; None means the one of our own that the
            artifact was compiled with, or "none".
        precision: How the embedder of the index computes: "f32", "bf16" or "int8"; None means "f32".
        accept_probability_mode: Use a compiled program although its thresholds were set for another way of computing
            P(yes) than that of the LM.
    """

    program: str | None = None
    artifact: Path | None = None
    preset: str | None = None
    knobs: Mapping[str, Any] = field(default_factory=dict)
    index: Path | None = None
    retriever: str | None = None
    rerank: str | None = None
    precision: str | None = None
    accept_probability_mode: bool = False


def open_lm(config: LMConfig, budget: "Budget | None" = None) -> "Connection":
    """Return the connection to an LM; the embedded one if no id is set.

    Raises:
        UserError: The id is unknown, or missing beside the URL of a server; weights are missing, or the server's key
            variable is not set.
    """
    from experiments.world.connect import connect_any

    if config.id is None and config.api_base is not None:
        server = without_secrets(config.api_base)
        raise UserError(f"No model is named for the server {server}: name it (lm), or omit the address (api_base).")
    return connect_any("embedded" if config.id is None else config.id, **config.settings(), budget=budget)


def refuse_simulated(connection: Connected, task: str) -> None:
    """Raise UserError if the LM is the simulated one, which has no skill for a task and would reply nonsense.

    Args:
        connection: The LM.
        task: What it would have to do.
    """
    from experiments.world.simulated import SimulatedEngine

    if isinstance(getattr(connection.lm, "engine", None), SimulatedEngine):
        raise UserError(f"The simulated LM cannot {task}: name another LM, e.g. embedded.")


def open_judge(config: LMConfig, task_lm: "Connection", metrics: "Sequence[Metric]" = ()) -> "Connection | None":
    """Return the connection to the judge LM, None if no id is set; it shares the budget of `task_lm`.

    Args:
        config: The judge.
        task_lm: The LM of the program.
        metrics: What it will decide, if known.

    Raises:
        UserError: See `open_lm`; a URL is set, but no id; or the simulated LM would have to judge hallucinations.
    """
    if config.id is None:
        if config.api_base or config.api_key_env:
            raise UserError("The judge's URL and key need a model: name the judge LM (judge_lm).")
        return None
    judge = open_lm(config, task_lm.lm.budget)
    if any(metric.name == HALLUCINATION for metric in metrics):
        refuse_simulated(judge, f"decide {HALLUCINATION}")
    return judge


def open_metrics(names: str, oracle_id: str | None = None, *, cache: bool = True) -> "tuple[list[Metric], str | None]":
    """Return the metrics, and a description of the entailment oracle if any of them needs one.

    Args:
        names: Names of the catalog, of `ORACLE_METRICS`, or own ones (`module:name`), separated by commas. They must
            come from the user: own metrics are imported.
        oracle_id: Id of the oracle; the offline default if None.
        cache: Whether the oracle's judgements are cached, and cached ones used.

    Raises:
        UserError: A name or the oracle is unknown, an own metric cannot be imported, or an oracle is named that no
            metric needs.
    """
    from optimizers.metrics.catalog import ORACLE_METRICS
    from optimizers.metrics.typed.opened import by_oracle, open_typed, typed_names

    metric_names = typed_names(names)
    decided = by_oracle(metric_names)
    if not decided:
        if oracle_id is not None:
            raise UserError(
                f"An oracle decides only {', '.join(ORACLE_METRICS)}: add one of these metrics, or name no oracle."
            )
        return open_typed(metric_names), None
    from optimizers.metrics.entailment.catalog import DEFAULT, open_oracle
    from optimizers.metrics.entailment.oracle import describe

    oracle = open_oracle(oracle_id or DEFAULT, cache=cache)
    return open_typed(metric_names, oracle), f"{', '.join(decided)} by {describe(oracle)}"


def open_retriever(config: ProgramConfig) -> "Retriever | None":
    """Return the retriever of the program's index folder, or the user's own; None if it has none.

    Raises:
        UserError: A retriever or reranker is named, but no index; the index or reranker cannot be opened; or an own
            retriever cannot be imported.
    """
    if config.retriever is not None and is_own(config.retriever):
        return _own_retriever(config, config.retriever)
    if config.index is None:
        if config.retriever is not None:
            raise UserError(f"The retriever {config.retriever} needs an index: name its folder (index), too.")
        if config.rerank not in (None, "none"):
            raise UserError(f"The reranker {config.rerank} needs an index: name its folder (index), too.")
        if config.precision is not None:
            raise UserError(f"The precision {config.precision} needs an index: name its folder (index), too.")
        return None
    from corpora.index.open import open_index
    from corpora.retrievers.rerank import NONE, open_reranker

    retrieve = open_index(config.index, retriever=config.retriever, precision=config.precision or "f32")
    return open_reranker(retrieve, config.rerank or NONE)


def _own_retriever(config: ProgramConfig, name: str) -> "Retriever":
    from corpora.retrievers.own import own_retriever

    for option, value in (("reranker", config.rerank), ("precision", config.precision)):
        if value not in (None, "none"):
            raise UserError(f"An own retriever has no {option} of ours: omit {value}.")
    return own_retriever(name, config.index)


def open_questions(path: Path, *, split: str | None = None, limit: int | None = None) -> "list[Question]":
    """Return the questions of a file: those of one split, at most `limit`.

    Raises:
        UserError: The file is missing or broken, or no question is selected.
    """
    from corpora.questions import read_questions, select

    questions = select(read_questions(path), split=split, limit=limit)
    if not questions:
        raise UserError(f"{path} contains no questions{f' of split {split!r}' if split else ''}.")
    return questions


def open_contexts(questions: "list[Question]", knowledge: str, passages: Path, *, n: int, seed: int) -> "Chosen":
    """Return the questions that can have a fixed context of `n` passages from the corpus, and the contexts.

    Raises:
        UserError: The corpus is broken, the kind of knowledge is unknown, or no question can have such a context.
    """
    from corpora.passages import read_passages
    from experiments.runs.fixed_contexts import choose_contexts

    return choose_contexts(questions, list(read_passages(passages)), knowledge=knowledge, n=n, seed=seed)


def check_program(config: ProgramConfig) -> None:
    """Raise UserError if an uncompiled program cannot be opened, whatever its LM and its retriever are.

    An LM is asked when it is opened: mistakes are to be told before.
    """
    from programs.catalog import chosen_knobs
    from programs.parts.knobs import check_knobs

    _check_named(config)
    if config.program is not None and config.artifact is None:
        check_knobs(*chosen_knobs(config.program, config.preset or PAPER, config.knobs))


def open_program(
    config: ProgramConfig, retrieve: "Retriever | None", connection: "Connection", *, contexts: bool = False
) -> "dspy.Module":
    """Return a program of the catalog, or a compiled one.

    Args:
        config: Which program, and its knobs.
        retrieve: Its retriever, as `open_retriever` returns it.
        connection: The LM it will run on; a compiled program warns if it was compiled for another one.
        contexts: Its questions have fixed contexts, so that it needs no retriever.

    Raises:
        UserError: Neither or both of program and artifact are named (both may be if the artifact holds that own
            program), a name or value is not allowed, a compiled program is given a preset, its thresholds do not hold
            for the LM, or a program that retrieves has no index.
    """
    _check_named(config)
    opened = _built if config.artifact is None else _loaded
    program = opened(config, retrieve, connection)
    if not contexts:
        require_retriever(program, retrieve)
    return program


def _check_named(config: ProgramConfig) -> None:
    from programs.catalog import PROGRAMS

    both = config.program is not None and config.artifact is not None
    if (config.program is None and config.artifact is None) or (both and not is_own(config.program or "")):
        raise UserError(f"Name either a program or an artifact, not both or neither. Programs: {', '.join(PROGRAMS)}.")
    if config.artifact is not None and config.preset not in (None, PAPER):
        raise UserError(
            f"A compiled program has the knobs it was compiled with: omit the preset {config.preset!r}, or set "
            "single knobs."
        )


def _built(config: ProgramConfig, retrieve: "Retriever | None", connection: "Connection") -> "dspy.Module":
    from programs.catalog import build, typed_program
    from programs.parts.knobs import takes_similarity

    assert config.program is not None
    similarity = open_similarity() if takes_similarity(typed_program(config.program)) else None
    return build(config.program, retrieve, preset=config.preset or PAPER, similarity=similarity, **config.knobs)


def _loaded(config: ProgramConfig, retrieve: "Retriever | None", connection: "Connection") -> "dspy.Module":
    from programs.artifact import load, needs_similarity, strategies_of
    from programs.catalog import typed_program
    from programs.parts.knobs import with_knobs

    assert config.artifact is not None
    own = None if config.program is None else typed_program(config.program)  # imported, so that `load` finds it
    program = load(
        config.artifact,
        retrieve,
        connection=connection,
        similarity=open_similarity() if needs_similarity(config.artifact) else None,
        accept_probability_mode=config.accept_probability_mode,
    )
    if own is not None and all(type(strategy) is not own for strategy in strategies_of(program).values()):
        raise UserError(f"{config.artifact} holds no {config.program}: omit the program, or name another artifact.")
    return with_knobs(program, **config.knobs) if config.knobs else program


def open_similarity() -> "Similarity":
    """Return the similarity of texts by the embedder that comes with verihop; its model is loaded when asked."""
    from corpora.retrievers.embedder import Embedder, EmbedderSimilarity

    return EmbedderSimilarity(Embedder())


def require_retriever(program: "dspy.Module", retrieve: "Retriever | None") -> None:
    """Raise UserError if a program that retrieves has no retriever."""
    from experiments.pipeline.corpus_notes import retrieves

    if retrieve is None and retrieves(program):
        raise UserError(
            "This program retrieves passages: name the folder of an index (index), built by `verihop index`."
        )
