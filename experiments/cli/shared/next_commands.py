"""The commands printed as "Next:": they run as printed, with the options that were used."""

import dataclasses
import getpass
import re
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from typer.models import OptionInfo

from experiments.cli.shared.settings.known import named_file, setting_of, to_type
from signatures.common.own_code import is_own
from signatures.common.secrets import without_keys
from signatures.text_words import same_words

if TYPE_CHECKING:
    from corpora.questions import Question

QUESTION = "your question"


def command(*words: object) -> str:
    """Return a line for the shell; words with spaces or other special characters are quoted.

    A path that begins with a dash is written with ./ before it, which distinguishes it from an option. What runs
    verihop names the settings file that this command was named.
    """
    if words[:1] == ("verihop",) and (named := named_file.get()):
        words = ("verihop", "--config", named, *words[1:])
    return " ".join(shlex.quote(_word(word)) for word in words)


def _word(value: object) -> str:
    dashed = isinstance(value, Path) and str(value).startswith("-") and str(value) != "-"  # that is standard input
    return f"./{value}" if dashed else str(value)


def used(group: Any, *names: str) -> list[str]:
    """Return the options of a group (see `with_option_groups`) that differ from their defaults, as words of a command.

    An option that settings give the same value is left out, one that differs from a setting is not.

    Args:
        group: A frozen dataclass of options.
        names: The fields to return; all by default.
    """
    hints = get_type_hints(type(group), include_extras=True)
    settings = _settings_of(group, hints)
    beyond_settings = to_type({setting: getattr(group, name) for name, setting in settings.items()})
    words: list[str] = []
    for field in dataclasses.fields(group):
        value = getattr(group, field.name)
        setting = settings.get(field.name)
        as_without = value == field.default if setting is None else setting not in beyond_settings
        if (names and field.name not in names) or as_without or value is None:
            continue
        on, off = _flags(field.name, hints[field.name])
        for one in value if isinstance(value, list) else [value]:
            words += [on if one else off] if isinstance(one, bool) else [on, _without_credentials(_word(one))]
    return words


def naming(*programs: str | None) -> list[str]:
    """Return the options that name those programs of an artifact that are the user's own: no artifact names them."""
    return [word for name in programs if name is not None and is_own(name) for word in ("--program", name)]


def _settings_of(group: Any, hints: dict[str, Any]) -> dict[str, str]:
    """Return the settings that give options of a group their defaults, by field."""
    found = {field.name: setting_of(_option(hints[field.name])) for field in dataclasses.fields(group)}
    never = getattr(group, "NO_SETTINGS", ())
    return {name: setting for name, setting in found.items() if setting is not None and name not in never}


def _option(hint: Any) -> OptionInfo | None:
    return next((extra for extra in getattr(hint, "__metadata__", ()) if isinstance(extra, OptionInfo)), None)


def _flags(name: str, hint: Any) -> tuple[str, str]:
    """Return the names of an option that sets and, for a switch, unsets it."""
    info = _option(hint)
    # In an annotation, Typer's first argument is a name, although its parameter is called default.
    names = (info.default, *(info.param_decls or ())) if info else ()
    declared = [flag for flag in names if isinstance(flag, str) and flag.startswith("--")]
    on, _, off = (declared[0] if declared else f"--{name.replace('_', '-')}").partition("/")
    return on, off


def _without_credentials(value: str) -> str:
    """Return a URL with placeholders for user, password and keys in it, and any other value unchanged."""
    if not value.startswith(("http://", "https://")):
        return value
    return without_keys(re.sub(r"^(https?://)[^/@]*@", r"\1USER:PASSWORD@", value), "KEY")


def new_path(path: Path) -> Path:
    """Return a path that does not exist: this one, else with -2, -3, ... appended."""
    candidates = (path, *(path.with_name(f"{path.name}-{number}") for number in range(2, 1000)))
    return next((candidate for candidate in candidates if not candidate.exists()), path)


def index_here() -> Path | None:
    """Return an index where commands usually write one, relative to the working folder; None if there is none."""
    usual = (Path("index"), Path("runs/index"), Path("runs/demo/index"))
    return next((folder for folder in usual if (folder / "index.json").is_file()), None)


def asking(program: str, *, lm: str | None = None, index: Path | None = None, closed_book: bool = False) -> str:
    """Return a command that asks, on an index of the working folder; the demo, which makes one, if there is none.

    Args:
        program: What is asked.
        lm: Id of the LM that is to answer; None for that of the settings.
        index: The index to ask on; None for one where commands usually write it.
        closed_book: It reads no passages.
    """
    answering = () if lm is None else ("--lm", lm)
    index = None if closed_book else index or index_here()
    if index is None and not closed_book:
        return command("verihop", "demo", *answering)
    searched = () if index is None else ("--index", index)
    return command("verihop", "ask", "--program", program, *answering, *searched, QUESTION)


def reviewer() -> str:
    """Return the name of the user, as the reviewer of a suggested command."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # no such user, as in some containers
        return "me"


def other_run(run: Path) -> Path | None:
    """Return the run beside `run` that was written last and has the same questions; None if there is none."""
    from experiments.runs.files import ROWS, RUN, read_json
    from signatures.common.errors import UserError

    def questions(folder: Path) -> Any:
        try:
            description = read_json(folder / RUN)
            return None if "kind" in description else description["questions"]["sha256"]
        except (UserError, KeyError, TypeError):
            return None

    own = questions(run)
    siblings = [path.parent for path in run.resolve().parent.glob(f"*/{ROWS}") if path.parent != run.resolve()]
    same = [folder for folder in siblings if own is not None and questions(folder) == own]
    newest = max(same, key=lambda folder: (folder / ROWS).stat().st_mtime, default=None)
    return None if newest is None else run.parent / newest.name


def shards_beside(run: Path) -> dict[int, Path]:
    """Return the shards of the same questions in the folders beside `run`, and itself, by their number."""
    from experiments.runs.files import RUN, read_json
    from signatures.common.errors import UserError

    def shard(folder: Path) -> dict[str, Any]:
        try:
            return dict(read_json(folder / RUN).get("shard") or {})
        except (UserError, TypeError, ValueError):
            return {}

    own = shard(run)
    folders = [*(path.parent for path in sorted(run.resolve().parent.glob(f"*/{RUN}"))), run]  # the last one counts
    found = {folder: shard(folder) for folder in folders}
    same = {
        folder: each for folder, each in found.items() if all(each.get(of) == own.get(of) for of in ("of", "questions"))
    }
    return {each["index"]: run.parent / folder.name for folder, each in same.items() if "index" in each}


def other_split(path: Path | None, split: str | None, seen: "Iterable[Question]" = ()) -> list[str]:
    """Return the words that select questions of a file outside `split`; empty if the file has no other split.

    Args:
        path: The file; None has no questions.
        split: The one that was used; None means that it was the whole file.
        seen: A split that has one of these questions, by id or by its words, is not selected either.
    """
    from corpora.questions import read_questions

    if path is None or split is None:
        return []
    used_up = [*seen]
    ids, texts = {each.id for each in used_up}, {same_words(each.question) for each in used_up}
    splits, taken = set[str](), {split}
    for each in read_questions(path):
        splits.add(each.split or "")
        if each.id in ids or same_words(each.question) in texts:
            taken.add(each.split or "")
    splits -= {"", *taken}
    names = [name for name in ("dev", "validation", "val", "test", *sorted(splits)) if name in splits]
    return [_word(path), "--split", names[0]] if names else []
