"""Bytes of a text file without stated encoding, as text."""

import codecs
from typing import NamedTuple

from signatures.common.errors import UserError

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_WESTERN = 0.35  # of the bytes beyond ASCII: Western European text has fewer, Cyrillic and Asian text more
_DAMAGED = 0.25  # of the characters beyond ASCII: UTF-8 with fewer broken ones is damaged UTF-8
_OTHERS = ["cp1251", "cp1253", "cp1255", "cp1256", "koi8_r", "shift_jis", "euc_jp", "gb18030", "big5", "euc_kr"]


class Decoded(NamedTuple):
    """The text, and a note if its encoding was guessed."""

    text: str
    notes: tuple[str, ...] = ()


def decode(data: bytes) -> Decoded:
    """Return the text of `data`: UTF-8, or what its byte order mark says, else the encoding that fits it best.

    Raises:
        UserError: It is not text.
    """
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            try:
                return Decoded(data.decode(encoding))
            except UnicodeDecodeError as error:
                reason = f"its byte order mark says {encoding}, but its bytes do not fit ({error.reason})"
                raise UserError(reason) from error
    if b"\0" in data[:4096]:
        raise UserError("it is not a text file")
    try:
        return Decoded(data.decode())
    except UnicodeDecodeError:
        return _guessed(data)


def _guessed(data: bytes) -> Decoded:
    damaged = data.decode("utf-8", "replace")
    broken = damaged.count("\ufffd")
    if broken <= _DAMAGED * sum(character > "\x7f" for character in damaged):
        return Decoded(damaged, (f"its UTF-8 is damaged in {broken} places",))
    if sum(byte > 0x7F for byte in data) < _WESTERN * len(data):
        return Decoded(data.decode("cp1252", "replace"), ("its encoding was guessed to be cp1252",))
    import charset_normalizer  # imported late: few files need it

    best = charset_normalizer.from_bytes(data, cp_isolation=_OTHERS).best()
    if best is None:
        raise UserError("its encoding is unknown: convert it to UTF-8")
    return Decoded(str(best), (f"its encoding was guessed to be {best.encoding}",))
