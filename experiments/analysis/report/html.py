"""Write one or more runs as a self-contained HTML file.

The summary is plain HTML. The questions are an index for the table, and compressed blocks of traces: JSON, packed with
zlib and written as base64, which the page's script (`page.js.j2`) unpacks, the index when the page opens, a block when
one of its questions is opened. Text that runs share (cited passages of a question) is stored once per question. All
text of an LM or a corpus is escaped or inserted as text, and the page's content security policy forbids every other
script and all external resources.
"""

import base64
import functools
import hashlib
import os
import zlib
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape
from pydantic_core import to_json

from experiments.analysis.by_group import Groups
from experiments.analysis.closed_book import answer_line
from experiments.analysis.compare import Line, RunComparison, compare_runs, p_text
from experiments.analysis.outcomes import (
    CONVERSION,
    OUTCOMES,
    Found,
    first_wrong_hop,
    found_outcomes,
    in_words,
    main_metric,
    outcome_means,
)
from experiments.analysis.repeats import by_question
from experiments.analysis.report.scatter import scatter
from experiments.analysis.statistics import Mean
from experiments.analysis.summary import FAULTS, RunSummary, interval, number, of_kinds, percent, summarise
from experiments.runs.config import portable
from experiments.runs.files import Json, Row, collector_paused, read_rows, read_run, repeat_of
from experiments.runs.sources import evidence_line, source_and_link
from optimizers.metrics.scoring import COSTS, costs_known
from signatures.common.costs import asked
from signatures.common.errors import UserError
from signatures.common.files import atomic_write, writing
from signatures.common.secrets import redact, redacted, without_keys
from signatures.common.terminal import printable

if TYPE_CHECKING:
    from jinja2 import Environment

BLOCK = 16  # questions; with five runs about 300 kB of JSON, which a browser unpacks within 10 ms
_LEVEL = 1  # of zlib; 4 saves a seventh of the page and takes half as long again
_AHEAD = 16  # blocks compressed or waiting to be written: bounds memory
_LONGEST = 200  # characters of an answer in the table and its search, whose trace has all of it, and of a candidate
_FAILED, _ABSTAINED, _MISSED = 1, 2, 4


@dataclass
class Entry:
    """A question with its row in every run that answered it.

    Args:
        id: Of the question.
        question: Its wording.
        answers: Its gold answers.
        rows: The place of a run, with one of its rows and what became of it, if that is known.
    """

    id: str
    question: str
    answers: list[str]
    rows: list[tuple[int, Row, str | None]] = field(default_factory=list)


Shown = list[tuple[Row, str | None]]
"""Rows of a run, each with its outcome."""


def entries_of(runs: Sequence[Shown]) -> list[Entry]:
    """Return the questions of any run, sorted by id."""
    entries: dict[str, Entry] = {}
    for place, rows in enumerate(runs):
        for row, found in rows:
            entry = entries.get(row["id"])
            if entry is None:
                entry = entries[row["id"]] = Entry(row["id"], row["question"], row["answers"])
            entry.rows.append((place, row, found))
    return sorted(entries.values(), key=lambda entry: entry.id)


def index(entries: Sequence[Entry], labels: Sequence[str], metrics: Sequence[str]) -> Markup:
    """Return what the table of questions shows and searches, packed.

    Args:
        entries: The questions, in order.
        labels: Of the runs.
        metrics: Names of the metrics whose scores are shown.
    """
    questions = [[entry.id, entry.question, entry.answers, _index_rows(entry, metrics)] for entry in entries]
    runs = [_encodable(label) for label in labels]
    known = {"runs": runs, "metrics": metrics, "outcomes": list(OUTCOMES), "block": BLOCK}
    return _packed({**known, "questions": questions})


def _encodable(text: str) -> str:
    return text.encode(errors="replace").decode()  # names of folders may be no UTF-8


def _index_rows(entry: Entry, metrics: Sequence[str]) -> list[list[Any]]:
    return [
        [
            place,
            repeat_of(row) if "repeat" in row else 0,
            row["answer"][:_LONGEST],
            [row["scores"].get(name) for name in metrics],
            _FAILED * (row["error"] is not None) + _ABSTAINED * row["abstained"] + _MISSED * bool(missed_gold(row)),
            found and list(OUTCOMES).index(found),
        ]
        for place, row, found in entry.rows
    ]


