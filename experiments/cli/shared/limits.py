"""The option `--budget`: limits on the LM calls of a command."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from signatures.common.errors import UserError

if TYPE_CHECKING:
    from programs.lms.calls.budget import Budget


@dataclass(frozen=True)
class Limits:
    """The budget of LM calls."""

    PANEL: ClassVar[str] = "Budget"
    limits: Annotated[
        list[str] | None,
        typer.Option(
            "--budget",
            envvar="VERIHOP_BUDGET",
            help="Stop after this much, e.g. --budget calls=500 usd=0.2: calls (LM calls), tokens "
            "(estimated if the LM reports none), usd, seconds (also in the middle of a call). Cached replies are free.",
            show_default=False,
        ),
    ] = None

    def budget(self) -> "Budget | None":
        """Return the budget; None without a limit.

        Raises:
            UserError: A limit is unknown, is no number, or is named twice.
        """
        from programs.lms.calls.budget import Budget

        found: dict[str, Any] = parse_limits(self.limits, "--budget")
        return Budget(**found) if found else None


def parse_limits(stated: list[str] | None, flag: str) -> dict[str, float]:
    """Return limits such as calls=500 by name.

    Raises:
        UserError: A limit is unknown, is no number, or is named twice.
    """
    found: dict[str, float] = {}
    for part in " ".join(stated or ()).replace(",", " ").split():
        name, value = _limit(part, flag)
        if name in found:
            raise UserError(f"{flag} names {name} twice: name it once.")
        found[name] = value
    return found


def _limit(part: str, flag: str) -> tuple[str, float]:
    """Return name and value of a limit."""
    name, _, text = part.partition("=")
    kinds: dict[str, type] = {"calls": int, "tokens": int, "usd": float, "seconds": float}
    try:
        value: float = kinds[name](text.replace("_", ""))
    except (KeyError, ValueError):
        raise UserError(
            f"{flag} takes {', '.join(f'{each}=NUMBER' for each in kinds)}, got {part!r}. Example: {flag} "
            "calls=500 usd=0.2."
        ) from None
    if not value > 0:
        raise UserError(f"{flag} {name} must be above 0, got {text}.")
    return name, value
