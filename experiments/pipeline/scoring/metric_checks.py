"""Metrics that a program cannot be scored by: they would be 0 for every answer, which looks like a result."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from optimizers.metrics.metric import Metric
from optimizers.metrics.needs import Need
from signatures.common.errors import UserError

if TYPE_CHECKING:
    import dspy


def check_evidence(program: "dspy.Module", metrics: Sequence[Metric]) -> None:
    """Check that a single program quotes evidence if metrics of supporting facts are asked for.

    Raises:
        UserError: None of its predictors has the output `evidence`.
    """
    from programs.artifact import program_name
    from programs.catalog import name_of

    of_facts = [metric.name for metric in metrics if Need.FACTS in metric.needs]
    name = program_name(program)
    if not of_facts or name != name_of(type(program)):
        return
    if not any("evidence" in predictor.signature.output_fields for predictor in program.predictors()):
        raise UserError(
            f"{', '.join(of_facts)} needs {Need.FACTS}, and {name} quotes nothing: omit it, or take a program "
            "that does, such as genground."
        )
