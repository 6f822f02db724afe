"""The layout of a wheel: imports and names of modules under `verihop`, everything else as it was."""

from pathlib import Path

import pytest

from experiments.packaging.namespace import PARTS, names_module, rewritten, settings_of_wheel, without_files
from signatures.common import checkout

PROJECT = Path(__file__).parents[3]


def test_imports_and_names_of_modules_are_rewritten():
    source = '''"""Says from programs.catalog import PROGRAMS."""
import ujson, corpora_of_mine
from programs.catalog import (
    PROGRAMS,
)
from signatures import types  # from signatures import
if TYPE_CHECKING:
    from corpora.questions import Question
MAIN = [sys.executable, "-m", "experiments.cli.main"]
OWN = {'programs.genground:GenGround': "programs.nothing.here", "words": "programs. And more"}
'''
    assert rewritten(source, PROJECT).splitlines() == [
        '"""Says from programs.catalog import PROGRAMS."""',
        "import ujson, corpora_of_mine",
        "from verihop.programs.catalog import (",
        "    PROGRAMS,",
        ")",
        "from verihop.signatures import types  # from signatures import",
        "if TYPE_CHECKING:",
        "    from verihop.corpora.questions import Question",
        'MAIN = [sys.executable, "-m", "verihop.experiments.cli.main"]',
        'OWN = {\'verihop.programs.genground:GenGround\': "programs.nothing.here", "words": "programs. And more"}',
    ]


@pytest.mark.parametrize("source", ["import os, programs.catalog\n", "x = 1; from programs import catalog\n"])
def test_an_import_that_cannot_be_rewritten_is_refused(source):
    with pytest.raises(ValueError, match="line 1"):
        rewritten(source, PROJECT)


def test_no_module_needs_what_rewriting_does_not_do():
    """`import programs.catalog` would bind `verihop`, and relative imports are not looked at."""
    for part in PARTS:
        for file in (PROJECT / part).rglob("*.py"):
            lines = file.read_text(encoding="utf-8").splitlines()
            plain = [line for line in lines if line.startswith(tuple(f"import {part}." for part in PARTS))]
            assert all("noqa: F401" in line for line in plain), file  # imported for what it does, not for its name
            assert not any(line.lstrip().startswith("from .") for line in lines), file


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("programs.catalog", True),
        ("programs.lms", True),
        ("programs.genground:GenGround", True),
        ("programs.lms.embedded.rules", True),
        ("programs", False),
        ("programs.nothing", False),
        ("programs/catalog.py", False),
    ],
)
def test_what_names_a_module(text, names):
    assert names_module(text, PROJECT) is names


def test_pyproject_is_that_of_the_wheel_and_what_it_lacks_is_named():
    settings = (PROJECT / "pyproject.toml").read_text(encoding="utf-8")
    changed = settings_of_wheel(settings)
    assert 'verihop = "verihop.experiments.cli.main:run_as_process"' in changed
    assert 'include = ["verihop*"]' in changed
    assert '"verihop.corpora" = ["demo/*"' in changed
    with pytest.raises(ValueError, match="py-modules"):
        settings_of_wheel(settings.replace('py-modules = ["verihop"]', ""))


def test_the_parts_are_named_alike_everywhere():
    assert set(PARTS) == checkout.PARTS


def test_the_page_of_the_wheel_has_no_link_to_a_file():
    page = (
        "# A\n\n![An answer](a.svg)\n\nSee [the page](b/README.md#part), [web](https://example.org) and [below](#c).\n"
    )
    assert without_files(page) == "# A\n\nSee the page, [web](https://example.org) and [below](#c).\n"
    assert "](experiments" not in without_files((PROJECT / "README.md").read_text(encoding="utf-8"))
