"""Cascades of two programs against the single programs, quality against cost, with the trained embedded LM.

    python -m experiments.papers.cascade --data ../shared/data \\
        --work ../embedded-lm/work --resume --sets hotpotqa
    python -m experiments.papers.cascade --data ../shared/data \\
        --work ../embedded-lm/work --resume --sets 2wikimultihopqa \\
        --programs "standard,rag k=1,rag k=2,rag k=3,rag k=5,genground,cov_rag"

Every program answers every question once; runs are resumed with `--resume`, and replies are cached. What cascades do
follows from these rows (`cascade_runs.py`), cross-fitted: each question is tested with programs, weights and threshold
chosen on others (`cascade_curves.py`). Cost is tokens, prompt and completion, those that the cache saved included. The
questions are those of `student`: nobody trained on them. These two commands gave
`experiments/results/cascade_embedded.json`; each replaces its own set there. By default all sets are run with the same
five programs.
"""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from experiments.papers import cascade_curves as curves
from experiments.papers.cascade_plot import draw
from experiments.papers.cascade_runs import ASKED, METRICS, rankings_of, recorded, vote
from experiments.papers.command import help_of, run_command, say
from experiments.papers.embedded_lm import student
from experiments.papers.embedded_lm.student_sets import SETS, Runs, open_lms, open_set
from optimizers.cascade.fitting import as_record, fit, threshold_for
from optimizers.cascade.rules import GAIN, LOGISTIC

MODULE = "experiments.papers.cascade"
FILE = "cascade_embedded.json"
LIMITS = (0.4, 0.5, 0.6, 0.75, 1.0, 1.5, 2.0)  # of the cost of the best single program
RULES = {"logistic": (LOGISTIC,), "gain": (GAIN,)}
DEFAULT = "standard,rag k=1,rag k=2,rag k=3,rag k=5"
_PERCENT = 100

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, help=help_of(__doc__))


@app.command(help=help_of(__doc__))
def cascade(
    data: student.Data = Path("../shared/data"),
    work: student.Work = Path("runs/student"),
    lm: student.Trained = "embedded",
    sets: student.Sets = ",".join(SETS),
    questions: Annotated[int, typer.Option(help="Questions of each set at most.", min=50)] = 500,
    programs: Annotated[str, typer.Option(help=f"Separated by commas: {', '.join(ASKED)}.")] = DEFAULT,
    threads: Annotated[int, typer.Option(help="Questions asked in parallel.", min=1)] = 8,
    results: student.Results = student.RESULTS,
    resume: student.Resume = False,
) -> None:
    """Record, evaluate, draw."""
    named_sets, labels = student.names("set", sets, SETS), student.names("program", programs, tuple(ASKED))
    lms = open_lms({"trained": lm})
    kept: dict[str, Any] = {}
    for name in named_sets:
        started = time.monotonic()
        of = open_set(name, data, work, questions)
        runs = Runs(of, lms, work / "cascade", threads=threads, resume=resume, metrics=METRICS)
        rankings, asked = rankings_of(of), {}
        for label in labels:
            say(f"{label}, {name}")
            asked[label] = recorded(runs, label, rankings)
        say(f"cascades, {name}")
        found = evaluated({label: rows for label, (rows, _) in asked.items()})
        found["runs"] = {label: summary for label, (_, summary) in asked.items()}
        record = {**student.head(MODULE, of, lms, found), "seconds": round(time.monotonic() - started), **found}
        kept = student.keep(results / FILE, name, "cascades", record)
        typer.echo(as_text(name, record))
    draw({name: of["cascades"] for name, of in kept.items()}, results / f"{Path(FILE).stem}.png")
    say(f"Written: {results / FILE}")


