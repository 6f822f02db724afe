"""Fit a cascade of two artifacts on training questions, and write it with what was found."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.pipeline.compiling.combined import Combined, Found, fitting_metric
from experiments.runs.specs import CascadeSpec

if TYPE_CHECKING:
    import dspy

    from optimizers.cascade import AskedSamples, CascadeSample, Fitted, ReplayedCascade
    from optimizers.evaluating import Outcome
    from programs.cascade import Cascade

FITTED = ("weights", "threshold")  # knobs
_NEVER, _ALWAYS = 1.0, 0.0  # thresholds


def cascade_of(cheap: Path, expensive: Path, spec: CascadeSpec, knobs: Mapping[str, Any]) -> Combined:
    """Return what `fit_combined` takes to fit a cascade.

    A note says whether the limit on tokens is below what the cheap program takes alone.

    Args:
        cheap: The artifact that answers every question.
        expensive: The artifact that is asked where that looks doubtful.
        knobs: Of the cascade, those that are not fitted.

    Raises:
        UserError: The metric does not fit, or a knob is named that is fitted.
    """
    metric = fitting_metric(spec, knobs, FITTED)

    def fit(cascade: Any, examples: "Sequence[dspy.Example]", count: "Callable[[Outcome], None]") -> Found:
        from optimizers.cascade import ask_both, fitted_cascade

        asked = ask_both(cascade, examples, metric, threads=spec.threads, report=count)
        fitted, rule = fitted_cascade(cascade, asked, most_tokens=spec.most_tokens)
        done = _on_training_questions(asked.samples, fitted)
        return Found(
            knobs={name: getattr(fitted, name) for name in FITTED},
            arguments={"most_tokens": spec.most_tokens},
            details={**_described(asked, rule), **done},
            notes=[asked.note, _limit_note(spec.most_tokens, done["fitted"]["tokens"])],
        )

    return Combined("cascade", [cheap, expensive], spec, metric, knobs, fit)


def _limit_note(most: float | None, tokens: float) -> str | None:
    if most is None or tokens <= most:
        return None
    return (
        f"The cheap artifact alone takes {tokens:.0f} tokens a question, more than the limit of {most:g}: the "
        "expensive one is never asked. Raise the limit."
    )


def _described(asked: "AskedSamples", rule: "Fitted") -> dict[str, Any]:
    left_out = {"undefined": asked.undefined, "failed": asked.failed}
    validated = {name: round(gain, 4) for name, gain in rule.validated.items()}
    return {"rule": rule.rule, "validated": validated, "questions": len(asked.samples), **left_out}


def _on_training_questions(samples: "Sequence[CascadeSample]", fitted: "Cascade") -> dict[str, Any]:
    from optimizers.cascade import replayed

    cases = {"never": _NEVER, "fitted": fitted.threshold, "always": _ALWAYS}
    return {name: _means(replayed(samples, fitted.weights, at)) for name, at in cases.items()}


def _means(done: "ReplayedCascade") -> dict[str, float]:
    share = sum(done.asked) / len(done.asked)
    return {"score": round(done.score, 4), "tokens": round(done.cost, 1), "asked": round(share, 4)}
