"""Fit when an artifact answers and when it abstains, and write it with what was found."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.pipeline.compiling.combined import Combined, Fit, Found, check_fitting
from experiments.runs.specs import SelectiveSpec

if TYPE_CHECKING:
    import dspy

    from optimizers.evaluating import Outcome
    from optimizers.metrics.metric import Metric

FITTED = ("weights",)  # knobs
LEAST = "least"  # fitted with a precision


@dataclass(frozen=True, kw_only=True)
class SelectiveConfig(SelectiveSpec):
    """What a selective program is fitted for.

    Args:
        program: The artifact that answers.
        metric: 1 where an answer is right, else 0.
        knobs: Of the selective program, those that are not fitted.

    Raises:
        UserError: The metric does not fit, or a knob is named that is fitted.
    """

    program: Path
    metric: "Metric"
    knobs: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        fitted = FITTED if self.precision is None else (*FITTED, LEAST)
        check_fitting(self.metric, self.knobs, fitted)


def selective_fit(config: SelectiveConfig) -> tuple[Combined, Fit]:
    """Return what `fit_combined` takes to fit a selective program; the fit raises UserError where no threshold passes.

    Without a precision the threshold is that of `config.knobs`, or 0.
    """

    def fit(selective: Any, examples: "Sequence[dspy.Example]", count: "Callable[[Outcome], None]") -> Found:
        from optimizers import selective as fitting

        asked = fitting.ask(selective, examples, config.metric, threads=config.threads, report=count)
        found = fitting.fit(asked, precision=config.precision, delta=config.delta)
        knobs = {"weights": found.weights, LEAST: config.knobs.get(LEAST, found.least)}
        counts = {"questions": len(asked.answers) + asked.abstained, "right": sum(each.right for each in asked.answers)}
        left_out = {"abstained": asked.abstained, "undefined": asked.undefined, "failed": asked.failed}
        return Found(
            knobs=knobs,
            arguments={"precision": config.precision, "delta": config.delta},
            details={**asdict(found), **counts, **left_out},
            notes=[asked.note],
        )

    return Combined("selective", [config.program], config, config.metric, config.knobs), fit
