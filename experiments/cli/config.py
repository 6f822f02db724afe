"""`verihop config`: which settings apply_settings, where each comes from, and a settings file to begin with."""

import json
import os
import textwrap
from pathlib import Path
from typing import Annotated, Any

import typer

from experiments.cli.shared import options
from experiments.cli.shared.app import form_of_logs
from experiments.cli.shared.console import WIDTH, emit, next_step, note, say, wrapped
from experiments.cli.shared.next_commands import command, used
from experiments.cli.shared.options import PREFIX, with_option_groups
from experiments.cli.shared.settings.known import (
    CURE,
    HARMLESS,
    NAME,
    TYPED,
    VARIABLES,
    WITHOUT_OPTION,
    ActiveSettings,
    SettingsFile,
    active_settings,
    approve,
    converted,
    has_key,
    has_secret,
    known_options,
    refuse_key,
    shown,
    unknown_variables,
)
from programs.lms.spec import LMSpec
from signatures.common.errors import UserError
from signatures.common.files import atomic_write, cache_dir, sha256_file

_SOURCES = ("command line", "variable", "file")


@with_option_groups
def config(
    lm: LMSpec,
    limits: options.Limits,
    threads: options.Threads = 8,
    init: Annotated[
        bool, typer.Option("--init", help=f"Write {NAME} here, with the given settings, and all others as comments.")
    ] = False,
    trust: Annotated[
        bool | None,
        typer.Option(
            "--trust/--distrust",
            help="Allow the found file, with its present content, to set LM, address, key and cache; or revoke it.",
            show_default=False,
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Show every setting: the value that holds, and whether an option, a variable, a file or a default gives it.

    A setting is the default of the option of the same name in every command. An option takes precedence over a
    variable, a variable over verihop.toml in this folder or a parent, and that over the one in your configuration
    folder. With options, e.g. --lm, the table is that of a command with them. A file that was found, not named, sets
    LM, address, key and cache only after --trust, which each change of the file revokes.
    """
    active = active_settings()
    _check_variables()
    if trust is not None:
        _decide(active, trust)
        next_step(command("verihop", "config"))
        return
    for name in (name for name, number in active.numbers.items() if number == TYPED):
        converted(
            name, active.values[name], f"--{name.replace('_', '-')}"
        )  # what no other command would accept, either
    if init:
        path = _write(active)
        if as_json:
            emit({"file": str(path)})
            return
        say(f"Wrote {path}")
        next_step(command("verihop", "config"))
        return
    if as_json:
        emit(_record(active))
        return
    _show(active)
    if lm.api_base is not None and lm.id is None:
        note("Note: no model is named for the server, so that only artifacts that name one can use it: add lm.")
    for line in active.ignored():
        note(f"Note: {line}")
    if not active.settings.files:
        next_step(command("verihop", "config", "--init", *used(lm), *used(limits)))
    else:
        next_step(command("verihop", "doctor", *used(lm)))


def _check_variables() -> None:
    """Raise UserError if a variable that is no option has a value that the commands which read it refuse."""
    from corpora.compressed import size_limit
    from programs.lms.calls.reply_cache import reply_cache_bytes

    cache_dir()
    reply_cache_bytes()
    size_limit(0)
    form_of_logs(None)


def _record(active: ActiveSettings) -> dict[str, Any]:
    """Return what is shown, by setting and by variable."""
    files = [str(file.path.resolve()) for file in active.settings.files if file.path is not None]
    rows = {name: _row(active, name) for name in known_options()}
    rows |= {name: _row_without_option(active, name) for name in WITHOUT_OPTION}
    for file in active.settings.files:
        for name, (value, reason) in file.ignored.items():
            rows[name].setdefault("ignored", {"value": _plain(value), "place": file.place(name), "reason": reason})
    return {
        "file": next(iter(files), None),
        "files": files,
        "settings": rows,
        "variables": {
            each.name: {
                "set": _stated(active, each.name) is not None,
                "value": None if each.secret else _stated(active, each.name),
                "meaning": each.meaning,
            }
            for each in VARIABLES
        },
        "unknown_variables": list(unknown_variables()),
    }


def _row(active: ActiveSettings, name: str) -> dict[str, Any]:
    """Return value and source of a setting that is an option."""
    number, option = active.numbers.get(name), known_options()[name]
    value = active.values[name]
    row: dict[str, Any] = {
        "value": _plain(value),
        "from": "default" if number is None else _SOURCES[min(number, len(_SOURCES) - 1)],
        "place": None if number is None else active.settings.place(name, number),
        "variable": f"{PREFIX}{name.upper()}",
        "default": option.default,
    }
    if name == "api_key_env" and value is not None:
        row["key_is_set"] = bool(os.environ.get(str(value)))
    if number is None and name == "retry_timeout":
        row["serve_and_mcp"] = _retry_timeout_of_services()
    stated = active.settings.places({})
    void = [active.settings.place(name, at) for at, place in enumerate(stated) if name in place]
    if number is None and void:
        row["void"] = void[0]
    return row


def _retry_timeout_of_services() -> float:
    """Return the default of `serve` and `mcp`, which alone have another one than all other commands."""
    from experiments.cli.serve import InteractiveLMSpec

    return InteractiveLMSpec.retry_timeout


def _row_without_option(active: ActiveSettings, name: str) -> dict[str, Any]:
    variable, stated = f"{PREFIX}{name.upper()}", active.settings.cache.get(name)
    row = {"value": None, "from": "default", "place": None, "variable": variable, "default": None}
    if stated is not None:
        return row | {"value": stated, "from": "variable", "place": variable}
    if of_file := active.settings.cache_of_files().get(name):
        value, file = of_file
        return row | {"value": value, "from": "file", "place": file.place(name)}
    return row


def _stated(active: ActiveSettings, variable: str) -> str | None:
    """Return what a variable of the environment is; None if it is not set. The file's cache stands there, too."""
    setting = variable.removeprefix(PREFIX).lower()
    return active.settings.cache.get(setting) if setting in WITHOUT_OPTION else os.environ.get(variable) or None


def _plain(value: Any) -> Any:
    """Return a value as JSON and the terminal show it: JSON has no infinity."""
    return shown(value) if isinstance(value, str) or value == float("inf") else value


def _show(active: ActiveSettings) -> None:
    record = _record(active)
    for path in record["files"] or [f"none ({NAME} in this folder or a parent)"]:
        say(f"File: {path}")
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
        note(f"Note: {name} is not a variable of verihop{f': did you mean {near}?' if near else '.'}")


def _line(name: str, row: dict[str, Any]) -> str:
    value = "-" if row["value"] is None or row["value"] == [] else shown(row["value"])
    if "key_is_set" in row:
        value += " (is set)" if row["key_is_set"] else " (is not set)"
    source = row["place"] or row["from"]
    if "serve_and_mcp" in row:
        source += f"; in serve and mcp {row['serve_and_mcp']}"
    if "void" in row:
        source += f"; {row['void']} is of another LM or server"
    if "ignored" in row:
        source += f"; not {shown(row['ignored']['value'])} of {row['ignored']['place']}"
    return f"  {name:<16} {value:<32} {source}"


def _write(active: ActiveSettings) -> Path:
    """Write a settings file into the working folder, with what is typed and all other settings as comments."""
    path = Path(NAME)
    if path.exists():
        raise UserError(f"{path} exists already: edit it, or delete it first.")
    for name, value in active.values.items():
        refuse_key(name, value, NAME)
    if has_secret("api_base", active.values["api_base"]):
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
        typed = active.numbers.get(name) == TYPED
        value = active.values[name] if typed else option.default
        text = _toml(_EXAMPLES[name] if value is None or value == [] else value)
        services = f" Default of serve and mcp: {_retry_timeout_of_services()}." if name == "retry_timeout" else ""
        lines += ["", *textwrap.wrap(option.help + services, WIDTH, initial_indent="# ", subsequent_indent="# ")]
        lines.append(f"{'' if typed else '# '}{name} = {text}")
        if has_key(lines[-1]):
            raise UserError(f"The value of {name} has what looks like a key in it, which no file may contain: {CURE}.")
    meanings = {each.name: each.meaning for each in VARIABLES}
    for name in WITHOUT_OPTION:
        lines += ["", f"# {meanings[f'{PREFIX}{name.upper()}']}", f"# {name} = {_toml(_EXAMPLES[name])}"]
    with atomic_write(path) as file:
        file.write("\n".join(lines) + "\n")
    try:
        approve(path, sha256_file(path))
    except UserError as error:
        note(f"Note: not approved: {error}")
    if (before := _found_file(active)) is not None:
        note(f"Note: {before.path} no longer applies in this folder: the nearest file does.")
    return path


def _found_file(active: ActiveSettings) -> SettingsFile | None:
    return next((file for file in active.settings.files if file.found), None)


def _decide(active: ActiveSettings, trust: bool) -> None:
    """Approve the file that was found with the content that was read, or no longer."""
    file = _found_file(active)
    if file is None or file.path is None:
        raise UserError(f"No {NAME} in this folder or a parent needs approval.")
    if not trust:
        approve(file.path, None)
        say(f"{file.path.resolve()} is no longer approved.")
        return
    approve(file.path, file.digest)
    values = {**file.values, **{name: value for name, (value, _) in file.ignored.items()}}
    decided = ", ".join(
        f"{name}={shown(value)}" for name, value in values.items() if name not in HARMLESS or name in file.ignored
    )
    say(f"Approved {file.path.resolve()} as it is now: {decided or 'it needs no approval'}")


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
    if isinstance(value, list):
        return json.dumps(" ".join(value), ensure_ascii=False)
    if value == float("inf"):
        return "inf"
    return json.dumps(value, ensure_ascii=False)  # of texts, numbers, true and false TOML's spelling is JSON's
