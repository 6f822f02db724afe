"""Every metric by name: its definition, its function and its source.

A name carries its definition in brackets where published definitions differ, because they give different numbers.
`METRICS` score an example and a prediction; `ORACLE_METRICS` also need an entailment oracle
(`optimizers.metrics.groundedness`). `families` contains the definitions; those named `name@k` exist for every k from 1
to 1000.

The effect of checking drafts against passages: corrected, left wrong, or made wrong.

GenGround, section 7.2, "Knowledge Incorporation" (https://arxiv.org/abs/2406.14891), where three annotators judged 100
questions. Here a judge is a function: exact match with a gold decomposition, or any other, which a table must name.

`by_question` finds the gold of a hop by its sub-question, equal after normalising. `by_position` takes the sub-question
at the hop's position, which is correct only for programs that ask the gold's sub-questions in the gold's order. Hops
without gold or without a draft are skipped and counted.

Scores of CoV-RAG's verification per question: its judgement, its format, and the references before and after.

He et al., "Retrieving, Rethinking and Revising", Findings of EMNLP 2024, section 4.3, table 6. All are None for
programs without verification. https://arxiv.org/abs/2410.05801

Own metrics: a function or a `Metric` in a module of the user, named `module:name`.

A name is imported only where the user typed it, on the command line or in Python (`own_metric`, `RunConfig`).
"""

import copy
import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from optimizers.metrics.answer import exact_match
from optimizers.metrics.evidence.context import EVIDENCE_METRICS, EVIDENCE_ORACLE_METRICS
from optimizers.metrics.families.answer import ANSWER_METRICS
from optimizers.metrics.families.citations import CITATION_METRICS, CITATION_ORACLE_METRICS
from optimizers.metrics.families.key_facts import KEY_FACT_METRICS
from optimizers.metrics.families.retrieval import AT_K, RETRIEVAL_METRICS, at_k
from optimizers.metrics.families.trajectories import TRAJECTORY_METRICS
from optimizers.metrics.fields import golds_of, passages_of
from optimizers.metrics.judges.answer_judge import JUDGED_METRICS, judgement_is_correct, references_contain_gold
from optimizers.metrics.metric import Metric, Need, OracleMetric
from optimizers.metrics.names import current_name, note_renamed
from signatures.common.errors import UserError, one_line, unknown
from signatures.common.own_code import code_digest, import_own
from signatures.text import normalize_answer
from signatures.types import Hop

if TYPE_CHECKING:
    from corpora.questions import SubQuestion


Revision = Literal["direct", "revised", "failure", "error"]
Judge = Callable[[Hop, str], bool | None]  # whether an answer to the hop's question is correct; None without gold

_CLASSES: dict[tuple[bool, bool], Revision] = {
    (True, True): "direct",
    (False, True): "revised",
    (False, False): "failure",
    (True, False): "error",
}


@dataclass(frozen=True)
class Revisions:
    """The revision classes of the hops of one or more questions.

    Args:
        classes: One per hop, in order: "direct" (draft and answer correct), "revised" (wrong, then correct), "failure"
            (both wrong), "error" (correct, then wrong); None for a skipped hop.
    """

    classes: tuple[Revision | None, ...]

    @property
    def judged(self) -> int:
        """Return the number of hops that have a class."""
        return len(self.classes) - self.skipped

    @property
    def skipped(self) -> int:
        """Return the number of hops that have no gold or no draft."""
        return self.classes.count(None)

    def count(self, *names: Revision) -> int:
        """Return the number of hops of these classes."""
        return sum(self.classes.count(name) for name in names)

    def rate(self, *names: Revision) -> float | None:
        """Return the share in [0, 1] of judged hops that are of one of these classes; None if none was judged.

        The rates of the paper: success `rate("direct", "revised")`, failure `rate("failure")`, error `rate("error")`;
        they sum to 1.
        """
        return self.count(*names) / self.judged if self.judged else None


def revisions(hops: Sequence[Hop], judge: Judge) -> Revisions:
    """Return the class of each hop according to the judge."""
    return Revisions(tuple(_revision(hop, judge) for hop in hops))


def pooled(parts: Iterable[Revisions]) -> Revisions:
    """Return the revisions of several questions as one, each hop with the same weight."""
    return Revisions(tuple(name for part in parts for name in part.classes))


def by_question(sub_questions: "Sequence[SubQuestion]") -> Judge:
    """Return a judge by exact match with the gold of the sub-question that is equal after normalising."""
    return _by_words({item.question: item.answer for item in sub_questions})


def _by_words(golds: Mapping[str, str | None]) -> Judge:
    by_words = {normalize_answer(question): answer for question, answer in golds.items()}
    return lambda hop, answer: _correct(answer, by_words.get(normalize_answer(hop.question)))


def by_position(hops: Sequence[Hop], sub_questions: "Sequence[SubQuestion]") -> Judge:
    """Return a judge of these hops, by exact match with the gold of the sub-question at the same position."""
    positions = {id(hop): position for position, hop in enumerate(hops)}

    def judge(hop: Hop, answer: str) -> bool | None:
        position = positions[id(hop)]
        return _correct(answer, sub_questions[position].answer) if position < len(sub_questions) else None

    return judge


def _correct(answer: str, gold: str | None) -> bool | None:
    return None if gold is None else exact_match(answer, [gold]) == 1.0