def blocks(entries: Sequence[Entry], programs: Sequence[str]) -> Iterator[Markup]:
    """Yield the traces of `BLOCK` questions after another, packed; a few blocks are in memory at a time."""
    with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:  # zlib runs without the interpreter lock
        waiting: deque[Future[Markup]] = deque()
        for start in range(0, len(entries), BLOCK):
            waiting.append(pool.submit(_packed, [_trace(entry, programs) for entry in entries[start : start + BLOCK]]))
            if len(waiting) == _AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _packed(value: Any) -> Markup:
    raw = to_json(value, inf_nan_mode="null")
    text = raw.decode()
    if redact(text) != text:  # rarely: redacted part by part, so that it stays JSON
        raw = to_json(redacted(value), inf_nan_mode="null")
    return Markup(base64.b64encode(zlib.compress(raw, _LEVEL)).decode())


def _trace(entry: Entry, programs: Sequence[str]) -> Json:
    """Return the rows of a question in the order of the index; they refer to cited passages by place."""
    passages: dict[tuple[str | None, ...], int] = {}
    rows = []
    for place, row, found in entry.rows:
        texts = map(_cited, row["cited_passages"])
        cited = [passages.setdefault(text, len(passages)) for text in texts]
        became = found and in_words(row, found)
        marks = {"missed": missed_gold(row), "wrong": first_wrong_hop(row, programs[place]), "became": became}
        rows.append({**_answer(row), **marks, "cited": cited, "hops": [_hop(hop) for hop in row["hops"]]})
    gold: list[str] = next((row["gold_ids"] for _, row, _ in entry.rows if row.get("gold_ids")), [])
    return {"passages": list(passages), "gold": gold, "rows": rows}


def _cited(passage: Json) -> tuple[str | None, ...]:
    """Return id, title and text of a passage, and, if it has a source, that and its link."""
    source, link = source_and_link(passage)
    named = (source, link) if source or link else ()
    return (passage["id"], passage.get("title", ""), passage.get("text", ""), *named)


def _answer(row: Row) -> Json:
    tokens = asked(row, "tokens")
    counts = [row["calls"], tokens, row["rounds"], row["seconds"], row["parse_failures"], row["truncated"]]
    return {
        "answer": row["answer"],
        "response": None if row["response"] == row["answer"] else row["response"],
        "error": row["error"],
        "costs": counts if costs_known(row) else None,
        "read": row["passage_ids"],
        "citations": len(row["citations"]),
    }


def _hop(hop: Json) -> list[Any]:
    draft = hop.get("draft")
    return [
        hop["question"],
        hop["answer"],
        None if draft == hop["answer"] else draft,
        hop.get("evidence") and evidence_line(hop["evidence"], hop.get("match")),
        hop.get("verdict"),
        hop.get("passage_ids") or [],
        [_candidate(candidate) for candidate in hop.get("candidates") or []],
    ]


def _candidate(candidate: Json) -> list[Any]:
    """Return whether it was kept, its id, the beginning of its text, and why, with what its tests gave."""
    text, reason = candidate["text"], candidate["reason"]
    tests = [f"{name} {value:.2f}" for name, value in (candidate.get("gates") or {}).items() if value is not None]
    why = ", ".join([reason, *(each for each in tests if each not in reason)])
    return [
        candidate["kept"],
        candidate.get("passage_id"),
        text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…",
        why,
    ]


TEMPLATE = "run.html.j2"
_HERE = Path(__file__).parent


def _difference(line: Line) -> Json:
    result = line.against_first
    if result is None or result.difference is None:
        return {"difference": "", "spread": "", "p": ""}
    spread = "" if result.low is None or result.high is None else f"{100 * result.low:+.1f} to {100 * result.high:+.1f}"
    return {"difference": f"{100 * result.difference:+.1f}", "spread": spread, "p": p_text(line)}


def score_line(line: Line) -> Json:
    """Return what a table shows of a score: mean, bar, interval, and the difference to the first run."""
    mean = line.mean
    # A bar is drawn from 0 to the mean with the interval on it; widths in percent of the cell.
    bar = None if mean.mean is None else {"mean": 100 * mean.mean, "low": 100 * (mean.low or 0.0)}
    if bar is not None:
        bar["width"] = 100 * ((mean.high or 0.0) - (mean.low or 0.0))
    shown = {"mean": percent(mean.mean), "interval": interval(mean), "n": mean.n}
    shown |= {"undefined": mean.undefined, "unparsed": mean.unparsed}
    return {"run": line.run, **shown, "bar": bar, **_difference(line)}


def _single(summary: RunSummary, label: str) -> Json:
    shown = {**summary.metrics, **of_kinds(summary.kinds)}
    return {
        "questions": summary.answered,
        "answers": answer_line(summary.closed_book),
        "scores": [(name, [score_line(Line(label, mean, None))]) for name, mean in shown.items()],
        "costs": [(label, [number(summary.costs[name].mean) for name in COSTS])],
        "faults": [(label, {name: getattr(summary, name) for name in FAULTS})],
        "stopped": [_stopped(summary.stop_reasons)],
        "notices": [
            *([summary.notice] if summary.notice else []),
            *summary.oracles,
            *_of_the_run({**{name: mean.mean for name, mean in summary.repeated.items()}, **summary.derived}),
        ],
        "plot": None,
    }


