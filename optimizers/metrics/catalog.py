"""Every metric by name: its definition, its function and its source; and own metrics, named `module:name`.

A name carries its definition in brackets where published definitions differ, because they give different numbers.
`METRICS` score an example and a prediction; `ORACLE_METRICS` also need an entailment oracle
(`optimizers.metrics.groundedness`). `families` contains most definitions; those named `name@k` exist for every k from 1
to 1000. Here are those of checking:

- GenGround's effect of checking drafts against passages: corrected, left wrong, or made wrong (section 7.2, "Knowledge
  Incorporation", https://arxiv.org/abs/2406.14891; there three annotators judged 100 questions).
- CoV-RAG's verification per question: its judgement, its revised question, its format, and the references before and
  after (He et al., "Retrieving, Rethinking and Revising", Findings of EMNLP 2024, section 4.3, table 6,
  https://arxiv.org/abs/2410.05801); None for programs without verification.

An own metric is imported only where the user typed its name, on the command line or in Python.
"""

import copy
import inspect
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

from optimizers.metrics.answer import exact_match
from optimizers.metrics.evidence.context import EVIDENCE_METRICS, EVIDENCE_ORACLE_METRICS
from optimizers.metrics.families.answer import ANSWER_METRICS
from optimizers.metrics.families.citations import CITATION_METRICS, CITATION_ORACLE_METRICS, KEY_FACT_METRICS
from optimizers.metrics.families.retrieval import AT_K, RETRIEVAL_METRICS, at_k
from optimizers.metrics.families.trajectories import TRAJECTORY_METRICS
from optimizers.metrics.fields import golds_of, passages_of, question_of
from optimizers.metrics.judges.answer_judge import (
    JUDGED_METRICS,
    asking_judge,
    judgement_is_correct,
    references_contain_gold,
)
from optimizers.metrics.metric import Metric, Need, OracleMetric
from signatures.common.errors import UserError, one_line, unknown
from signatures.common.own_code import code_digest, import_own
from signatures.text import normalize_answer

Revision = Literal["direct", "revised", "failure", "error"]


def share(*names: Revision) -> Callable[[Any, Any], float | None]:
    """Return the function that scores what checking did to the drafts of a prediction's hops.

    It is the share in [0, 1] of hops of these classes: "direct" (draft and answer right), "revised" (wrong, then
    right), "failure" (both wrong), "error" (right, then wrong); exact match decides. The gold of a hop is found by its
    sub-question, equal after normalising. Hops without gold or draft do not count; None if no hop counts.
    """

    def score(example: Any, prediction: Any) -> float | None:
        golds = {
            normalize_answer(item["question"]): item.get("answer")
            for item in getattr(example, "sub_questions", None) or []
        }
        classes = []
        for hop in _hops(prediction):
            gold = golds.get(normalize_answer(hop.question))
            if gold is not None and hop.draft is not None:
                before, after = (exact_match(text, [gold]) == 1.0 for text in (hop.draft, hop.answer))
                classes.append(_CLASSES[before, after])
        return sum(name in names for name in classes) / len(classes) if classes else None

    return score


_CLASSES: dict[tuple[bool, bool], Revision] = {
    (True, True): "direct",
    (False, True): "revised",
    (False, False): "failure",
    (True, False): "error",
}


def _details(prediction: Any) -> dict[str, Any]:
    details = getattr(prediction, "details", None) or {}
    return details if "verifications" in details else {}


def _hops(prediction: Any) -> list[Any]:
    return getattr(prediction, "hops", None) or []


def _judged(verification: dict[str, Any]) -> str:
    return verification["judgement"] or ("false" if verification["revised_question"] else "true")


def judgement(example: Any, prediction: Any) -> float | None:
    """Return 1.0 if the first verification judged the first response correctly, else 0.0.

    Without the chain there is no judgement; an empty revised question then means "true" (section 4.3).
    """
    details, hops = _details(prediction), _hops(prediction)
    if not details or not hops or not (details["verifications"] or details.get("verification_failures")):
        return None
    first = _judged(details["verifications"][0]) if details["verifications"] else None
    return judgement_is_correct(first, hops[0].answer, golds_of(example))


def revised_question(example: Any, prediction: Any) -> float | None:
    """Return the judge's score in [0, 1] of the first revised question; None without a verification that was read.

    Raises:
        UserError: There is no judge, or it cannot be reached.
    """
    from dspy.utils.exceptions import LMError

    from optimizers.metrics.judges.revision_judge import RevisionJudge
    from programs.parts.meter import record

    hops = [{"answer": hop.answer, "passage_ids": hop.passage_ids} for hop in _hops(prediction)[:1]]
    asked = {"question": question_of(example), "answers": golds_of(example)}
    row: dict[str, Any] = {**asked, "hops": hops, "details": _details(prediction)}
    with asking_judge():
        if not RevisionJudge.verifies(row):
            return None
        try:
            verdict = RevisionJudge()(row, {passage.id: passage for passage in passages_of(prediction)})
        except LMError:  # such as a prompt that is too long: this verdict is missing, the others continue
            record(parse_failures=1)
            return 0.0
    return verdict.score or 0.0


