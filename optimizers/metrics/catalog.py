"""Every metric by name: its definition, its function and its source.

A name carries its definition in brackets where published definitions differ, because they give different numbers.
`METRICS` score an example and a prediction; `ORACLE_METRICS` also need an entailment oracle
(`optimizers.metrics.groundedness`). `families` contains the definitions.
"""

from collections.abc import Iterable

from optimizers.metrics.families.answer import ANSWER_METRICS
from optimizers.metrics.families.citations import CITATION_METRICS, CITATION_ORACLE_METRICS
from optimizers.metrics.families.judges import JUDGED_METRICS
from optimizers.metrics.families.key_facts import KEY_FACT_METRICS
from optimizers.metrics.families.retrieval import RETRIEVAL_METRICS
from optimizers.metrics.families.verification import VERIFICATION_METRICS
from optimizers.metrics.metric import Metric, OracleMetric
from signatures.common.errors import unknown

METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (*ANSWER_METRICS, *JUDGED_METRICS, *RETRIEVAL_METRICS, *VERIFICATION_METRICS, *CITATION_METRICS)
}

ORACLE_METRICS: dict[str, OracleMetric] = {**KEY_FACT_METRICS, **CITATION_ORACLE_METRICS}


def get_metric(name: str) -> Metric:
    """Return the metric of that name.

    Raises:
        UserError: `METRICS` has no such name; the message lists the names.
    """
    if name not in METRICS:
        raise unknown("metric", name, METRICS)
    return METRICS[name]


def get_metrics(names: Iterable[str]) -> list[Metric]:
    """Return the metrics of those names in that order, repeated names once.

    Raises:
        UserError: A name is not in `METRICS`.
    """
    return [get_metric(name) for name in dict.fromkeys(names)]
