"""Compare two or more runs, paired on the questions that all of them answered."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
    main_score,
    reads_nothing,
    row_kind,
)
from experiments.analysis.outcomes import OUTCOMES, Found, found_outcomes, main_metric, outcome_means
from experiments.analysis.repeats import by_question, question_values
from experiments.analysis.statistics import Mean, Paired, holm, means_and_differences, paired
from experiments.analysis.summary import (
    all_reasons,
    cache_note,
    counted_rows,
    derived,
    faults,
    interval,
    number,
    of_kinds,
    percent,
    score_values,
    stop_reasons,
    with_counts,
)
from experiments.runs.files import UNKNOWN_LM, Json, Row, read_rows, read_run
from optimizers.metrics.groundedness import oracles_of
from optimizers.metrics.scoring import COSTS
from optimizers.tuning.front import front_places
from signatures.common.errors import UserError

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

    from programs.artifact import Artifact


_ABSENT = "default"
JUDGE = "judge LM"
"""Setting of the LM that decides judged metrics."""
SPLIT = "split by rule"
"""How sentences are counted in the passages of a run that says nothing else (`sentences` in its `run.json`)."""


def some(labels: Sequence[str]) -> str:
    """Return labels as text, the first six where there are many."""
    more = f" and {len(labels) - 6} more" if len(labels) > 6 else ""
    return f"{', '.join(labels[:6])}{more}"


@dataclass(frozen=True)
class Difference:
    """A setting in which runs differ.

    Args:
        setting: Its name.
        values: Label of a run -> its value as text.
    """

    setting: str
    values: dict[str, str]

    @property
    def of_program(self) -> bool:
        """Whether it is in the program: which one, its prompts or its knobs."""
        return self.setting in ("program", _STATE) or self.setting.startswith(_KNOB)

    def __str__(self) -> str:
        runs_of: dict[str, list[str]] = {}
        for label, value in self.values.items():
            runs_of.setdefault(value, []).append(label)
        parts = (f"{value} ({some(labels)})" for value, labels in runs_of.items())
        return f"Different {self.setting}: {'; '.join(parts)}."


def differences(descriptions: Mapping[str, Json]) -> list[Difference]:
    """Return the settings in which runs differ, in a fixed order.

    Threads, versions and paths are no settings. Knobs that only one of two programs has are not compared, and the
    demonstrations of different programs neither; nor is what the predictions of another system do not say.

    Args:
        descriptions: Label of a run -> the content of its `run.json`.
    """
    by_run = {label: _settings(description) for label, description in descriptions.items()}
    same_program = _one(settings["program"] for settings in by_run.values())
    same_lm = _one(settings["LM"] for settings in by_run.values())
    found: list[Difference] = []
    for name in dict.fromkeys(name for settings in by_run.values() for name in settings):
        if (name == _STATE and not same_program) or (name == _MODEL and not same_lm):
            continue
        optional = name == _STATE or (name.startswith(_KNOB) and not same_program)
        values = {
            label: settings.get(name)
            for label, settings in by_run.items()
            if name in settings or not (optional or is_foreign(descriptions[label]))
        }
        found += differing(name, values)
    return found


def is_foreign(description: Json) -> bool:
    """Return whether a run holds predictions of another system, or a vote among such: most settings are unknown."""
    return bool(description["lm"]["id"] == UNKNOWN_LM)


def differing(setting: str, values: Mapping[str, Any]) -> list[Difference]:
    """Return the difference in one setting, given the value of each run by its label; empty if all are equal."""
    texts = {label: _text(value) for label, value in values.items()}
    return [] if _one(texts.values()) else [Difference(setting, texts)]


_STATE, _MODEL, _KNOB = "instructions or demonstrations", "weights or server of the LM", "knob "


def _settings(description: Json) -> dict[str, Any]:
    """Return the settings of a run by name."""
    program, lm = description["program"], description["lm"]
    compiled = "compiled" if program.get("artifact_sha256") else "uncompiled"
    given, judged = description.get("given"), {JUDGE: judge_of(description)}
    knobs = {f"{_KNOB}{name}": value for name, value in program.get("knobs", {}).items()}
    if is_foreign(description):
        return {"program": program["name"], **knobs, "LM": lm["id"], **judged}
    return {
        "program": program["name"],
        # A vote has none.
        **({_STATE: f"{compiled} {str(program['state_sha256'])[:8]}"} if program.get("state_sha256") else {}),
        **knobs,
        "LM": lm["id"],
        _MODEL: lm.get("model"),
        "adapter": lm.get("adapter"),
        "source of P(yes)": lm.get("probability_mode"),
        **{f"{name.replace('_', ' ')} of the LM": value for name, value in lm.get("settings", {}).items()},
        "corpus or retriever": description.get("corpus", {}).get("fingerprint") or "none",
        "fixed contexts": _contexts(given) if given else "none",
        **judged,
        "repeats": description.get("repeats", 1),
        "seed": description.get("seed"),
    }


def judge_of(description: Json) -> str:
    """Return the judge LM of a run in words."""
    judge = description.get("judge")
    return f"{judge['id']} ({judge.get('model')})" if judge else "none"


def _contexts(given: Json) -> str:
    of = f"{given.get('n')} passages, seed {given.get('seed')}, SHA-256 {str(given.get('sha256'))[:8]}"
    return f"{given.get('knowledge')}, {of}"


def _one(values: Any) -> bool:
    """Return whether all values are equal."""
    return len({json.dumps(value, sort_keys=True, default=str) for value in values}) <= 1


def _text(value: Any) -> str:
    if value is None:
        return _ABSENT
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def sentence_notices(descriptions: Mapping[str, Json], compared: Sequence[str]) -> list[str]:
    """Return which compared metrics number sentences differently in the runs.

    Args:
        descriptions: Label of a run -> the content of its `run.json`.
        compared: Names of metrics.
    """
    notices: dict[str, list[str]] = {}
    for name in compared:
        named = [(label, description.get("sentences")) for label, description in descriptions.items()]
        values = {label: str(own.get(name, SPLIT)) if isinstance(own, dict) else SPLIT for label, own in named}
        if not _one(values.values()):
            notices.setdefault(str(Difference("sentences", values)), []).append(name)
    return [f"{', '.join(names)}: {text} Their numbers may differ." for text, names in notices.items()]


def metric_notices(definitions: Sequence[Mapping[str, str]], compared: Sequence[str]) -> list[str]:
    """Return which metrics are omitted: not in every run, or in every run with different definitions."""
    omitted = sorted({name for metrics in definitions for name in metrics} - set(compared))
    redefined = [name for name in omitted if all(name in metrics for metrics in definitions)]
    absent = [name for name in omitted if name not in redefined]
    notices = [f"Not in every run, so omitted: {', '.join(absent)}."] if absent else []
    if redefined:
        notices.append(f"Defined differently in the runs, so omitted: {', '.join(redefined)}.")
    return notices


def fewer_notices(metrics: Mapping[str, Sequence["Line"]]) -> list[str]:
    """Return which differences are over fewer questions than the means beside them, because scores are missing."""
    return [
        f"{name}, {line.run}: the difference is over the {line.against_first.n} questions that both runs have scored."
        for name, lines in metrics.items()
        for line in lines
        if line.against_first and line.against_first.n < max(line.mean.n, lines[0].mean.n)
    ]


def power_notices(name: str, lines: Sequence["Line"]) -> list[str]:
    """Return how large a difference these questions can show, of the runs whose difference shows nothing."""
    unshown = {
        line.run: (result.detectable, result)
        for line in lines
        if (result := line.against_first) and result.detectable and line.p_holm is not None and line.p_holm >= 0.05
    }
    if not unshown:
        return []
    sizes = dict.fromkeys(f"{100 * detectable:.1f}" for detectable, _ in sorted(unshown.values(), key=lambda of: of[0]))
    run = max(unshown, key=lambda run: abs(unshown[run][1].difference or 0))
    result = unshown[run][1]
    who, whose = (f"{len(unshown)} runs", f"{run}'s") if len(unshown) > 1 else (run, "one")
    return [
        f"{name}, {who}: with {result.n} questions a difference of {' to '.join([*sizes][:: max(1, len(sizes) - 1)])} "
        f"points is found four times in five{_needed(result, whose)}."
    ]


def _needed(result: Paired, whose: str) -> str:
    """Return how many questions a difference needs; "" if it is none to one decimal."""
    shown, needed = f"{100 * (result.difference or 0):+.1f}", result.questions_needed
    if needed is None or needed <= result.n or float(shown) == 0:
        return ""
    return f"; {whose} of {shown} needs about {float(f'{needed:.2g}'):,.0f}"


@dataclass(frozen=True)
class Run:
    """One of the compared runs.

    Args:
        label: The part of its folder's path that tells it from the others.
        folder: Of the run.
        description: Its `run.json`.
        questions: The rows of each question that all runs answered, in one order for all runs.
        others: The rows of each question that some run has not answered.
    """

    label: str
    folder: Path
    description: Json
    questions: list[list[Row]]
    others: list[list[Row]] = field(default_factory=list)

    @property
    def program(self) -> str:
        """The name of its program."""
        return str(self.description["program"]["name"])

    @property
    def rows(self) -> list[Row]:
        """Return all rows of the shared questions."""
        return [row for rows in self.questions for row in rows]


Read = tuple[Path, Json, list[Row]]  # a folder, its `run.json` and its rows
_SETTINGS = re.compile(r"(?<=\w)-(?=\d*[a-f])[0-9a-f]{8}$")  # at the end of names that `verihop reproduce` gives


def labels_of(folders: Sequence[Path]) -> list[str]:
    """Return the shortest path suffixes that distinguish the folders, without a hash of settings where it need not."""
    parts = [folder.resolve().parts for folder in folders]
    for named in ([(*part[:-1], _SETTINGS.sub("", part[-1])) for part in parts], parts):
        for length in range(1, max(map(len, parts)) + 1):
            labels = ["/".join(part[-length:]) for part in named]
            if len(set(labels)) == len(labels):
                return labels
    raise UserError("A run is named twice. Name each run once.")


def load_runs(folders: Sequence[Path]) -> list[Run]:
    """Read the runs and keep the rows of questions, by id and wording, that all of them answered.

    Raises:
        UserError: A folder contains no answered question, or the runs share none.
    """
    return runs_of([(folder, read_run(folder), read_rows(folder, complete=True)) for folder in folders])


def runs_of(found: Sequence[Read]) -> list[Run]:
    """Return the runs of what was read, as `load_runs` does; it says what is raised."""
    folders = [folder for folder, _, _ in found]
    asked = [by_question(rows) for _, _, rows in found]
    for folder, own in zip(folders, asked, strict=True):
        if not own:
            raise UserError(f"{folder} has no answered question yet. Run it first.")
    common = set(asked[0]).intersection(*asked[1:])
    shared = sorted(common)
    if not shared:
        raise UserError("These runs share no question. Compare runs over the same question file.")
    return [
        Run(
            label,
            folder,
            description,
            [own[key] for key in shared],
            [rows for key, rows in own.items() if key not in common],
        )
        for label, (folder, description, _), own in zip(labels_of(folders), found, asked, strict=True)
    ]


@dataclass(frozen=True)
class Line:
    """One score or cost of one run.

    Args:
        run: Label of the run.
        mean: Over the shared questions.
        against_first: The difference to the first run on the same questions; None for the first run.
        p_holm: Its p-value, corrected for the comparisons of all runs with the first; None without one.
    """

    run: str
    mean: Mean
    against_first: Paired | None
    p_holm: float | None = None

    def as_dict(self) -> Json:
        """Return the fields as JSON values."""
        return {
            **self.mean.as_dict(),
            "against_first": None
            if self.against_first is None
            else {**self.against_first.as_dict(), "p_holm": self.p_holm},
        }


@dataclass(frozen=True)
class RunComparison:
    """The scores and costs of several runs on the same questions.

    Args:
        runs: In the requested order; differences are against the first.
        questions: How many questions all runs answered.
        metrics: Metric name -> one line per run.
        costs: Cost name -> one line per run.
        faults: Run label -> counts of errors, abstentions, parse failures, truncated prompts.
        stop_reasons: Run label -> why its strategy stopped -> rows.
        differences: Settings in which the runs differ.
        notices: Warnings for the reader: `about_runs` first, then those on these scores.
        kinds: Kind of the questions (`corpora.kinds`) -> exact match and F1, one line per run; empty without kinds.
        closed_book: "all" or a kind -> what answers score that nobody had to read anything for.
        outcomes: Run label -> share of each outcome, then the recall conversion; empty if no metric says what is right.
        found: Run label -> the outcome of each row of the shared questions.
        right_by: The metric that says it; None without one.
    """

    runs: list[Run]
    questions: int
    metrics: dict[str, list[Line]]
    costs: dict[str, list[Line]]
    faults: dict[str, dict[str, int]]
    stop_reasons: dict[str, dict[str, int]]
    differences: list[Difference]
    notices: list[str]
    kinds: dict[str, dict[str, list[Line]]] = field(default_factory=dict)
    closed_book: dict[str, ClosedBook] = field(default_factory=dict)
    outcomes: dict[str, dict[str, Mean]] = field(default_factory=dict)
    found: dict[str, Found] = field(default_factory=dict)
    right_by: str | None = None

    @property
    def about_runs(self) -> list[str]:
        """The notices that hold for any scores of these runs: how they differ, and the notes of each."""
        return about_runs(self.runs, self.differences)

    def front(self, metric: str, cost: str) -> list[int]:
        """Return the places of the runs that no other surpasses in score and cost, both known, cheapest first."""
        pairs = zip(self.costs[cost], self.metrics[metric], strict=True)
        known = {
            place: (spent.mean.mean, scored.mean.mean)
            for place, (spent, scored) in enumerate(pairs)
            if spent.mean.mean is not None and scored.mean.mean is not None
        }
        places = list(known)
        return [places[each] for each in front_places(list(known.values()))]

    def as_dict(self) -> Json:
        """Return everything as JSON values."""

        def lines(of: dict[str, list[Line]]) -> Json:
            return {name: {line.run: line.as_dict() for line in several} for name, several in of.items()}

        return {
            "runs": [
                {"label": run.label, "program": run.description["program"], "lm": run.description["lm"]}
                for run in self.runs
            ],
            "questions": self.questions,
            "metrics": lines(self.metrics),
            "costs": lines(self.costs),
            "faults": self.faults,
            "stop_reasons": self.stop_reasons,
            "differences": {item.setting: item.values for item in self.differences},
            "kinds": {kind: lines(of) for kind, of in self.kinds.items()},
            "closed_book": {group: book.as_dict() for group, book in self.closed_book.items()},
            "outcomes": {run: {name: mean.as_dict() for name, mean in of.items()} for run, of in self.outcomes.items()},
            "right_by": self.right_by,
            "notices": self.notices,
        }

    def as_table(self) -> "Group":
        """Return tables for a terminal: scores with their differences, outcomes, costs and faults, notices."""
        from rich.console import Group
        from rich.text import Text

        notices = [Text(f"Note: {notice}", style="yellow") for notice in self.notices]
        title = f"{self.questions} questions; scores in percent with 95 % intervals"
        shown = {**self.metrics, **of_kinds(self.kinds)}
        title = "\n".join(filter(None, [title, answer_line(self.closed_book)]))
        scores = score_table(title, shown, self.questions, caption=caption_against(self.runs[0].label, len(self.runs)))
        abreast = [slice(start, start + _ABREAST) for start in range(0, len(self.runs), _ABREAST)]
        outcomes = map(self._outcome_table, abreast if self.outcomes else [])
        return Group(scores, *outcomes, *map(self._cost_table, abreast), *notices)

    def _outcome_table(self, shown: slice) -> "Table":
        """Return the outcomes that some run has, and the recall conversion, of these runs."""
        title = f"Outcomes in percent of the questions scored; right is {self.right_by} of 1"
        found = [self.outcomes[run.label] for run in self.runs]
        table = self._beside(title, shown)
        for name in found[0]:
            if name not in OUTCOMES:
                table.add_section()
            if name not in OUTCOMES or any(of[name].mean for of in found):
                table.add_row(name, *(percent(of[name].mean) for of in found[shown]))
        return table

    def _cost_table(self, shown: slice) -> "Table":
        """Return the costs and failures of these runs."""
        labels = [run.label for run in self.runs[shown]]
        table = self._beside("Mean cost per question, and failures in total", shown)
        for name, lines in self.costs.items():
            table.add_row(name.replace("_", " "), *(number(line.mean.mean) for line in lines[shown]))
        table.add_section()
        for name in next(iter(self.faults.values())):
            table.add_row(name.replace("_", " "), *(str(self.faults[label][name]) for label in labels))
        for reason in all_reasons(self.stop_reasons.values()):
            table.add_row(f"stopped: {reason}", *(str(self.stop_reasons[label].get(reason, 0)) for label in labels))
        return table

    def _beside(self, title: str, shown: slice) -> "Table":
        """Return a table with a column for each of these runs, which stand beside one another."""
        from rich.markup import escape

        table = _table(title)
        table.add_column("", no_wrap=True)
        for run in self.runs[shown]:
            table.add_column(escape(run.label), justify="right", overflow="fold")
        return table


_ABREAST = 4  # runs beside one another in 80 columns


def _table(title: str, *, caption: str | None = None) -> "Table":
    """Return a table without columns and vertical rules, so that it fits 80 columns."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    return Table(
        title=escape(title),
        title_justify="left",
        caption=escape(caption) if caption else None,
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1),
    )