def form(example: Any, prediction: Any) -> float | None:
    """Return the share in [0, 1] of a question's verifications that could be parsed."""
    details = _details(prediction)
    if not details:
        return None
    parsed, failed = len(details["verifications"]), int(details.get("verification_failures", 0))
    return parsed / (parsed + failed) if parsed + failed else None


def references(hop: int) -> Callable[[Any, Any], float | None]:
    """Return the function that says whether the references of a hop (0 or -1) contain a gold answer: 1.0, else 0.0."""

    def score(example: Any, prediction: Any) -> float | None:
        hops = _hops(prediction)
        if not _details(prediction) or not hops:
            return None
        texts = {passage.id: f"{passage.title} {passage.text}" for passage in passages_of(prediction)}
        return references_contain_gold([texts[id] for id in hops[hop].passage_ids if id in texts], golds_of(example))

    return score


_COV_RAG = "https://arxiv.org/abs/2410.05801"
_GENGROUND = "https://arxiv.org/abs/2406.14891"

# Name of a metric, which drafts it counts, their classes, whether more of them is better.
_REVISIONS: tuple[tuple[str, str, tuple[Revision, ...], bool], ...] = (
    ("success", "right and stayed so, or were corrected", ("direct", "revised"), True),
    ("direct", "right and stayed so (figure 5)", ("direct",), True),
    ("corrected", "wrong and were corrected (figure 5)", ("revised",), True),
    ("failure", "wrong and stayed so", ("failure",), False),
    ("error", "right and were spoiled", ("error",), False),
)

VERIFICATION_METRICS = (
    Metric(
        "judgement[cov]",
        "1 when the first verification calls the first response true and it holds a gold answer, or does not and it "
        "does not; an unreadable verification is wrong.",
        judgement,
        _COV_RAG,
        needs=(Need.ANSWERS, Need.HOPS, Need.VERIFICATIONS),
    ),
    Metric(
        "revised_question[cov]",
        "The judge LM's score of the first revised question: 0 when it says that the question was wrongly revised or "
        "wrongly kept, 1 when it was rightly kept, else its quality. A verdict that cannot be read is wrong and "
        "counted as unparsed.",
        revised_question,
        _COV_RAG,
        judge_calls=2,  # `RevisionJudge.max_calls`, in a module that needs DSPy
        needs=(Need.ANSWERS, Need.HOPS, Need.TEXTS, Need.VERIFICATIONS, Need.JUDGE),
    ),
    Metric(
        "form[cov]",
        "Share of the verifications that could be read.",
        form,
        _COV_RAG,
        needs=(Need.VERIFICATIONS,),
    ),
    *(
        Metric(
            f"references[{when}]",
            f"1 when the {which} references hold a gold answer (normalised substring); undefined for yes and no.",
            references(hop),
            _COV_RAG,
            needs=(Need.ANSWERS, Need.HOPS, Need.TEXTS, Need.VERIFICATIONS),
        )
        for when, which, hop in (("before", "first", 0), ("after", "last", -1))
    ),
    *(
        Metric(
            f"revision[{name}]",
            f"Share of drafts that were {what}, among the hops whose sub-question is a gold one by its words; exact "
            "match decides; undefined without such a hop.",
            share(*classes),
            _GENGROUND,
            needs=(Need.SUB_QUESTIONS, Need.HOPS),
            higher_is_better=better,
        )
        for name, what, classes, better in _REVISIONS
    ),
)


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        *ANSWER_METRICS,
        *JUDGED_METRICS,
        *RETRIEVAL_METRICS,
        *VERIFICATION_METRICS,
        *CITATION_METRICS,
        *EVIDENCE_METRICS,
        *TRAJECTORY_METRICS,
    )
}

JUDGED = frozenset(name for name, metric in METRICS.items() if metric.judged)  # an LM decides them

ORACLE_METRICS: dict[str, OracleMetric] = {**KEY_FACT_METRICS, **CITATION_ORACLE_METRICS, **EVIDENCE_ORACLE_METRICS}


def choices() -> list[str]:
    """Return the names of all metrics for an error message; those with a cutoff once, as `name@k`."""
    fixed = [name for name in METRICS if "@" not in name]
    return [*fixed, *(f"{name}@k" for name in AT_K), *ORACLE_METRICS]


