"""What decides results is stated with the fields, and stands in a request under their keys."""

from dataclasses import dataclass
from typing import Annotated

from signatures.common.specs import Field, deciding


@dataclass(frozen=True)
class Spec:
    """A field of each kind."""

    seed: Annotated[int, Field(decides=True)] = 0
    against: Annotated[str | None, Field(decides=True, key="cost")] = None
    repeats: Annotated[int, Field(decides=True, optional=True)] = 1
    split: Annotated[str | None, Field(decides="questions")] = None
    threads: Annotated[int, Field()] = 8


def test_a_request_has_what_decides_by_its_keys():
    assert deciding(Spec, Spec(threads=3, split="dev")) == {"seed": 0, "cost": None}
    assert deciding(Spec, Spec(repeats=2, against="calls"), seed="hash") == {
        "seed": "hash",
        "cost": "calls",
        "repeats": 2,
    }


def test_a_part_replaces_only_what_is_there():
    assert deciding(Spec, Spec(), repeats=3) == {"seed": 0, "cost": None}
