"""Plain `.npy` files, written in blocks, completely or not at all."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from signatures.common.files import atomic_write


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
