"""Write one or more runs as a self-contained HTML file.

All text of an LM or a corpus is escaped, and the page's content security policy forbids scripts and external resources.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from experiments.analysis.by_group import Groups
from experiments.analysis.compare import Comparison, Line, compare_runs, p_text
from experiments.analysis.summary import FAULTS, RunSummary, interval, number, percent, summarise
from experiments.runs.files import Json, Row, read_rows, read_run, writing
from optimizers.metrics.cost import COSTS
from signatures.common.errors import UserError
from signatures.common.files import atomic_write
from signatures.common.terminal import printable

TEMPLATE = "run.html.j2"
_HERE = Path(__file__).parent


def _difference(line: Line) -> Json:
    result = line.against_first
    if result is None or result.difference is None:
        return {"difference": "", "spread": "", "p": ""}
    spread = "" if result.low is None or result.high is None else f"{100 * result.low:+.1f} to {100 * result.high:+.1f}"
    return {"difference": f"{100 * result.difference:+.1f}", "spread": spread, "p": p_text(line)}


def _score_line(line: Line) -> Json:
    mean = line.mean
    # A bar is drawn from 0 to the mean with the interval on it; widths in percent of the cell.
    bar = None if mean.mean is None else {"mean": 100 * mean.mean, "low": 100 * (mean.low or 0.0)}
    if bar is not None:
        bar["width"] = 100 * ((mean.high or 0.0) - (mean.low or 0.0))
    shown = {"mean": percent(mean.mean), "interval": interval(mean), "n": mean.n}
    shown |= {"undefined": mean.undefined, "unparsed": mean.unparsed}
    return {"run": line.run, **shown, "bar": bar, **_difference(line)}


def _single(summary: RunSummary, label: str) -> Json:
    return {
        "questions": summary.answered,
        "scores": [(name, [_score_line(Line(label, mean, None))]) for name, mean in summary.metrics.items()],
        "costs": [(label, [number(summary.costs[name].mean) for name in COSTS])],
        "faults": [(label, {name: getattr(summary, name) for name in FAULTS})],
        "notices": [
            *([summary.notice] if summary.notice else []),
            *summary.oracles,
            *(f"{name}: {percent(mean.mean)}." for name, mean in summary.repeated.items()),
            *(f"{name}: {percent(value)}." for name, value in summary.derived.items()),
        ],
    }


def _several(comparison: Comparison) -> Json:
    labels = [run.label for run in comparison.runs]
    return {
        "questions": comparison.questions,
        "scores": [(name, [_score_line(line) for line in lines]) for name, lines in comparison.metrics.items()],
        "costs": [
            (label, [number(comparison.costs[name][place].mean.mean) for name in COSTS])
            for place, label in enumerate(labels)
        ],
        "faults": [(label, comparison.faults[label]) for label in labels],
        "notices": comparison.notices,
    }


def _answers(labels: Sequence[str], rows: Sequence[Sequence[Row]], metric: str) -> list[Json]:
    """Return one entry per question of any run, sorted by id, with the row of each run that answered it."""
    entries: dict[str, Json] = {}
    for label, own in zip(labels, rows, strict=True):
        for row in own:
            entry = entries.setdefault(row["id"], {"id": row["id"], "question": row["question"], "rows": []})
            entry.setdefault("gold", row["answers"])
            asked = f"{label} #{row['repeat']}" if "repeat" in row else label
            entry["rows"].append({**row, "run": asked, "score": row["scores"].get(metric)})
    for entry in entries.values():
        scores = [row["score"] for row in entry["rows"]]
        entry["wrong"] = any(score is not None and score < 1 for score in scores)
        entry["failed"] = any(row["error"] for row in entry["rows"])
    return sorted(entries.values(), key=lambda entry: str(entry["id"]))


def _groups(groups: Groups | None) -> Json | None:
    if groups is None:
        return None
    scores = {
        group: [(name, [_score_line(line) for line in lines]) for name, lines in groups.scores[group].items()]
        for group in groups.scores
    }
    return {"field": groups.field, "sizes": groups.sizes, "scores": scores, "notices": groups.notices}


def _page(folders: Sequence[Path], title: str | None, groups: Groups | None) -> Json:
    descriptions = [read_run(folder) for folder in folders]
    rows = [read_rows(folder) for folder in folders]
    if len(folders) == 1:
        labels = [folders[0].resolve().name]
        tables = _single(summarise(folders[0]), labels[0])
    else:
        comparison = compare_runs(folders)
        labels = [run.label for run in comparison.runs]
        tables = _several(comparison)
    metric = next(iter(descriptions[0]["metrics"]), "")
    lines = [line for _, several in tables["scores"] for line in several]
    return {
        "title": title or " against ".join(labels),
        "made": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "runs": list(zip(labels, descriptions, strict=True)),
        "metric": metric,
        "any_undefined": any(line["undefined"] for line in lines),
        "any_unparsed": any(line["unparsed"] for line in lines),
        "definitions": descriptions[0]["metrics"],
        "cost_names": [name.replace("_", " ") for name in COSTS],
        "fault_names": [name.replace("_", " ") for name in FAULTS],
        "groups": _groups(groups),
        "answers": _answers(labels, rows, metric),
        **tables,
    }


def _score_text(value: Any) -> str:
    return "-" if value is None else f"{value:.2f}".rstrip("0").rstrip(".")


def write_report(
    folders: Sequence[Path | str], path: Path | str, *, title: str | None = None, groups: Groups | None = None
) -> Path:
    """Write the report of one or more runs and return its path.

    Args:
        folders: Folders of runs; differences are to the first.
        path: The HTML file, written atomically.
        title: Heading of the page; the names of the folders by default.
        groups: Scores of these runs by groups of questions, shown as well.

    Raises:
        UserError: A folder contains no run, the runs share no question, or the file cannot be written.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    if not folders:
        raise UserError("A report needs at least one run. Name its folder.")
    environment = Environment(
        loader=FileSystemLoader(_HERE),
        autoescape=True,
        finalize=lambda value: printable(value) if type(value) is str else value,  # not what a macro has escaped
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["score"] = _score_text
    page = environment.get_template(TEMPLATE).render(_page([Path(folder) for folder in folders], title, groups))
    with writing(Path(path)), atomic_write(path) as file:
        # LMs can write lone surrogates, which UTF-8 cannot encode.
        file.write(page.encode(errors="replace").decode())
    return Path(path)
