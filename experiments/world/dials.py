"""The dials of the simulated LM, read from the committed file of a version."""

import functools
import tomllib
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from signatures.common.errors import UserError
from signatures.common.files import sha256_text

DIALS_FILE = Path(__file__).parent / "dials.toml"
DIALS_V2_FILE = DIALS_FILE.with_name("dials_v2.toml")


@dataclass(frozen=True)
class Dials:
    """All dials, named section_name; the files document the meaning and the value of each.

    Those with a default are of version 2; in version 1 what they describe does not happen.
    """

    memory_wrong: float
    memory_unknown: float
    memory_lookalike: float
    memory_guess: float
    reading_distraction: float
    reading_tempted: float
    reading_quoting_care: float
    reading_lookalike_weight: float
    reading_stubbornness: float
    reading_heedless: float
    reading_listed_care: float
    citing_wrong_mark: float
    inferring_wrong: float
    reasoning_composition: float
    reasoning_written_relief: float
    reasoning_comparison: float
    reasoning_bad_step: float
    reasoning_premature_finish: float
    reasoning_vague_query: float
    reasoning_drift: float
    judging_error: float
    judging_overconfidence: float
    judging_unwritten: float
    form_malformed: float
    sampling_spread: float
    reading_listed_trust: float = 0.0
    inferring_surplus: float = 0.0
    reasoning_leaving: float = 0.0
    reasoning_late_drift: float = 0.0
    judging_per_fact: float = 0.0

    def with_values(self, **values: float) -> "Dials":
        """Return a copy with some dials changed, for tests of single mechanisms."""
        return replace(self, **values)

    def fingerprint(self) -> str:
        """Return twelve hexadecimal digits of a hash of all dials."""
        return sha256_text(repr(sorted(asdict(self).items())))[:12]


@functools.cache
def read_dials(path: Path = DIALS_FILE) -> Dials:
    """Return the dials of a file.

    Raises:
        UserError: A dial is missing or unknown, or its value is not a number from 0 to 1 (weights: from 0).
    """
    sections: dict[str, dict[str, Any]] = tomllib.loads(path.read_text(encoding="utf-8"))
    values = {f"{section}_{name}": value for section, dials in sections.items() for name, value in dials.items()}
    for name, value in values.items():
        top = float("inf") if name.endswith("weight") else 1.0
        if not isinstance(value, int | float) or not 0 <= value <= top:
            raise UserError(f"Dial {name} is {value!r} in {path.name}: set a number from 0 to {top:g}.")
    try:
        return Dials(**values)
    except TypeError as error:
        raise UserError(f"{path.name} must contain exactly the known dials: {error}.") from error
