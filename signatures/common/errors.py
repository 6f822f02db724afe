"""Errors and notices for the user: commands print them as a single line; an error exits with code 2."""

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Self

from signatures.common.secrets import redact

if TYPE_CHECKING:
    from pydantic import ValidationError

_ADDRESS = re.compile(r" at 0x[0-9a-f]+", re.IGNORECASE)


class UserError(ValueError):
    """An error that the user can fix; the message names the value and the remedy.

    Attributes:
        quotes: Parts of the message that may contain a question, a passage or a reply, such as the error of a server.
    """

    quotes: tuple[str, ...] = ()

    def quoting(self, *texts: str) -> Self:
        """Set `quotes`; return the error."""
        self.quotes = texts
        return self


class UserNotice(UserWarning):
    """A notice for the user; commands print it as a single line and continue."""


@contextlib.contextmanager
def undone_by_error(undo: Callable[[], object]) -> Iterator[None]:
    """Call `undo` if an error or Ctrl-C ends the block, and raise that."""
    try:
        yield
    except BaseException:
        undo()
        raise


@contextlib.contextmanager
def needing(extra: str, what: str) -> Iterator[None]:
    """Turn the absence of what is imported in the block into a UserError with the cure.

    Args:
        extra: Of verihop, that brings the packages.
        what: Needs them, as the beginning of a sentence.
    """
    try:
        yield
    except ImportError as error:
        raise UserError(
            f"{what} needs packages that are not installed ({one_line(error)}): pip install 'verihop[{extra}]'."
        ) from error


def unknown(kind: str, name: str, choices: Iterable[object]) -> UserError:
    """Return the error for a `name` that is not among the `choices`."""
    names = ", ".join(sorted(str(choice) for choice in choices))
    return UserError(f"Unknown {kind} {name!r}. Choose from: {names}.")


def one_line(text: object, longest: int = 300) -> str:
    """Return a text on one line without keys, cut to `longest` characters; of an error without a text its type."""
    line = " ".join(redact(str(text)).split())  # before it is cut: part of a key is not recognised as one
    if not line and isinstance(text, BaseException):
        return type(text).__name__
    return line if len(line) <= longest else f"{line[:longest]}..."


def seen(value: object) -> str:
    """Return a value on one line for a message, without addresses in memory, which say nothing and always change."""
    return one_line(_ADDRESS.sub("", repr(value)), 60)


def user_error_within(error: BaseException | None) -> UserError | None:
    """Return the first UserError among an error and its causes, since libraries wrap errors; None if there is none."""
    return next((each for each in with_causes(error) if isinstance(each, UserError)), None)


def with_causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error, what caused it, and so on, each once; nothing for None."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def first_problem(error: "ValidationError") -> str:
    """Return the first problem of a pydantic error as `'field': what is wrong`, on one line, cut where it is long."""
    problem = error.errors(include_url=False, include_context=False, include_input=False)[0]
    field = ".".join(str(part) for part in problem["loc"])
    message = one_line(problem["msg"].removeprefix("Value error, "), 200)
    message = f"{message[:1].lower()}{message[1:]}"
    return f"{field[:100]!r}: {message}" if field else message
