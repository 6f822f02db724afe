"""The one exception that is a user's to mend: commands print it as a single line and leave with code 2."""

from collections.abc import Iterable


class UserError(ValueError):
    """Something the user asked for cannot be done; the message names the value and the cure."""


def unknown(kind: str, name: str, known: Iterable[object]) -> UserError:
    """Return the error for a name that is not in the catalog `known` (any iterable of names)."""
    names = ", ".join(sorted(str(item) for item in known))
    return UserError(f"Unknown {kind} {name!r}. Choose from: {names}.")
