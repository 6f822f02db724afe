"""The README is correct: its commands exist, its figures are those of the result files."""

import functools
import json
import re
import shlex
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from experiments.cli.main import main

README = Path(__file__).parents[1] / "README.md"
PROGRAMS_README = README.parent / "programs" / "README.md"
COMMANDS = README.parent / "experiments" / "cli" / "README.md"
PAGES = [path for path in README.parent.rglob("README.md") if not {".venv", "node_modules"} & set(path.parts)]


def blocks(language: str, page: Path = README) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), flags=re.DOTALL)


def commands() -> list[list[str]]:
    pages = [block for page in (README, COMMANDS) for block in blocks("console", page)]
    lines = [line for block in pages for line in block.replace("\\\n", " ").splitlines()]
    return [shlex.split(line[2:], comments=True) for line in lines if line.startswith("$ verihop")]


@functools.cache
def help_of(*words: str) -> str:
    """Return what a command prints about itself, 200 columns wide."""
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(StringIO()) as shown:
        patch.setenv("COLUMNS", "200")
        patch.setattr(sys, "argv", ["verihop", *words, "--help"])
        with pytest.raises(SystemExit, check=lambda ended: not ended.code):
            main()
    return shown.getvalue()


@pytest.mark.parametrize("command", commands(), ids=lambda command: " ".join(command[1:3]))
def test_every_command_and_option_of_the_readmes_exists(command):
    words = command[1:3] if command[1] in ("artifact", "data", "distill", "keyfacts", "review") else command[1:2]
    shown = help_of(*words)
    for option in (word for word in command if word.startswith("--")):
        assert option in shown


def places(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_readme_has_no_gaps():
    assert "@@" not in README.read_text()


def test_every_file_the_readmes_point_to_exists():
    root = README.parent
    for page in PAGES:
        for target, _, place in re.findall(r"\]\(([^)#\s]*)(#([^)\s]+))?\)", page.read_text()):
            if "://" not in target:
                pointed = page.parent / target if target else page
                assert pointed.exists(), f"{page}: {target}"
                assert not place or place in places(pointed), f"{page}: {target}#{place}"
        for result in re.findall(r"`((?:experiments/)?results/[\w.]+\.json)`", page.read_text()):
            assert (root / "experiments" / result.removeprefix("experiments/")).exists(), f"{page}: {result}"


def test_the_table_of_strategies_is_the_catalog_with_its_call_bounds():
    from programs.catalog import PROGRAMS, build

    rows = dict(re.findall(r"^\| `(\w+)` \|.*\((\d+)\) \|$", README.read_text(), flags=re.MULTILINE))
    assert rows == {name: str(build(name).max_calls()) for name in PROGRAMS}


MEASURED = README.parent / "experiments" / "results"
A_ROW = r"^\| `(\w+)` \|.*\| "


@pytest.mark.parametrize(
    ("table", "row"), [(README, A_ROW + r"([\d.]+) \(\d+\) \|$"), (PROGRAMS_README, A_ROW + r"\d+ \| ([\d.]+) \|$")]
)
def test_the_tables_of_strategies_state_the_measured_calls(table, row):
    numbers = json.loads((MEASURED / "tables" / "leaderboard-table3.json").read_text())["numbers"]
    measured = {each["row"]: each["ours"] for each in numbers if each["metric"] == "calls"}
    means = dict(re.findall(row, table.read_text(), flags=re.MULTILINE))
    for name, calls in measured.items():
        assert float(means[name]) == pytest.approx(calls, abs=0.051), name


def test_every_dialect_of_servers_is_in_the_readme():
    from programs.lms.servers.dialects import DIALECTS

    rows = re.findall(r"^\| `(\w+)`", README.read_text().partition("## Servers")[2].partition("## ")[0], re.MULTILINE)
    assert sorted(rows) == sorted(DIALECTS)
