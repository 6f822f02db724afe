"""The summary of a run: means with intervals, costs, calibration, and counts of everything that failed.

Calibration says whether a program knows when it is right. The confidence of an answer is `details["confidence"]` (of
`rag`, the probability that the LM gave to the answer), else RetroRAG's P(yes) that the answer agrees with the second
one, given without reasoning (`details["agreement"]`), of the round whose answer was returned.
"""

import math
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.analysis.closed_book import (
    ALL,
    SCORES,
    ClosedBook,
    answer_line,
    by_kind,
    closed_books,
    explained,
    reads_nothing,
    row_kind,
)
from experiments.analysis.repeats import Spread, by_question, question_values, repeated, spread, stability
from experiments.analysis.statistics import Mean, mean_of, means_of, too_small
from experiments.runs.calls import branches_spent, judging_spent, spent
from experiments.runs.files import SUMMARY, Json, Row, read_rows, read_run, write_json
from optimizers.metrics.groundedness import oracles_of
from optimizers.metrics.keyfact_scores import harmonic_mean
from optimizers.metrics.scoring import COSTS, costs_known
from signatures.common.costs import paid
from signatures.confidence import as_probability, details_of_answer, stated_confidence

if TYPE_CHECKING:
    from rich.table import Table


BINS = 10
COVERAGES = (50, 80, 100)  # percent


def confidence_of(row: Row) -> float | None:
    """Return the confidence in [0, 1] of a row's answer; None if the program states none."""
    details = details_of_answer(row.get("details"))
    if (stated := stated_confidence(details)) is not None:
        return stated
    rounds, hops = details.get("agreement"), row.get("hops") or []
    if not isinstance(rounds, list) or len(rounds) != len(hops):
        return None
    given = [p for p, hop in zip(rounds, hops, strict=True) if hop.get("answer") == row.get("answer")]
    return as_probability(given[-1]) if given else None


def calibration_error(confidences: Sequence[float], correct: Sequence[float], *, bins: int = BINS) -> float | None:
    """Return the expected calibration error in [0, 1]; None without answers.

    Answers are put into `bins` intervals of confidence of equal width; the error is the mean of the distances between
    accuracy and confidence of the intervals, weighted by their answers (Guo et al., ICML 2017,
    https://arxiv.org/abs/1706.04599).

    Args:
        confidences: In [0, 1], one per answer.
        correct: The score of each answer, 0 or 1.
        bins: Number of intervals.
    """
    if not confidences:
        return None
    members: dict[int, list[tuple[float, float]]] = {}
    for confidence, score in zip(confidences, correct, strict=True):
        place = max(0, math.ceil(confidence * bins) - 1)  # an interval contains its upper end
        members.setdefault(place, []).append((confidence, score))
    gaps = [abs(math.fsum(confidence - score for confidence, score in inside)) for inside in members.values()]
    return math.fsum(gaps) / len(confidences)


def selective_accuracy(confidences: Sequence[float], correct: Sequence[float], coverage: float) -> float | None:
    """Return the mean score of the share `coverage` of the answers with the highest confidence; None without answers.

    Of answers with equal confidence at the border, each counts the same part (El-Yaniv and Wiener, JMLR 2010,
    https://jmlr.org/papers/v11/el-yaniv10a.html).

    Args:
        confidences: One per answer.
        correct: The score of each answer.
        coverage: Share of the answers that are given, above 0, at most 1; rounded up to whole answers.
    """
    if not confidences:
        return None
    wanted = left = math.ceil(coverage * len(confidences) - 1e-9)
    by_confidence: dict[float, list[float]] = {}
    for confidence, score in zip(confidences, correct, strict=True):
        by_confidence.setdefault(confidence, []).append(score)
    total = 0.0
    for confidence in sorted(by_confidence, reverse=True):
        scores = by_confidence[confidence]
        taken = min(left, len(scores))
        total += taken * math.fsum(scores) / len(scores)
        left -= taken
    return total / wanted