def evaluated(recorded_runs: Mapping[str, Any]) -> dict[str, Any]:
    """Return everything that follows from the rows of the programs, as JSON."""
    programs = curves.Programs(recorded_runs)
    best = programs.single[programs.best]
    chosen = []
    for limit in LIMITS:
        pick = curves.chosen_within(programs, limit * best.cost)
        chosen.append({"limit": limit, "chosen": pick.pairs, **_against(programs, pick.outcomes)})
    return {
        "tested": len(programs.ids),
        "best_single": programs.best,
        "single": {label: outcome.as_dict() for label, outcome in programs.single.items()},
        "chosen": chosen,
        "pairs": {str(pair): _pair(programs, pair) for pair in programs.pairs},
        "arbitration": _arbitration(programs),
    }


def _against(programs: curves.Programs, done: curves.Outcomes) -> dict[str, Any]:
    """Return outcomes compared with the best single program at no more cost, with the best mixture, with the best."""
    single, (mixture, mixed) = programs.best_within(done.cost), curves.best_mixture(programs, done.cost)
    return {
        **done.as_dict(),
        "single": single,
        "against_single": curves.compared(programs.single[single], done),
        "mixture": mixture,
        "against_mixture": curves.compared(mixed, done),
        "against_best": curves.compared(programs.single[programs.best], done),
    }


def _pair(programs: curves.Programs, pair: curves.Pair) -> dict[str, Any]:
    samples = programs.samples[pair]
    fitted = fit(samples)
    rules = {
        rule: [curves.crossed(samples, curves.at_share(share, names)).score for share in (0.2, 0.4, 0.6)]
        for rule, names in RULES.items()
    }
    return {
        "curve": curves.curve(programs, pair),
        "oracle": curves.oracle(programs, pair).as_dict(),
        "rules_at_20_40_60_percent": rules,
        "fitted_on_all": {**as_record(fitted), "threshold": threshold_for(samples, fitted.weights)},
    }


def _arbitration(programs: curves.Programs) -> dict[str, Any]:
    """Return the majority of the three best programs, and of all, most trusted first."""
    order = sorted(programs.single, key=lambda label: -programs.single[label].score)
    found = {}
    for members in {"the three best": order[:3], "all": order}.items():
        scores, costs = vote([programs.recorded[label] for label in members[1]], programs.ids)
        found[members[0]] = {"members": members[1], **_against(programs, curves.Outcomes(scores, costs, 1.0))}
    return found


def as_text(name: str, record: Mapping[str, Any]) -> str:
    """Return the plain tables of one set."""
    lines = [f"\n{name}: {record['tested']} questions, F1 in percent, mean tokens"]
    lines += [f"  {label:24} {_means(outcome)}" for label, outcome in record["single"].items()]
    lines.append(f"Cascades within a share of the tokens of {record['best_single']}, programs chosen by cross-fitting")
    for row in record["chosen"]:
        lines.append(f"  at most {row['limit']:<4g} {_means(row)}  asked {row['asked']:.0%}  {_compared(row)}")
    lines.append("Majority of programs that are all asked")
    lines += [f"  {label:24} {_means(row)}  {_compared(row)}" for label, row in record["arbitration"].items()]
    return "\n".join(lines)


def _means(outcome: Mapping[str, Any]) -> str:
    f1 = outcome["f1"]
    shown = f"{_PERCENT * f1['mean']:5.1f} [{_PERCENT * f1['low']:.1f}, {_PERCENT * f1['high']:.1f}]"
    return f"{shown} @ {outcome['tokens']['mean']:6.0f}"


def _compared(row: Mapping[str, Any]) -> str:
    single, mixture, best = row["against_single"], row["against_mixture"], row["against_best"]
    return (
        f"against {row['single']} {_signed(single)}; against {row['mixture']} at random {_signed(mixture)}; "
        f"{_signed(best)} to the best at {best['cost_ratio']:.2f} of its tokens"
    )


def _signed(paired: Mapping[str, Any]) -> str:
    return f"{_PERCENT * paired['difference']:+.1f} [{_PERCENT * paired['low']:+.1f}, {_PERCENT * paired['high']:+.1f}]"


if __name__ == "__main__":
    run_command(app, "cascade")
