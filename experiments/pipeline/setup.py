"""Open what a run needs from its configuration: LM, retriever, metrics, questions, fixed contexts, program."""

import difflib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from experiments.runs.shards import Shard
from experiments.runs.specs import Metrics, ProgramSpec, Retrieval
from optimizers.metrics.metric import Metric
from programs.lms.calls.transport import Transport, most_connections
from programs.lms.spec import EMBEDDED, LMSpec, in_process, kind_of
from signatures.common.errors import UserError, first_problem, one_line
from signatures.common.files import expanded
from signatures.common.own_code import is_own
from signatures.common.secrets import without_secrets
from signatures.common.specs import check, fields_of, part_of

if TYPE_CHECKING:
    import dspy

    from corpora.questions import Question
    from corpora.retrievers.engine import IndexRetriever
    from programs.artifact import Artifact
    from programs.lms.calls.budget import Budget
    from programs.lms.connect import Connection
    from signatures.types import Retriever, Similarity


_NOT_SIMULATED = ("hallucination[halluqa]", "revised_question[cov]")  # what the simulated LM cannot judge
PAPER = "paper"  # preset


def open_lm(config: LMSpec, budget: "Budget | None" = None) -> "Connection":
    """Return the connection to an LM; the embedded one if no id is set.

    Raises:
        UserError: The id is unknown, or missing beside the URL of a server; weights are missing, or the server's key
            variable is not set.
    """
    from experiments.world.connect import connect_any

    if config.id is None and config.api_base is not None:
        server = without_secrets(config.api_base)
        raise UserError(f"No model is named for the server {server}: name it (lm), or omit the address (api_base).")
    return connect_any("embedded" if config.id is None else config.id, **_settings(config), budget=budget)


def _settings(spec: LMSpec) -> dict[str, Any]:
    from programs.lms.connect import ModelTraits

    traits, transport = part_of(spec, ModelTraits), part_of(spec, Transport)
    grouped = {"id", *fields_of(traits), *fields_of(transport)}
    direct = {name: getattr(spec, name) for name in fields_of(spec) if name not in grouped}
    stated = {name: value for name, value in direct.items() if value is not None}
    return {**stated, "traits": traits, "transport": transport}


def refuse_simulated(connection: "Connection", task: str) -> None:
    """Raise UserError if the LM is the simulated one, which has no skill for a task and would reply nonsense.

    Args:
        task: What it would have to do.
    """
    from experiments.world.simulated import SimulatedEngine

    if isinstance(getattr(connection.lm, "engine", None), SimulatedEngine):
        raise UserError(f"The simulated LM cannot {task}: name another LM, e.g. embedded.")


def refuse_simulated_judge(judge: "Connection", metrics: Iterable[str]) -> None:
    """Raise UserError if the judge is the simulated LM, and one of these metrics is beyond it."""
    for name in metrics:
        if name in _NOT_SIMULATED:
            refuse_simulated(judge, f"decide {name}")


def open_metrics(
    metrics: "str | Metric | Sequence[str | Metric]", oracle_id: str | None = None, *, cache: bool = True
) -> "tuple[list[Metric], str | None]":
    """Return metrics by name, or as they are, and a description of the entailment oracle if any of them needs one.

    Args:
        metrics: Metrics, or names of the catalog, of `ORACLE_METRICS`, or own ones (`module:name`), separated by commas
            or in a list. Names must come from the user: own metrics are imported.
        oracle_id: Id of the oracle; the offline default if None.
        cache: Whether the oracle's judgements are cached, and cached ones used.

    Raises:
        UserError: A name or the oracle is unknown, an own metric cannot be imported, an oracle is named that no metric
            needs, or something is neither a name nor a metric.
    """
    given = [metrics] if isinstance(metrics, str | Metric) else metrics
    if not isinstance(given, Sequence) or not all(isinstance(each, str | Metric) for each in given):
        raise refused("metrics", metrics, f"names such as em,f1[hotpot]{_OWN}, or a list of names or metrics")
    opened, described = _named_metrics(",".join(each for each in given if isinstance(each, str)), oracle_id, cache)
    return [*opened, *(each for each in given if isinstance(each, Metric))], described