def caption_against(label: str, runs: int = 2) -> str:
    """Return the caption that explains the difference columns."""
    tests = f"Differences are against {label}; p by McNemar's test for 0/1 scores, else by a t-test"
    return f"{tests}." if runs <= 2 else f"{tests}, corrected for {runs - 1} comparisons (Holm)."


def score_table(title: str, metrics: dict[str, list[Line]], questions: int, *, caption: str | None = None) -> "Table":
    """Return a table with a line per metric and run.

    Args:
        title: States the number of questions.
        metrics: Metric name -> one line per run.
        questions: Their number; n is shown for a metric with another n, because some questions lack its gold, and of
            each run where it differs, because some answers are not scored.
        caption: Printed below the table.
    """
    from rich.markup import escape

    table = _table(title, caption=caption)
    for name in ("metric", "run"):
        table.add_column(name, overflow="fold")
    for name in ("mean", "difference", "p"):
        table.add_column(name, justify="right", no_wrap=True)
    for name, lines in metrics.items():
        same = len({line.mean.n for line in lines}) == 1
        for position, line in enumerate(lines):
            n = "" if line.mean.n == questions else f" (n={line.mean.n})"
            # On a line of its own: beside the interval it took the names of metrics and runs their room.
            unparsed = f"\n({line.mean.unparsed} unparsed)" if line.mean.unparsed else ""
            mean = f"{percent(line.mean.mean)} {_brackets(interval(line.mean))}{'' if same else n}{unparsed}"
            heading = "" if position else escape(name + (n if same else ""))
            table.add_row(heading, escape(line.run), mean, *_difference(line))
        table.add_section()
    return table