def find_metric(name: str) -> Metric | None:
    """Return the metric of that name, `name@k` with any k included; None if there is none.

    Raises:
        UserError: The cutoff of `name@k` is missing or not allowed.
    """
    return METRICS.get(name) or at_k(name)


def get_metric(name: str) -> Metric:
    """Return the metric of that name.

    Raises:
        UserError: There is no such metric, and the message lists the names; or it needs an entailment oracle, or its
            cutoff is not allowed.
    """
    metric = find_metric(name)
    if name in ORACLE_METRICS:
        raise UserError(f"{name} is decided by an entailment oracle: open it with `groundedness.with_oracle`.")
    if metric is None and ":" in name:
        raise UserError(f"{name!r} is not in the catalog: open an own metric with `metrics.catalog.own_metric`.")
    if metric is None:
        raise unknown("metric", name, choices())
    return metric


def own_metric(name: str) -> Metric:
    """Import and return the metric `module:name`.

    Args:
        name: A function `(example, prediction)` that returns a number in [0, 1], True, False, or None where it is
            undefined; or a `Metric`. Several threads call it, with copies of both. The module is
            looked for among the installed ones, then in the current directory.

    Returns:
        A metric of that name. The first paragraph of the function's docstring is its definition, together with a hash
        of the module's file, so that runs scored with different code are not compared.

    Raises:
        UserError: The module or the name does not exist, the module raises, or the value is neither function nor
            `Metric`, or takes other arguments. Scoring raises it if the function does, or returns anything else.
    """
    module, value = import_own(name, "metric")
    _check_call(value.function if isinstance(value, Metric) else value, name)
    code = f"Own metric {name}, code {code_digest(module)}."
    if isinstance(value, Metric):
        definition = f"{value.definition.rstrip()} {code}"
        return replace(value, name=name, definition=definition, function=_checked(value.function, name))
    if not callable(value) or inspect.isclass(value):
        raise UserError(f"Own metric {name!r} is of type {type(value).__name__}: it must be a function or a Metric.")
    return given_metric(value, name, inspect.getdoc(value) or "", code_digest(module))


def given_metric(function: Callable[[Any, Any], Any], name: str, text: str, code: str) -> Metric:
    """Return a function that the user gave as a metric, as `own_metric` does one that is named.

    Args:
        function: As of `own_metric`.
        name: Of the metric.
        text: Its description; the first paragraph is used.
        code: Digest of its code.
    """
    said = one_line(text.partition("\n\n")[0])
    definition = f"{said if not said or said[-1] in '.!?' else said + '.'} Own metric {name}, code {code}.".strip()
    return Metric(name, definition, _checked(function, name), f"{name.partition(':')[0]} (your code)")


def _check_call(function: Any, name: str) -> None:
    if not callable(function) or inspect.isclass(function):
        return  # another message says so
    if inspect.iscoroutinefunction(function):
        raise UserError(f"Own metric {name!r} is asynchronous: write it as a plain function.")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some built-in functions have none
        return
    try:
        signature.bind(None, None)
    except TypeError:
        raise UserError(
            f"Own metric {name!r} takes {one_line(str(signature), 80)}: it must take two arguments, (example, "
            "prediction)."
        ) from None


def _number(value: Any) -> float:
    """Return a number of Python or of a library as a float, NaN for anything else."""
    try:
        return float(value) if hasattr(value, "__float__") else math.nan
    except (TypeError, ValueError, OverflowError):  # an array, a huge int
        return math.nan


def _which(example: Any) -> str:
    """Return words for an example: the id of a question, else its first input."""
    if (known := getattr(example, "id", None)) is not None:
        return f"question {known!r}"
    try:
        name, value = next(iter(example.inputs().items()))
    except (AttributeError, ValueError, StopIteration):  # no example of DSPy, or its inputs are not set
        return "an example without an id"
    return f"the example with {name} {one_line(repr(value), 60)}"


def _checked(function: Any, name: str) -> Any:
    """Return the function with its errors and wrong values as UserErrors, and bools as numbers."""

    def score(example: Any, prediction: Any) -> float | None:
        try:
            # Copies, because the program's prediction is still needed, and by other metrics, too.
            value = function(copy.deepcopy(example), copy.deepcopy(prediction))
        except UserError:
            raise
        except (Exception, SystemExit) as error:  # the user's code may raise anything
            raise UserError(
                f"Own metric {name!r} failed on {_which(example)}: {type(error).__name__}: {one_line(error)}."
            ) from error
        if value is None:
            return None
        number = _number(value)
        if not 0 <= number <= 1:
            raise UserError(
                f"Own metric {name!r} returned {one_line(repr(value), 60)} on {_which(example)}: return a number "
                "from 0 to 1, True, False or None."
            )
        return number

    return score
