"""`verihop distill`: make training examples, train a small LM on them, export it."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import typer

from experiments.cli.distill.synthesize import synthesize
from experiments.cli.distill.train import Answering, TrainingFolder, train
from experiments.cli.shared import options
from experiments.cli.shared.app import App
from experiments.cli.shared.console import emit, listed, next_step, note, resumable, say
from experiments.cli.shared.next_commands import asking, command, training
from experiments.cli.shared.options import with_option_groups
from optimizers.distill.specs import Mixture, Shares
from optimizers.distill.training.settings import Machine, Method
from signatures.common.errors import UserError
from signatures.common.specs import Field, fields_of


@dataclass(frozen=True)
class Skills:
    """How much of which skill."""

    PANEL: ClassVar[str] = "Mixture"
    count: Annotated[
        list[str] | None,
        typer.Option(help="Maximum examples of a skill, repeatable: reading=2000; other skills are not limited."),
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


OF_OTHER = {"hf": "file_type", "gguf": "dtype"}  # form -> the option that the other one alone reads


@dataclass(frozen=True)
class Form:
    """What is written."""

    PANEL: ClassVar[str] = "Form"
    to: Annotated[
        Literal["hf", "gguf"],
        typer.Option(help="hf for transformers and vLLM; gguf for llama.cpp and Ollama, with a Modelfile."),
    ]
    out: Annotated[Path, Field("New folder.", "--out -o")]
    file_type: Annotated[
        Literal["q8_0", "f16"], typer.Option(help="For gguf: 8 bits, or 16 with less rounding at twice the size.")
    ] = "q8_0"
    dtype: Annotated[
        Literal["float16", "bfloat16"], typer.Option(help="For hf: float16 rounds less, bfloat16 has the larger range.")
    ] = "float16"
    as_json: options.Json = False


@with_option_groups
def export(
    context: typer.Context,
    weights: Annotated[
        str,
        typer.Argument(
            help="Folder of an adapter or of merged weights; embedded for the default LM, base for the untrained one."
        ),
    ],
    form: Form,
) -> None:
    """Write a trained LM, its adapter merged, for transformers and vLLM or for llama.cpp and Ollama."""
    from programs.lms.weights.export import export_gguf, export_transformers

    other, typed = OF_OTHER[form.to], options.typed_in(context)
    if other in typed:
        raise UserError(f"{typed[other]} does nothing with --to {form.to}: leave it out.")
    if form.to == "gguf":
        path = export_gguf(weights, form.out, file_type=form.file_type)
        commands = [
            asking("rag", lm=f"gguf:{path}"),
            command("ollama", "create", form.out.name, "-f", form.out / "Modelfile"),
        ]
    else:
        path = export_transformers(weights, form.out, dtype=form.dtype)
        commands = [command("vllm", "serve", path)]
    size = sum(file.stat().st_size for file in form.out.iterdir())
    if form.as_json:
        emit({"path": str(path), "bytes": size})
        return
    say(f"Wrote {path} ({size / 1e6:,.0f} MB).")
    next_step(*commands)


@dataclass(frozen=True)
class Overrides:
    """What takes precedence over the plan in every stage."""

    PANEL: ClassVar[str] = "Instead of the plan"
    base: Annotated[str | None, fields_of(Method)["base"].field] = None
    device: Annotated[str | None, fields_of(Machine)["device"].field] = None
    threads: Annotated[int | None, fields_of(Machine)["threads"].field] = None
    row_tokens: Annotated[int | None, fields_of(Machine)["row_tokens"].field] = None

    def given(self) -> dict[str, Any]:
        """Return what was stated."""
        return {name: value for name, value in vars(self).items() if value is not None}


@with_option_groups
def plan(
    file: Annotated[Path, typer.Argument(metavar="PLAN", help="TOML file with the stages.")],
    overrides: Overrides,
    answering: Answering,
    output: TrainingFolder,
) -> None:
    """Train in stages, each from the adapter of the one before, as a file says; resumable over many sessions."""
    from experiments.pipeline.training.plan import PlanRun, read_plan

    run = PlanRun(
        read_plan(file, overrides.given()),
        output.out,
        metric_examples=answering.metric_examples,
        note=note,
        quiet=output.quiet,
    )
    with resumable():
        done = run.run(resume=output.resume)
    if output.as_json:
        emit(done)
        return
    for stage in done["stages"]:
        say(f"{stage['name']}: {stage['steps']} steps, {stage['tokens']:,} tokens in {stage['hours'] * 60:.1f} minutes")
    say(f"Written: {output.out}")
    if done["stages"][-1]["served"]:
        next_step(asking("rag", lm=f"embedded:{run.weights(len(run.stages))}"))


distill = App(help="Make training examples from a teacher, train a small LM on them, export it.")
distill.command("synthesize")(synthesize)
distill.command("mix")(mix)
distill.command("train", uses_cache=True)(train)
distill.command("plan", uses_cache=True)(plan)
distill.command("export")(export)