def outcome_bars(found: Mapping[str, Mapping[str, Mean]], metric: str | None) -> Json | None:
    """Return for a table the shares of the outcomes that some run has, and the recall conversion; None without any.

    Args:
        found: Label of a run -> its outcomes (`experiments.analysis.outcomes.outcome_means`).
        metric: Decides what is right; None if there is none.
    """
    named = [(place, name) for place, name in enumerate(OUTCOMES) if any(of[name].mean for of in found.values())]
    if metric is None or not named:
        return None
    rows = [
        (label, [(place, percent(of[name].mean), of[name].mean or 0.0) for place, name in named], of[CONVERSION].mean)
        for label, of in found.items()
    ]
    return {
        "right_by": metric,
        "names": [(place, name, OUTCOMES[name]) for place, name in named],
        "rows": [(label, shares, percent(conversion), conversion) for label, shares, conversion in rows],
    }


def _several(comparison: RunComparison) -> Json:
    labels = [run.label for run in comparison.runs]
    shown = {**comparison.metrics, **of_kinds(comparison.kinds)}
    return {
        "questions": comparison.questions,
        "answers": answer_line(comparison.closed_book),
        "scores": [(name, [score_line(line) for line in lines]) for name, lines in shown.items()],
        "costs": [
            (label, [number(comparison.costs[name][place].mean.mean) for name in COSTS])
            for place, label in enumerate(labels)
        ],
        "faults": [(label, comparison.faults[label]) for label in labels],
        "stopped": [_stopped(comparison.stop_reasons[label]) for label in labels],
        "notices": comparison.notices,
        "outcomes": outcome_bars(comparison.outcomes, comparison.right_by),
        "right_by": comparison.right_by,
        "plot": _plot(comparison),
    }


def _plot(comparison: RunComparison) -> Json | None:
    """Return the first metric of the runs against their tokens."""
    name = next(iter(comparison.metrics), None)
    if name is None:
        return None
    lines, costs, front = comparison.metrics[name], comparison.costs["tokens"], comparison.front(name, "tokens")
    rows: list[Json] = [
        {
            "label": line.run,
            "value": line.mean.mean,
            "tokens": cost.mean.mean,
            "score": score_line(line),
            "front": place in front,
            "unread": False,
            "id": "",
        }
        for place, (line, cost) in enumerate(zip(lines, costs, strict=True))
    ]
    plot = scatter(rows, reference=lines[0].run)
    return {"metric": name, **plot} if plot else None


def _of_the_run(values: Mapping[str, float | None]) -> list[str]:
    """Return what is computed of a run as a whole, in one sentence."""
    stated = [f"{name} {percent(value)}" for name, value in values.items()]
    return [f"Of the whole run: {', '.join(stated)}."] if stated else []


def _stopped(reasons: Mapping[str, int]) -> str:
    return ", ".join(f"{reason} {count}" for reason, count in reasons.items())


def _groups(groups: Groups | None) -> Json | None:
    if groups is None:
        return None
    scores = {
        group: [(name, [score_line(line) for line in lines]) for name, lines in groups.scores[group].items()]
        for group in groups.scores
    }
    return {"field": groups.field, "sizes": groups.sizes, "scores": scores, "notices": groups.notices}


_Parts = tuple[list[str], list[Json], list[Shown], Json]


def _rows_of_one(folder: Path, right_by: str | None) -> _Parts:
    description, rows = read_run(folder), read_rows(folder)
    label, right_by = folder.resolve().name, right_by or main_metric(list(description["metrics"]))
    questions = list(by_question(rows).values())
    found = found_outcomes(questions, right_by, description["program"]["name"])
    means = {} if right_by is None else {label: outcome_means([(questions, found)], right_by)[0]}
    tables = _single(summarise(folder, rows=rows), label)
    shown = _shown(questions, found)
    return [label], [description], [shown], {**tables, "outcomes": outcome_bars(means, right_by), "right_by": right_by}


def _rows_of_several(comparison: RunComparison) -> _Parts:
    runs, right_by = comparison.runs, comparison.right_by
    shown = [
        _shown(run.questions, comparison.found[run.label])
        + _shown(run.others, found_outcomes(run.others, right_by, run.program))
        for run in runs
    ]
    return [run.label for run in runs], [run.description for run in runs], shown, _several(comparison)


def _shown(questions: Sequence[Sequence[Row]], found: Found) -> Shown:
    return [each for rows, own in zip(questions, found, strict=True) for each in zip(rows, own, strict=True)]