def auroc(confidences: Sequence[float], correct: Sequence[float]) -> float | None:
    """Return the area under the ROC curve of confidence as a sign of right answers; None if all are right, or none is.

    That is the probability that a right answer has a higher confidence than a wrong one, equal ones counting half; 0.5
    is chance (Fawcett, Pattern Recognition Letters 2006, https://doi.org/10.1016/j.patrec.2005.10.010).

    Args:
        confidences: One per answer.
        correct: The score of each answer, 0 or 1.
    """
    right = [confidence for confidence, score in zip(confidences, correct, strict=True) if score]
    wrong = sorted(confidence for confidence, score in zip(confidences, correct, strict=True) if not score)
    if not right or not wrong:
        return None
    ahead = math.fsum(bisect_left(wrong, confidence) + bisect_right(wrong, confidence) for confidence in right)
    return ahead / (2 * len(right) * len(wrong))


def calibration(rows: Sequence[Row], metrics: Sequence[str]) -> dict[str, float]:
    """Return ECE, AUROC and selective accuracy by each of these 0/1 metrics; empty without confidences.

    `confidence[known]` is the share of the answers with a confidence; the others are left out.
    """
    answers = given(rows)
    known = [(confidence, row) for row in answers if (confidence := confidence_of(row)) is not None]
    found: dict[str, float] = {}
    for name in metrics:
        pairs = [(p, score) for p, row in known if (score := row["scores"].get(name)) is not None]
        confidences, correct = [p for p, _ in pairs], [float(score) for _, score in pairs]
        error = calibration_error(confidences, correct)
        if error is None:
            continue
        found[f"ece[{name}]"] = error
        if (area := auroc(confidences, correct)) is not None:
            found[f"auroc[{name}]"] = area
        for percent in COVERAGES:
            accuracy = selective_accuracy(confidences, correct, percent / 100)
            if accuracy is not None:
                found[f"selective[{name}]@{percent}"] = accuracy
    return {"confidence[known]": len(known) / len(answers), **found} if found else {}


def given(rows: Iterable[Row]) -> list[Row]:
    """Return the rows with an answer: neither an abstention nor a question that failed."""
    return [row for row in rows if not row.get("abstained") and row.get("error") is None]


def answered_scores(rows: Sequence[Row], metrics: Sequence[str]) -> dict[str, float]:
    """Return the mean of each metric over the answers that were given; empty if a program never abstained."""
    if not any(row["abstained"] for row in rows):
        return {}
    scores = {name: [row["scores"].get(name) for row in given(rows)] for name in metrics}
    means = {name: mean_of(values).mean for name, values in scores.items()}
    return {f"answered[{name}]": mean for name, mean in means.items() if mean is not None}


FAULTS = ("errors", "abstentions", "parse_failures", "truncated")
PER_ROW = ("errors", "abstentions")  # at most one per row, so that a rate is meaningful


def faults(rows: Sequence[Row]) -> dict[str, int]:
    """Return the counts of errors, abstentions, parse failures and truncated prompts."""
    return {
        "errors": sum(row["error"] is not None for row in rows),
        "abstentions": sum(bool(row["abstained"]) for row in rows),
        "parse_failures": sum(int(row["parse_failures"]) for row in rows),
        "truncated": sum(int(row["truncated"]) for row in rows),
    }


def stop_reasons(rows: Iterable[Row]) -> dict[str, int]:
    """Return how many questions ended for which reason (`programs.parts.prediction`), the most frequent first.

    Questions that failed have none, nor have predictions of other systems.
    """
    counts = Counter(reason for row in rows if (reason := row.get("stop_reason")))
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def all_reasons(counts: Iterable[Mapping[str, int]]) -> list[str]:
    """Return the reasons that occur in any of several runs, the most frequent first."""
    total: Counter[str] = Counter()
    for of_run in counts:
        total.update(of_run)
    return [reason for reason, _ in sorted(total.items(), key=lambda item: (-item[1], item[0]))]


