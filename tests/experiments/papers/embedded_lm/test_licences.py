"""Only licences that are named let weights be shipped."""

import pytest

from experiments.papers.embedded_lm.licences import SHIPPED, check_licence, may_ship
from signatures.common.errors import UserError


@pytest.mark.parametrize("licence", [*SHIPPED, "MIT (HaluEval); CC BY-SA 4.0 (HotpotQA)", "Apache-2.0 (made here)"])
def test_named_licences_may_be_shipped(licence):
    assert may_ship(licence)
    check_licence(licence, "a source")


@pytest.mark.parametrize(
    "licence",
    ["", "not stated", "MIT; not stated", "MIT (text: not stated)", "CC BY-NC 4.0", "CC BY 4.0-NC", "CC BY-SA 4.0 ND",
     "research only", "MIT (academic use)", "that of the file", "GPL-3.0", "MIT;"],
)  # fmt: skip
def test_all_others_are_refused_by_name(licence):
    assert not may_ship(licence)
    with pytest.raises(UserError, match="a source"):
        check_licence(licence, "a source")
