"""The option by which the user names the own programs that an artifact holds."""

from typing import Annotated

import typer


def _imported(names: list[str] | None) -> list[str] | None:
    """Import the programs that the user names, so that an artifact that holds them can be loaded."""
    if names:
        from programs.catalog import typed_program

        for name in names:
            typed_program(name)
    return names


OwnPrograms = Annotated[
    list[str] | None,
    typer.Option(
        "--program",
        callback=_imported,
        help="An own program (module:Class) that an artifact holds, which is imported; repeatable.",
        show_default=False,
    ),
]
