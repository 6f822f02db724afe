"""Opens metrics by the names that a user typed: of the catalog, of an entailment oracle, and own ones."""

from collections.abc import Iterable

from optimizers.metrics.catalog import ORACLE_METRICS, choices, find_metric, get_metric, own_metric
from optimizers.metrics.entailment.oracle import EntailmentOracle
from optimizers.metrics.groundedness import with_oracle
from optimizers.metrics.metric import Metric
from signatures.common.errors import unknown
from signatures.common.own_code import is_own


def typed_metric(name: str) -> Metric:
    """Return the metric of a name that the user typed; an own one (`module:name`) is imported.

    Raises:
        UserError: See `get_metric` and `own_metric`.
    """
    return own_metric(name) if is_own(name) else get_metric(name)


def typed_names(text: str) -> list[str]:
    """Return the names in a list separated by commas, each once.

    Raises:
        UserError: A name has an unknown form; own metrics are not imported yet.
    """
    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    for name in names:
        if not is_own(name) and name not in ORACLE_METRICS and find_metric(name) is None:
            raise unknown("metric", name, choices())
    return names


def by_oracle(names: Iterable[str]) -> list[str]:
    """Return the names of the metrics that an entailment oracle decides."""
    return [name for name in names if name in ORACLE_METRICS]


def open_typed(names: Iterable[str], oracle: EntailmentOracle | None = None) -> list[Metric]:
    """Return the metrics of names that the user typed, in their order.

    Raises:
        UserError: A name is unknown, an own metric cannot be imported, or the oracle is missing.
    """
    names = list(names)
    decided = {metric.name: metric for metric in with_oracle(oracle, by_oracle(names))} if oracle else {}
    return [decided.get(name) or typed_metric(name) for name in names]
