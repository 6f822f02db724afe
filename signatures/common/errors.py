"""The one exception that is a user's to mend: commands print it as a single line and leave with code 2."""

from collections.abc import Iterable


class UserError(ValueError):
    """Something the user asked for cannot be done; the message names the value and the cure."""


class UserNotice(UserWarning):
    """Something the user should bear in mind; commands print it as a single line and go on."""


def unknown(kind: str, name: str, known: Iterable[object]) -> UserError:
    """Return the error for a name that is not in the catalog `known` (any iterable of names)."""
    names = ", ".join(sorted(str(item) for item in known))
    return UserError(f"Unknown {kind} {name!r}. Choose from: {names}.")


def user_error_within(error: BaseException | None) -> UserError | None:
    """Return the UserError among an error and its causes: libraries wrap what they did not expect."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, UserError):
            return error
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return None
