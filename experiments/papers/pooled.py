"""Runs of the same programs on several question sets: each set by itself, and all questions together.

    python -m experiments.papers.pooled runs rag-hybrid,rag-multihop,standard --out retrieval_reading.json

`runs/SET/LABEL` are run folders of `verihop eval` or `verihop vote`. What `verihop compare` says of each set is written
with the F1 of every question, so that others can compare again, with what confidences are worth, by exact match, and
with the differences to the first run over the questions of all sets, paired, and over the composed ones among them,
since only some programs have a step for comparisons (`compare`). A question counts once, so that larger sets count for
more; no two sets may share one.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from corpora.kinds import COMPOSED
from experiments.analysis.closed_book import row_kind
from experiments.analysis.statistics import holm, mean_of, paired
from experiments.papers.command import help_of, rounded, run_command, say
from signatures.common.errors import UserError

F1, EM = "f1[hotpot]", "em"
_KEPT = ("questions", "metrics", "costs", "kinds", "closed_book", "faults", "stop_reasons", "notices")


def pooled(runs: Path, labels: Sequence[str], *, say: Callable[[str], None] = lambda text: None) -> dict[str, Any]:
    """Return the comparison of the labelled runs on each set, and of the questions of all sets.

    Args:
        runs: Has a folder for each set, and in it one for each label. What a set lacks is left out there; `all` has the
            runs that every set has, `composed` the same of composed questions.
        labels: Names of run folders; differences are against the first. A set without it is left out.
        say: Called with why a set is left out.

    Raises:
        UserError: No set has the first run and another, two sets have the same question, or runs cannot be compared.
    """
    from experiments.analysis.compare import compare_runs
    from experiments.analysis.summary import calibration, score_values

    found: dict[str, Any] = {}
    set_of: dict[str, str] = {}
    for folder in sorted(each for each in runs.glob("*") if each.is_dir()):
        here = [label for label in labels if (folder / label).is_dir()]
        if len(here) < 2 or here[0] != labels[0]:
            lacking = labels[0] if labels[0] not in here else f"beside {labels[0]}"
            say(f"{folder} is left out: it has no run {lacking}.")
            continue
        comparison = compare_runs([folder / label for label in here])
        for question in [rows[0]["question"] for rows in comparison.runs[0].questions]:
            if (other := set_of.setdefault(question, folder.name)) != folder.name:
                raise UserError(
                    f"{other} and {folder.name} in {runs} both have the question {question!r}, which would count "
                    "twice: move one of them elsewhere."
                )
        asked = [rows[0] for rows in comparison.runs[0].questions]
        known = {"id": [row["id"] for row in asked], "kind": [row_kind(row) for row in asked]}
        of_runs = {
            label: [rounded(value) for value in score_values(run.questions, F1)]
            for label, run in zip(here, comparison.runs, strict=True)
        }
        described = {name: value for name, value in comparison.as_dict().items() if name in _KEPT}
        confident = {
            label: {name: rounded(value) for name, value in worth.items()}
            for label, run in zip(here, comparison.runs, strict=True)
            if (worth := calibration([row for rows in run.questions for row in rows], [EM]))
        }
        found[folder.name] = {**described, "confidence": confident, "values": {**known, **of_runs}}
    if nowhere := [label for label in labels[1:] if found and not any(label in of["values"] for of in found.values())]:
        raise UserError(f"No folder in {runs} has a run {nowhere[0]} beside {labels[0]}: name existing runs.")
    if not found:
        raise UserError(f"No folder in {runs} has a run {labels[0]} and another of {', '.join(labels)}: name theirs.")
    values = [each["values"] for each in found.values()]
    composed = [_of_kind(COMPOSED, each) for each in values]
    return {
        "sets": found,
        "all": _together(values, labels),
        **({COMPOSED: _together(composed, labels)} if any(each["kind"] for each in composed) else {}),
    }


def _of_kind(kind: str, values: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
    return {
        name: [value for value, its in zip(column, values["kind"], strict=True) if its == kind]
        for name, column in values.items()
    }


def _together(sets: Sequence[Mapping[str, Any]], labels: Sequence[str]) -> dict[str, Any]:
    """Return means and differences over the questions of all sets, of the runs that each set has."""
    first, *others = [label for label in labels if all(label in values for values in sets)]
    together = {label: [value for values in sets for value in values[label]] for label in (first, *others)}
    found = {label: paired(together[first], together[label]) for label in others}
    corrected = holm([result.p for result in found.values()])
    return {
        "means": {label: mean_of(values).as_dict() for label, values in together.items()},
        f"against {first}": {
            label: {**result.as_dict(), "p_holm": p}
            for (label, result), p in zip(found.items(), corrected, strict=True)
        },
    }


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command(help=help_of(__doc__))
def main(
    runs: Annotated[Path, typer.Argument(help="Folder with a folder of runs for each question set.")],
    labels: Annotated[
        str, typer.Argument(help="Names of the run folders, separated by commas; the first is compared with.")
    ],
    out: Annotated[Path, typer.Option(help="JSON file to write.")],
) -> None:
    """Compare the runs of each set and of all sets together, and write what was found."""
    from experiments.runs.config import machine, portable
    from experiments.runs.files import git_revision, write_json

    named = [label.strip() for label in labels.split(",") if label.strip()]
    found = pooled(runs, named, say=lambda text: typer.echo(text, err=True))
    command = f"python -m {MODULE} {runs.name} {','.join(named)} --out {out.name}"
    write_json(out, portable({"command": command, "revision": git_revision(), "machine": machine(), **found}))
    for which in ("all", COMPOSED):
        for label, of in found.get(which, {}).get(f"against {named[0]}", {}).items():
            ends = "" if of["low"] is None else f" [{100 * of['low']:.1f}, {100 * of['high']:.1f}]"
            typer.echo(f"{which}, {label}: {100 * of['difference']:+.1f}{ends}, n {of['n']}")
    say(f"Written: {out}")


MODULE = "experiments.papers.pooled"

if __name__ == "__main__":
    run_command(app, "pooled")