def _named_metrics(names: str, oracle_id: str | None, cache: bool) -> "tuple[list[Metric], str | None]":
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


def open_retriever(config: Retrieval, connect: "Callable[[], Connection] | None" = None) -> "Retriever | None":
    """Return the retriever of the program's index folder, of the web, or the user's own; None if it has none.

    Args:
        config: What is searched, and how.
        connect: Connects the LM that the reranker lm asks; called for that alone.

    Raises:
        UserError: A retriever or reranker is named, but no index; the index or reranker cannot be opened; or an own
            retriever cannot be imported.
    """
    if config.retriever is not None and is_own(config.retriever):
        return _own_retriever(config, config.retriever)
    if searches_web(config):
        return _reranked(_web_retriever(config), config, connect)
    if config.index is None:
        named = {
            f"retriever {config.retriever}": config.retriever is not None,
            f"reranker {config.rerank}": config.rerank not in (None, "none"),
            f"choice of {config.sentences} sentences": bool(config.sentences),
            f"precision {config.precision}": config.precision is not None,
        }
        for what, is_named in named.items():
            if is_named:
                raise UserError(f"The {what} needs an index: name its folder (index), too.")
        return None
    from corpora.index.info import GRAPH_LM
    from corpora.index.open import open_index
    from corpora.retrievers.graph import GRAPH

    chosen = config.retriever == GRAPH_LM
    name = GRAPH if chosen else config.retriever
    retrieve = open_index(config.index, retriever=name, precision=config.precision or "f32")
    return _reranked(_choosing(retrieve, config, connect) if chosen else retrieve, config, connect)


def _choosing(
    retrieve: "IndexRetriever", config: Retrieval, connect: "Callable[[], Connection] | None"
) -> "IndexRetriever":
    """Return a retriever by a graph of triples, among which the LM chooses those that help with a question."""
    from corpora.index.info import GRAPH_LM
    from corpora.retrievers.graph import GRAPH, GraphEngine
    from experiments.pipeline.lm_ranking import ConnectedChoice

    if connect is None:
        raise UserError(f"The retriever {GRAPH_LM} needs an LM, and none is given: use {GRAPH}.")
    choice = ConnectedChoice(connection := connect())
    refuse_simulated(connection, "choose triples")
    engine = retrieve.engine.keeping(choice) if isinstance(retrieve.engine, GraphEngine) else None
    if engine is None:
        raise UserError(f"{config.index} has no triples for {GRAPH_LM} to choose from: use {GRAPH}.")
    return retrieve.by(engine, f"{retrieve.fingerprint}-{choice.fingerprint}")


def _reranked(retrieve: "Retriever", config: Retrieval, connect: "Callable[[], Connection] | None") -> "Retriever":
    from corpora.retrievers.rerank import NONE, asks_lm, open_reranker
    from corpora.retrievers.sentences import open_sentences

    lm = None
    if connect is not None and asks_lm(config.rerank):
        from experiments.pipeline.lm_ranking import ConnectedRanking

        refuse_simulated(connection := connect(), "rank passages")
        lm = ConnectedRanking(connection)
    return open_sentences(open_reranker(retrieve, config.rerank or NONE, lm=lm), config.sentences)


def named_retriever(config: Retrieval, connect: "Callable[[], Connection] | None" = None) -> "Retriever":
    """Return what `open_retriever` does.

    Raises:
        UserError: See `open_retriever`; or nothing is named.
    """
    found = open_retriever(config, connect)
    if found is None:
        raise UserError("Name what to search: the folder of an index (index), or your own retriever (retriever).")
    return found


def _own_retriever(config: Retrieval, name: str) -> "Retriever":
    from corpora.retrievers.own import own_retriever
    from corpora.retrievers.sentences import open_sentences

    for option, value in (("reranker", config.rerank), ("precision", config.precision)):
        if value not in (None, "none"):
            raise UserError(f"Own retrievers do not support {option}: omit {value}.")
    return open_sentences(own_retriever(name, config.index), config.sentences)


