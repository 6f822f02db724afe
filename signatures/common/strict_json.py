"""Read JSON files that may come from strangers: every malformed or absurd one is a ValueError of one line.

Refused beyond what `json` refuses: repeated keys, which readers resolve differently; NaN, Infinity and numbers that
overflow to them; integers beyond 64 bits; lone surrogates; deep nesting; files that are too large, or no files.
"""

import json
import math
from pathlib import Path
from typing import Any, NoReturn

MOST_BYTES = 64 << 20  # of one file; an artifact with the scores of 100,000 questions has 5 MB
_DEEPEST = 64  # levels; our own files have fewer than 10
_LARGEST = 2**63


def read_strict_json(path: Path) -> Any:
    """Return the JSON value in a regular file.

    Raises:
        FileNotFoundError: There is no file.
        ValueError: It is not a regular file, cannot be read, is too large, or is refused by `parse_strict_json`.
    """
    return parse_strict_json(read_limited(path))


def read_limited(path: Path, most_bytes: int = MOST_BYTES) -> bytes:
    """Return the bytes of a regular file (pipes and devices may never end) of at most `most_bytes`.

    Raises:
        FileNotFoundError: There is no file.
        ValueError: It is not a regular file, cannot be read or is too large.
    """
    try:
        if path.exists() and not path.is_file():
            raise ValueError("not a file")
        with open(path, "rb") as file:
            content = file.read(most_bytes + 1)
    except FileNotFoundError:
        raise
    except OSError as error:  # permissions, a loop of symbolic links, a name that is too long
        raise ValueError(error.strerror or type(error).__name__) from error
    if len(content) > most_bytes:
        raise ValueError(f"larger than {most_bytes:,} bytes")
    return content


def parse_strict_json(raw: bytes) -> Any:
    """Return the value of a JSON text in UTF-8.

    Raises:
        ValueError: The text is not JSON, or is refused for a reason in the module's docstring.
    """
    try:
        value = json.loads(
            raw.decode("utf-8"),
            object_pairs_hook=_object,
            parse_constant=_refuse_constant,
            parse_float=_float,
            parse_int=_int,
        )
    except UnicodeDecodeError:
        raise ValueError("not UTF-8") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error}") from None
    except RecursionError:
        raise ValueError(f"nested deeper than {_DEEPEST} levels") from None
    _check_values(value, surrogates=b"\\ud" in raw.lower())
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ValueError(f"the key {key[:60]!r} is repeated")
            seen.add(key)
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text[:30]} is too large")
    return number


def _int(text: str) -> int:
    if len(text) > 20 or not -_LARGEST <= int(text) < _LARGEST:
        raise ValueError(f"the number {text[:30]} is too large")
    return int(text)


def _check_values(value: Any, *, surrogates: bool) -> None:
    """Raise ValueError for deep nesting and lone surrogates; level by level, since recursion would overflow."""
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > _DEEPEST:
            raise ValueError(f"nested deeper than {_DEEPEST} levels")
        below: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                below += item.values()
                texts = list(item)
            elif isinstance(item, list):
                below += item
                texts = []
            else:
                texts = [item] if isinstance(item, str) else []
            if surrogates and any(_has_lone_surrogate(text) for text in texts):
                raise ValueError("it contains a lone surrogate (\\ud8..)")
        level = below


def _has_lone_surrogate(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False
