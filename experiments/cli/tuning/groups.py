"""The options of `verihop tune`."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from experiments.cli.shared import options
from experiments.cli.shared.app import Log
from optimizers.metrics.names import TUNED
from signatures.common.errors import UserError

if TYPE_CHECKING:
    from corpora.questions import Question
    from experiments.pipeline.tuning.config import Candidates
    from optimizers.tuning.objective import Goal
    from programs.lms.connect import Connection


@dataclass(frozen=True)
class Objective:
    """What is optimized, and what a setting may cost."""

    PANEL: ClassVar[str] = "Objective"
    metric: Annotated[str, typer.Option(help="The metric to maximize; `verihop metrics` lists them.")] = TUNED
    against: Annotated[
        str | None,
        typer.Option(
            help="Also minimize a cost per question, calls, tokens, seconds or usd: the result is a Pareto front.",
            show_default=False,
        ),
    ] = None
    at_most: Annotated[
        list[str] | None,
        typer.Option(
            help="Highest mean cost per question of a setting that is chosen, repeatable, e.g. calls=3 or tokens=4000.",
            show_default=False,
        ),
    ] = None

    def goal(self) -> "Goal":
        """Return the goal."""
        from optimizers.tuning.objective import Goal

        limits: dict[str, float] = {}
        for text in self.at_most or ():
            name, _, value = text.partition("=")
            try:
                limits[name.strip()] = float(value)
            except ValueError:
                raise UserError(f"--at-most takes cost=number, got {text!r}. Example: --at-most calls=3.") from None
        return Goal(self.against, limits)


@dataclass(frozen=True)
class Search:
    """Which knobs are searched, and how."""

    PANEL: ClassVar[str] = "Search"
    search: Annotated[
        str | None,
        typer.Option(
            help="Knobs to search, separated by commas, or none; by default all that have a range "
            "(`verihop programs`).",
            show_default=False,
        ),
    ] = None
    knob: Annotated[
        list[str] | None,
        typer.Option(
            help="Search a knob in a narrower range, as name=low:high or name=a,b,c; repeatable.", show_default=False
        ),
    ] = None
    fix: Annotated[
        list[str] | None,
        typer.Option(help="Set a knob and do not search it, as name=value; repeatable.", show_default=False),
    ] = None
    sampler: Annotated[str, typer.Option(help="tpe (Optuna's default), nsga2 (for --against), grid or random.")] = "tpe"
    grid_points: Annotated[
        int, typer.Option(min=2, max=100, help="With --sampler grid: values per knob that is a number.")
    ] = 5
    trials: Annotated[
        int, typer.Option(min=1, help="Trials of the whole study, those of all its processes together.")
    ] = 30
    prune: Annotated[
        bool,
        typer.Option(
            "--prune/--no-prune",
            help="End trials early that a Wilcoxon test, after 8, 16, 32 ... questions, finds worse than the best; "
            "not with --against or a grid.",
        ),
    ] = True
    prune_below: Annotated[
        float,
        typer.Option(help="p of that test; 0.3 ends more trials, for a budget of fewer than ten whole ones."),
    ] = 0.1
    replay: Annotated[
        Path | None,
        typer.Option(
            help="Evaluate trials from the record of this run (`eval --record-branches`), without LM calls.",
            show_default=False,
        ),
    ] = None
    buy: Annotated[
        bool,
        typer.Option("--buy", help="Ask, within the budget, what the record lacks; once for all trials."),
    ] = False
    folds: Annotated[
        int,
        typer.Option(
            min=0, max=50, help="Folds of the estimate on questions that did not choose the setting; 0 for none."
        ),
    ] = 5

    def narrowed(self) -> dict[str, str]:
        """Return the narrower ranges by knob."""
        pairs = [text.partition("=") for text in self.knob or ()]
        for text, (name, _, values) in zip(self.knob or (), pairs, strict=True):
            if not name.strip() or not values.strip():
                raise UserError(f"--knob takes name=low:high or name=a,b,c, got {text!r}. Example: --knob k=2:8.")
        names = [name.strip() for name, _, _ in pairs]
        if twice := [name for name in names if names.count(name) > 1]:
            raise UserError(f"--knob {twice[0]} is given twice: give each knob one range.")
        return {name.strip(): values for name, _, values in pairs}

    def searched(self, names: list[str]) -> tuple[str, ...] | None:
        """Return the knobs to search; None if all that have a range are.

        Args:
            names: Knobs of the program that have a range.
        """
        fixed = set(options.parse_knobs(self.fix))
        if self.search is None:
            return tuple(name for name in names if name not in fixed) if fixed else None
        chosen = [] if self.search == "none" else [name.strip() for name in self.search.split(",") if name.strip()]
        if both := fixed.intersection([*chosen, *self.narrowed()]):
            raise UserError(f"Knob {sorted(both)[0]} is both fixed and searched: choose one.")
        return tuple(chosen)


@dataclass(frozen=True)
class Prompts:
    """Demonstrations and instructions to try, beside those that the program has."""

    PANEL: ClassVar[str] = "Demonstrations and instructions"
    demos: Annotated[
        str | None,
        typer.Option(
            help="Optimizers whose demonstrations and instructions are tried, separated by commas, e.g. "
            "bootstrap,labeled; `verihop compile --help` names them.",
            show_default=False,
        ),
    ] = None
    demo_sets: Annotated[int, typer.Option(min=1, max=50, help="Compilations per optimizer, with different seeds.")] = 2
    accept: Annotated[
        float, typer.Option(min=0.001, max=1, help="Minimum score of a training question to become a demonstration.")
    ] = 1.0
    max_demos: Annotated[int, typer.Option(min=1, max=64, help="Maximum number of demonstrations per predictor.")] = 4
    instructions: Annotated[
        int, typer.Option(min=0, max=50, help="Instructions to write for each predictor, by an LM.")
    ] = 0
    prompt_lm: Annotated[
        str | None,
        typer.Option(
            help="LM that writes instructions, also for --demos; by default the program's.", show_default=False
        ),
    ] = None
    prompt_api_base: Annotated[str | None, typer.Option(help="Base URL of that LM's server.", show_default=False)] = (
        None
    )
    prompt_api_key_env: Annotated[
        str | None, typer.Option(help="Environment variable that contains its API key.", show_default=False)
    ] = None
    from_: Annotated[
        list[Path] | None,
        typer.Option(
            "--from",
            help="A compiled version of the program: try its demonstrations, instructions and knobs, too; repeatable.",
            show_default=False,
        ),
    ] = None
    train: Annotated[
        Path | None,
        typer.Option(
            help="Questions that demonstrations and instructions are made from; by default a third of the questions, "
            "which the trials then do not ask.",
            show_default=False,
        ),
    ] = None
    train_split: Annotated[str | None, typer.Option(help="Use only this split of --train.", show_default=False)] = None
    train_limit: Annotated[
        int | None, typer.Option(min=1, help="Use only the first N questions of --train.", show_default=False)
    ] = None

    def trainset(self) -> "list[Question]":
        """Return the training questions; empty without --train."""
        from experiments.pipeline.setup import open_questions

        if self.train is None:
            if self.train_split is not None or self.train_limit is not None:
                raise UserError("--train-split and --train-limit select questions of --train: name that file, too.")
            return []
        return open_questions(self.train, split=self.train_split, limit=self.train_limit)

    def candidates(self, prompt_lm: "Connection | None") -> "Candidates":
        """Return what to try."""
        from experiments.pipeline.tuning.config import Candidates
        from optimizers.teleprompters.catalog import get_optimizer

        names = tuple(name.strip() for name in (self.demos or "").split(",") if name.strip())
        for name in names:
            get_optimizer(name)
        return Candidates(
            optimizers=names,
            seeds=self.demo_sets,
            accept=self.accept,
            max_demos=self.max_demos,
            artifacts=tuple(self.from_ or ()),
            instructions=self.instructions,
            prompt_lm=prompt_lm,
        )


@dataclass(frozen=True, kw_only=True)
class Execution(options.SeededExecution):
    """How questions are processed, and where the study is kept, so that several processes can work on it."""

    storage: Annotated[
        str | None,
        typer.Option(
            help="journal:FILE on a shared disk, or postgresql://USER@HOST/DATABASE (password in PGPASSWORD or "
            "~/.pgpass): the same command on each machine joins the study. By default an SQLite file in --out.",
            show_default=False,
        ),
    ] = None
    study: Annotated[
        str | None, typer.Option(help="Name of the study; by default that of the folder.", show_default=False)
    ] = None


@dataclass(frozen=True, kw_only=True)
class Result(options.Replacing):
    """What is written and printed."""

    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the study, its plots and the artifact.")]
    pick: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Freeze this trial, e.g. another of the front; by default the best, or the program as it was if "
            "settings chosen so gain nothing on held-out questions.",
            show_default=False,
        ),
    ] = None
    estimate: Annotated[
        bool, typer.Option("--estimate", help="Only print what the study can cost, and ask nothing.")
    ] = False
    log: Log = None