def searches_web(config: Retrieval) -> bool:
    """Return whether the web is searched, or what was recorded of it."""
    from corpora.web.recording import is_web

    return is_web(config.index, config.retriever)


def _web_retriever(config: Retrieval) -> "Retriever":
    from corpora.retrievers.rerank import OWN
    from corpora.web.retriever import open_web

    if config.rerank == OWN:
        raise UserError("The reranker own searches with whole passages, which search engines reject: use own-light.")
    return open_web(config.index, config.retriever, precision=config.precision or "f32")


def check_program(config: ProgramSpec) -> None:
    """Raise UserError if an uncompiled program cannot be opened, whatever its LM and its retriever are.

    An LM is asked when it is opened: mistakes are to be told before.
    """
    from programs.catalog import chosen_knobs
    from programs.parts.knobs import check_knobs

    _check_named(config)
    if config.program is not None and config.artifact is None:
        check_knobs(*chosen_knobs(config.program, config.preset or PAPER, config.knobs))


def open_program(
    config: ProgramSpec, retrieve: "Retriever | None", connection: "Connection", *, contexts: bool = False
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


def _check_named(config: ProgramSpec) -> None:
    from programs.catalog import PROGRAMS

    both = config.program is not None and config.artifact is not None
    if (config.program is None and config.artifact is None) or (both and not is_own(config.program or "")):
        raise UserError(f"Name either a program or an artifact, not both or neither. Programs: {', '.join(PROGRAMS)}.")
    if config.artifact is not None and config.preset not in (None, PAPER):
        raise UserError(
            f"A compiled program has the knobs it was compiled with: omit the preset {config.preset!r}, or set "
            "single knobs."
        )


def _built(config: ProgramSpec, retrieve: "Retriever | None", connection: "Connection") -> "dspy.Module":
    from programs.catalog import build, typed_program
    from programs.parts.knobs import takes_similarity

    assert config.program is not None
    similarity = open_similarity() if takes_similarity(typed_program(config.program)) else None
    return build(config.program, retrieve, preset=config.preset or PAPER, similarity=similarity, **config.knobs)


def _loaded(config: ProgramSpec, retrieve: "Retriever | None", connection: "Connection") -> "dspy.Module":
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
    from programs.artifact import retrieves

    if retrieve is None and retrieves(program):
        raise UserError(
            "This program retrieves passages: name the folder of an index (index), built by `verihop index`."
        )


_OWN = ", a function of your own as 'module:function'"
LIMITS: dict[str, type] = {"calls": int, "tokens": int, "usd": float, "seconds": float}


def refused(name: str, value: object, accepted: str) -> UserError:
    """Return the error of an argument of a wrong kind."""
    return UserError(f"{name} must be {accepted}, got {one_line(repr(value), 80)}.")


def artifact_of(artifact: Any, program: str | None) -> Path | None:
    """Return the folder of the artifact to load; None for a program by its name.

    Args:
        artifact: A folder; None, also in place of one that a study did not freeze; or `...` if nothing was named.
        program: The name, if one was given.

    Raises:
        UserError: Nothing is left to load, or it is no path.
    """
    if artifact is None and program is None:
        raise UserError(
            "The artifact is None, as that of a study that froze nothing: name the folder of an artifact, or a program "
            "(program=...)."
        )
    if artifact is None or artifact is ...:
        return None
    if not isinstance(artifact, Path | str):
        raise refused("artifact", artifact, "the folder of an artifact")
    return expanded(artifact)


Settings = TypeVar("Settings")


def settings_of(function: str, spec: type[Settings], /, **settings: Any) -> Settings:
    """Return the settings that a function of `import verihop` was called with.

    Raises:
        TypeError: There is no such setting; the message names the function and what is close.
        UserError: A value has another type, or is not in the range that its option has.
    """
    known = list(fields_of(spec))
    for name in settings:
        if name not in known:
            close = difflib.get_close_matches(name, known, 1)
            hint = f": did you mean {close[0]}?" if close else f"; it takes {', '.join(known)}."
            raise TypeError(f"verihop.{function}() has no argument {name}{hint}")
    made = spec(**settings)
    check(made)
    return made


def lm_config(lm: str, **settings: Any) -> LMSpec:
    """Return the configuration of an LM, by default with connections for any number of threads."""
    if not isinstance(lm, str):
        raise refused("lm", lm, "an id such as embedded, simulated or openai/gpt-4o-mini")
    return settings_of("connect", LMSpec, **{"connections": most_connections(), **settings, "id": lm})


def limits_of(budget: "Mapping[str, float] | Budget | None") -> "Budget | None":
    """Return a budget; None without a limit.

    Raises:
        UserError: It is no mapping, or a limit is unknown or no number.
    """
    from programs.lms.calls.budget import Budget

    if budget is None or isinstance(budget, Budget):
        return budget
    if not isinstance(budget, Mapping):
        raise refused("budget", budget, 'a mapping such as {"calls": 500, "usd": 0.2}')
    for name, limit in budget.items():
        if name not in LIMITS:
            raise UserError(f"Unknown budget {name!r}: limit {', '.join(LIMITS)}.")
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int | float)):
            raise refused(f"The budget of {name}", limit, "a number")
    limits: dict[str, Any] = dict(budget)
    return Budget(**limits) if limits else None


