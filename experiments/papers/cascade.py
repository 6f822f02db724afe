"""Cascades of two programs against the single programs, quality against cost, with the trained embedded LM.

    python -m experiments.papers.cascade --data ../shared/data --work ../cascade --resume

Every program answers every question once; runs are resumed with `--resume`, and replies are cached. What cascades do
follows from these rows (`cascade_runs.py`), cross-fitted: the questions are split into five parts, and for each part
everything that is chosen (which two programs, the rule and its weights, the threshold) is chosen on the other four, so
that every question counts as a test question once. Cost is tokens, prompt and completion, those that the cache saved
included. Nobody trained on the questions, those of the development sets near the official mix unless `--sets` names the
whole files; a set replaces its own record in `experiments/results/cascade_embedded.json`.
"""

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, permutations
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
import typer

from experiments.analysis.report.plots import empty_figure, write_png
from experiments.analysis.statistics import mean_of, paired
from experiments.papers.cascade_runs import ASKED, LM, Recorded, Runs, as_samples, rankings_of, recorded, vote
from experiments.papers.command import help_of, names, run_command, say
from experiments.papers.embedded_lm.evaluation_sets import SETS, WHOLE, EvaluationSet, open_set
from optimizers.cascade import fitting
from optimizers.cascade.fitting import (
    GAIN,
    LOGISTIC,
    SHARES,
    CascadeSample,
    as_record,
    fit,
    replayed,
    threshold_for,
    threshold_of_share,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from programs.lms.connect import Connection


PARTS = 5
REPEATS = 3
SEED = 0


class Pair(NamedTuple):
    """The programs of a cascade, by label, and whether it decides before one of them is asked."""

    cheap: str
    expensive: str
    before: bool = False

    def __str__(self) -> str:
        return f"{self.cheap} | {self.expensive}" if self.before else f"{self.cheap} -> {self.expensive}"


@dataclass(frozen=True)
class Outcomes(fitting.Outcomes):
    """F1 and tokens of each question, and the share of the questions that went to an expensive program."""

    asked: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """Return the means as JSON."""
        return {"f1": mean_of(self.scores).as_dict(), "tokens": mean_of(self.costs).as_dict(), "asked": self.asked}


class Programs:
    """What every program makes of the same questions.

    Args:
        recorded: Label -> the rows.
    """

    def __init__(self, recorded: Mapping[str, Recorded]):
        self.recorded = dict(recorded)
        common = set.intersection(*(set(each.rows) for each in recorded.values()))
        self.ids = sorted(common)
        self.single = {
            label: Outcomes([each.score(id) for id in self.ids], [each.cost(id) for id in self.ids])
            for label, each in recorded.items()
        }
        cost = {label: outcome.cost for label, outcome in self.single.items()}
        self.pairs = [
            Pair(cheap, expensive, before)
            for cheap, expensive in permutations(recorded, 2)
            for before in (False, True)
            if cost[cheap] < cost[expensive] and (before or recorded[cheap].shown is not None)
        ]
        self.fits: dict[tuple[int, ...], str] = {}  # see `within`
        self.samples = {
            pair: as_samples(recorded[pair.cheap], recorded[pair.expensive], self.ids, before=pair.before)
            for pair in self.pairs
        }

    @property
    def best(self) -> str:
        """The single program with the highest score; of equals, the cheapest."""
        return max(self.single, key=lambda label: (self.single[label].score, -self.single[label].cost))

    def best_within(self, cost: float) -> str:
        """Return the best single program that costs no more than this; the cheapest of all if there is none."""
        affordable = [label for label, outcome in self.single.items() if outcome.cost <= cost + 1e-9]
        if not affordable:
            return min(self.single, key=lambda label: self.single[label].cost)
        return max(affordable, key=lambda label: self.single[label].score)


def parts(n: int, seed: int = SEED) -> Iterator[tuple[list[int], list[int]]]:
    """Yield the places to choose on, and those to test, of each part."""
    order = list(range(n))
    random.Random(seed).shuffle(order)
    for number in range(PARTS):
        test = order[number::PARTS]
        yield sorted(set(order) - set(test)), sorted(test)


_Choice = Callable[[list[CascadeSample]], tuple[str, float]]  # training samples -> weights and threshold


def crossed(samples: Sequence[CascadeSample], choose: _Choice, seed: int = SEED) -> Outcomes:
    """Return what a cascade does on every question with what was chosen on the other parts."""
    scores, costs, asked = [0.0] * len(samples), [0.0] * len(samples), 0
    for train, test in parts(len(samples), seed):
        weights, threshold = choose([samples[place] for place in train])
        done = replayed([samples[place] for place in test], weights, threshold)
        asked += sum(done.asked)
        for place, score, cost in zip(test, done.scores, done.costs, strict=True):
            scores[place], costs[place] = score, cost
    return Outcomes(scores, costs, asked / len(samples))


def at_share(share: float, rules: Sequence[str] | None = None) -> _Choice:
    """Return the choice that sends a share of the training questions to the expensive program."""

    def choose(train: list[CascadeSample]) -> tuple[str, float]:
        weights = fit(train, rules=rules).weights
        return weights, threshold_of_share(train, weights, share)

    return choose


def within(cost: float, fits: dict[tuple[int, ...], str] | None = None) -> _Choice:
    """Return the choice with the best training score at no more than a mean cost.

    Args:
        cost: The limit.
        fits: Weights that were fitted before, by the identities of the samples; they do not depend on the limit.
    """
    known = {} if fits is None else fits

    def choose(train: list[CascadeSample]) -> tuple[str, float]:
        key = tuple(map(id, train))
        if key not in known:
            known[key] = fit(train).weights
        return known[key], threshold_for(train, known[key], most_cost=cost)

    return choose


def routed(programs: Programs, pair: Pair, cost: float) -> Outcomes:
    """Return the expectation of asking one of two programs at random, at a mean cost between theirs.

    It is a harder reference than a cascade that asks at random: a question that goes to the expensive program costs
    nothing else.
    """
    cheap, expensive = programs.single[pair.cheap], programs.single[pair.expensive]
    share = min(1.0, max(0.0, (cost - cheap.cost) / (expensive.cost - cheap.cost)))
    return Outcomes(_mixed(cheap.scores, expensive.scores, share), _mixed(cheap.costs, expensive.costs, share), share)


def best_mixture(programs: Programs, cost: float) -> tuple[str, Outcomes]:
    """Return the best single program or random mixture of two at a mean cost, chosen with hindsight."""
    label = programs.best_within(cost)
    found: tuple[str, Outcomes] = (label, programs.single[label])
    for pair in programs.pairs:
        if programs.single[pair.cheap].cost <= cost <= programs.single[pair.expensive].cost:
            mixed = routed(programs, pair, cost)
            if mixed.score > found[1].score + 1e-12:
                found = (f"{pair.cheap} or {pair.expensive}", mixed)
    return found


def oracle(programs: Programs, pair: Pair) -> Outcomes:
    """Return what a cascade would do that asks the expensive program exactly where it scores higher."""
    samples = programs.samples[pair]
    gains = [sample.expensive > sample.cheap for sample in samples]
    both = list(zip(samples, gains, strict=True))
    return Outcomes(
        [sample.expensive if gain else sample.cheap for sample, gain in both],
        [sample.cheap_cost + (sample.expensive_cost if gain else 0.0) for sample, gain in both],
        sum(gains) / len(gains),
    )


class Chosen(NamedTuple):
    """A cascade whose programs were chosen, too: what it does, and which programs each part chose."""

    outcomes: Outcomes
    pairs: list[str]


def chosen_within(programs: Programs, cost: float) -> Chosen:
    """Return the cascade, or single program, that the training questions prefer at no more than a mean cost.

    Candidates are compared on the training questions by `crossed`, so that none gains by having fitted them. Scores and
    costs are means over `REPEATS` ways to split the questions.
    """
    done = [_chosen_once(programs, cost, seed) for seed in range(REPEATS)]
    outcomes = [each.outcomes for each in done]
    return Chosen(
        Outcomes(
            np.mean([each.scores for each in outcomes], axis=0).tolist(),
            np.mean([each.costs for each in outcomes], axis=0).tolist(),
            float(np.mean([each.asked for each in outcomes])),
        ),
        [name for each in done for name in each.pairs],
    )


def _chosen_once(programs: Programs, cost: float, seed: int) -> Chosen:
    n = len(programs.ids)
    scores, costs, asked, names = [0.0] * n, [0.0] * n, 0.0, []
    for train, test in parts(n, seed):
        pair = _preferred(programs, train, cost)
        names.append(str(pair))
        if isinstance(pair, str):
            single = programs.single[pair]
            done = Outcomes([single.scores[place] for place in test], [single.costs[place] for place in test])
        else:
            samples = programs.samples[pair]
            weights, threshold = within(cost, programs.fits)([samples[place] for place in train])
            found = replayed([samples[place] for place in test], weights, threshold)
            done = Outcomes(found.scores, found.costs, sum(found.asked) / len(test))
        asked += done.asked * len(test) / n
        for place, score, spent in zip(test, done.scores, done.costs, strict=True):
            scores[place], costs[place] = score, spent
    return Chosen(Outcomes(scores, costs, asked), names)


def _preferred(programs: Programs, train: Sequence[int], cost: float) -> Pair | str:
    """Return the pair that the training questions prefer, or the best single program within the cost.

    A cascade must be ahead by one standard error of the paired difference: with a few hundred questions the best of
    many pairs is ahead of a single program by chance.
    """

    def of(values: Sequence[float]) -> list[float]:
        return [values[place] for place in train]

    affordable = [label for label, outcome in programs.single.items() if np.mean(of(outcome.costs)) <= cost]
    cheapest = min(programs.single, key=lambda label: programs.single[label].cost)
    single = max(affordable or [cheapest], key=lambda label: float(np.mean(of(programs.single[label].scores))))
    crossed_scores = {
        pair: crossed(
            [programs.samples[pair][place] for place in train], within(cost, programs.fits), seed=SEED + REPEATS
        ).scores
        for pair in programs.pairs
        if np.mean(of(programs.single[pair.cheap].costs)) < cost
    }
    if not crossed_scores:
        return single
    pair = max(crossed_scores, key=lambda each: float(np.mean(crossed_scores[each])))
    ahead = np.array(crossed_scores[pair]) - np.array(of(programs.single[single].scores))
    error = float(ahead.std(ddof=1)) / len(ahead) ** 0.5
    return pair if float(ahead.mean()) > error else single


def compared(reference: Outcomes, cascade: Outcomes) -> dict[str, Any]:
    """Return the paired difference in score, cascade minus reference, and the ratio of the costs."""
    return {**paired(reference.scores, cascade.scores).as_dict(), "cost_ratio": cascade.cost / reference.cost}


def _mixed(first: Sequence[float], second: Sequence[float], share: float) -> list[float]:
    return [(1 - share) * one + share * other for one, other in zip(first, second, strict=True)]


def curve(programs: Programs, pair: Pair) -> list[dict[str, Any]]:
    """Return a cascade at several shares, each with what random routing reaches at its cost."""
    found = []
    for share in SHARES:
        done = crossed(programs.samples[pair], at_share(share))
        routed_f1 = routed(programs, pair, done.cost).score
        found.append(
            {"share": share, "f1": done.score, "tokens": done.cost, "asked": done.asked, "routed_f1": routed_f1}
        )
    return found


SINGLE, MIXED, CHOSEN, PAIR, ORACLE, VOTES = "#5b6472", "#b8bec9", "#b42318", "#2f5fd0", "#1a7f4b", "#d9822b"
_PERCENT = 100


def draw(sets: Mapping[str, Mapping[str, Any]], path: Path) -> None:
    """Write the plot of all sets of a result file as PNG."""
    figure, canvas = empty_figure(6.2 * len(sets), 4.6)
    for axes, (name, record) in zip(figure.subplots(1, len(sets), squeeze=False)[0], sets.items(), strict=True):
        _panel(axes, name, record)
    write_png(canvas, path)


def _panel(axes: "Axes", name: str, record: Mapping[str, Any]) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter

    singles = {label: _point(outcome) for label, outcome in record["single"].items()}
    hull = upper_hull(list(singles.values()))
    axes.plot(*zip(*mixtures(hull), strict=True), color=MIXED, linewidth=1.2, label="random mixtures of programs")
    axes.scatter(*zip(*singles.values(), strict=True), color=SINGLE, zorder=3, label="single programs")
    for label, at in singles.items():
        axes.annotate(label, at, textcoords="offset points", xytext=(5, -10), fontsize=7, color=SINGLE)
    pair, curve = best_pair(record)
    axes.plot(
        *zip(*map(_point, curve), strict=True),
        color=PAIR,
        marker=".",
        linewidth=1,
        label=f"{pair}, best pair with hindsight",
    )
    chosen = sorted(_point(row) for row in record["chosen"])
    axes.plot(*zip(*chosen, strict=True), color=CHOSEN, marker="o", linewidth=1.5, label="cascades chosen on others")
    oracles = sorted(_point(of["oracle"]) for of in record["pairs"].values())
    x, y = zip(*oracles, strict=True)
    axes.scatter(x, y, color=ORACLE, marker="x", s=18, label="oracles of the pairs")
    votes = [_point(row) for row in record["arbitration"].values()]
    x, y = zip(*votes, strict=True)
    axes.scatter(x, y, color=VOTES, marker="s", s=22, label="majority of all asked")
    axes.set_title(f"{name}, {record['tested']} questions", loc="left", fontsize=10)
    axes.set_xlabel("mean tokens per question")
    axes.set_ylabel("F1, %")
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.grid(alpha=0.2)
    axes.legend(fontsize=7, loc="lower right")


def best_pair(record: Mapping[str, Any]) -> tuple[str, list[Mapping[str, Any]]]:
    """Return the pair whose curve is furthest above random routing on average, and its curve."""

    def ahead(curve: list[Mapping[str, Any]]) -> float:
        return sum(point["f1"] - point["routed_f1"] for point in curve) / len(curve)

    name = max(record["pairs"], key=lambda pair: ahead(record["pairs"][pair]["curve"]))
    return name, record["pairs"][name]["curve"]


def upper_hull(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the points that random mixtures of two cannot beat at their cost, cheapest first."""
    hull: list[tuple[float, float]] = []
    for x, y in sorted(points):
        if hull and y <= hull[-1][1]:
            continue
        while len(hull) > 1 and (hull[-1][1] - hull[-2][1]) * (x - hull[-1][0]) <= (y - hull[-1][1]) * (
            hull[-1][0] - hull[-2][0]
        ):
            hull.pop()
        hull.append((x, y))
    return hull


def mixtures(hull: list[tuple[float, float]], steps: int = 20) -> list[tuple[float, float]]:
    """Return points on the lines of a hull, which are curves where the axis of the costs is logarithmic."""
    found = hull[:1]
    for (x, y), (right, top) in pairwise(hull):
        shares = [step / steps for step in range(1, steps + 1)]
        found += [(x + share * (right - x), y + share * (top - y)) for share in shares]
    return found


def _point(outcome: Mapping[str, Any]) -> tuple[float, float]:
    return _mean(outcome["tokens"]), _PERCENT * _mean(outcome["f1"])


def _mean(value: Any) -> float:
    return float(value["mean"] if isinstance(value, Mapping) else value)


MODULE = "experiments.papers.cascade"
RESULTS, FILE = Path("experiments/results"), "cascade_embedded.json"
LIMITS = (0.4, 0.5, 0.6, 0.75, 1.0, 1.5, 2.0)  # of the cost of the best single program
RULES = {"logistic": (LOGISTIC,), "gain": (GAIN,)}
DEFAULT = "standard,rag k=1,rag k=2,rag k=3,rag k=5"

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, help=help_of(__doc__))


@app.command(help=help_of(__doc__))
def cascade(
    data: Annotated[Path, typer.Option(help="Folder with the official files.")] = Path("../shared/data"),
    work: Annotated[Path, typer.Option(help="Folder for converted files, indexes and runs.")] = Path("runs/cascade"),
    lm: Annotated[str, typer.Option(help="The LM of all programs.")] = "embedded",
    sets: Annotated[str, typer.Option(help="Separated by commas.")] = ",".join(SETS),
    questions: Annotated[int, typer.Option(help="Questions of each set at most.", min=50)] = 500,
    programs: Annotated[str, typer.Option(help=f"Separated by commas: {', '.join(ASKED)}.")] = DEFAULT,
    threads: Annotated[int, typer.Option(help="Questions asked in parallel.", min=1)] = 8,
    results: Annotated[Path, typer.Option(help="Folder for the result file.")] = RESULTS,
    resume: Annotated[bool, typer.Option("--resume", help="Resume interrupted runs.")] = False,
) -> None:
    """Record, evaluate, draw."""
    from experiments.pipeline import setup
    from programs.lms.spec import LMSpec

    named_sets, labels = names("set", sets, (*SETS, *WHOLE)), names("program", programs, tuple(ASKED))
    connection = setup.open_lm(LMSpec(id=lm, cache=True))
    kept: dict[str, Any] = {}
    for name in named_sets:
        started = time.monotonic()
        of = open_set(name, data, work, questions)
        runs = Runs(of, connection, work / "cascade", threads=threads, resume=resume)
        rankings, asked = rankings_of(of), {}
        for label in labels:
            say(f"{label}, {name}")
            asked[label] = recorded(runs, label, rankings)
        say(f"cascades, {name}")
        found = evaluated({label: rows for label, (rows, _) in asked.items()})
        found["runs"] = {label: summary for label, (_, summary) in asked.items()}
        record = {**_head(of, connection), "seconds": round(time.monotonic() - started), **found}
        kept = _keep(results / FILE, name, record)
        typer.echo(as_text(name, record))
    draw({name: of["cascades"] for name, of in kept.items()}, results / f"{Path(FILE).stem}.png")
    say(f"Written: {results / FILE}")


def _head(of: EvaluationSet, connection: "Connection") -> dict[str, Any]:
    """Return what a set was measured with; the sets of a file may come from different runs of the command."""
    from experiments.runs.config import provenance

    return {
        **{name: value for name, value in provenance(MODULE).items() if name != "lm"},
        "lms": {LM: {"id": connection.id, "weights_hash": connection.weights_hash}},
        "files": of.files,
        "retriever": of.retrieve.fingerprint,
        "questions": len(of.questions),
    }


def _keep(path: Path, name: str, record: dict[str, Any]) -> dict[str, Any]:
    """Write a set into a result file, beside those that it contains; return all of them."""
    from experiments.runs.config import portable
    from experiments.runs.files import read_json, write_json

    sets: dict[str, Any] = read_json(path)["sets"] if path.is_file() else {}
    sets[name] = {"cascades": portable(record)}
    write_json(path, {"sets": sets})
    return sets


def evaluated(recorded_runs: Mapping[str, Any]) -> dict[str, Any]:
    """Return everything that follows from the rows of the programs, as JSON."""
    programs = Programs(recorded_runs)
    best = programs.single[programs.best]
    chosen = []
    for limit in LIMITS:
        pick = chosen_within(programs, limit * best.cost)
        chosen.append({"limit": limit, "chosen": pick.pairs, **_against(programs, pick.outcomes)})
    return {
        "tested": len(programs.ids),
        "best_single": programs.best,
        "single": {label: outcome.as_dict() for label, outcome in programs.single.items()},
        "chosen": chosen,
        "pairs": {str(pair): _pair(programs, pair) for pair in programs.pairs},
        "arbitration": _arbitration(programs),
    }


def _against(programs: Programs, done: Outcomes) -> dict[str, Any]:
    """Return outcomes compared with the best single program at no more cost, with the best mixture, with the best."""
    single, (mixture, mixed) = programs.best_within(done.cost), best_mixture(programs, done.cost)
    return {
        **done.as_dict(),
        "single": single,
        "against_single": compared(programs.single[single], done),
        "mixture": mixture,
        "against_mixture": compared(mixed, done),
        "against_best": compared(programs.single[programs.best], done),
    }


def _pair(programs: Programs, pair: Pair) -> dict[str, Any]:
    samples = programs.samples[pair]
    fitted = fit(samples)
    rules = {
        rule: [crossed(samples, at_share(share, names)).score for share in (0.2, 0.4, 0.6)]
        for rule, names in RULES.items()
    }
    return {
        "curve": curve(programs, pair),
        "oracle": oracle(programs, pair).as_dict(),
        "rules_at_20_40_60_percent": rules,
        "fitted_on_all": {**as_record(fitted), "threshold": threshold_for(samples, fitted.weights)},
    }


def _arbitration(programs: Programs) -> dict[str, Any]:
    """Return the majority of the three best programs, and of all, most trusted first."""
    order = sorted(programs.single, key=lambda label: -programs.single[label].score)
    found = {}
    for members in {"the three best": order[:3], "all": order}.items():
        scores, costs = vote([programs.recorded[label] for label in members[1]], programs.ids)
        found[members[0]] = {"members": members[1], **_against(programs, Outcomes(scores, costs, 1.0))}
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
