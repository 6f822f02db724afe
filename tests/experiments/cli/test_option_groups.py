"""Dataclasses of options become the options of a command."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import pytest
import typer
from typer.testing import CliRunner

from experiments.cli.main import app
from experiments.cli.shared.options import pairs, with_option_groups
from signatures.common.errors import UserError


@dataclass(frozen=True)
class Size:
    PANEL: ClassVar[str] = "Size"
    width: Annotated[int, typer.Option("--width", "-w", help="In metres.")]
    height: Annotated[int, typer.Option(min=1)] = 2


def run(*arguments: str) -> tuple[int, str]:
    small = typer.Typer()
    seen: list[object] = []

    @small.command()
    @with_option_groups
    def draw(name: Annotated[str, typer.Argument()], size: Size, twice: bool = False) -> None:
        seen.append((name, size, twice))

    result = CliRunner().invoke(small, list(arguments))
    return result.exit_code, str(seen[0]) if seen else result.output


def test_a_command_gets_its_groups_as_dataclasses():
    assert run("door", "-w", "3", "--twice") == (0, "('door', Size(width=3, height=2), True)")


def test_required_and_bounded_options_stay_so():
    code, shown = run("door")
    assert (code, "Missing option '--width'" in shown) == (2, True)
    code, shown = run("door", "-w", "3", "--height", "0")
    assert (code, "--height" in shown) == (2, True)


def test_help_shows_each_group_in_its_panel():
    code, shown = run("--help")
    assert (code, "─ Size ─" in shown, "In metres." in shown) == (0, True, True)


def test_options_of_one_name_are_refused():
    def draw(size: Size, width: int = 1) -> None: ...

    with pytest.raises(TypeError, match="several options named width"):
        with_option_groups(draw)


def name_of(info: typer.models.CommandInfo) -> str:
    return info.name or info.callback.__name__


def commands() -> list[tuple[str, typer.models.CommandInfo]]:
    groups = [(group.name, group.typer_instance) for group in app.registered_groups]
    listed = [(name_of(info), info) for info in app.registered_commands]
    return listed + [(f"{name} {name_of(info)}", info) for name, sub in groups for info in sub.registered_commands]


SHORT_FORMS = {"--out": "-o", "--quiet": "-q"}


@pytest.mark.parametrize(("name", "info"), commands(), ids=lambda value: value if isinstance(value, str) else "")
def test_an_option_has_the_same_short_form_in_every_command(name, info):
    command = typer.main.get_command_from_info(info, pretty_exceptions_short=False, rich_markup_mode=None)
    for parameter in command.params:
        long = [option for option in parameter.opts if option.startswith("--")]
        for option in long:
            short = [other for other in parameter.opts if not other.startswith("--")]
            assert short == ([SHORT_FORMS[option]] if option in SHORT_FORMS else []), f"{name} {option}"
    if name != "mcp":  # its standard output is the protocol's
        assert any("--json" in parameter.opts for parameter in command.params), f"{name} has no --json"


REQUIRED = {
    "compile": {"questions", "program"},  # --estimate needs no out
    "eval": {"questions", "out"},
    "ask": {"question"},
    "index build": set(),  # --add and --remove need none
    "index push": {"folder", "target"},
    "index pull": {"source", "out"},
    "demo": set(),
    "judge": {"runs", "out"},
    "keyfacts build": {"questions", "passages", "out"},
    "review keyfacts": {"questions", "out", "reviewer"},
    "review answers": {"runs", "scale", "out", "reviewer"},
    "review resume": {"folder", "reviewer"},
    "data convert": {"name", "source", "out"},
    "data world": {"out"},
    "distill synthesize": {"questions", "out"},
    "distill mix": {"folders", "out"},
}


@pytest.mark.parametrize("name", REQUIRED)
def test_what_a_command_cannot_do_without_is_required(name):
    command = typer.main.get_command_from_info(
        dict(commands())[name], pretty_exceptions_short=False, rich_markup_mode=None
    )
    assert {parameter.name for parameter in command.params if parameter.required} == REQUIRED[name]


def test_the_value_of_a_knob_may_be_the_text_of_a_file(tmp_path):
    (tmp_path / "template.txt").write_text("Reason within tags.\n")
    assert pairs([f"template=@{tmp_path / 'template.txt'}"]) == {"template": "Reason within tags."}
    with pytest.raises(UserError, match=r"Cannot read the value in .*no-such"):
        pairs([f"template=@{tmp_path / 'no-such.txt'}"])