def parse_limits(stated: str | Sequence[str] | None, name: str) -> dict[str, float]:
    """Return limits such as calls=500 by name.

    Args:
        stated: As typed, separated by commas or blanks, in one text or several.
        name: Of the option or argument, for messages.

    Raises:
        UserError: A limit is unknown, is not a number above 0, or is named twice.
    """
    found: dict[str, float] = {}
    texts = [stated] if isinstance(stated, str) else stated or ()
    for part in " ".join(texts).replace(",", " ").split():
        limit, _, text = part.partition("=")
        try:
            value: float = LIMITS[limit](text.replace("_", ""))
        except (KeyError, ValueError):
            known = ", ".join(f"{each}=NUMBER" for each in LIMITS)
            raise UserError(f"{name} takes {known}, got {part!r}. Example: {name} calls=500 usd=0.2.") from None
        if not value > 0:
            raise UserError(f"{name} {limit} must be above 0, got {text}.")
        if limit in found:
            raise UserError(f"{name} sets {limit} twice: set it once.")
        found[limit] = value
    return found


def open_questions(questions: Any, *, split: str | None = None, limit: int | None = None) -> "list[Question]":
    """Return the questions of a file, or those given, which may be mappings as in the file.

    Args:
        questions: A file, or questions.
        split: Only those of this split.
        limit: Only so many, drawn by a hash of their ids (`corpora.questions.drawn`).

    Raises:
        UserError: The file is missing or broken or has none of the split, or what is given is no question.
    """
    from corpora.questions import read_questions, select

    if isinstance(questions, Path | str):
        path = expanded(questions)
        selected = select(read_questions(path), split=split, limit=limit)
        if not selected:
            raise UserError(f"{path} contains no questions{f' of split {split!r}' if split else ''}.")
        return selected
    if not isinstance(questions, Iterable) or isinstance(questions, Mapping):
        raise refused("questions", questions, "a questions.jsonl, or questions")
    return select([_question(each, number) for number, each in enumerate(questions, 1)], split=split, limit=limit)


def _question(given: Any, number: int) -> "Question":
    from pydantic import ValidationError

    from corpora.questions import Question

    if isinstance(given, Question):
        return given
    if not isinstance(given, Mapping):
        raise refused(f"Question {number}", given, "a corpora.questions.Question, or a mapping with id and question")
    try:
        return Question.model_validate(dict(given))
    except ValidationError as error:
        raise UserError(
            f"Question {number} is invalid ({first_problem(error)}): give at least id and question."
        ) from None


def path_of(questions: Any) -> Path | None:
    """Return the file that questions are read from; None if they are given."""
    return expanded(questions) if isinstance(questions, Path | str) else None