def _brackets(spread: str) -> str:
    return rf"\[{spread.replace(' to ', ', ')}]" if spread else ""


def p_text(line: Line) -> str:
    """Return the corrected p-value as text: "1 (same)" if all scores are identical, "-" if there is no p-value."""
    if line.p_holm is None or line.against_first is None:
        return "-"
    if line.against_first.identical:
        return "1 (same)"
    return "< .001" if line.p_holm < 0.001 else f"{line.p_holm:.3f}"


def _difference(line: Line) -> tuple[str, str]:
    result = line.against_first
    if result is None or result.difference is None:
        return "", ""
    signed = f"{100 * result.difference:+.1f}"
    if result.low is None or result.high is None:
        return signed, p_text(line)
    return f"{signed} {_brackets(f'{100 * result.low:.1f} to {100 * result.high:.1f}')}", p_text(line)


def about_runs(runs: Sequence[Run], differing: Sequence[Difference]) -> list[str]:
    """Return how runs differ, and the notes of each."""
    notes = [(run.label, text) for run in runs for text in [*run.description.get("notes", []), *cache_note(run.rows)]]
    return [*map(str, differing), *merge_notes(notes)]


def merge_notes(notes: Iterable[tuple[str, str]]) -> list[str]:
    """Return each of these texts once, after the labels of all that it is about."""
    labels: dict[str, list[str]] = {}
    for label, text in notes:
        labels.setdefault(text, []).append(label)
    return [f"{', '.join(of)}: {text}" for text, of in labels.items()]