@dataclass(frozen=True)
class RunScore:
    """A score of a run.

    Args:
        definition: What is scored; it stands for the name of a metric that is 0 or 1, such as em.
        source: URL of the published definition.
        needs: What the run must have.
        higher_is_better: The direction of improvement.
        form: Pattern of the names that summaries print; empty if they print the key itself.
    """

    definition: str
    source: str
    needs: str
    higher_is_better: bool = True
    form: str = ""


_CONFIDENCE = "a confidence in the program's details (rag where the LM gives log-probabilities, retro_rag)"

RUN_SCORES = {
    "pass@k[metric]": RunScore(
        "Probability that one of k answers to a question is right, estimated without bias from all its repeats.",
        "https://arxiv.org/abs/2107.03374",
        "repeats",
        form=r"pass@(k|[1-9]\d*)\[.+\]",
    ),
    "majority[metric]": RunScore(
        "Score of the answer that most repeats of a question gave (equal after normalising; the earliest of equals).",
        "https://arxiv.org/abs/2203.11171",
        "repeats",
        form=r"majority\[.+\]",
    ),
    "ece[metric]": RunScore(
        "Expected calibration error: distance of confidence and accuracy in 10 intervals of confidence, weighted by "
        "their answers. Accuracy is the run's first metric of em, acc[...] and own ones that is always 0 or 1.",
        "https://arxiv.org/abs/1706.04599",
        _CONFIDENCE,
        higher_is_better=False,
        form=r"ece\[.+\]",
    ),
    "auroc[metric]": RunScore(
        "Area under the ROC curve: the probability that a right answer has a higher confidence than a wrong one, by "
        "the metric of ece; 0.5 is chance.",
        "https://doi.org/10.1016/j.patrec.2005.10.010",
        _CONFIDENCE,
        form=r"auroc\[.+\]",
    ),
    "selective[metric]@50, @80, @100": RunScore(
        "Mean score of the 50, 80 or 100 percent of the answers with the highest confidence, by the metric of ece.",
        "https://jmlr.org/papers/v11/el-yaniv10a.html",
        _CONFIDENCE,
        form=r"selective\[.+\](@(50|80|100))?",
    ),
    "confidence[known]": RunScore(
        "Share of the answers with a confidence; ece, auroc and selective leave the others out.",
        "",
        _CONFIDENCE,
    ),
    "answered[metric]": RunScore(
        "Mean score of the answers that were given (selective accuracy), by the metric of ece: abstentions and "
        "questions that failed are left out.",
        "https://aclanthology.org/2020.acl-main.503",
        "an abstention",
        form=r"answered\[.+\]",
    ),
    "trajectory_rouge1, rouge2, rouge_l": RunScore(
        "Similarity of the trajectories (hops) of a question's repeats: ROUGE F1, mean over pairs of repeats.",
        "https://aclanthology.org/W04-1013",
        "repeats, and hops",
        form=r"trajectory_rouge(1|2|_l)",
    ),
    "keyfacts_f1[of means]": RunScore(
        "Harmonic mean of the means of keyfacts_precision and keyfacts_recall, which some tables print as F1.",
        'https://hotpotqa.github.io (its questions; "How Credible Is an Answer From Retrieval-Augmented LLMs?")',
        "keyfacts_precision and keyfacts_recall",
    ),
}


def family_of(name: str) -> str | None:
    """Return the key in `RUN_SCORES` of a name that summaries print, such as `ece[em]`; None for any other name."""
    if name in RUN_SCORES:
        return name
    return next((family for family, score in RUN_SCORES.items() if score.form and re.fullmatch(score.form, name)), None)


def binary(rows: Sequence[Row], metrics: Iterable[str]) -> list[str]:
    """Return the metrics of the answer whose scores in these rows are all 0 or 1 (and not all undefined)."""
    answers = [name for name in metrics if name == "em" or name.startswith("acc[") or ":" in name]
    scores = {name: {row["scores"].get(name) for row in rows} - {None} for name in answers}
    return [name for name, values in scores.items() if values and values <= {0, 1}]