def metric_of(metric: "str | Metric") -> Metric:
    """Return a metric by name, or as it is.

    Raises:
        UserError: The name is unknown, or it is neither.
    """
    from optimizers.metrics.typed.opened import typed_metric

    if isinstance(metric, Metric):
        return metric
    if not isinstance(metric, str):
        raise refused("metric", metric, f"one name such as em{_OWN}, or a metric")
    return typed_metric(metric)


def other_lm(spec: Any, name: str) -> LMSpec | None:
    """Return another LM than that of the program, which a field of a spec names by its id; None without one.

    Raises:
        UserError: It has a URL or a key, but no name.
    """
    lm, of = getattr(spec, name), name.removesuffix("_lm")
    server = {each: getattr(spec, f"{of}_{each}") for each in ("api_base", "api_key_env")}
    if lm is None and any(server.values()):
        raise UserError(f"A URL or key of another LM needs its name: add {fields_of(spec)[name].flags[0]}.")
    return None if lm is None else LMSpec(id=lm, **server)


def other_lm_of(spec: Any, name: str, connection: "Connection") -> "Connection | None":
    """Return another LM than that of the program; one that is named by its id is called alike, in the same budget.

    Args:
        spec: Has the LM, which is a connection, an id or None, with URL and key of its server.
        name: Of that field.

    Raises:
        UserError: The id is unknown, it is neither, or a server is named without its model.
    """
    lm = getattr(spec, name)
    if lm is not None and not isinstance(lm, str):
        return connection_of(name, lm)
    named = other_lm(spec, name)
    return None if named is None else open_lm(_alike(named, connection), connection.lm.budget)


def judge_of(spec: Metrics, connection: "Connection", metrics: Sequence[Metric]) -> "Connection | None":
    """Return the judge LM, None if there is none; one that is named by its id is called like `connection`.

    Args:
        metrics: What it will decide, as far as known.

    Raises:
        UserError: See `other_lm_of`; or the simulated LM would have to decide what it cannot.
    """
    if spec.judge is not None and not isinstance(spec.judge, str):
        return connection_of("judge", spec.judge)
    if spec.judge is None:
        if spec.judge_api_base or spec.judge_api_key_env:
            raise UserError("The judge's URL and key need a model: name the judge LM (judge_lm).")
        return None
    named = LMSpec(id=spec.judge, api_base=spec.judge_api_base, api_key_env=spec.judge_api_key_env)
    judge = open_lm(_alike(named, connection), connection.lm.budget)
    refuse_simulated_judge(judge, [metric.name for metric in metrics])
    return judge


def _alike(lm: LMSpec, connection: "Connection") -> LMSpec:
    return replace(lm, **asdict(connection.lm.transport), cache=connection.lm.cache)


def connection_of(role: str, lm: Any) -> "Connection | None":
    """Return an LM that is connected, or None.

    Raises:
        UserError: It is neither.
    """
    if lm is not None and not (hasattr(lm, "lm") and hasattr(lm, "adapter")):
        raise refused(role, lm, "a connection (verihop.connect) or the id of an LM")
    connected: Connection | None = lm
    return connected


def given_lm(lm: Any) -> "Connection":
    """Return an LM that is connected, or that an id names; by default the embedded one.

    Raises:
        UserError: It is neither, or cannot be connected.
    """
    named = "embedded" if lm is None else lm
    connected = None if isinstance(named, str) else connection_of("lm", named)
    return open_lm(lm_config(named)) if connected is None else connected


def shard_of(shard: Shard | str | None) -> Shard | None:
    """Return a shard, also of a text such as 1/4.

    Raises:
        UserError: It names none.
    """
    if shard is None or isinstance(shard, Shard):
        return shard
    if not isinstance(shard, str):
        raise refused("shard", shard, "i/n, as 1/4 to 4/4")
    return Shard.parse(shard)


