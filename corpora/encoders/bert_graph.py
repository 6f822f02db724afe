"""BERT sentence encoders as OpenVINO models, built from their weights without torch.

Devlin et al., "BERT", NAACL 2019, section 3.1 (https://arxiv.org/abs/1810.04805), with the mean over the tokens of
Reimers and Gurevych, "Sentence-BERT", EMNLP 2019, section 3 (https://arxiv.org/abs/1908.10084). Most small
sentence-transformers models are of this form, all-MiniLM-L6-v2 among them; what is not is converted by torch.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import signatures.common.openvino_core  # noqa: F401 - before OpenVINO itself: without telemetry
from corpora.encoders.low_rank import LowRank
from signatures.common.strict_json import read_strict_json

# What config.json must say; only the type of the model must be there.
_CONFIG = {
    "model_type": "bert",
    "hidden_act": "gelu",
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
}
_MODULES = ("Transformer", "Pooling", "Normalize")
_POOLING = "pooling_mode"
_MEAN = ({_POOLING: "mean"}, {"pooling_mode_mean_tokens": True})  # as newer and older releases write it
_TASK = "feature-extraction"
_BROKEN = (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError)  # of files that say something else
_MASKED = float(np.finfo(np.float32).min)  # added to the scores of padding


class OtherForm(Exception):
    """The model is not of this form."""


def bert_graph(folder: Path, adapter: LowRank | None = None) -> Any:
    """Return the `openvino.Model` of a sentence-transformers model: token ids and mask to vectors of length 1.

    Args:
        folder: Of the model.
        adapter: Merged into its weights.

    Raises:
        OtherForm: It is no BERT with mean pooling and normalisation, or files are missing or broken.
        UserError: The adapter does not fit the model.
    """
    try:
        config = _config(folder)
        weights = _weights(folder / "model.safetensors")
        weights = weights if adapter is None else adapter.merged(weights)
        return _Graph(config, weights).model()
    except _BROKEN as error:
        raise OtherForm(str(error)) from error


def bert_tokenizer(folder: Path) -> str:
    """Return the tokenizer as JSON, with the limit of tokens and the padding of the model.

    Raises:
        OtherForm: Files are missing or broken.
    """
    from tokenizers import Tokenizer

    try:
        settings = read_strict_json(folder / "tokenizer_config.json")
        limit = read_strict_json(folder / "sentence_bert_config.json").get("max_seq_length")
        limit = settings["model_max_length"] if limit is None else limit
        places = read_strict_json(folder / "config.json")["max_position_embeddings"]
        if isinstance(limit, bool) or not isinstance(limit, int | float) or limit < 1:
            raise OtherForm(f"its longest text has {limit!r} tokens")
        limit = int(min(limit, places))
        tokenizer = Tokenizer.from_str((folder / "tokenizer.json").read_text(encoding="utf-8"))
        pad = str(settings["pad_token"])
    except _BROKEN as error:
        raise OtherForm(str(error)) from error
    number = tokenizer.token_to_id(pad)
    if number is None:
        raise OtherForm(f"the tokenizer lacks the padding {pad!r}")
    tokenizer.enable_truncation(limit)
    tokenizer.enable_padding(pad_id=number, pad_token=pad)
    return str(tokenizer.to_str())


def _config(folder: Path) -> Mapping[str, Any]:
    config = read_strict_json(folder / "config.json")
    for name, value in _CONFIG.items():
        if config.get(name, None if name == "model_type" else value) != value:
            raise OtherForm(f"its {name} is {config.get(name)!r}")
    modules = read_strict_json(folder / "modules.json")
    if tuple(each["type"].rpartition(".")[2] for each in modules) != _MODULES or modules[0]["path"]:
        raise OtherForm("its modules are not those of a transformer, pooling and normalisation")
    pooling = read_strict_json(folder / modules[1]["path"] / "config.json")
    if {
        name: value for name, value in pooling.items() if name.startswith(_POOLING) and value is not False
    } not in _MEAN:
        raise OtherForm("its pooling is not the mean")
    transformer = read_strict_json(folder / "sentence_bert_config.json")
    if transformer.get("transformer_task", _TASK) != _TASK or transformer.get("do_lower_case"):
        raise OtherForm("its transformer gives no features, or changes texts")
    if read_strict_json(folder / "config_sentence_transformers.json").get("default_prompt_name"):
        raise OtherForm("it puts a prompt before each text")
    return dict(config)


def _weights(path: Path) -> dict[str, np.ndarray]:
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        loaded = load_file(path)
    except SafetensorError as error:
        raise OtherForm(str(error)) from error
    floats = {name: tensor for name, tensor in loaded.items() if tensor.dtype in (np.float32, np.float16)}
    return {name.removeprefix("bert."): tensor.astype(np.float32) for name, tensor in floats.items()}


class _Graph:
    """Builds the model; every method adds nodes to what it is given and returns the last."""

    def __init__(self, config: Mapping[str, Any], weights: Mapping[str, np.ndarray]):
        from openvino import opset13

        self._ops: Any = opset13
        self._weights = weights
        self._config, self._epsilon = config, config["layer_norm_eps"]
        self._width, self._heads = self._size("hidden_size"), self._size("num_attention_heads")
        if self._width % self._heads or not (isinstance(self._epsilon, float) and 0 < self._epsilon < 1):
            raise OtherForm("its width is not divisible by its heads, or its normalisation has no epsilon")

    def _size(self, name: str) -> int:
        size = self._config[name]
        if type(size) is not int or size < 1:
            raise OtherForm(f"its {name} is {size!r}")
        return size

    def model(self) -> Any:
        import openvino

        ops = self._ops
        names = ("input_ids", "attention_mask", "token_type_ids")
        inputs = [ops.parameter(openvino.PartialShape([-1, -1]), np.int64, name=name) for name in names]
        for node, name in zip(inputs, names, strict=True):
            node.output(0).get_tensor().set_names({name})
        ids, mask, types = inputs
        seen = ops.convert(mask, np.float32)  # (texts, tokens)
        hidden = self._embedded(ids, types)
        far = ops.multiply(ops.subtract(ops.constant(np.float32(1)), seen), ops.constant(np.float32(_MASKED)))
        scores = ops.unsqueeze(ops.unsqueeze(far, _whole(1)), _whole(1))  # (texts, 1, 1, tokens)
        for number in range(self._size("num_hidden_layers")):
            hidden = self._layer(hidden, scores, f"encoder.layer.{number}")
        return openvino.Model([self._pooled(hidden, seen)], inputs, "bert")

    def _constant(self, name: str, *shape: int) -> Any:
        tensor = self._weights[name]
        if tensor.shape != shape or not np.isfinite(tensor).all():
            raise OtherForm(f"its {name} has the shape {tensor.shape}, not {shape}, or values that are not numbers")
        return self._ops.constant(tensor)

    def _table(self, name: str, rows: str) -> Any:
        return self._constant(f"embeddings.{name}_embeddings.weight", self._size(rows), self._width)

    def _embedded(self, ids: Any, types: Any) -> Any:
        ops = self._ops
        length = ops.gather(ops.shape_of(ids), _scalar(1), _scalar(0))
        places = ops.range(_scalar(0), length, _scalar(1), "i64")
        summed = ops.add(
            ops.gather(self._table("word", "vocab_size"), ids, _scalar(0)),
            ops.gather(self._table("token_type", "type_vocab_size"), types, _scalar(0)),
        )
        at = ops.gather(self._table("position", "max_position_embeddings"), places, _scalar(0))
        return self._normalised(ops.add(summed, at), "embeddings.LayerNorm")

    def _layer(self, hidden: Any, scores: Any, name: str) -> Any:
        ops = self._ops
        wide, inner_size = self._width, self._size("intermediate_size")
        query, key, value = (
            self._in_heads(self._linear(hidden, f"{name}.attention.self.{each}", wide, wide))
            for each in ("query", "key", "value")
        )
        attended = ops.scaled_dot_product_attention(query, key, value, scores)
        joined = ops.reshape(ops.transpose(attended, _whole(0, 2, 1, 3)), _whole(0, 0, self._width), special_zero=True)
        output = self._linear(joined, f"{name}.attention.output.dense", wide, wide)
        hidden = self._normalised(ops.add(output, hidden), f"{name}.attention.output.LayerNorm")
        inner = ops.gelu(self._linear(hidden, f"{name}.intermediate.dense", wide, inner_size), "erf")
        output = self._linear(inner, f"{name}.output.dense", inner_size, wide)
        return self._normalised(ops.add(output, hidden), f"{name}.output.LayerNorm")

    def _in_heads(self, tensor: Any) -> Any:
        """Return (texts, tokens, width) as (texts, heads, tokens, width of a head)."""
        ops = self._ops
        shape = _whole(0, 0, self._heads, self._width // self._heads)
        return ops.transpose(ops.reshape(tensor, shape, special_zero=True), _whole(0, 2, 1, 3))

    def _linear(self, tensor: Any, name: str, width: int, out: int) -> Any:
        product = self._ops.matmul(tensor, self._constant(f"{name}.weight", out, width), False, True)
        return self._ops.add(product, self._constant(f"{name}.bias", out))

    def _normalised(self, tensor: Any, name: str) -> Any:
        ops = self._ops
        centred = ops.mvn(tensor, _whole(-1), True, self._epsilon, "inside_sqrt")
        scale, shift = (self._constant(f"{name}.{each}", self._width) for each in ("weight", "bias"))
        return ops.add(ops.multiply(centred, scale), shift)

    def _pooled(self, hidden: Any, seen: Any) -> Any:
        """Return the mean over the tokens of a text, with length 1."""
        ops = self._ops
        weights = ops.unsqueeze(seen, _whole(2))
        total = ops.reduce_sum(ops.multiply(hidden, weights), _whole(1))
        count = ops.maximum(ops.reduce_sum(weights, _whole(1)), ops.constant(np.float32(1e-9)))
        return ops.normalize_l2(ops.divide(total, count), _whole(1), 1e-12, "max")


def _whole(*numbers: int) -> Any:
    """Return a constant list of whole numbers."""
    from openvino import opset13

    return opset13.constant(np.array(numbers, dtype=np.int64))


def _scalar(number: int) -> Any:
    """Return a constant whole number."""
    from openvino import opset13

    return opset13.constant(np.int64(number))
