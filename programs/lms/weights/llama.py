"""Models of the Llama architecture: sizes, and the names and layouts of tensors in transformers and in GGUF.

GGUF (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md) interleaves the rows of each head's query and key
projections, because llama.cpp rotates neighbouring numbers where transformers rotates the halves of a head.
"""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from signatures.common.errors import UserError, one_line

BLOCK = 32  # weights with one scale in Q8_0
_LARGEST_CONFIG = 1_000_000  # bytes
_MOST = {"layers": 200, "hidden": 32_768, "heads": 512, "kv_heads": 512, "inner": 131_072, "vocabulary": 1_000_000,
         "context": 100_000_000}  # fmt: skip
_FULL_NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}  # transformers -> GGUF
MODULES = tuple(name for name in _FULL_NAMES if name.endswith("_proj"))


@dataclass(frozen=True)
class Shape:
    """Sizes of a Llama model.

    Args:
        layers: Blocks.
        hidden: Width of a token's vector.
        heads: Of attention.
        kv_heads: Of keys and values.
        inner: Width inside the feed-forward part.
        vocabulary: Tokens.
        context: Tokens of prompt and reply together, as trained.
        rope_base: Of the rotary positions.
        epsilon: Of the norms.
        tied: The embeddings are also the output layer.

    Raises:
        UserError: A size is not possible.
    """

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    inner: int
    vocabulary: int
    context: int
    rope_base: float
    epsilon: float
    tied: bool

    def __post_init__(self) -> None:
        for name, most in _MOST.items():
            if not isinstance(size := getattr(self, name), int) or not 1 <= size <= most:
                raise UserError(
                    f"A model with {name} = {size!r} is not served here: it must be between 1 and {most:,}."
                )
        for name in ("rope_base", "epsilon"):
            if not 0 < (value := getattr(self, name)) < math.inf:
                raise UserError(f"A model with {name} = {value} is not served here: it must be a positive number.")
        if self.hidden % (2 * self.heads) or self.heads % self.kv_heads:
            raise UserError(
                f"{self.heads} heads, {self.kv_heads} of them for keys, do not divide {self.hidden} evenly."
            )

    def linear(self, module: str) -> tuple[int, int]:
        """Return the outputs and inputs of a linear map such as `mlp.up_proj`."""
        keys = self.hidden // self.heads * self.kv_heads
        return {
            "self_attn.k_proj": (keys, self.hidden),
            "self_attn.v_proj": (keys, self.hidden),
            "mlp.gate_proj": (self.inner, self.hidden),
            "mlp.up_proj": (self.inner, self.hidden),
            "mlp.down_proj": (self.hidden, self.inner),
        }.get(module, (self.hidden, self.hidden))

    def tensors(self) -> dict[str, tuple[int, ...]]:
        """Return the names in transformers and the shapes of all tensors, in the order of a GGUF file."""
        shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (self.vocabulary, self.hidden)}
        for layer in range(self.layers):
            for module in _FULL_NAMES:
                shape = self.linear(module) if module in MODULES else (self.hidden,)
                shapes[f"model.layers.{layer}.{module}.weight"] = shape
        shapes["model.norm.weight"] = (self.hidden,)
        if not self.tied:
            shapes["lm_head.weight"] = (self.vocabulary, self.hidden)
        return shapes


def gguf_name(name: str) -> str:
    """Return the name in GGUF of a tensor of transformers."""
    ends = {"model.embed_tokens.weight": "token_embd", "model.norm.weight": "output_norm", "lm_head.weight": "output"}
    if name in ends:
        return f"{ends[name]}.weight"
    layer, _, module = name.removeprefix("model.layers.").removesuffix(".weight").partition(".")
    return f"blk.{layer}.{_FULL_NAMES[module]}.weight"


def _heads(name: str, shape: Shape) -> int:
    """Return the heads whose rows GGUF interleaves in this tensor, 0 for none."""
    if ".q_proj." in name:
        return shape.heads
    return shape.kv_heads if ".k_proj." in name else 0


