"""Parse the text of one field leniently.

"Yes.", "**yes**", "0.9 (high)" and bullet lists are accepted; what cannot be parsed is an error, never a default.
"""

import math
import re
from typing import Any, Literal, get_args, get_origin

from dspy.adapters.utils import parse_value

from programs.parts.probability import NO, YES

_WORD = re.compile(r"[^\W_]+")
_DIGIT = re.compile(r"\W*([01])(?![\d%]|[.,:/]\d)")  # 1 and 0 alone; 0.9 is neither yes nor no
_NUMBER = re.compile(r"[-+]?(?:\d{1,3}(?:,\d{3})+(?!\d)(?:\.\d*)?|\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?")
_BULLET = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s+")


def coerce(value: Any, annotation: Any) -> Any:
    """Return `value` as the type of its field.

    Raises:
        ValueError: The text cannot be parsed as that type.
    """
    if annotation is bool:
        return _to_bool(value)
    if annotation in (int, float):
        return _to_number(value, annotation)
    if get_origin(annotation) is Literal:
        return _to_option(value, annotation)
    if annotation == list[str] and isinstance(value, str):
        return _to_list(value)
    if annotation == list[float] and isinstance(value, str):
        return _to_numbers(value)
    if annotation is str:
        return _to_text(value)
    return parse_value(value, annotation)


def _to_bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    text = str(value).casefold()
    word, digit = _WORD.search(text), _DIGIT.match(text)
    if digit and not text[: digit.start(1)].endswith(("-", ".")):
        return digit[1] == "1"
    if word and word[0] in YES | NO:
        return word[0] in YES
    raise ValueError(f"neither yes nor no: {value!r}")


def _to_number(value: Any, kind: type[int] | type[float]) -> int | float:
    if isinstance(value, int | float):
        number = float(value)
    else:
        match = _NUMBER.search(str(value))
        if match is None:
            raise ValueError(f"no number in {value!r}")
        number = float(match[0].replace(",", ""))
    if not math.isfinite(number):
        raise ValueError(f"no finite number: {value!r}")
    return kind(number)


def _to_option(value: Any, annotation: Any) -> Any:
    options = get_args(annotation)
    if value in options:
        return value
    word = str(value).strip().strip("\"'*`. ").casefold()
    for option in options:
        if str(option).casefold() == word:
            return option
    raise ValueError(f"{value!r} is none of {options}")


def _to_list(value: str) -> list[str]:
    if value.lstrip().startswith("["):
        return parse_value(value, list[str])
    lines = [_BULLET.sub("", line).strip() for line in value.splitlines()]
    return [line for line in lines if line]


def _to_numbers(value: str) -> list[float]:
    """Return one number for each line, or each part between commas: the last number in it, after any label."""
    if value.lstrip().startswith("["):
        return [_to_number(item, float) for item in parse_value(value, list[Any])]
    parts = [part for part in re.split(r"[\n;]|,(?=\s)", value) if part.strip()]
    return [_to_number(_NUMBER.findall(part)[-1:] or part, float) for part in parts]


def _to_text(value: Any) -> str:
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, bool):
        return "yes" if value else "no"  # a JSON reply may contain true instead of a word
    if isinstance(value, list):
        return ", ".join(_to_text(item) for item in value)
    if value is None:
        return ""
    return str(value)
