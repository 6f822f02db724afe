"""`verihop metrics`: list and describe the metrics."""

from typing import Annotated, Any

import typer

from experiments.cli.shared import options
from experiments.cli.shared.console import emit, next_step, say, wrapped
from experiments.cli.shared.next_commands import command
from optimizers.metrics.names import LARGEST_K
from signatures.common.errors import unknown
from signatures.common.own_code import is_own

_SCORE, _COST = [0, 1], [0, None]  # ranges; None has no end


def metrics(
    name: Annotated[
        str | None, typer.Argument(help="One metric, e.g. em or passage_recall@7; all by default.", show_default=False)
    ] = None,
    as_json: options.Json = False,
) -> None:
    """List the metrics: definition, range, direction, what they need, and the source of the definition."""
    groups = _one(name) if name is not None else _all()
    if as_json:
        emit({metric: record for records in groups.values() for metric, record in records.items()})
        return
    if name is None:
        say("Scores are from 0 to 1, and higher is better, unless stated otherwise.\n")
    for title, records in groups.items():
        say(title)
        for metric, record in records.items():
            _show(metric, record, alone=name is not None)
        say()
    if name is None:
        say(wrapped("Own metrics: module:name, a function (example, prediction) that returns a number from 0 to 1.", 0))
        next_step(command("verihop", "metrics", "ndcg@10"))


def _show(name: str, record: dict[str, Any], *, alone: bool) -> None:
    better = "higher is better" if record["higher_is_better"] else "lower is better"
    say(f"  {name}" if alone or record["higher_is_better"] else f"  {name} ({better})")
    say(wrapped(record["definition"], 6))
    if alone:
        say(wrapped(f"{'From 0 to 1' if record['range'] == _SCORE else '0 or more'}, {better}.", 6))
    if record["needs"]:
        say(wrapped(f"Needs {', '.join(record['needs'])}.", 6))
    if record["source"]:
        say(wrapped(record["source"], 6))


def _record(definition: str, source: str, needs: list[str], *, higher_is_better: bool) -> dict[str, Any]:
    """Return what is said of a metric; `gold` are the needs that the question fills, `model` decides the score."""
    from optimizers.metrics.metric import OF_QUESTION, Need

    return {
        "definition": definition,
        "range": _SCORE,
        "higher_is_better": higher_is_better,
        "needs": needs,
        "gold": [need for need in needs if need in OF_QUESTION],
        "model": next((need for need in needs if need in (Need.JUDGE, Need.ORACLE)), None),
        "source": source,
    }


def _of(metric: Any) -> dict[str, Any]:
    needs = [str(need) for need in metric.needs]
    return _record(metric.definition, metric.source, needs, higher_is_better=metric.higher_is_better)


def _all() -> dict[str, dict[str, dict[str, Any]]]:
    """Return title of a group -> name -> record; metrics with a cutoff are listed once, as `name@k`."""
    from experiments.analysis.summary import RUN_SCORES
    from optimizers.metrics.catalog import METRICS, ORACLE_METRICS
    from optimizers.metrics.families.retrieval import AT_K
    from optimizers.metrics.scoring import COSTS

    plain = {name: metric for name, metric in METRICS.items() if "@" not in name}
    cutoff = {
        f"{name}@k": _record(form.definition.format("k"), form.source, list(form.needs), higher_is_better=True)
        for name, form in AT_K.items()
    }
    judged = {name: _of(metric) for name, metric in plain.items() if metric.judged}
    return {
        "By the gold of the question": {name: _of(metric) for name, metric in plain.items() if not metric.judged},
        f"With a cutoff: any k from 1 to {LARGEST_K}, e.g. passage_recall@7": cutoff,
        "By an LM (--judge-lm)": judged,
        "By an entailment oracle (--oracle)": {name: _of(metric) for name, metric in ORACLE_METRICS.items()},
        "Of a whole run, in its summary": {
            name: _record(score.definition, score.source, [score.needs], higher_is_better=score.higher_is_better)
            for name, score in RUN_SCORES.items()
        },
        "Costs, in every summary (0 or more)": {
            name: {**_record(cost.definition, "", [], higher_is_better=False), "range": _COST}
            for name, cost in COSTS.items()
        },
    }


def _own() -> dict[str, Any]:
    text = (
        "Metric of a module of yours, a function (example, prediction) that returns a number from 0 to 1. The module "
        "is not imported here; run.json of a run that it scored has its definition and a hash of its code."
    )
    return _record(text, "", [], higher_is_better=True)


def _one(name: str) -> dict[str, dict[str, dict[str, Any]]]:
    """Return the record of one metric; an own one is not imported only to be described."""
    from experiments.analysis.summary import family_of
    from optimizers.metrics.catalog import find_metric

    groups = _all()
    for title, records in groups.items():
        if name in records:
            return {title: {name: records[name]}}
    if (family := family_of(name)) is not None:
        title = next(title for title, records in groups.items() if family in records)
        return {title: {family: groups[title][family]}}
    if is_own(name):
        return {"Own metrics": {name: _own()}}
    found = find_metric(name)
    if found is None:
        raise unknown("metric", name, [each for records in groups.values() for each in records])
    title = next(title for title in groups if title.startswith("With a cutoff"))
    return {title: {name: _of(found)}}