def _notices(runs: Sequence[Run], metrics: dict[str, list[Line]]) -> list[str]:
    shared = len(runs[0].questions)
    notices = [
        f"{run.label} is over {run.description['questions']['n']} questions, of which {shared} are compared."
        for run in runs
        if run.description["questions"]["n"] != shared
    ]
    notices += [
        f"{run.label} asks each question {run.description['repeats']} times; its scores are means over them."
        for run in runs
        if run.description.get("repeats", 1) > 1
    ]
    notices += fewer_notices(metrics)
    notices += [text for name, lines in [*metrics.items()][:1] for text in power_notices(name, lines)]
    notices += oracles_of({name: runs[0].description["metrics"][name] for name in metrics})
    for place, run in enumerate(runs):
        of_means = derived({name: lines[place].mean for name, lines in metrics.items()})
        notices += [f"{name}, {run.label}: {percent(value)}." for name, value in of_means.items()]
    notices += metric_notices([run.description["metrics"] for run in runs], list(metrics))
    notices += sentence_notices({run.label: run.description for run in runs}, list(metrics))
    if len({run.description["questions"]["sha256"] for run in runs}) > 1:
        notices.append("The question files differ; questions of the same id and wording are paired.")
    caveats: list[str] = []
    for name, lines in metrics.items():
        found = [(line.run, line.against_first.notice) for line in lines if line.against_first]
        caveats += [f"{name}, {text}" for text in merge_notes((run, text) for run, text in found if text)]
    small = [text.split(": ", 1)[1] for text in caveats if "is too small" in text]
    return [*notices, *dict.fromkeys(small), *(text for text in caveats if "is too small" not in text)]


