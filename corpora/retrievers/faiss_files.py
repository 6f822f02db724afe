"""Check a FAISS file, byte by byte where sizes are concerned, before FAISS maps it.

FAISS trusts the sizes in its files: a damaged or hostile one ends the process. Only the three layouts that
`corpora.retrievers.dense` writes are accepted, and every size in them must follow from the number and the dimension of
the vectors. Layouts: https://github.com/facebookresearch/faiss/blob/v1.15.1/faiss/impl/index_write.cpp

A child process that opens the file first would not do: it takes 0.7 s (this check: 0.03 s for 100,000 vectors),
and a file whose sizes disagree may open and end the process only in a search.
"""

import mmap
import struct
from pathlib import Path

import numpy as np

_UNUSED = 1 << 20  # FAISS writes it into two fields of every header that mean nothing
_BLOCK = 32  # codes that FAISS interleaves; each has 8 bytes of factors beside its bits
_FACTORS = 8  # bytes
_QUERY_BITS = {b"Ixrq": 4, b"Iwrn": 8}


class _Reader:
    """Reads fields one after another; a field that is not as expected, or beyond the end, is a ValueError."""

    def __init__(self, content: mmap.mmap):
        self._content, self._place = content, 0

    def expect(self, layout: str, *values: object, what: str) -> None:
        """Read fields (little-endian, as `struct` names them) that must have these values."""
        if self.read(layout) != values:
            raise ValueError(f"its {what} is not what it should be")

    def read(self, layout: str) -> tuple[object, ...]:
        size = struct.calcsize("<" + layout)
        self.skip(size)
        return struct.unpack_from("<" + layout, self._content, self._place - size)

    def skip(self, size: int) -> int:
        """Return the place of the next `size` bytes, and go on behind them."""
        start, self._place = self._place, self._place + size
        if self._place > len(self._content):
            raise ValueError("it ends too early")
        return start

    def vector(self, count: int, size: int, what: str) -> int:
        """Read an array of exactly `count` elements of `size` bytes; return where they start."""
        self.expect("Q", count, what=f"number of {what}")
        return self.skip(count * size)

    def ids(self, limit: int) -> int:
        """Read a list of row numbers below `limit`; return their number."""
        (count,) = self.read("Q")
        if not isinstance(count, int) or count > limit:
            raise ValueError("a list is longer than the corpus")
        start = self.skip(8 * count)
        rows = np.frombuffer(self._content[start : start + 8 * count], dtype="<i8")
        if count and not (rows.min() >= 0 and rows.max() < limit):
            raise ValueError("a row is outside the corpus")
        return count

    def header(self, kind: bytes, width: int, count: int) -> None:
        self.expect("4siqqqBi", kind, width, count, _UNUSED, _UNUSED, 1, 0, what="header")

    def end(self) -> None:
        if self._place != len(self._content):
            raise ValueError("it is longer than it should be")


def check_faiss_file(path: Path, kind: bytes, count: int, width: int) -> None:
    """Check that a file contains what `dense.build_codes` writes.

    Args:
        path: The file.
        kind: The four bytes it starts with: `Ixrq` (1-bit codes), `Iwrn` (the same in cells), `IxSQ` (8-bit codes).
        count: Number of vectors.
        width: Their dimension.

    Raises:
        ValueError: The file is of another kind, or a size in it does not follow from `count` and `width`.
        OSError: The file cannot be read.
    """
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        _CHECKS[kind](_Reader(content), count, width)


def _check_bits(reader: _Reader, count: int, width: int) -> None:
    code = (width + 7) // 8 + _FACTORS
    reader.header(b"Ixrq", width, count)
    reader.expect("QQi", width, code, 0, what="quantizer")
    reader.vector(count * code, 1, "codes")
    reader.vector(width, 4, "coordinates of the centre")
    reader.expect("B", _QUERY_BITS[b"Ixrq"], what="number of bits")
    reader.end()


def _check_bytes(reader: _Reader, count: int, width: int) -> None:
    reader.header(b"IxSQ", width, count)
    reader.expect("iifQQ", 0, 0, 0.0, width, width, what="quantizer")
    reader.vector(2 * width, 4, "ranges")
    reader.vector(count * width, 1, "codes")
    reader.end()


def _check_cells(reader: _Reader, count: int, width: int) -> None:
    code = (width + 7) // 8 + _FACTORS
    quarters = (width + 3) // 4
    quarters += quarters % 2
    block = _BLOCK * quarters // 2 + _BLOCK * _FACTORS
    reader.header(b"Iwrn", width, count)
    cells, _probed = reader.read("QQ")
    if not isinstance(cells, int) or not 1 <= cells <= count:
        raise ValueError("its number of cells is not what it should be")
    reader.header(b"IxFI", width, cells)
    reader.vector(cells * width, 4, "coordinates of the cells")
    reader.expect("BQ", 0, 0, what="direct map")
    reader.expect("QQiQB", width, code, 0, 1, 1, what="quantizer")
    reader.expect("QiiiQiBB", code, _BLOCK, 0, 0, quarters, 0, _QUERY_BITS[b"Iwrn"], 0, what="layout of codes")
    reader.expect("4sQqQQ", b"ilbl", cells, -1, _BLOCK, block, what="header of lists")
    total = 0
    for _ in range(cells):
        rows = reader.ids(count)
        reader.vector((rows + _BLOCK - 1) // _BLOCK * block, 1, "codes of a list")
        total += rows
    if total != count:
        raise ValueError("its lists do not hold every row once")
    reader.end()


_CHECKS = {b"Ixrq": _check_bits, b"IxSQ": _check_bytes, b"Iwrn": _check_cells}