SMALL = "small"  # preset of the programs that read passages
# One LM call a question. `iter_retgen` and `flare` take two and four, and are level: F1 -0.3 [-3.3, 2.7] and +1.5
# [-2.0, 5.0] on 300 questions (`experiments/results/leaderboard_pooled.json`).
SMALL_PROGRAM = "rag"
SMALL_RETRIEVER, SMALL_RERANK = "multihop", "own"


class OnServer(UserError):
    """The LM of an artifact is on a server, whose URL artifacts do not store."""

    def __init__(self, artifact: Path, lm: str):
        super().__init__(f"{artifact} was compiled with LM {lm!r} on a server: name its URL (api_base), or another LM.")
        self.lm = lm


class ChosenDefault(NamedTuple):
    """Both configurations, and what the user should know of the choice.

    Args:
        note: None if nothing was chosen that the user might not expect.
    """

    program: ProgramSpec
    lm: LMSpec
    note: str | None = None


def with_defaults(program: ProgramSpec, lm: LMSpec, *, retriever_is_open: bool = False) -> ChosenDefault:
    """Return both configurations with defaults in place of None.

    An artifact gives its index, retriever, reranker and LM. An uncompiled program on the embedded LM, which reads few
    passages well, gets the preset `small` where it has one, and with it multi-hop retrieval where the index serves it
    and our own reranker; without a program, it is `rag`.

    Args:
        retriever_is_open: There is a retriever already, so that none is chosen.

    Raises:
        UserError: No program is named; it, its preset or a knob is unknown; or a knob's value is not allowed. See
            `with_artifact_defaults`, too.
    """
    if program.artifact is not None:
        return ChosenDefault(*with_artifact_defaults(program, lm, retriever_is_open=retriever_is_open))
    chosen = ChosenDefault(program, lm) if not is_embedded(lm) else _with_small_defaults(program, lm)
    check_program(chosen.program)
    return chosen


def is_embedded(lm: LMSpec) -> bool:
    """Return whether an LM is the embedded one: an id on a server says nothing of what replies there."""
    return lm.api_base is None and kind_of(lm.id) == EMBEDDED


def _with_small_defaults(program: ProgramSpec, lm: LMSpec) -> ChosenDefault:
    """Return the configurations for the embedded LM; named values stay."""
    from programs.catalog import chosen_knobs, presets_of, typed_program

    named = program.program or SMALL_PROGRAM
    chosen = replace(program, program=named)
    if program.preset is None and SMALL in presets_of(typed_program(named)):
        chosen = replace(chosen, preset=SMALL)
        chosen = _with_small_retrieval(chosen)
    if chosen == program:
        return ChosenDefault(program, lm)
    _, knobs = chosen_knobs(named, chosen.preset or PAPER, program.knobs)
    shown = [f"{name}={value}" for name, value in knobs.items()]
    shown += [f"retriever {chosen.retriever}"] if chosen.retriever != program.retriever else []
    shown += [f"reranker {chosen.rerank}"] if chosen.rerank != program.rerank else []
    return ChosenDefault(chosen, lm, f"{named} with preset {chosen.preset or PAPER}: {', '.join(shown) or 'no knobs'}")


def _with_small_retrieval(program: ProgramSpec) -> ProgramSpec:
    from corpora.index.open import chosen_by_default

    if program.index is None or _own_search(program):
        return program
    retriever = program.retriever or chosen_by_default(program.index)
    return replace(program, retriever=retriever, rerank=program.rerank or SMALL_RERANK)


def _own_search(program: ProgramSpec) -> bool:
    """Return whether our own reranker, which searches with passages, is not chosen unasked."""
    return (program.retriever is not None and is_own(program.retriever)) or searches_web(program)