def score_lines(runs: Sequence[Run], names: Sequence[str]) -> dict[str, list[Line]]:
    """Return a line per run for each metric; all runs have the same questions in the same order."""
    return score_and_cost_lines(runs, names, costs=())[0]


def score_and_cost_lines(
    runs: Sequence[Run], names: Sequence[str], costs: Iterable[str] = tuple(COSTS)
) -> tuple[dict[str, list[Line]], dict[str, list[Line]]]:
    """Return a line per run for each metric and for each cost; all runs have the same questions in the same order."""
    scores = {name: [score_values(run.questions, name) for run in runs] for name in names}
    spent = {name: [question_values(run.questions, COSTS[name].function) for run in runs] for name in costs}
    columns = [own for several in (*scores.values(), *spent.values()) for own in several]
    others = [place for place in range(len(columns)) if place % len(runs)]
    pairs = [(place - place % len(runs), place) for place in others]
    means, differences = means_and_differences(columns, pairs, tests=max(1, len(runs) - 1))
    against = dict(zip(others, differences, strict=True))

    def lines(first: int) -> list[Line]:
        results = [against.get(first + place) for place in range(len(runs))]
        corrected = holm([None if result is None else result.p for result in results])
        own = zip(runs, means[first : first + len(runs)], results, corrected, strict=True)
        return [Line(run.label, mean, result, p) for run, mean, result, p in own]

    found = [lines(first) for first in range(0, len(columns), len(runs))]
    counted = [counted_rows(run.questions) for run in runs]
    metrics = {
        name: [replace(line, mean=with_counts(line.mean, rows, name)) for rows, line in zip(counted, own, strict=True)]
        for name, own in zip(scores, found, strict=False)
    }
    return metrics, dict(zip(spent, found[len(scores) :], strict=True))


