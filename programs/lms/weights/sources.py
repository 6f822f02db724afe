"""Where weights come from: a GGUF file, a folder of merged weights, either with an adapter."""

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from programs.lms.gguf import Header, read_header
from programs.lms.weights.adapter import Adapter
from programs.lms.weights.llama import Shape, TensorFile, from_gguf, gguf_name, read_shape, read_shards
from signatures.common.errors import UserError

Read = Callable[[str], NDArray[np.float32]]


@dataclass(frozen=True)
class ModelTensors:
    """A model whose tensors are read one at a time.

    Args:
        shape: Its sizes.
        read: Returns a tensor by its name in transformers, in the layout of transformers.
    """

    shape: Shape
    read: Read

    def with_adapter(self, adapter: Adapter) -> "ModelTensors":
        """Return the model with an adapter merged.

        Raises:
            UserError: The adapter does not fit.
        """
        adapter.check(self.shape)
        return ModelTensors(self.shape, lambda name: adapter.merge(name, self.read(name)))


def gguf_source(path: Path) -> ModelTensors:
    """Return the model in a GGUF file, dequantised.

    Raises:
        UserError: The file is damaged, or its model is not served here.
    """
    import gguf

    header = gguf_header(path)
    tensors, data = header.tensors, np.memmap(path, np.uint8, "r")
    try:
        shape = _gguf_shape(path, header.values, tied="output.weight" not in tensors)
    except UserError:
        raise
    except (TypeError, ValueError, ZeroDivisionError) as error:
        raise UserError(f"{str(path)!r} has a size that is not a number. Copy or convert it again.") from error
    expected = {gguf_name(name): size for name, size in shape.tensors().items()}
    for name in tensors.keys() - expected.keys():
        raise UserError(f"{str(path)!r}: {name} is not a tensor of a Llama model. Name the file itself: gguf:PATH.")
    for name, wanted in expected.items():
        actual = tensors[name][0] if name in tensors else None
        if actual != wanted:
            raise UserError(f"{str(path)!r}: {name} has the shape {actual}, expected {wanted}. Copy the file again.")

    def read(name: str) -> NDArray[np.float32]:
        size, number, start = tensors[gguf_name(name)]
        kind = gguf.GGMLQuantizationType(number)
        rows = gguf.quant_shape_to_byte_shape(size, kind)
        stored = data[start : start + math.prod(rows)].reshape(rows)
        try:
            array = gguf.quants.dequantize(stored, kind)
        except NotImplementedError as error:
            raise UserError(
                f"{str(path)!r}: numbers of the type {kind.name} are not read here. Use a file with "
                "another quantisation, such as Q8_0."
            ) from error
        return from_gguf(name, array.reshape(size).astype(np.float32), shape)

    return ModelTensors(shape, read)


def gguf_header(path: Path) -> Header:
    """Return the header of a GGUF file; the last two are kept, because a vocabulary takes tenths of a second.

    Raises:
        UserError: The file is damaged or no GGUF file.
    """
    state = path.stat()
    return _header(path.resolve(), state.st_size, state.st_mtime_ns)


@functools.lru_cache(maxsize=2)
def _header(path: Path, size: int, modified: int) -> Header:
    return read_header(path)


def _gguf_shape(path: Path, values: Mapping[str, Any], *, tied: bool) -> Shape:
    def value(name: str, default: Any = None) -> Any:
        found = values.get(name, default)
        if found is None:
            raise UserError(f"{str(path)!r} lacks {name!r}. Convert the model to GGUF again.")
        return found

    def number(name: str, default: Any = None) -> Any:
        return value(f"llama.{name}", default)

    if (kind := value("general.architecture")) != "llama":
        raise UserError(f"{str(path)!r}: the architecture {kind!r} is not served here, only 'llama'.")
    if (scaling := number("rope.scaling.type", "none")) != "none":
        raise UserError(f"{str(path)!r}: rope.scaling.type {scaling!r} is not served here.")
    size = number("embedding_length") // number("attention.head_count")
    for name in ("rope.dimension_count", "attention.key_length", "attention.value_length"):
        if (other := number(name, size)) != size:
            raise UserError(f"{str(path)!r}: {name} {other!r} is not served here, only {size}.")
    return Shape(
        layers=number("block_count"),
        hidden=number("embedding_length"),
        heads=number("attention.head_count"),
        kv_heads=number("attention.head_count_kv"),
        inner=number("feed_forward_length"),
        vocabulary=number("vocab_size", 0) or len(value("tokenizer.ggml.tokens")),
        context=number("context_length"),
        rope_base=number("rope.freq_base", 10_000.0),
        epsilon=number("attention.layer_norm_rms_epsilon"),
        tied=tied,
    )


def folder_source(folder: Path) -> ModelTensors:
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
        raise UserError(
            f"{str(folder)!r}: {name} is not a tensor of a Llama model. Serve it with vLLM and name its URL."
        )
    for name, wanted in expected.items():
        actual = owners[name].shapes[name] if name in owners else None
        if actual != wanted:
            raise UserError(
                f"{str(folder)!r}: {name} has the shape {actual}, its config.json says {wanted}. Save or copy it again."
            )
    return ModelTensors(shape, lambda name: owners[name].read(name))
