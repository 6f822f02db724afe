"""From options to things: LM, retriever, questions, program."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from signatures.common.errors import UserError

_ON_SERVER = "server-"  # how models behind an address are called (`programs.lms.server.declare`)

if TYPE_CHECKING:
    import dspy

    from corpora.questions import Question
    from experiments.runs.fixed_contexts import References
    from optimizers.metrics.metric import Metric
    from programs.lms.connect import Connection
    from signatures.types import Retriever


@dataclass(frozen=True)
class LMOptions:
    """How to reach and ask an LM; None leaves a setting to the connection.

    Args:
        api_base: Address of an OpenAI-compatible server.
        api_key_env: Name of the environment variable that holds the key.
        model_type: "chat" or "text".
        temperature: From 0.
        max_tokens: Longest reply.
        context_size: Tokens of prompt and reply together.

    Raises:
        UserError: There is no such type of model, or it suits no server.
    """

    api_base: str | None = None
    api_key_env: str | None = None
    model_type: str = "chat"
    temperature: float | None = None
    max_tokens: int | None = None
    context_size: int | None = None

    def __post_init__(self) -> None:
        if self.model_type not in ("chat", "text"):
            raise UserError(f"--model-type must be chat or text, got {self.model_type!r}.")
        if self.model_type == "text" and self.api_base is None:
            raise UserError("--model-type text is for a model behind a server: give its address with --api-base.")

    def settings(self) -> dict[str, Any]:
        """Return what was set, as arguments of `connect`."""
        return {name: value for name, value in vars(self).items() if value is not None}


def open_lm(
    lm: str,
    options: LMOptions | None = None,
    *,
    calls: int | None = None,
    tokens: int | None = None,
    usd: float | None = None,
    seconds: float | None = None,
) -> "Connection":
    """Return the connection to an LM, with a budget where a limit is given.

    Raises:
        UserError: The id is unknown, weights are missing, or the server's key variable is not set.
    """
    from experiments.world.connect import connect_any
    from programs.lms.budget import Budget

    limited = any(limit is not None for limit in (calls, tokens, usd, seconds))
    budget = Budget(calls=calls, tokens=tokens, usd=usd, seconds=seconds) if limited else None
    return connect_any(lm, **(options or LMOptions()).settings(), budget=budget)


def open_judge(
    lm: str | None, beside: "Connection", *, api_base: str | None = None, api_key_env: str | None = None
) -> "Connection | None":
    """Return the connection to the LM that judges, None without one; it draws on the budget of `beside`.

    Raises:
        UserError: What `open_lm` refuses, or an address without an LM.
    """
    from experiments.world.connect import connect_any

    if lm is None:
        if api_base or api_key_env:
            raise UserError("--judge-api-base and --judge-api-key-env need a model: name it with --judge-lm.")
        return None
    return connect_any(lm, **LMOptions(api_base, api_key_env).settings(), budget=beside.lm.budget)


def open_metrics(names: str, oracle_id: str | None = None) -> "tuple[list[Metric], str | None]":
    """Return the metrics of names separated by commas, and what is known of the oracle that some need; None if none do.

    Args:
        names: Of the catalog, or of `ORACLE_METRICS`, which an entailment oracle makes.
        oracle_id: Id of that oracle; the offline default when left out.

    Raises:
        UserError: A name or the oracle is unknown, or an oracle is named that no metric needs.
    """
    from optimizers.metrics.catalog import METRICS, ORACLE_METRICS
    from optimizers.metrics.groundedness import with_oracle
    from signatures.common.errors import unknown

    wanted = list(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))
    for name in wanted:
        if name not in METRICS and name not in ORACLE_METRICS:
            raise unknown("metric", name, [*METRICS, *ORACLE_METRICS])
    judged = [name for name in wanted if name in ORACLE_METRICS]
    if not judged:
        if oracle_id is not None:
            raise UserError(f"--oracle makes {', '.join(ORACLE_METRICS)}: name one in --metrics, or leave it out.")
        return [METRICS[name] for name in wanted], None
    from optimizers.metrics.entailment.catalog import DEFAULT, open_oracle
    from optimizers.metrics.entailment.oracle import describe

    oracle = open_oracle(oracle_id or DEFAULT)
    made = {metric.name: metric for metric in with_oracle(oracle, judged)}
    return [made.get(name) or METRICS[name] for name in wanted], f"{', '.join(judged)} by {describe(oracle)}"


def open_retriever(index: Path | None, retriever: str | None = None) -> "Retriever | None":
    """Return the retriever of an index folder; None without one."""
    if index is None:
        return None
    from corpora.index.open import open_index

    return open_index(index, retriever=retriever)


def open_questions(path: Path, *, split: str | None = None, limit: int | None = None) -> "list[Question]":
    """Return the questions of a file, narrowed to a split and a number.

    Raises:
        UserError: The file is missing or broken, or nothing is left.
    """
    from corpora.questions import read_questions, select

    questions = select(read_questions(path), split=split, limit=limit)
    if not questions:
        raise UserError(f"{path} holds no questions{f' of split {split!r}' if split else ''}.")
    return questions


def open_references(
    questions: "list[Question]", knowledge: str | None, passages: Path | None, *, n: int, seed: int
) -> "tuple[list[Question], References | None]":
    """Return the questions to ask and the references they are given; all of them and None without `knowledge`.

    Raises:
        UserError: The corpus is not named or broken, the kind is unknown, or no question can be asked so.
    """
    if knowledge is None:
        if passages is not None:
            raise UserError(
                "--passages is where --references chooses from: add --references complete, or leave it out."
            )
        return questions, None
    if passages is None:
        raise UserError(f"--references {knowledge} needs the corpus: add --passages passages.jsonl.")
    from corpora.passages import read_passages
    from experiments.runs.fixed_contexts import choose_references

    kept, given, _ = choose_references(questions, list(read_passages(passages)), knowledge=knowledge, n=n, seed=seed)
    return kept, given


def parse_knobs(settings: Sequence[str] | None) -> dict[str, Any]:
    """Return `name=value` settings as knobs; values are read as JSON (3, 0.5, true) or else as text.

    Raises:
        UserError: A setting has no equals sign.
    """
    knobs: dict[str, Any] = {}
    for setting in settings or ():
        name, equals, text = setting.partition("=")
        if not equals or not name:
            raise UserError(f"--set takes name=value, got {setting!r}. Example: --set k=4.")
        try:
            knobs[name.strip()] = json.loads(text)
        except json.JSONDecodeError:
            knobs[name.strip()] = text
    return knobs


def open_program(
    *,
    program: str | None,
    artifact: Path | None,
    retrieve: "Retriever | None",
    connection: "Connection",
    preset: str = "paper",
    settings: Sequence[str] | None = None,
) -> "dspy.Module":
    """Return a program by name, or a frozen one from its artifact; knobs given by hand win over both.

    Raises:
        UserError: Neither or both are given, or one of the names or values is not allowed.
    """
    from programs.artifact import load
    from programs.catalog import build
    from programs.parts.knobs import with_knobs

    knobs = parse_knobs(settings)
    if (program is None) == (artifact is None):
        raise UserError("Give either --program NAME or --artifact DIR. `verihop programs` lists the names.")
    if program is not None:
        return build(program, retrieve, preset=preset, **knobs)
    loaded = load(artifact, retrieve, connection=connection)  # type: ignore[arg-type]
    return with_knobs(loaded, **knobs) if knobs else loaded


def frozen_defaults(
    artifact: Path | None, lm: str | None, index: Path | None, *, api_base: str | None = None
) -> tuple[str, Path | None]:
    """Return LM and index to use: those given, else those the artifact was compiled with, else the embedded LM.

    Raises:
        UserError: There is no artifact, or its LM is behind an address, which is not given (nor stored).
    """
    if artifact is None:
        return "embedded" if lm is None else lm, index
    from programs.artifact import read_artifact

    frozen = read_artifact(artifact)
    remembered = frozen.data.get("index")
    if index is None and remembered:
        found = (artifact.resolve() / remembered).resolve()
        index = found if (found / "index.json").exists() else None
    if lm is None and api_base is None and frozen.lm and (frozen.lm.model or "").startswith(_ON_SERVER):
        raise UserError(
            f"{artifact} was compiled with LM {frozen.lm.id!r} on a server: give its address with --api-base, or "
            "another LM with --lm."
        )
    if lm is None:
        lm = frozen.lm.id if frozen.lm else "embedded"
    return lm, index


def open_ready(
    connection: "Connection",
    retrieve: "Retriever | None",
    *,
    program: str | None = None,
    artifact: Path | None = None,
    preset: str = "paper",
    settings: Sequence[str] | None = None,
    given: bool = False,
) -> "dspy.Module":
    """Return what `open_program` does, once it is sure to run: a program that retrieves has a retriever or is `given`
    its references.

    Raises:
        UserError: What `open_program` refuses, or a program that retrieves was given no index.
    """
    ready = open_program(
        program=program,
        artifact=artifact,
        retrieve=retrieve,
        connection=connection,
        preset=preset,
        settings=settings,
    )
    if not given:
        require_retriever(ready, retrieve)
    return ready


def require_retriever(program: "dspy.Module", retrieve: "Retriever | None") -> None:
    """Raise UserError when a program that retrieves has nothing to retrieve from."""
    from programs.parts.knobs import knobs_of

    if retrieve is None and "k" in knobs_of(program):
        raise UserError("This program retrieves: give --index DIR (make one with `verihop index CORPUS --out DIR`).")
