"""Tensors of safetensors files (https://github.com/huggingface/safetensors), read one at a time as float32."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from signatures.common.errors import UserError, one_line

FLOATS = ("F32", "F16", "BF16")


class TensorFile:
    """A safetensors file, which may come from anywhere: it is checked whole before a tensor is allocated.

    Args:
        path: The file.

    Raises:
        UserError: The file is missing, truncated or not safetensors, or has tensors that are not numbers of 16 or 32
            bits.
    """

    def __init__(self, path: Path):
        import safetensors

        self.path = path
        if not path.is_file():
            raise UserError(f"No file {str(path)!r}.")
        try:
            self._file: Any = safetensors.safe_open(str(path), "numpy")
            self.shapes: dict[str, tuple[int, ...]] = {}
            for name in self._file.keys():  # noqa: SIM118  (not a dictionary)
                view = self._file.get_slice(name)
                if view.get_dtype() not in FLOATS:
                    raise UserError(
                        f"{str(path)!r}: {name} has the type {view.get_dtype()}. Save it as one of {', '.join(FLOATS)}."
                    )
                self.shapes[name] = tuple(view.get_shape())
        except (safetensors.SafetensorError, OSError) as error:
            raise UserError(
                f"{str(path)!r} is damaged or not a safetensors file ({one_line(error)}). Save or copy it again."
            ) from error

    def read(self, name: str) -> NDArray[np.float32]:
        """Return a tensor.

        Raises:
            UserError: It has values that are infinite or not numbers.
        """
        if self._file.get_slice(name).get_dtype() == "BF16":
            array = self._read_bfloat16(name)
        else:
            array = self._file.get_tensor(name).astype(np.float32)
        if not np.isfinite(array).all():
            raise UserError(
                f"{str(self.path)!r}: {name} has values that are infinite or not numbers. "
                "The training diverged; take an earlier checkpoint."
            )
        return array

    def _read_bfloat16(self, name: str) -> NDArray[np.float32]:
        """Widen the upper halves of float32 numbers, a type that numpy does not have."""
        import json

        with open(self.path, "rb") as file:
            size = int.from_bytes(file.read(8), "little")
            start, end = json.loads(file.read(size))[name]["data_offsets"]  # checked by `safe_open`
            file.seek(8 + size + start)
            halves = np.frombuffer(file.read(end - start), dtype="<u2")
        return (halves.astype(np.uint32) << 16).view(np.float32).reshape(self.shapes[name])


def read_shards(folder: Path) -> Iterator[TensorFile]:
    """Yield the files of a folder's weights: `model.safetensors`, or its shards."""
    whole = folder / "model.safetensors"
    paths = [whole] if whole.is_file() else sorted(folder.glob("model-*-of-*.safetensors"))
    if not paths:
        raise UserError(f"{str(folder)!r} has no model.safetensors.")
    for path in paths:
        yield TensorFile(path)
