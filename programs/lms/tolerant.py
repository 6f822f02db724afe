"""Parse the text of one field leniently.

"Yes.", "**yes**", "0.9 (high)" and bullet lists are accepted; what cannot be parsed is an error, never a default.
Degenerate text is refused before it is parsed: the time to repair JSON grows with the square of its length (20 seconds
for some texts of 32,000 characters), and its stack with the brackets within brackets.
"""

import contextlib
import json
import math
import re
from typing import Any, Literal, get_args, get_origin

import json_repair
from dspy.adapters.utils import parse_value

from signatures.text import CJK
from signatures.yes_no import leading_verdict

LONGEST_REPLY = 32_768  # characters; about 8,000 tokens
REPAIRABLE = 2048  # characters of broken JSON; a longer text must be JSON that was cut off, or has text behind it
DEEPEST = 32  # brackets within brackets
_QUOTED = 200  # characters of a value in an error message

_DIGIT = re.compile(r"\W*([01])(?![\d%]|[.,:/]\d)")  # 1 and 0 alone; 0.9 is neither yes nor no
_NUMBER = re.compile(r"[-+]?(?:\d{1,3}(?:,\d{3})+(?!\d)(?:\.\d*)?|\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?")
# A number, and behind it "%" or "/10", which make it a share.
_SHARE = re.compile(rf"({_NUMBER.pattern})(?:\s*(?:([%％]|percent\b)|(?:/|out of)\s*({_NUMBER.pattern})))?")
_BRACKET = re.compile(r"[\[\]{}]")
_BULLET = re.compile(rf"^\s*(?:(?:[-*•]|\d+[.)])\s+|(?:\d+[、．）]|（\d+）|\d+[.)](?=[{CJK}]))\s*)")


def coerce(value: Any, annotation: Any) -> Any:
    """Return `value` as the type of its field.

    Raises:
        ValueError: The text cannot be parsed as that type, or has too many brackets within brackets.
    """
    try:
        return _coerced(value, annotation)
    except (RecursionError, OverflowError, MemoryError) as error:
        raise ValueError(f"too deep or too large: {_short(value)}") from error


def read_json(text: str) -> Any:
    """Return the value of a text that is JSON, or nearly.

    Raises:
        ValueError: The text has too many brackets within brackets, or is broken and long.
    """
    check_depth(text)
    try:
        if len(text) <= REPAIRABLE:
            return json_repair.loads(text)
        for candidate in (text, _closed(text)):
            with contextlib.suppress(json.JSONDecodeError):
                return json.JSONDecoder(strict=False).raw_decode(candidate)[0]
        raise ValueError(f"broken JSON of {len(text):,} characters; at most {REPAIRABLE:,} are repaired")
    except (RecursionError, OverflowError, MemoryError) as error:
        raise ValueError(f"too deep or too large: {_short(text)}") from error


def _closed(text: str) -> str:
    """Return JSON that was cut off inside a text with the missing quotation mark and brackets."""
    open_brackets, in_text = [], False
    for sign in re.findall(r'\\.|["\[\]{}]', text, re.DOTALL):
        if sign == '"':
            in_text = not in_text
        elif not in_text and sign in "[{":
            open_brackets.append("]" if sign == "[" else "}")
        elif not in_text and sign in "]}" and open_brackets:
            open_brackets.pop()
    cut = text[:-1] if re.search(r"(?<!\\)(?:\\\\)*\\\Z", text[-64:]) else text  # a lone backslash at the end
    return cut + '"' * in_text + "".join(reversed(open_brackets))


def check_length(text: str) -> None:
    """Raise ValueError if a text is longer than any reply should be."""
    if len(text) > LONGEST_REPLY:
        raise ValueError(f"the reply has {len(text):,} characters; at most {LONGEST_REPLY:,} are parsed")


def check_depth(text: str) -> None:
    """Raise ValueError if a text has more than `DEEPEST` brackets within brackets."""
    depth = 0
    for bracket in _BRACKET.findall(text):
        depth = depth + 1 if bracket in "[{" else max(0, depth - 1)
        if depth > DEEPEST:
            raise ValueError(f"the reply has more than {DEEPEST} brackets within brackets")


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else "a value of JSON"
    return repr(text if len(text) <= _QUOTED else f"{text[:_QUOTED]}...")


def _coerced(value: Any, annotation: Any) -> Any:
    if annotation is bool:
        return _to_bool(value)
    if annotation in (int, float):
        return _to_number(value, annotation)
    if get_origin(annotation) is Literal:
        return _to_option(value, annotation)
    if isinstance(value, str) and annotation is not str:
        check_depth(value)
    if annotation == list[str] and isinstance(value, str):
        return _to_list(value)
    if annotation == list[float] and isinstance(value, str):
        return _to_numbers(value)
    if annotation is str:
        return _to_text(value)
    return _parsed(value, annotation)


def _parsed(value: Any, annotation: Any) -> Any:
    if isinstance(value, str) and len(value) > REPAIRABLE:  # DSPy would repair it
        value = read_json(value)
    return parse_value(value, annotation)


def _to_bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    text = str(value).casefold()
    verdict, digit = leading_verdict(text), _DIGIT.match(text)
    if digit and not text[: digit.start(1)].endswith(("-", ".")):
        return digit[1] == "1"
    if verdict is not None:
        return verdict
    raise ValueError(f"neither yes nor no: {_short(value)}")


def _to_number(value: Any, kind: type[int] | type[float]) -> int | float:
    if isinstance(value, int | float):
        number = float(value)
    else:
        match = _NUMBER.search(str(value))
        if match is None:
            raise ValueError(f"no number in {_short(value)}")
        number = _share(str(value)) if kind is float else float(match[0].replace(",", ""))
    if not math.isfinite(number):
        raise ValueError(f"no finite number: {_short(value)}")
    return kind(number)


def _share(text: str) -> float:
    """Return the first number of a text that has one; "85%" is 0.85, and "9/10" is 0.9."""
    found = _SHARE.search(text)
    number, percent, whole = found.groups() if found else ("nan", None, None)
    divisor = 100.0 if percent else float(whole.replace(",", "")) if whole else 1.0
    return float(number.replace(",", "")) / (divisor or 1.0)


def _to_option(value: Any, annotation: Any) -> Any:
    options = get_args(annotation)
    if value in options:
        return value
    word = str(value).strip().strip("\"'*`. ").casefold()
    for option in options:
        if str(option).casefold() == word:
            return option
    raise ValueError(f"{_short(value)} is not one of {options}")


def _to_list(value: str) -> list[str]:
    value = _without_fence(value)
    if value.lstrip().startswith("["):
        return _parsed(value, list[str])
    lines = [_BULLET.sub("", line).strip() for line in value.splitlines()]
    return [line for line in lines if line]


def _to_numbers(value: str) -> list[float]:
    """Return one number for each line, or each part between commas: the last number in it, after any label."""
    value = _without_fence(value)
    if value.lstrip().startswith("["):
        return [_to_number(item, float) for item in _parsed(value, list[Any])]
    parts = [part for part in re.split(r"[\n;]|,(?=\s)", value) if part.strip()]
    return [_to_number(([share[0] for share in _SHARE.finditer(part)] or [part])[-1], float) for part in parts]


def _without_fence(value: str) -> str:
    """Return what stands in a code fence (```json ... ```) that is all of a text; any other text as it is."""
    text = value.strip()
    if not (text.startswith("```") and text.endswith("```") and len(text) >= 6):
        return value
    first, line_end, rest = text[3:-3].partition("\n")
    return rest if line_end and (not first.strip() or first.strip().isalnum()) else text[3:-3]


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
