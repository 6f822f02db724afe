"""What the functions of `import verihop` are called with: natural forms are accepted, others refused in one line."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.pipeline import setup
from experiments.runs.config import LMConfig
from experiments.runs.shards import Shard
from optimizers.metrics.metric import Metric
from programs.lms.calls.transport import most_connections
from signatures.common.errors import UserError, first_problem, one_line
from signatures.common.files import expanded

if TYPE_CHECKING:
    from corpora.questions import Question
    from programs.lms.calls.budget import Budget
    from programs.lms.connect import Connection

_OWN = ", a function of your own as 'module:function'"
LIMITS = ("calls", "tokens", "usd", "seconds")


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


def lm_config(lm: str, **settings: Any) -> LMConfig:
    """Return the configuration of an LM, by default with connections for any number of threads."""
    if not isinstance(lm, str):
        raise refused("lm", lm, "an id such as embedded, simulated or openai/gpt-4o-mini")
    return LMConfig(lm, **{"connections": most_connections(), **settings})


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
            raise UserError(f"There is no budget of {name!r}: limit {', '.join(LIMITS)}.")
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int | float)):
            raise refused(f"The budget of {name}", limit, "a number")
    limits: dict[str, Any] = dict(budget)
    return Budget(**limits) if limits else None


def questions_of(questions: Any, split: str | None = None) -> "list[Question]":
    """Return the questions of a file, or those given, which may be mappings as in the file; of one split if named.

    Raises:
        UserError: The file is missing or broken, no question is selected, or what is given is no question.
    """
    from corpora.questions import select

    if isinstance(questions, Path | str):
        return setup.open_questions(expanded(questions), split=split)
    if not isinstance(questions, Iterable) or isinstance(questions, Mapping):
        raise refused("questions", questions, "a questions.jsonl, or questions")
    return select([_question(each, number) for number, each in enumerate(questions, 1)], split=split)


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
            f"Question {number} is not one ({first_problem(error)}): give at least id and question."
        ) from None


def path_of(questions: Any) -> Path | None:
    """Return the file that questions are read from; None if they are given."""
    return expanded(questions) if isinstance(questions, Path | str) else None


def metrics_of(metrics: "str | Metric | Sequence[str | Metric]", oracle: str | None) -> list[Metric]:
    """Return metrics by name, or as they are; names may be separated by commas or in a list.

    Raises:
        UserError: See `experiments.pipeline.setup.open_metrics`; or something is neither a name nor a metric.
    """
    given = [metrics] if isinstance(metrics, str | Metric) else metrics
    if not isinstance(given, Sequence) or not all(isinstance(each, str | Metric) for each in given):
        raise refused("metrics", metrics, f"names such as em,f1[hotpot]{_OWN}, or a list of names or metrics")
    opened, _ = setup.open_metrics(",".join(each for each in given if isinstance(each, str)), oracle)
    return [*opened, *(each for each in given if isinstance(each, Metric))]


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


def lm_beside(role: str, lm: "Connection | str | None", connection: "Connection") -> "Connection | None":
    """Return another LM than that of the program; one that is named by its id is called alike, in the same budget.

    Args:
        role: Of the LM, for messages.
        lm: A connection, an id, or None.
        connection: The LM of the program.

    Raises:
        UserError: The id is unknown, or it is neither.
    """
    if isinstance(lm, str):
        return setup.open_lm(_alike(lm, connection), connection.lm.budget)
    return connection_of(role, lm)


def judge_of(lm: "Connection | str | None", connection: "Connection", metrics: Sequence[Metric]) -> "Connection | None":
    """Return the judge LM as `lm_beside` does.

    Raises:
        UserError: See `lm_beside`; or the simulated LM would have to judge hallucinations.
    """
    if isinstance(lm, str):
        return setup.open_judge(_alike(lm, connection), connection, metrics)
    return connection_of("judge", lm)


def _alike(lm: str, connection: "Connection") -> LMConfig:
    calls = connection.lm.transport
    called = {name: getattr(calls, name) for name in ("retries", "retry_timeout", "timeout")}
    return lm_config(lm, **called, cache=connection.lm.cache)


def connection_of(role: str, lm: Any) -> "Connection | None":
    """Return an LM that is connected, or None.

    Args:
        role: Of the LM, for messages.
        lm: A connection, or None.

    Raises:
        UserError: It is neither.
    """
    if lm is not None and not (hasattr(lm, "lm") and hasattr(lm, "adapter")):
        raise refused(role, lm, "a connection (verihop.connect) or the id of an LM")
    connected: Connection | None = lm
    return connected


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
