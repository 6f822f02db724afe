"""A name that a file holds leads to what is imported already, or is refused in one line."""

import sys

import pytest

from programs.catalog import known_program
from signatures.common.errors import UserError


@pytest.mark.parametrize(
    "name", ["os:system", "dspy:ReAct", "programs.catalog:build", "__main__:X", "gone:X", ":", "a:b:c", "no.such:Thing"]
)
def test_what_is_no_imported_program_is_refused(monkeypatch, name):
    monkeypatch.setitem(sys.modules, "gone", None)  # as Python and test tools mark a module that must not be imported
    before = set(sys.modules)
    with pytest.raises(UserError, match="is not imported, and a file never decides which code runs"):
        known_program(name)
    assert set(sys.modules) == before
