"""What `verihop programs` shows, from a committed table, since the programs themselves import DSPy for half a second.

`catalog.json` is written by `python -m programs.listing`; a test holds it equal to the programs.
"""

import json
import sys
from pathlib import Path
from typing import Any

TABLE = Path(__file__).with_name("catalog.json")

Listed = dict[str, dict[str, Any]]


def listed() -> Listed:
    """Return for each program its summary, source, presets, knobs and call bound, without importing it."""
    table: Listed = json.loads(TABLE.read_text(encoding="utf-8"))
    return table


def described() -> Listed:
    """Return the same from the programs themselves."""
    from programs.catalog import PROGRAMS, build
    from programs.parts.knobs import knobs_of

    rows = {}
    for name, cls in PROGRAMS.items():
        document = sys.modules[cls.__module__].__doc__ or ""
        presets: dict[str, Any] = vars(cls)["PRESETS"]
        rows[name] = {
            "summary": document.splitlines()[0],
            "source": next((word.rstrip(".") for word in document.split() if word.startswith("https://")), ""),
            "presets": list(presets),
            "knobs": {
                knob.name: {"default": knob.default, "space": str(knob.space) if knob.space else None}
                for knob in knobs_of(cls).values()
            },
            "max_calls": build(name).max_calls(),
        }
    return rows


def write() -> None:
    """Write the table anew."""
    from signatures.common.files import atomic_write

    with atomic_write(TABLE) as file:
        json.dump(described(), file, ensure_ascii=False, indent=2)
        file.write("\n")


if __name__ == "__main__":
    write()