def _page(
    folders: Sequence[Path],
    title: str | None,
    groups: Groups | None,
    comparison: RunComparison | None,
    right_by: str | None,
) -> Json:
    if comparison is None and len(folders) > 1:
        comparison = compare_runs(folders)
    found = _rows_of_one(folders[0], right_by) if comparison is None else _rows_of_several(comparison)
    labels, descriptions, rows, tables = found
    metrics, programs = list(descriptions[0]["metrics"]), [own["program"]["name"] for own in descriptions]
    entries = entries_of(rows)
    lines = [line for _, several in tables["scores"] for line in several]
    return {
        "title": title or _title(labels),
        "made": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "runs": list(zip(labels, descriptions, strict=True)),
        "any_undefined": any(line["undefined"] for line in lines),
        "any_unparsed": any(line["unparsed"] for line in lines),
        "definitions": descriptions[0]["metrics"],
        "cost_names": [name.replace("_", " ") for name in COSTS],
        "fault_names": [name.replace("_", " ") for name in FAULTS],
        "groups": _groups(groups),
        "index": index(entries, labels, metrics),
        "blocks": blocks(entries, programs),
        **tables,
    }


def _title(labels: Sequence[str]) -> str:
    return " against ".join(labels) if len(labels) < 4 else f"{labels[0]} against {len(labels) - 1} runs"


def _sha256(script: str) -> str:
    """Return the hash by which a content security policy allows an inline script."""
    return f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}"


def commands_of(description: Json) -> list[str]:
    """Return the command that made a run, those of its parts if it was merged, without keys and folders.

    It is empty if none was recorded.
    """
    parts = (description.get("merged") or {}).get("parts", [])
    found = [description.get("command"), *(part.get("command") for part in parts)]
    return [portable(without_keys(redact(command))) for command in dict.fromkeys(found) if command]


def _breakable(name: str) -> Markup:
    """Return the name of a metric as HTML that a narrow column can break."""
    return Markup(escape(printable(name)).replace("_", Markup("_<wbr>")).replace("[", Markup("<wbr>[")))


def write_report(
    folders: Sequence[Path | str],
    path: Path | str,
    *,
    title: str | None = None,
    groups: Groups | None = None,
    comparison: RunComparison | None = None,
    right_by: str | None = None,
) -> Path:
    """Write the report of one or more runs and return its path.

    Args:
        folders: Folders of runs; differences are to the first.
        path: The HTML file, written atomically.
        title: Heading of the page; the names of the folders by default.
        groups: Scores of these runs by groups of questions, shown as well.
        comparison: Of these runs, if they are compared already; else they are read and compared here.
        right_by: The metric that decides what is right in a single run, where others do so by it; its own by default.

    Raises:
        UserError: A folder contains no run, the runs share no question, or the file cannot be written.
    """
    if not folders:
        raise UserError("A report needs at least one run. Name its folder.")
    with collector_paused():
        page = _page([Path(folder) for folder in folders], title, groups, comparison, right_by)
        return write_page(path, TEMPLATE, page)


def write_page(path: Path | str, template: str, page: Json) -> Path:
    """Write a page atomically and return its path.

    Args:
        path: The HTML file.
        template: Name of a template of this folder.
        page: Its values; all text in them is escaped.

    Raises:
        UserError: The file cannot be written.
    """
    with writing(Path(path)), atomic_write(path, "wb") as file:
        for piece in _environment().get_template(template).generate(page):
            # Names of folders may be no UTF-8.
            file.write(piece.encode(errors="replace"))
    return Path(path)


@functools.cache
def _environment() -> "Environment":
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_HERE),
        autoescape=True,
        finalize=lambda value: printable(value) if type(value) is str else value,  # not what a macro has escaped
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["sha256"] = _sha256
    environment.filters["commands"] = commands_of
    environment.filters["breakable"] = _breakable
    return environment


DROPPED, NOT_READ = "weighed and dropped", "not read"


def missed_gold(row: Row) -> list[tuple[str, str]]:
    """Return the gold passages that the program did not read for its answer, each with why.

    `DROPPED`: some hop weighed the passage and did not keep it. `NOT_READ`: nothing read it; rows do not say what a
    search found that no step read. Nothing is missed where nothing was read at all, as in a closed book, or the
    question failed.
    """
    read = _read(row)
    if row["error"] is not None or not read:
        return []
    weighed = {candidate.get("passage_id") for hop in row["hops"] for candidate in hop.get("candidates") or []}
    missing = [name for name in row.get("gold_ids") or [] if name not in read]
    return [(name, DROPPED if name in weighed else NOT_READ) for name in missing]


def _read(row: Row) -> set[str]:
    return {*row["passage_ids"], *(name for hop in row["hops"] for name in hop.get("passage_ids") or [])}
