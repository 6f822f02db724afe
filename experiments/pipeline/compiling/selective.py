"""Fit when an artifact answers and when it abstains, and write it with what was found."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.pipeline.compiling.combined import Combined, Found, fitting_metric
from experiments.runs.specs import SelectiveSpec

if TYPE_CHECKING:
    import dspy

    from optimizers.evaluating import Outcome

FITTED = ("weights",)  # knobs
LEAST = "least"  # fitted with a precision


def selective_of(program: Path, spec: SelectiveSpec, knobs: Mapping[str, Any]) -> Combined:
    """Return what `fit_combined` takes to fit a selective program; the fit raises UserError where no threshold passes.

    Without a precision the threshold is that of `knobs`, or 0.

    Args:
        program: The artifact that answers.
        spec: Its metric is 1 where an answer is right, else 0.
        knobs: Of the selective program, those that are not fitted.

    Raises:
        UserError: The metric does not fit, or a knob is named that is fitted.
    """
    metric = fitting_metric(spec, knobs, FITTED if spec.precision is None else (*FITTED, LEAST))

    def fit(selective: Any, examples: "Sequence[dspy.Example]", count: "Callable[[Outcome], None]") -> Found:
        from optimizers import selective as fitting

        asked = fitting.ask(selective, examples, metric, threads=spec.threads, report=count)
        found = fitting.fit(asked, precision=spec.precision, delta=spec.delta)
        counts = {"questions": len(asked.answers) + asked.abstained, "right": sum(each.right for each in asked.answers)}
        left_out = {"abstained": asked.abstained, "undefined": asked.undefined, "failed": asked.failed}
        return Found(
            knobs={"weights": found.weights, LEAST: knobs.get(LEAST, found.least)},
            arguments={"precision": spec.precision, "delta": spec.delta},
            details={**asdict(found), **counts, **left_out},
            notes=[asked.note],
        )

    return Combined("selective", [program], spec, metric, knobs, fit)
