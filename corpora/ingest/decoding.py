"""Bytes of a text file whose encoding nobody states, as text."""

import codecs

from signatures.common.errors import UserError

_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))


def decode(data: bytes) -> str:
    """Return the text of `data`: UTF-8, or what its byte order mark says, else the encoding that fits it best.

    Raises:
        UserError: It is not text.
    """
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            try:
                return data.decode(encoding)
            except UnicodeDecodeError as error:
                raise UserError(
                    f"its byte order mark says {encoding}, but its bytes do not fit ({error.reason})"
                ) from error
    if b"\0" in data[:4096]:
        raise UserError("it is not a text file")
    try:
        return data.decode()
    except UnicodeDecodeError:
        return _guessed(data)


def _guessed(data: bytes) -> str:
    import charset_normalizer  # imported late: few files need it

    best = charset_normalizer.from_bytes(data).best()
    if best is None:
        raise UserError("its encoding is unknown: convert it to UTF-8")
    return str(best)