def with_artifact_defaults(
    program: ProgramSpec, lm: LMSpec, *, retriever_is_open: bool = False
) -> tuple[ProgramSpec, LMSpec]:
    """Return both configurations with the artifact's index, retriever, reranker, sentences and LM in place of None.

    Without an artifact they are unchanged.

    Args:
        retriever_is_open: There is a retriever already: what the artifact retrieved from does not matter.

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
    if program.retriever is None and not _own_search(program):
        program = replace(program, retriever=_stored_retriever(artifact.data.get("retriever"), program.index))
    # A stranger's artifact could name any model, so that only those without one of their own are opened unasked.
    if program.rerank is None and not _own_search(program) and _opened_unasked(stored := artifact.data.get("rerank")):
        program = replace(program, rerank=stored)
    if program.sentences is None and type(stored := artifact.data.get("sentences")) is int:
        program = replace(program, sentences=stored)
    return program, lm


def _stored_retriever(stored: object, index: Path | None) -> str | None:
    """Return the retriever that an artifact names; None if the index, which may be another, does not serve it."""
    if index is None or not isinstance(stored, str):
        return None
    from corpora.index.info import GRAPH_LM
    from corpora.index.open import served
    from corpora.retrievers.graph import GRAPH

    return stored if (GRAPH if stored == GRAPH_LM else stored) in served(index) else None


def retriever_of(retrieve: "Retriever") -> str | None:
    """Return the retriever that an index was opened as; None if it is that for which it was built, or no index."""
    from corpora.index.manifest import read_info

    while (inner := getattr(retrieve, "retriever", None)) is not None:  # behind a reranker or a choice of sentences
        retrieve = inner
    name, folder = getattr(getattr(retrieve, "engine", None), "name", None), getattr(retrieve, "folder", None)
    if not isinstance(name, str) or not isinstance(folder, Path):
        return None
    try:
        return None if name == read_info(folder).retriever else name
    except UserError:  # removed or replaced since
        return name


def _opened_unasked(rerank: object) -> bool:
    """Return whether a reranker that an artifact names has no model of its own, and costs no more than a paper's."""
    from corpora.retrievers.rerank import LIGHT, MOST_OF_LM, OWN, asks_lm, depth_of

    if not isinstance(rerank, str) or rerank in (OWN, LIGHT):
        return rerank in (OWN, LIGHT)
    depth = depth_of(rerank)
    return asks_lm(rerank) and (depth is None or 1 <= depth <= MOST_OF_LM)


def _with_recorded_lm(folder: Path, artifact: "Artifact", lm: LMSpec) -> LMSpec:
    if lm.id is not None or not artifact.lm:
        return lm
    if lm.api_base is not None and not artifact.lm.on_server and in_process(artifact.lm.id):
        compiled = f"{folder} was compiled with LM {artifact.lm.id!r}, which runs in this process"
        raise UserError(f"{compiled}: name the model on the server (lm), or omit the address (api_base).")
    if lm.api_base is None and artifact.lm.on_server:
        raise OnServer(folder, artifact.lm.id)
    return replace(lm, id=artifact.lm.id)


def _index_of(artifact: Path, stored: object, corpus: str | None) -> Path | None:
    """Return the index folder that an artifact names, relative to its own; None if there is no index.

    A stranger's artifact could name any folder, so only the index that it was compiled on is opened unasked.
    """
    from corpora.retrievers.rerank import without_reranking

    named = isinstance(stored, str) and "\0" not in stored
    index = Path(os.path.normpath(artifact.resolve() / str(stored))) if named else None
    try:
        if index is not None and not searches_web(Retrieval(index=index)) and not (index / "index.json").is_file():
            return None
    except OSError:  # a name that is too long
        index = None
    if index is None:
        raise UserError(f"{artifact} names no folder as its index: name the folder of an index (index).")
    if corpus is None or without_reranking(corpus) not in fingerprints_of(index):
        raise UserError(
            f"{artifact} names the index {index}, which is not the one it was compiled on: name the index yourself, "
            "if that is intended (index)."
        )
    return index


def fingerprints_of(index: Path) -> set[str]:
    """Return the fingerprints that an index, or a recording of the web, can have."""
    if searches_web(Retrieval(index=index)):
        from corpora.encoders.openvino_encoder import PRECISIONS

        return {named_retriever(Retrieval(index=index, precision=name)).fingerprint for name in PRECISIONS}
    from corpora.index.open import fingerprints

    return fingerprints(index)
