"""The measured agreement of oracles with human judgements, by fingerprint, so that a changed oracle has no record.

For each dataset the figures on pairs that no oracle was fitted on, and for hand-written contradictions how many pass.

`python -m experiments.benchmarks.entailment_agreement` measures and writes it.
"""

import functools
import json
from pathlib import Path

from optimizers.metrics.entailment.oracle import Agreement, Passed, SetAgreement

RECORD = Path(__file__).with_name("agreement.json")


@functools.cache
def _measured(path: Path) -> dict[str, Agreement]:
    if not path.exists():
        return {}
    record = json.loads(path.read_text(encoding="utf-8"))
    return {
        fingerprint: Agreement(
            {name: SetAgreement(**figures) for name, figures in entry["sets"].items()},
            {kind: Passed(**count) for kind, count in entry.get("contradictions", {}).items()},
        )
        for fingerprint, entry in record.items()
    }


def agreement_of(fingerprint: str, record: Path = RECORD) -> Agreement | None:
    """Return the measured agreement of the oracle with that fingerprint; None if it was not measured."""
    return _measured(record).get(fingerprint)
