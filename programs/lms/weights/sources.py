"""Where weights come from: a GGUF file, a folder of merged weights, either with an adapter."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from programs.lms.weights.adapter import Adapter
from programs.lms.weights.llama import Shape, from_gguf, gguf_name, read_shape
from programs.lms.weights.tensors import TensorFile, read_shards
from signatures.common.errors import UserError

Read = Callable[[str], NDArray[np.float32]]


@dataclass(frozen=True)
class Source:
    """A model whose tensors are read one at a time.

    Args:
        shape: Its sizes.
        read: Returns a tensor by its name in transformers, in the layout of transformers.
    """

    shape: Shape
    read: Read

    def with_adapter(self, adapter: Adapter) -> "Source":
        """Return the model with an adapter merged.

        Raises:
            UserError: The adapter does not fit.
        """
        adapter.check(self.shape)
        return Source(self.shape, lambda name: adapter.merge(name, self.read(name)))


def gguf_source(path: Path) -> Source:
    """Return the model in a GGUF file, dequantised."""
    import gguf

    reader = open_gguf(path)
    tensors = {tensor.name: tensor for tensor in reader.tensors}
    shape = _gguf_shape(reader, tied="output.weight" not in tensors)

    def read(name: str) -> NDArray[np.float32]:
        tensor = tensors[gguf_name(name)]
        rows = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        array = rows.reshape([int(size) for size in reversed(tensor.shape)]).astype(np.float32)
        return from_gguf(name, array, shape)

    return Source(shape, read)


def open_gguf(path: Path) -> Any:
    """Return a reader of a GGUF file; the last one is kept, because reading a vocabulary takes seconds."""
    state = path.stat()
    return _open(path.resolve(), state.st_size, state.st_mtime_ns)


@functools.lru_cache(maxsize=1)
def _open(path: Path, size: int, modified: int) -> Any:
    import gguf

    return gguf.GGUFReader(path)


def _gguf_shape(reader: Any, *, tied: bool) -> Shape:
    def number(name: str) -> Any:
        return reader.fields[f"llama.{name}"].contents()

    return Shape(
        layers=number("block_count"),
        hidden=number("embedding_length"),
        heads=number("attention.head_count"),
        kv_heads=number("attention.head_count_kv"),
        inner=number("feed_forward_length"),
        vocabulary=number("vocab_size"),
        context=number("context_length"),
        rope_base=number("rope.freq_base"),
        epsilon=number("attention.layer_norm_rms_epsilon"),
        tied=tied,
    )


def folder_source(folder: Path) -> Source:
    """Return the model in a folder that transformers saved: `config.json` and safetensors.

    Raises:
        UserError: A file is missing or damaged, or the model is not served here.
    """
    shape = read_shape(folder / "config.json")
    owners: dict[str, TensorFile] = {}
    for file in read_shards(folder):
        owners.update(dict.fromkeys(file.shapes, file))
    expected = shape.tensors()
    ignored = {"lm_head.weight"} if shape.tied else set()  # a copy of the embeddings
    for name in owners.keys() - expected.keys() - ignored:
        raise UserError(f"{str(folder)!r}: {name} is no tensor of a Llama model. Serve it with vLLM and name its URL.")
    for name, wanted in expected.items():
        actual = owners[name].shapes[name] if name in owners else None
        if actual != wanted:
            raise UserError(
                f"{str(folder)!r}: {name} has the shape {actual}, its config.json says {wanted}. Save or copy it again."
            )
    return Source(shape, lambda name: owners[name].read(name))