_MOST = 0.5  # share of unparseable replies above which a run is suspect
_CURE = "Check that the model follows instructions, and allow longer replies or less reasoning"


@dataclass(frozen=True)
class Unreadable:
    """Unparseable replies.

    Args:
        failures: Replies that could not be parsed.
        replies: All replies, at least `failures`.
        example: The start of one that could not be parsed, as one line; "" if it was empty.
    """

    failures: int
    replies: int
    example: str

    @property
    def all(self) -> bool:
        """Whether no reply could be parsed."""
        return self.failures >= self.replies

    def __str__(self) -> str:
        """Return one line; characters that a terminal would interpret are escaped."""
        count = f"{self.failures:,} of {self.replies:,}"
        what = f"No reply of the LM ({count}) could" if self.all else f"{count} replies of the LM could not"
        example = repr(self.example) if self.example else "an empty reply"
        return f"{what} be parsed, e.g. {example}. {_CURE}."


def unreadable(row: Mapping[str, Any]) -> Unreadable | None:
    """Return the unparseable replies of one question, from the counts of its meter; None if there are none."""
    failures, replies = int(row.get("parse_failures") or 0), int(row.get("replies") or 0)
    return Unreadable(failures, replies, row.get("unreadable") or "") if failures and replies else None


def unread(answer: str, row: Mapping[str, Any]) -> Unreadable | None:
    """Return the unparseable replies of one question if it has no answer; None if it has, or if there are none."""
    return None if answer.strip() else unreadable(row)


def mostly_unreadable(rows: Sequence[Mapping[str, Any]]) -> Unreadable | None:
    """Return the unparseable replies of a run if they are more than half of its replies, else None.

    Rows written before replies were counted are left out.
    """
    counted = [row for row in rows if row.get("replies")]
    failures, replies = (sum(int(row[name]) for row in counted) for name in ("parse_failures", "replies"))
    if failures <= _MOST * replies:
        return None
    shown = [row["unreadable"] for row in counted if row.get("unreadable") is not None]
    return Unreadable(failures, replies, next(filter(None, shown), ""))


