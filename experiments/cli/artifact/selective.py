"""`verihop artifact selective`: an artifact that withholds answers that are not likely enough to be right."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from experiments.cli.artifact.cascade import Out, check_unused, combined, fitted, show_next
from experiments.cli.shared import options
from experiments.cli.shared.console import say
from experiments.cli.shared.next_commands import used
from experiments.cli.shared.options import OwnPrograms, with_option_groups
from experiments.runs.specs import Selection, SelectiveSpec
from programs.lms.spec import LMSpec

if TYPE_CHECKING:
    from programs.artifact import Artifact

_PERCENT = 100


@with_option_groups
def selective(
    program: Annotated[Path, typer.Argument(metavar="ARTIFACT", help="The artifact that answers.")],
    out: Out,
    fitting: SelectiveSpec,
    selection: Selection,
    lm: LMSpec,
    limits: options.Limits,
    result: options.Replacing,
    knobs: Annotated[
        list[str] | None,
        typer.Option("--set", help="A knob as name=value, repeatable, e.g. --set least=0.4.", show_default=False),
    ] = None,
    own_programs: OwnPrograms = None,
) -> None:
    """Let an artifact answer only where its answer is likely enough to be right, and abstain elsewhere.

    With --fit the probability of being right is fitted on training questions (the confidence that it states then means
    what it says), and with --precision the threshold, too: it is tested on a part of the questions that was not fitted
    on. Without --precision all answers are given. Without --fit weights and threshold are those of --set or the
    defaults, and no LM is called. A budget that is spent writes nothing (exit code 3).
    """
    chosen = options.pairs(knobs)
    if fitting.fit is None:
        check_unused(fitting, selection, lm, limits)
        combined(
            "selective",
            [program],
            out,
            chosen,
            overwrite=result.overwrite,
            as_json=result.as_json,
            own_programs=own_programs,
        )
        return
    from experiments.pipeline.compiling.selective import SelectiveConfig, selective_fit
    from optimizers.metrics.typed.opened import typed_metric

    config = SelectiveConfig(program=program, knobs=chosen, **{**vars(fitting), "metric": typed_metric(fitting.metric)})
    record = fitted(*selective_fit(config), selection, lm, limits, out, result)
    if record is None:
        return
    say(f"Wrote {out}: selective {program}")
    for line in _fit_lines(record):
        say(line)
    show_next(record, out, *used(lm), own_programs=own_programs)


def _fit_lines(record: "Artifact") -> Iterator[str]:
    found, asked, metric = record.optimizer["details"], record.optimizer["arguments"], record.metric["name"]
    right = f"{found['right']} of {found['questions']} questions right by {metric}"
    yield f"Fitted on {found['fitted_on']} answers, features: {found['rule']}; {right}"
    if (tested := found["tested"]) is None:
        return
    given, of = tested["answered"], found["tested_on"]
    yield (
        f"Tested on {of} others: with a probability of at least {tested['least']:.3g} it gives {given} "
        f"({_PERCENT * given / of:.0f} %), {tested['right']} right ({_PERCENT * tested['right'] / given:.0f} %)"
    )
    yield f"Precision of at least {asked['precision']:g} on questions like these, delta {asked['delta']:g}"