def compare_runs(folders: Sequence[Path | str]) -> RunComparison:
    """Compare runs on the questions that all of them answered; differences are against the first.

    Args:
        folders: Folders of two or more runs (`experiments/runs/files.py`).

    Raises:
        UserError: There are fewer than two folders, one contains no run, or the runs share no question or no metric.
    """
    if len(folders) < 2:
        raise UserError(f"Comparing needs two or more runs, got {len(folders)}. Name their folders.")
    return compared(load_runs([Path(folder) for folder in folders]))


def compared(runs: list[Run]) -> RunComparison:
    """Return the scores and costs of one or more runs over the same questions; differences are against the first.

    Raises:
        UserError: The runs share no metric.
    """
    defined: list[dict[str, Any]] = [run.description["metrics"] for run in runs]
    names = [name for name in defined[0] if all(other.get(name) == defined[0][name] for other in defined)]
    if not names:
        raise UserError("These runs share no metric. Evaluate them again with the same metrics.")
    differing = differences({run.label: run.description for run in runs})
    metrics, costs = score_and_cost_lines(runs, names)
    first = [rows[0] for rows in runs[0].questions]
    kinds, books = _kinds(runs, names), closed_books(first, names)
    right_by = main_metric(names)
    found = {run.label: found_outcomes(run.questions, right_by, run.program) for run in runs}
    means = outcome_means([(run.questions, found[run.label]) for run in runs], right_by) if right_by else []
    return RunComparison(
        runs=runs,
        questions=len(runs[0].questions),
        metrics=metrics,
        costs=costs,
        faults={run.label: faults(run.rows) for run in runs},
        stop_reasons={run.label: stop_reasons(run.rows) for run in runs},
        differences=differing,
        notices=[*about_runs(runs, differing), *_notices(runs, metrics), *_unread(runs, books, metrics, kinds)],
        kinds=kinds,
        closed_book=books,
        outcomes=dict(zip(found, means, strict=False)),  # none without a metric
        found=found,
        right_by=right_by,
    )