@dataclass(frozen=True)
class RunSummary:
    """The numbers of one run.

    Args:
        folder: Folder of the run.
        program: Name in the catalog.
        lm: Id of the LM.
        questions: Questions of the complete run.
        answered: Rows so far, failed ones included; one per question and repeat.
        metrics: Metric name -> mean over questions; a failed question scores 0.
        costs: Cost name -> mean per row.
        errors: Rows that ended in an exception.
        abstentions: Rows in which the program declined to answer.
        parse_failures: Unparseable replies, over all rows.
        truncated: Prompts cut to fit the context window, over all rows.
        stopped: Why the run ended early; None if it did not.
        notice: A warning for the reader, e.g. that n is small; None if there is none.
        repeats: How often each question is asked.
        spreads: Metric name -> how its mean varies between repeats; empty without repeats.
        stability: Similarity of the trajectories of a question's repeats; empty without repeats.
        repeated: pass@k and the majority's score, over the repeats of a question; empty without repeats.
        judging: Total cost of the judge LM, counted separately from the program's; empty without a judge.
        spent: Total cost of the program in all sessions, with questions that failed, had no row, and branches.
        branches: What of it the branches of a recorded run cost beside the answers; empty if there are none.
        derived: Name -> value of the run as a whole, such as its calibration error (`experiments.analysis.summary`).
        oracles: Which metrics an entailment oracle decides, with its measured agreement with human judgements.
        unreadable: The unparseable replies, if they are most of the replies or all; None if not.
        stop_reasons: Why the strategy stopped -> rows, most frequent first; rows that failed have no reason.
        kinds: Kind of the questions (`corpora.kinds`) -> exact match and F1; empty if the questions have no kinds.
        closed_book: "all" or a kind -> what answers score that nobody had to read anything for.
    """

    folder: str
    program: str
    lm: str
    questions: int
    answered: int
    metrics: dict[str, Mean]
    costs: dict[str, Mean]
    errors: int
    abstentions: int
    parse_failures: int
    truncated: int
    stopped: str | None
    notice: str | None
    repeats: int = 1
    spreads: dict[str, Spread] = field(default_factory=dict)
    stability: dict[str, Mean] = field(default_factory=dict)
    judging: dict[str, float] = field(default_factory=dict)
    derived: dict[str, float] = field(default_factory=dict)
    oracles: list[str] = field(default_factory=list)
    unreadable: Unreadable | None = None
    stop_reasons: dict[str, int] = field(default_factory=dict)
    spent: dict[str, float] = field(default_factory=dict)
    branches: dict[str, float] = field(default_factory=dict)
    repeated: dict[str, Mean] = field(default_factory=dict)
    kinds: dict[str, dict[str, Mean]] = field(default_factory=dict)
    closed_book: dict[str, ClosedBook] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """Whether every question has all its rows."""
        return self.answered == self.questions * self.repeats

    def as_dict(self) -> Json:
        """Return the fields as JSON values."""
        return {**asdict(self), "complete": self.complete}

    def as_table(self) -> "Table":
        """Return a table: scores in percent, costs per question, faults as counts."""
        from rich.markup import escape
        from rich.table import Table

        what = "questions" if self.repeats == 1 else f"answers, {self.repeats} per question"
        title = f"{self.program} on {self.lm}: {self.answered} of {self.questions * self.repeats} {what}"
        title = "\n".join(filter(None, [title, answer_line(self.closed_book)]))
        table = Table(title=escape(title), caption=escape(self.stopped or self.notice or ""))
        table.title_justify = table.caption_justify = "left"
        for heading in ("", "mean", "95 % interval", "n", "undefined", "unparsed"):
            table.add_column(heading, justify="left" if not heading else "right")
        for name, mean in {**self.metrics, **self.repeated, **self.stability}.items():
            excluded = (str(mean.undefined or ""), str(mean.unparsed or ""))
            table.add_row(escape(name), percent(mean.mean), interval(mean), str(mean.n), *excluded)
            if name in self.spreads:
                table.add_row(*_spread_cells(self.spreads[name]))
        for name, value in self.derived.items():
            table.add_row(escape(name), percent(value))
        table.add_section()
        for name, mean in of_kinds(self.kinds).items():
            table.add_row(escape(name), percent(mean.mean), interval(mean), str(mean.n))
        for name, value in self._closed_book().items():
            table.add_row(escape(name), percent(value))
        table.add_section()
        for name, mean in self.costs.items():
            table.add_row(f"{name} per question", number(mean.mean), interval(mean, number), str(mean.n))
        table.add_section()
        for name in FAULTS:
            count = getattr(self, name)
            share = percent(count / self.answered) + " %" if name in PER_ROW and self.answered else ""
            table.add_row(name.replace("_", " "), str(count), share, str(self.answered))
        for reason, count in self.stop_reasons.items():
            table.add_row(f"stopped: {escape(reason)}", str(count), f"{percent(count / self.answered)} %")
        for name, count in self._totals().items():
            table.add_row(name, f"{count:,.2f}" if name.startswith("usd") else f"{count:,.0f}")
        for name, count in self.judging.items():
            table.add_row(f"judge {name.replace('_', ' ')}", f"{count:,.2f}" if name == "usd" else f"{count:,.0f}")
        return table

    def _closed_book(self) -> dict[str, float]:
        """Return what answers without reading score on all questions."""
        if (book := self.closed_book.get(ALL)) is None:
            return {}
        guessed = book.chance if book.two_choices else {}
        return {
            **{f"{name}, majority answer {book.answer[:20]!r}": value for name, value in book.majority.items()},
            **{f"{name}, chance ({book.two_choices} have two choices)": value for name, value in guessed.items()},
        }

    def _totals(self) -> dict[str, float]:
        """Return what was paid for in total, and how much of it repeated failed calls."""
        if not self.spent:
            return {}
        of = self.spent
        shown = {**_paid(of, "in total"), **(_paid(self.branches, "for branches") if self.branches else {})}
        optional = {
            "usd in total": "usd",
            "repeated calls": "retries",
            "seconds waited for the LM server": "wait_seconds",
        }
        return {**shown, **{label: of[name] for label, name in optional.items() if of[name] >= 0.005}}


