"""`verihop distill plan`: train in several stages, as one file says."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

from experiments.cli.distill.train import Answering, TrainingFolder
from experiments.cli.shared.console import emit, next_step, note, resumable, say
from experiments.cli.shared.next_commands import asking
from experiments.cli.shared.options import with_option_groups
from optimizers.distill.training.settings import Machine, Method
from signatures.common.specs import fields_of


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
    """Train in stages, each from the adapter of the one before, as a file says; resumable over many sittings."""
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