def _kinds(runs: Sequence[Run], names: Sequence[str]) -> dict[str, dict[str, list[Line]]]:
    """Return the lines of exact match and F1 for each kind of questions."""
    shown = [name for name in names if name in SCORES]
    groups = by_kind([row_kind(rows[0]) for rows in runs[0].questions]) if shown else {}
    return {kind: score_lines([part_of(run, places) for run in runs], shown) for kind, places in groups.items()}


def part_of(run: Run, places: Sequence[int]) -> Run:
    """Return a run with the questions at these places alone."""
    return Run(run.label, run.folder, run.description, [run.questions[place] for place in places])


def _unread(
    runs: Sequence[Run],
    books: Mapping[str, ClosedBook],
    metrics: Mapping[str, Sequence[Line]],
    kinds: Mapping[str, Mapping[str, Sequence[Line]]],
) -> list[str]:
    """Return where closed book could explain a score: by majority, by chance, or by a run that reads nothing."""
    found = []
    for place, run in enumerate(runs):
        groups = {ALL: metrics, **kinds}
        means = {group: {name: lines[place].mean for name, lines in of.items()} for group, of in groups.items()}
        if not _reads_nothing(run):
            found += [f"{run.label}: {text}" for text in explained(books, means)]
    name = main_score(metrics)
    unread = [run for run in runs if _reads_nothing(run)]
    if name is None or not unread or len(unread) == len(runs):
        return found
    return [*found, *(text for run in runs if run not in unread for text in _not_above(run, unread, name))]


def _reads_nothing(run: Run) -> bool:
    return reads_nothing(row for rows in run.questions for row in rows)


def _not_above(run: Run, unread: Sequence[Run], name: str) -> Iterable[str]:
    """Yield the closed-book runs that a run does not exceed for certain."""
    for other in unread:
        gain = paired(score_values(other.questions, name), score_values(run.questions, name))
        if gain.low is not None and gain.high is not None and gain.low <= 0:
            yield (
                f"{run.label}: closed book could explain {name}: {other.label} reads nothing, and the difference to "
                f"it is {100 * (gain.difference or 0):+.1f} [{100 * gain.low:.1f}, {100 * gain.high:.1f}]."
            )


def paired_scores(first: "Artifact", second: "Artifact") -> Paired | None:
    """Return the paired difference, second minus first, on the questions for which both hold a score.

    Returns:
        None if their metrics differ, by name or definition, or if they share no question.
    """
    if any(first.metric.get(name) != second.metric.get(name) for name in ("name", "definition")):
        return None
    before, after = (_scores(record) for record in (first, second))
    shared = [question for question in before if question in after]
    return (
        paired([before[question] for question in shared], [after[question] for question in shared]) if shared else None
    )


def _scores(record: "Artifact") -> dict[str, float | None]:
    """Return the scores by question; an artifact may come from a stranger, so other values are left out."""
    scores = record.metric.get("scores")
    return {
        question: None if value is None else float(value)
        for question, value in (scores.items() if isinstance(scores, dict) else ())
        if value is None or (isinstance(value, int | float) and not isinstance(value, bool))
    }