def _paid(of: Mapping[str, float], what: str) -> dict[str, float]:
    return {f"paid {name} {what}": amount for name, amount in paid(of).of(("calls", "tokens")).items()}


def _spread_cells(spread: Spread) -> tuple[str, ...]:
    deviation = "" if spread.deviation is None else f"sd {percent(spread.deviation)}"
    return "  between repeats", deviation, f"{percent(spread.low)} to {percent(spread.high)}", str(len(spread.means))


def percent(value: float | None) -> str:
    """Return a share as percent with one decimal, "-" for None."""
    return "-" if value is None else f"{100 * value:.1f}"


def number(value: float | None) -> str:
    """Return a cost with as many decimals as it needs, "-" for None."""
    return "-" if value is None else f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}"


def interval(mean: Mean, show: Any = percent) -> str:
    """Return the interval of a mean as text, "" if it has none."""
    return "" if mean.low is None else f"{show(mean.low)} to {show(mean.high)}"


def cache_note(rows: Sequence[Row]) -> list[str]:
    """Return a note if the cache or a record answered LM calls, which takes no time; empty if none was."""
    calls, cached = (sum(int(row.get(name) or 0) for row in rows) for name in ("calls", "cached_calls"))
    if not cached:
        return []
    by = "the reply cache or the run's record"
    return [f"{cached:,} of {calls:,} LM calls were answered by {by}: seconds do not include these calls."]


def score_values(questions: Iterable[Sequence[Row]], metric: str) -> list[float | None]:
    """Return the score of each question, the mean of its repeats; None if no repeat has one."""
    return question_values(questions, lambda row: row["scores"].get(metric))


def counted_rows(questions: Iterable[Sequence[Row]]) -> list[Row]:
    """Return the rows that `with_counts` counts: abstentions, and those with unparseable texts or verdicts."""
    return [row for rows in questions for row in rows if row["abstained"] or row.get("unparsed")]


def with_counts(mean: Mean, counted: Iterable[Row], metric: str, *, missing: int = 0) -> Mean:
    """Return the mean of a metric, with counts of unparseable and missing scores and of abstentions.

    Args:
        mean: Of `score_values`.
        counted: The `counted_rows` of its questions.
        metric: Its name.
        missing: Questions without a row.
    """
    scored = [row for row in counted if row["scores"].get(metric) is not None]
    return replace(
        mean,
        unparsed=sum((row.get("unparsed") or {}).get(metric, 0) for row in scored),
        abstained=sum(bool(row["abstained"]) for row in scored),
        missing=missing,
    )


