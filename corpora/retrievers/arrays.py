"""Plain `.npy` files, written in blocks, completely or not at all, and mapped read-only."""

import tokenize
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from signatures.common.errors import UserError, one_line
from signatures.common.files import atomic_write

# What numpy raises for a damaged file: its header is a Python literal.
NPY_ERRORS = (OSError, ValueError, EOFError, OverflowError, SyntaxError, TypeError, MemoryError, tokenize.TokenError)


def write_npy(path: Path, shape: tuple[int, ...], blocks: Iterable[np.ndarray]) -> None:
    """Write one array of `shape` whose rows come in `blocks`, all of one type and C order.

    `numpy.save` is not used because on a full disk it raises an error without a number.

    Raises:
        OSError: The file cannot be written; `path` is then unchanged.
    """
    with atomic_write(path, "wb") as file:
        for number, block in enumerate(blocks):
            block = np.ascontiguousarray(block)
            if number == 0:
                kind = np.lib.format.dtype_to_descr(block.dtype)
                np.lib.format.write_array_header_1_0(file, {"descr": kind, "fortran_order": False, "shape": shape})
            file.write(block.data)


def read_npy(path: Path, kind: "np.dtype[Any]", *, columns: int | None, rows: int | None = None) -> NDArray[Any]:
    """Return the two-dimensional array in a file, memory-mapped, read-only, in C order.

    Args:
        path: Written by `write_npy`.
        kind: The type its numbers must have.
        columns: Their number; None for any above 0.
        rows: Their number; None for any above 0.

    Raises:
        UserError: The file is damaged, or contains another array.
    """
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
        if not isinstance(array, np.ndarray):  # an archive of several arrays
            raise ValueError("not one array")
        if array.dtype != kind or array.ndim != 2 or not array.flags.c_contiguous or not array.size:
            raise ValueError(f"an array of {kind} with rows and columns was expected, not {array.dtype}{array.shape}")
        if (rows is not None and len(array) != rows) or (columns is not None and array.shape[1] != columns):
            raise ValueError(f"its shape {array.shape} does not fit the index")
    except NPY_ERRORS as error:
        raise UserError(f"{path} is damaged ({one_line(error, 200)}): rebuild the index with overwrite.") from error
    # A plain view of the mapped file, because numpy's memmap class is slow to index.
    return np.asarray(array)
