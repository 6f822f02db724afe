"""`verihop distill mix`: one folder of examples from several."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from experiments.cli.shared import options
from experiments.cli.shared.console import emit, listed, next_step, note, say
from experiments.cli.shared.next_commands import training
from experiments.cli.shared.options import with_option_groups
from optimizers.distill.specs import Mixture, Shares
from signatures.common.errors import UserError
from signatures.common.specs import Field


@dataclass(frozen=True)
class Skills:
    """How much of which skill."""

    PANEL: ClassVar[str] = "Mixture"
    count: Annotated[
        list[str] | None,
        typer.Option(help="Most examples of a skill, repeatable: reading=2000; other skills are kept whole."),
    ] = None
    weight: Annotated[
        list[str] | None,
        typer.Option(help="Weight of a skill, repeatable: reading=2; other skills are left out."),
    ] = None


@dataclass(frozen=True)
class LeftOut:
    """Which examples are left out, and the seed of what is chosen."""

    PANEL: ClassVar[str] = "Mixture"
    exclude: Annotated[
        tuple[Path, ...],
        Field(
            "questions.jsonl of an evaluation, repeatable: examples that ask one of its questions, or show its "
            "gold passages (of passages.jsonl beside it), are left out."
        ),
    ] = ()
    questions: Annotated[
        tuple[Path, ...],
        Field(
            "questions.jsonl of the examples, repeatable: --exclude then compares their gold alone, not all "
            "passages of a prompt."
        ),
    ] = ()
    seed: options.Seed = 0


@with_option_groups
def mix(
    folders: Annotated[list[Path], typer.Argument(help="Folders of examples.")],
    skills: Skills,
    shares: Shares,
    left_out: LeftOut,
    output: options.Replacing,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for examples.jsonl and manifest.json.", rich_help_panel="Output")
    ],
) -> None:
    """Mix folders of examples: no repeats, counts or weights by skill, a limit on the generated world, two splits."""
    from experiments.pipeline.synthesis.mixing import mix_folders

    mixture = Mixture(counts=_counts(skills.count), weights=_numbers(skills.weight), seed=left_out.seed, **vars(shares))
    if left_out.questions and not left_out.exclude:
        raise UserError("--questions does nothing without --exclude: leave it out.")
    manifest = mix_folders(
        folders,
        mixture,
        out=out,
        exclude=left_out.exclude,
        asked=left_out.questions,
        overwrite=output.overwrite,
    )
    if left_out.exclude and not left_out.questions and "evaluation_gold_is_shown" not in manifest["dropped"]:
        note(
            "Note: only questions are compared with --exclude, not gold passages: put passages.jsonl beside its files, "
            "or name the questions of the examples (--questions)."
        )
    if output.as_json:
        emit({"folder": str(out), **manifest})
        return
    counts = manifest["counts"]
    say(f"{counts['examples']} examples ({listed(counts['by_split'])}).")
    say(f"By skill: {listed(counts['by_skill'])}.")
    say(f"Left out: {listed(manifest['dropped'])}.")
    say(f"Written: {out}")
    next_step(training(out))


def _counts(texts: list[str] | None) -> dict[str, int]:
    numbers = _numbers(texts)
    for name, value in numbers.items():
        if not value.is_integer():
            raise UserError(f"--count {name}={value:g}: a number of examples is a whole number, e.g. {name}=2.")
    return {name: int(value) for name, value in numbers.items()}


def _numbers(texts: list[str] | None) -> dict[str, float]:
    numbers: dict[str, float] = {}
    for text in texts or ():
        name, _, value = text.partition("=")
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise UserError(f"{text!r} is not SKILL=NUMBER, e.g. reading=2.")
        numbers[name.strip()] = number
    return numbers