def of_kinds(kinds: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return what is known of each metric and kind by a name that says both; empty if all questions are of one kind."""
    names = dict.fromkeys(name for of in kinds.values() for name in of)
    return {f"{name}, {kind}": of[name] for name in names for kind, of in kinds.items()} if len(kinds) > 1 else {}


def _by_kind(of: Sequence[str | None], columns: Mapping[str, Sequence[float | None]]) -> dict[str, dict[str, Mean]]:
    """Return the means of the answer metrics for each kind."""
    groups, names = by_kind(of), [name for name in columns if name in SCORES]
    parts = [[columns[name][place] for place in places] for places in groups.values() for name in names]
    means = iter(means_of(parts) if parts else [])
    return {kind: {name: next(means) for name in names} for kind in groups} if names else {}


def derived(metrics: Mapping[str, Mean]) -> dict[str, float]:
    """Return the F1 of mean key-facts precision and mean key-facts recall; empty if a run lacks one of them."""
    found = [metrics.get(f"keyfacts_{part}") for part in ("precision", "recall")]
    means = [mean.mean for mean in found if mean is not None and mean.mean is not None]
    return {"keyfacts_f1[of means]": harmonic_mean(*means)} if len(means) == 2 else {}


def summarise(folder: Path, *, stopped: str | None = None, rows: Sequence[Row] | None = None) -> RunSummary:
    """Return the summary of a run, complete or not.

    Args:
        folder: Of the run.
        stopped: Why the run ended early.
        rows: The rows in `folder`, if they are read already.

    Raises:
        UserError: `folder` contains no run.
    """
    description = read_run(folder)
    rows = read_rows(folder) if rows is None else rows
    repeats = description.get("repeats", 1)
    # Sorted, because threads finish in any order and the same answers must give the same interval.
    questions = list(by_question(rows).values())
    asked = description["questions"]["n"]
    left = asked * repeats - len(rows)
    what = "questions are not answered yet" if repeats == 1 else "answers are missing"
    several = repeats > 1
    columns = {name: score_values(questions, name) for name in description["metrics"]}
    costs = {name: question_values(questions, cost.function) for name, cost in COSTS.items()}
    means = means_of([*columns.values(), *costs.values()])
    counted = counted_rows(questions)
    metrics = {
        name: with_counts(mean, counted, name, missing=asked - len(questions))
        for name, mean in zip(columns, means, strict=False)
    }
    graded = binary(rows, metrics)
    one_of_each = [own[0] for own in questions]
    kinds = _by_kind(list(map(row_kind, one_of_each)), columns)
    books = closed_books(one_of_each, list(columns))
    return RunSummary(
        folder=str(folder),
        program=description["program"]["name"],
        lm=description["lm"]["id"],
        questions=asked,
        answered=len(rows),
        metrics=metrics,
        costs=dict(zip(costs, means[len(columns) :], strict=True)),
        **faults(rows),
        stopped=stopped,
        notice=" ".join(
            filter(
                None,
                [
                    f"{left} of {asked * repeats} {what}." if left else "",
                    *_unscored(rows, metrics),
                    *description.get("notes", []),
                    *cache_note(rows),
                    too_small(len(questions)),
                    *([] if reads_nothing(rows) else explained(books, {ALL: metrics, **kinds})),
                ],
            )
        )
        or None,
        repeats=repeats,
        spreads={name: _spread(rows, name, repeats) for name in description["metrics"]} if several else {},
        stability=stability(questions) if several else {},
        judging=judging_spent(folder),
        spent=spent(folder) if any(map(costs_known, rows)) or not rows else {},
        branches=branches_spent(folder),
        repeated=repeated(questions, graded, repeats) if several else {},
        derived={**derived(metrics), **answered_scores(rows, graded[:1]), **calibration(rows, graded[:1])},
        oracles=oracles_of(description["metrics"]),
        unreadable=mostly_unreadable(rows),
        stop_reasons=stop_reasons(rows),
        kinds=kinds,
        closed_book=books,
    )


def _unscored(rows: Sequence[Row], metrics: Iterable[str]) -> list[str]:
    """Return a note if answers were given after a metric was added to the run, and so were not scored by it."""
    lacking = {name: count for name in metrics if (count := sum(name not in row["scores"] for row in rows))}
    if not lacking:
        return []
    which = ", ".join(f"{name} ({count})" for name, count in lacking.items())
    return [f"Answers not scored yet by {which}: score the run again."]


def _spread(rows: Sequence[Row], metric: str, repeats: int) -> Spread:
    return spread(rows, lambda row: row["scores"].get(metric), repeats)


def write_summary(folder: Path, *, stopped: str | None = None) -> RunSummary:
    """Summarise a run and write `summary.json` atomically."""
    summary = summarise(folder, stopped=stopped)
    write_json(folder / SUMMARY, summary.as_dict())
    return summary