def _revision(hop: Hop, judge: Judge) -> Revision | None:
    if hop.draft is None:
        return None
    before, after = judge(hop, hop.draft), judge(hop, hop.answer)
    return None if before is None or after is None else _CLASSES[before, after]


def share(*names: Revision) -> Callable[[Any, Any], float | None]:
    """Return a scoring function: the `rate` of these classes over a prediction's hops, judged `by_question`."""

    def score(example: Any, prediction: Any) -> float | None:
        sub_questions = getattr(example, "sub_questions", None) or []
        judge = _by_words({item["question"]: item.get("answer") for item in sub_questions})
        return revisions(getattr(prediction, "hops", None) or [], judge).rate(*names)

    return score


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


def form(example: Any, prediction: Any) -> float | None:
    """Return the share in [0, 1] of a question's verifications that could be parsed."""
    details = _details(prediction)
    if not details:
        return None
    parsed, failed = len(details["verifications"]), int(details.get("verification_failures", 0))
    return parsed / (parsed + failed) if parsed + failed else None


def first_references(example: Any, prediction: Any) -> float | None:
    """Return 1.0 if the references of the first hop contain a gold answer, else 0.0."""
    return _references(example, prediction, hop=0)


def last_references(example: Any, prediction: Any) -> float | None:
    """Return 1.0 if the references of the last hop contain a gold answer, else 0.0."""
    return _references(example, prediction, hop=-1)


def _references(example: Any, prediction: Any, *, hop: int) -> float | None:
    hops = _hops(prediction)
    if not _details(prediction) or not hops:
        return None
    texts = {passage.id: f"{passage.title} {passage.text}" for passage in passages_of(prediction)}
    return references_contain_gold([texts[id] for id in hops[hop].passage_ids if id in texts], golds_of(example))


_COV_RAG = "https://arxiv.org/abs/2410.05801"
_GENGROUND = "https://arxiv.org/abs/2406.14891"

_HOP_MATCH = (
    "among the hops whose sub-question is a gold one by its words; exact match decides; undefined without such a hop."
)

_REFERENCES = (Need.ANSWERS, Need.HOPS, Need.TEXTS, Need.VERIFICATIONS)
_HOPS = (Need.SUB_QUESTIONS, Need.HOPS)

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
        "form[cov]",
        "Share of the verifications that could be read.",
        form,
        _COV_RAG,
        needs=(Need.VERIFICATIONS,),
    ),
    Metric(
        "references[before]",
        "1 when the first references hold a gold answer (normalised substring); undefined for yes and no.",
        first_references,
        _COV_RAG,
        needs=_REFERENCES,
    ),
    Metric(
        "references[after]",
        "1 when the last references hold a gold answer (normalised substring); undefined for yes and no.",
        last_references,
        _COV_RAG,
        needs=_REFERENCES,
    ),
    Metric(
        "revision[success]",
        f"Share of drafts that were right and stayed so, or were corrected, {_HOP_MATCH}",
        share("direct", "revised"),
        _GENGROUND,
        needs=_HOPS,
    ),
    Metric(
        "revision[failure]",
        f"Share of drafts that were wrong and stayed so, {_HOP_MATCH}",
        share("failure"),
        _GENGROUND,
        needs=_HOPS,
        higher_is_better=False,
    ),
    Metric(
        "revision[error]",
        f"Share of drafts that were right and were spoiled, {_HOP_MATCH}",
        share("error"),
        _GENGROUND,
        needs=_HOPS,
        higher_is_better=False,
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
    """Return the metric of that name; an old name is accepted with a note.

    Raises:
        UserError: There is no such metric, and the message lists the names; or it needs an entailment oracle, or its
            cutoff is not allowed.
    """
    note_renamed([name])
    metric = find_metric(current_name(name))
    if name in ORACLE_METRICS:
        raise UserError(f"{name} is decided by an entailment oracle: open it with `groundedness.with_oracle`.")
    if metric is None and ":" in name:
        raise UserError(f"{name!r} is not in the catalog: open an own metric with `typed.own.own_metric`.")
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
    text = one_line((inspect.getdoc(value) or "").partition("\n\n")[0])
    definition = f"{text if not text or text[-1] in '.!?' else text + '.'} {code}".strip()
    return Metric(name, definition, _checked(value, name), f"{module.__name__} (your code)")


def _check_call(function: Any, name: str) -> None:
    """Check before any LM is asked that a function takes an example and a prediction."""
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


def _checked(function: Any, name: str) -> Any:
    """Return the function with its errors and wrong values as UserErrors, and bools as numbers."""

    def score(example: Any, prediction: Any) -> float | None:
        asked = getattr(example, "id", None)
        try:
            # Copies, because the program's prediction is still needed, and by other metrics, too.
            value = function(copy.deepcopy(example), copy.deepcopy(prediction))
        except UserError:
            raise
        except (Exception, SystemExit) as error:  # the user's code may raise anything
            raise UserError(
                f"Own metric {name!r} failed on question {asked!r}: {type(error).__name__}: {one_line(error)}."
            ) from error
        if value is None:
            return None
        number = _number(value)
        if not 0 <= number <= 1:
            raise UserError(
                f"Own metric {name!r} returned {one_line(repr(value), 60)} on question {asked!r}: return a number from "
                "0 to 1, True, False or None."
            )
        return number

    return score
