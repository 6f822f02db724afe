"""Computes the metrics of key facts and citations (`ORACLE_METRICS` of the catalog) with an entailment oracle."""

from collections.abc import Iterable, Mapping
from typing import Any

from optimizers.metrics.catalog import ORACLE_METRICS
from optimizers.metrics.entailment.oracle import EntailmentOracle, describe, judge
from optimizers.metrics.metric import Metric
from signatures.common.errors import unknown

_BY = "Entailment by "


def _metric(name: str, oracle: EntailmentOracle) -> Metric:
    metric = ORACLE_METRICS[name]

    def score(example: Any, prediction: Any) -> float | None:
        return metric.function(example, prediction, judge(oracle, metric.pairs(example, prediction)))

    # The fingerprint distinguishes runs that were scored with different weights of the same name.
    definition = f"{metric.definition} Oracle {oracle.fingerprint}. {_BY}{describe(oracle)}."
    return Metric(name, definition, score, metric.source, higher_is_better=metric.higher_is_better, needs=metric.needs)


def oracles_of(definitions: Mapping[str, str]) -> list[str]:
    """Return one sentence per oracle of a run: its metrics and its agreement with human judgements; empty if none.

    Args:
        definitions: Metric name -> definition, as in a run's description.
    """
    names: dict[str, list[str]] = {}
    for name, definition in definitions.items():
        _, by, oracle = definition.partition(_BY)
        if by:
            names.setdefault(oracle.removesuffix("."), []).append(name)
    return [f"{', '.join(own)} by {oracle}." for oracle, own in names.items()]


def with_oracle(oracle: EntailmentOracle, names: Iterable[str] = tuple(ORACLE_METRICS)) -> list[Metric]:
    """Return metrics of `ORACLE_METRICS` computed by an oracle; definitions state its agreement with human judgements.

    Each metric scores one question with one call of the oracle.

    Raises:
        UserError: A name is not a key of `ORACLE_METRICS`.
    """
    chosen = list(dict.fromkeys(names))
    for name in chosen:
        if name not in ORACLE_METRICS:
            raise unknown("metric of an entailment oracle", name, ORACLE_METRICS)
    return [_metric(name, oracle) for name in chosen]