def to_gguf(name: str, tensor: NDArray[np.float32], shape: Shape) -> NDArray[np.float32]:
    """Return a tensor of transformers with its rows in the order of GGUF."""
    if not (heads := _heads(name, shape)):
        return tensor
    rows = tensor.shape[0] // heads // 2
    return tensor.reshape(heads, 2, rows, -1).swapaxes(1, 2).reshape(tensor.shape)


def from_gguf(name: str, tensor: NDArray[np.float32], shape: Shape) -> NDArray[np.float32]:
    """Return a tensor of GGUF, by its name in transformers, with its rows in the order of transformers."""
    if not (heads := _heads(name, shape)):
        return tensor
    rows = tensor.shape[0] // heads // 2
    return tensor.reshape(heads, rows, 2, -1).swapaxes(1, 2).reshape(tensor.shape)


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a small JSON file.

    Raises:
        UserError: The file is missing, too large or not a JSON object.
    """
    if not path.is_file():
        raise UserError(f"No file {str(path)!r}.")
    if path.stat().st_size > _LARGEST_CONFIG:
        raise UserError(f"{str(path)!r} has more than {_LARGEST_CONFIG:,} bytes: it is not such a configuration.")
    try:
        value = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise UserError(f"{str(path)!r} is not valid JSON. Save or copy it again.") from error
    if not isinstance(value, dict):
        raise UserError(f"{str(path)!r} is not a JSON object. Save or copy it again.")
    return value


def read_shape(path: Path) -> Shape:
    """Return the sizes in a `config.json` of transformers.

    Raises:
        UserError: The model is no Llama, or one with parts that are not served here.
    """
    return shape_of(read_json(path), str(path))


def shape_of(config: dict[str, Any], where: str) -> Shape:
    """Return the sizes in a configuration of transformers.

    Raises:
        UserError: The model is no Llama, or one with parts that are not served here.
    """
    if config.get("model_type") != "llama":
        raise UserError(
            f"{where!r}: model_type {config.get('model_type')!r} is not served here, only 'llama'. "
            "Serve it with vLLM and name its URL."
        )
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    rope = rope if isinstance(rope, dict) else {"rope_type": rope}
    kind = rope.get("rope_type", rope.get("type", "default"))
    special = {name: config[name] for name in ("attention_bias", "mlp_bias") if config.get(name)}
    if kind != "default":
        special["rope_type"] = kind
    if config.get("hidden_act", "silu") != "silu":
        special["hidden_act"] = config["hidden_act"]
    try:
        heads = config["num_attention_heads"]
        if config.get("head_dim") and config["head_dim"] * heads != config["hidden_size"]:
            special["head_dim"] = config["head_dim"]
        if special:
            raise UserError(f"{where!r}: {special} is not served here. Serve the model with vLLM and name its URL.")
        return Shape(
            layers=config["num_hidden_layers"],
            hidden=config["hidden_size"],
            heads=heads,
            kv_heads=config.get("num_key_value_heads") or heads,
            inner=config["intermediate_size"],
            vocabulary=config["vocab_size"],
            context=int(config["max_position_embeddings"]),
            rope_base=float(rope.get("rope_theta") or config.get("rope_theta") or 10_000.0),
            epsilon=float(config["rms_norm_eps"]),
            tied=bool(config.get("tie_word_embeddings", False)),
        )
    except UserError:
        raise
    except KeyError as error:
        raise UserError(f"{where!r} lacks {error}. Save the model again with its configuration.") from error
    except (TypeError, ValueError, OverflowError) as error:
        raise UserError(f"{where!r} has a size that is not a number. Save the model again.") from error


def check_blocks(shape: Shape, where: str) -> None:
    """Check that a model can be stored as it is served: with 8 bits and a scale for each block of a row (Q8_0).

    Raises:
        UserError: The rows of its matrices cannot be divided into blocks.
    """
    sizes = {"hidden_size": shape.hidden, "intermediate_size": shape.inner}
    if uneven := {name: size for name, size in sizes.items() if size % BLOCK}:
        raise UserError(
            f"{where!r}: {uneven} is not served here, only multiples of {BLOCK}. Serve the model with vLLM and name "
            "its URL."
        )


FLOATS = ("F32", "F16", "BF16")


class TensorFile:
    """A safetensors file, which may come from anywhere: it is checked whole before a tensor is allocated.

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
