"""`verihop config`: which settings hold, where each comes from, and a settings file to begin with."""

import os
import textwrap
from pathlib import Path
from typing import Annotated, Any

import typer

from experiments.cli.shared import options
from experiments.cli.shared.console import WIDTH, emit, next_step, note, say, wrapped
from experiments.cli.shared.next_commands import command, used
from experiments.cli.shared.option_groups import with_option_groups
from experiments.cli.shared.settings.file import NAME
from experiments.cli.shared.settings.holding import TYPED, Held, held_here, shown
from experiments.cli.shared.settings.known import (
    CURE,
    PREFIX,
    VARIABLES,
    WITHOUT_OPTION,
    converted,
    has_key,
    has_secret,
    known_options,
    refuse_key,
    unknown_variables,
)
from experiments.cli.shared.watching import form_of_logs
from signatures.common.errors import UserError

_SOURCES = ("command line", "variable", "file")


@with_option_groups
def config(
    lm: options.LM,
    limits: options.Limits,
    threads: options.Threads = 8,
    init: Annotated[
        bool, typer.Option("--init", help=f"Write {NAME} here, with all settings as comments and those typed.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Show every setting: the value that holds, and whether an option, a variable, a file or a default gives it.

    A setting is the default of the option of that name in every command. An option that is typed is stronger than a
    variable, and a variable is stronger than verihop.toml in this folder or a parent. With options, e.g. --lm, the
    table is that of a command with them.
    """
    held = held_here()
    _check_variables()
    for name in (name for name, number in held.numbers.items() if number == TYPED):
        converted(name, held.values[name], f"--{name.replace('_', '-')}")  # what no other command would accept, either
    if init:
        path = _write(held)
        if as_json:
            emit({"file": str(path)})
            return
        say(f"Wrote {path}")
        next_step(command("verihop", "config"))
        return
    if as_json:
        emit(_record(held))
        return
    _show(held)
    if lm.api_base is not None and lm.lm is None:
        note("Note: no model is named for the server, so that only artifacts that name one can use it: add lm.")
    if held.settings.file.path is None:
        next_step(command("verihop", "config", "--init", *used(lm), *used(limits)))
    else:
        next_step(command("verihop", "doctor", *used(lm)))


def _check_variables() -> None:
    """Raise UserError if a variable that is no option has a value that the commands which read it refuse."""
    from corpora.compressed import size_limit
    from programs.lms.caches import reply_cache_bytes
    from signatures.common.files import cache_dir

    cache_dir()
    reply_cache_bytes()
    size_limit(0)
    form_of_logs(None)


def _record(held: Held) -> dict[str, Any]:
    """Return what is shown, by setting and by variable."""
    path = held.settings.file.path
    rows = {name: _row(held, name) for name in known_options()}
    rows |= {name: _row_without_option(held, name) for name in WITHOUT_OPTION}
    return {
        "file": None if path is None else str(path.resolve()),
        "settings": rows,
        "variables": {
            each.name: {
                "set": _stated(held, each.name) is not None,
                "value": None if each.secret else _stated(held, each.name),
                "meaning": each.meaning,
            }
            for each in VARIABLES
        },
        "unknown_variables": list(unknown_variables()),
    }


def _row(held: Held, name: str) -> dict[str, Any]:
    """Return value and source of a setting that is an option."""
    number, option = held.numbers.get(name), known_options()[name]
    value = held.values[name]
    row: dict[str, Any] = {
        "value": _plain(value),
        "from": "default" if number is None else _SOURCES[number],
        "place": None if number is None else held.settings.place(name, number),
        "variable": f"{PREFIX}{name.upper()}",
        "default": option.default,
    }
    if name == "api_key_env" and value is not None:
        row["key_is_set"] = bool(os.environ.get(str(value)))
    stated = held.settings.places({})
    void = [held.settings.place(name, at) for at, place in enumerate(stated) if name in place]
    if number is None and void:
        row["void"] = void[0]
    return row


def _row_without_option(held: Held, name: str) -> dict[str, Any]:
    """Return value and source of a setting that has no option."""
    variable, file, stated = f"{PREFIX}{name.upper()}", held.settings.file, held.settings.cache.get(name)
    source = "variable" if stated is not None else "file" if name in file.values else "default"
    place = {"variable": variable, "file": file.place(name), "default": None}[source]
    value = file.values.get(name) if stated is None else stated
    return {"value": value, "from": source, "place": place, "variable": variable, "default": None}


def _stated(held: Held, variable: str) -> str | None:
    """Return what a variable of the environment is; None if it is not set. The file's cache stands there, too."""
    setting = variable.removeprefix(PREFIX).lower()
    return held.settings.cache.get(setting) if setting in WITHOUT_OPTION else os.environ.get(variable) or None


def _plain(value: Any) -> Any:
    """Return a value as JSON and the terminal show it: JSON has no infinity."""
    return shown(value) if isinstance(value, str) or value == float("inf") else value


def _show(held: Held) -> None:
    record = _record(held)
    say(f"File: {record['file'] or f'none ({NAME} in this folder or a parent)'}")
    panels: dict[str, list[str]] = {}
    for name in record["settings"]:
        panel = getattr(known_options().get(name), "rich_help_panel", None)
        panels.setdefault(panel or ("Cache" if name in WITHOUT_OPTION else "Execution"), []).append(name)
    for panel, names in panels.items():
        say(f"\n{panel}")
        for name in names:
            say(_line(name, record["settings"][name]))
    say("\nOther variables")
    for each in VARIABLES:
        if each.name.removeprefix(PREFIX).lower() in WITHOUT_OPTION:
            continue
        now = record["variables"][each.name]
        say(f"  {each.name}: {'not set' if not now['set'] else 'set' if each.secret else now['value']}")
        say(wrapped(each.meaning, 6))
    for name, near in unknown_variables().items():
        note(f"Note: {name} is no variable of verihop{f': did you mean {near}?' if near else '.'}")


def _line(name: str, row: dict[str, Any]) -> str:
    value = "-" if row["value"] is None or row["value"] == [] else shown(row["value"])
    if "key_is_set" in row:
        value += " (is set)" if row["key_is_set"] else " (is not set)"
    source = row["place"] or row["from"]
    if "void" in row:
        source += f"; {row['void']} is of another LM or server"
    return f"  {name:<16} {value:<32} {source}"


def _write(held: Held) -> Path:
    """Write a settings file into the working folder, with what is typed and all other settings as comments.

    Raises:
        UserError: There is one, or a value has a key or a password in it.
    """
    from signatures.common.files import atomic_write

    path = Path(NAME)
    if path.exists():
        raise UserError(f"{path} exists already: edit it, or delete it first.")
    for name, value in held.values.items():
        refuse_key(name, value, NAME)
    if has_secret("api_base", held.values["api_base"]):
        raise UserError(
            f"The address has a password or key in it, which no file may contain: set {PREFIX}API_BASE in the "
            "environment."
        )
    lines = [
        "# Settings of verihop: defaults of the options of its commands, here and in all subfolders.",
        "# Stronger: variables such as VERIHOP_LM, and options that are typed. `verihop config` shows what holds.",
        "# No keys: name a variable that contains the key (api_key_env).",
    ]
    for name, option in known_options().items():
        typed = held.numbers.get(name) == TYPED
        value = held.values[name] if typed else option.default
        text = _toml(_EXAMPLES[name] if value is None or value == [] else value)
        lines += ["", *textwrap.wrap(option.help, WIDTH, initial_indent="# ", subsequent_indent="# ")]
        lines.append(f"{'' if typed else '# '}{name} = {text}")
        if has_key(lines[-1]):
            raise UserError(f"The value of {name} has what looks like a key in it, which no file may contain: {CURE}.")
    meanings = {each.name: each.meaning for each in VARIABLES}
    for name in WITHOUT_OPTION:
        lines += ["", f"# {meanings[f'{PREFIX}{name.upper()}']}", f"# {name} = {_toml(_EXAMPLES[name])}"]
    with atomic_write(path) as file:
        file.write("\n".join(lines) + "\n")
    if held.settings.file.path is not None:
        note(f"Note: {held.settings.file.path} no longer holds in this folder: the nearest file does.")
    return path


# Of settings whose default is none, for a file to begin with.
_EXAMPLES: dict[str, Any] = {
    "lm": "embedded",
    "api_base": "http://localhost:8000/v1",
    "api_key_env": "MY_KEY",
    "temperature": 0.0,
    "max_tokens": 256,
    "context_size": 8192,
    "thinking_tokens": 4096,
    "server": "vllm",
    "budget": "calls=500 usd=0.2",
    "cache_dir": "cache",
    "cache_bytes": 2_000_000_000,
}


def _toml(value: Any) -> str:
    """Return a value as TOML writes it."""
    import json

    if isinstance(value, list):
        return json.dumps(" ".join(value), ensure_ascii=False)
    if value == float("inf"):
        return "inf"
    return json.dumps(value, ensure_ascii=False)  # of texts, numbers, true and false TOML's spelling is JSON's
