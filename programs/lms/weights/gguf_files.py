"""GGUF files written from weights, with the metadata and the vocabulary of the embedded LM's own file.

https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from programs.lms.weights.llama import gguf_name, to_gguf
from programs.lms.weights.sources import ModelTensors, gguf_header
from signatures.common.errors import UserError

FileType = Literal["q8_0", "f16"]


def write_gguf(path: Path, source: ModelTensors, template: Path, file_type: FileType, **metadata: str) -> None:
    """Write a model as a GGUF file; norms stay in float32.

    Args:
        path: The file, which is overwritten.
        source: The model; its vocabulary must be that of `template`.
        template: A GGUF file whose metadata are copied, sizes apart.
        file_type: `q8_0`, 8 bits and a scale for 32 weights, or `f16`.
        metadata: Text fields to change, with `__` for the dot: `general__name="..."`.
    """
    import gguf

    kind = {"q8_0": gguf.GGMLQuantizationType.Q8_0, "f16": gguf.GGMLQuantizationType.F16}[file_type]
    written = {"q8_0": gguf.LlamaFileType.MOSTLY_Q8_0, "f16": gguf.LlamaFileType.MOSTLY_F16}[file_type]
    writer = gguf.GGUFWriter(path, "llama")
    changed = {**_sizes(source), "general.file_type": int(written)}  # the runtime fails without its file type
    changed.update({name.replace("__", "."): value for name, value in metadata.items()})
    header = gguf_header(template)
    for name, value in header.values.items():
        if name != "general.architecture":  # the writer adds it itself
            of_value, of_items = header.types[name]
            items = None if of_items is None else gguf.GGUFValueType(of_items)
            writer.add_key_value(name, changed.get(name, value), gguf.GGUFValueType(of_value), sub_type=items)
    types = {}
    for name, shape in source.shape.tensors().items():
        types[name] = kind if len(shape) > 1 else gguf.GGMLQuantizationType.F32
        size = gguf.quant_shape_to_byte_shape(shape, types[name]) if file_type == "q8_0" and len(shape) > 1 else shape
        stored = np.dtype({"q8_0": np.uint8, "f16": np.float16}[file_type] if len(shape) > 1 else np.float32)
        writer.add_tensor_info(gguf_name(name), size, stored, int(np.prod(size)) * stored.itemsize, types[name])
    try:
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        for name in source.shape.tensors():  # one at a time: memory for a single tensor suffices
            tensor = to_gguf(name, source.read(name), source.shape)
            writer.write_tensor_data(gguf.quants.quantize(np.ascontiguousarray(tensor), types[name]))
    finally:
        writer.close()


def read_metadata(path: Path, *names: str) -> list[Any]:
    """Return values of a GGUF file's metadata; None for a name that it does not have."""
    values = gguf_header(path).values
    return [values.get(name) for name in names]


def _sizes(source: ModelTensors) -> dict[str, Any]:
    shape = source.shape
    return {
        "llama.block_count": shape.layers,
        "llama.context_length": shape.context,
        "llama.embedding_length": shape.hidden,
        "llama.feed_forward_length": shape.inner,
        "llama.attention.head_count": shape.heads,
        "llama.attention.head_count_kv": shape.kv_heads,
        "llama.rope.freq_base": shape.rope_base,
        "llama.attention.layer_norm_rms_epsilon": shape.epsilon,
        "llama.vocab_size": shape.vocabulary,
        "llama.rope.dimension_count": shape.hidden // shape.heads,
    }


_TOKENS = "tokenizer.ggml.tokens"
LARGEST = 100_000_000  # bytes of a tokenizer.json


def check_vocabulary(path: Path, size: int, template: Path) -> None:
    """Check that a model has the tokens of the embedded LM.

    Args:
        path: A folder with `tokenizer.json`, or a GGUF file.
        size: Tokens that the model's embeddings are for.
        template: The GGUF file of the embedded LM.

    Raises:
        UserError: The tokenizer is missing or damaged, or has other tokens; or the embeddings are for more or fewer.
    """
    if path.is_dir():
        tokens = _folder_tokens(path)
    else:
        tokens = {token: number for number, token in enumerate(read_metadata(path, _TOKENS)[0] or [])}
    check_tokens(tokens, size, template, str(path))


def check_tokens(tokens: Mapping[str, int], size: int, template: Path, where: str) -> None:
    """Check that a model has the tokens of the embedded LM.

    Args:
        tokens: Their numbers.
        size: Tokens that the model's embeddings are for.
        template: The GGUF file of the embedded LM.
        where: Name of the model in messages.

    Raises:
        UserError: The tokens are others, or the embeddings are for more or fewer.
    """
    expected = read_metadata(template, _TOKENS)[0]
    if tokens != {token: number for number, token in enumerate(expected)}:
        raise UserError(
            f"{where!r} has other tokens than SmolLM2. Serve the model with vLLM or llama.cpp, and name its URL."
        )
    if size != len(expected):
        raise UserError(
            f"{where!r} has {size:,} tokens, SmolLM2 has {len(expected):,}. Resize its embeddings to the "
            "tokenizer's vocabulary."
        )


def _folder_tokens(folder: Path) -> dict[str, int]:
    path = folder / "tokenizer.json"
    if not path.is_file() or path.stat().st_size > LARGEST:
        raise UserError(f"{str(folder)!r} has no tokenizer.json. Save the tokenizer beside the weights.")
    try:
        content = json.loads(path.read_bytes())
        tokens = dict(content["model"]["vocab"])
        tokens.update({token["content"]: token["id"] for token in content.get("added_tokens") or []})
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UserError(f"{str(path)!r} is damaged or not a BPE tokenizer. Save or copy it again.") from error
    return tokens
