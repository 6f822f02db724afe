"""Every metric by name: its definition, its function and its source.

A name carries its definition in brackets where published definitions differ, because they give different numbers.
`METRICS` score an example and a prediction; `ORACLE_METRICS` also need an entailment oracle
(`optimizers.metrics.groundedness`). `families` contains the definitions; those named `name@k` exist for every k from 1
to 1000.
"""

from optimizers.metrics.families.answer import ANSWER_METRICS
from optimizers.metrics.families.citations import CITATION_METRICS, CITATION_ORACLE_METRICS
from optimizers.metrics.families.evidence import EVIDENCE_METRICS, EVIDENCE_ORACLE_METRICS
from optimizers.metrics.families.judges import JUDGED_METRICS
from optimizers.metrics.families.key_facts import KEY_FACT_METRICS
from optimizers.metrics.families.retrieval import AT_K, RETRIEVAL_METRICS, at_k
from optimizers.metrics.families.trajectories import TRAJECTORY_METRICS
from optimizers.metrics.families.verification import VERIFICATION_METRICS
from optimizers.metrics.metric import Metric, OracleMetric
from optimizers.metrics.names import current_name, note_renamed
from signatures.common.errors import UserError, unknown

METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        *ANSWER_METRICS,
        *JUDGED_METRICS,
        *RETRIEVAL_METRICS,
        *VERIFICATION_METRICS,
        *CITATION_METRICS,
        *EVIDENCE_METRICS,
        *TRAJECTORY_METRICS,
    )
}

ORACLE_METRICS: dict[str, OracleMetric] = {**KEY_FACT_METRICS, **CITATION_ORACLE_METRICS, **EVIDENCE_ORACLE_METRICS}


def choices() -> list[str]:
    """Return the names of all metrics for an error message; those with a cutoff once, as `name@k`."""
    fixed = [name for name in METRICS if "@" not in name]
    return [*fixed, *(f"{name}@k" for name in AT_K), *ORACLE_METRICS]


def find_metric(name: str) -> Metric | None:
    """Return the metric of that name, `name@k` with any k included; None if there is none.

    Raises:
        UserError: The cutoff of `name@k` is missing or not allowed.
    """
    return METRICS.get(name) or at_k(name)


def get_metric(name: str) -> Metric:
    """Return the metric of that name; an old name is accepted with a note.

    Raises:
        UserError: There is no such metric, and the message lists the names; or it needs an entailment oracle, or its
            cutoff is not allowed.
    """
    note_renamed([name])
    metric = find_metric(current_name(name))
    if name in ORACLE_METRICS:
        raise UserError(f"{name} is decided by an entailment oracle: open it with `groundedness.with_oracle`.")
    if metric is None and ":" in name:
        raise UserError(f"{name!r} is not in the catalog: open an own metric with `typed.own.own_metric`.")
    if metric is None:
        raise unknown("metric", name, choices())
    return metric
