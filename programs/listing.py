"""What `verihop programs` shows, from a committed table, since the programs themselves import DSPy for half a second.

`catalog.json` is written by `python -m programs.listing`; a test holds it equal to the programs. What it says of a
program is read from docstrings: a module's has the source and the numbered steps, a class's the meaning of the knobs.
"""

import inspect
import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import dspy

TABLE = Path(__file__).with_name("catalog.json")

Listed = dict[str, dict[str, Any]]

_STEP = re.compile(r"^(\d+\. .*?)(?=^\d+\. |^\S|\Z)", re.MULTILINE | re.DOTALL)
_ARGUMENT = re.compile(r"^    (\w+): (.*?)(?=^    \w+: |^\S|\Z)", re.MULTILINE | re.DOTALL)
_YEAR = re.compile(r"\b((?:19|20)\d\d)\b(?![.\d])")
_PAPERS = "the four papers"  # family of the strategies in this folder itself
_OWN = "own"  # family of those of the user


def listed() -> Listed:
    """Return for each program what `described` says of it, without importing it."""
    table: Listed = json.loads(TABLE.read_text(encoding="utf-8"))
    return table


def described() -> Listed:
    """Return for each program of the catalog what `describe` says of it."""
    from programs.catalog import PROGRAMS

    return {name: describe(cls) for name, cls in PROGRAMS.items()}


def describe(cls: "type[dspy.Module]") -> dict[str, Any]:
    """Return a program's summary, source, steps, prompts, presets, knobs and call bounds.

    `family` is the folder of the strategy, `year` that of its paper (None if it names none), `algorithm` its steps, or
    the description of its class if there are none, `prompts` instruction and fields of the predictors as they are
    before anything is compiled.
    """
    from programs.catalog import build_class, presets_of
    from programs.parts.knobs import knobs_of
    from programs.parts.threads import sequential_calls

    about = inspect.cleandoc(sys.modules[cls.__module__].__doc__ or "")
    purpose, _, arguments = inspect.cleandoc(cls.__doc__ or "").partition("\nArgs:\n")
    meanings = {argument: _joined(text) for argument, text in _ARGUMENT.findall(arguments)}
    presets = presets_of(cls)
    program: Any = build_class(cls)
    return {
        "summary": about.partition("\n")[0],
        "family": _family(cls.__module__),
        "year": _year(about),
        "source": next((word.rstrip(".") for word in about.split() if word.startswith("https://")), ""),
        "algorithm": [_joined(step) for step in _STEP.findall(about)] or [_joined(purpose.split("\n\n")[0])],
        "prompts": {predictor: _prompt(of) for predictor, of in program.named_predictors()},
        "presets": list(presets),
        "preset_knobs": presets,
        "knobs": {
            knob.name: {
                "default": knob.default,
                "space": str(knob.space) if knob.space else None,
                "meaning": meanings.get(knob.name, ""),
            }
            for knob in knobs_of(cls).values()
        },
        "max_calls": program.max_calls(),
        "max_sequential_calls": sequential_calls(program),
    }


def _family(module: str) -> str:
    """Return the folder of a strategy as words, as in "multi step"."""
    if not module.startswith(f"{__package__}."):
        return _OWN
    return " ".join(module.removeprefix(f"{__package__}.").split(".")[:-1]).replace("_", " ") or _PAPERS


def _year(about: str) -> int | None:
    """Return the last year that the citation names before the first address; None if there is none."""
    found = _YEAR.findall(about.partition("https://")[0])
    return int(found[-1]) if found else None


def _joined(text: str) -> str:
    return " ".join(text.split())


def _prompt(predictor: Any) -> dict[str, Any]:
    signature = predictor.signature
    shown = {"inputs": list(signature.input_fields), "outputs": list(signature.output_fields)}
    return {"instructions": signature.instructions, **shown}


def write() -> None:
    """Rewrite the table."""
    from signatures.common.files import atomic_write

    with atomic_write(TABLE) as file:
        json.dump(described(), file, ensure_ascii=False, indent=2)
        file.write("\n")


if __name__ == "__main__":
    write()
