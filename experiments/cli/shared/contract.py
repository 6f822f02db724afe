"""How checks of own code are shown: each point, and what was seen where it is not kept."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from experiments.cli.shared.console import emit, note, say

if TYPE_CHECKING:
    from programs.own.contract import PointResult


def show_points(what: str, name: str, results: "Sequence[PointResult]", total: int, *, as_json: bool) -> None:
    """Print how each point was kept; exit 1 if one was not.

    Args:
        what: Was checked: "program" or "retriever".
        name: Its name.
        total: Points there are; fewer are checked where one does not end, or a retriever does not answer.
    """
    broken = sum(result.broken is not None for result in results)
    if as_json:
        emit({what: name, "kept": not broken, "points": [vars(result) for result in results]})
    else:
        for result in results:
            say(f"{'ok    ' if result.broken is None else 'BROKEN'} {result.point}")
            if result.broken is not None:
                say(f"       {result.broken}")
        note(f"{name} keeps {len(results) - broken} of {total} points.")
    if broken:
        raise typer.Exit(1)
