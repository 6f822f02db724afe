"""A converted sentence-transformers model, run by OpenVINO.

The texts of a call are sorted by their tokens and cut into batches of similar length, so that little is computed for
padding; batches run in parallel, one thread each, because threads that share a batch cost more CPU time.

Precisions: "f32" (default; the same vectors as torch up to rounding), "bf16" (three times faster on CPUs with AMX), and
"int8" (weights and activations in 8 bits, for CPUs without AMX). OpenVINO itself would choose bf16 wherever it can.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from signatures.common.errors import unknown
from signatures.common.openvino_core import openvino_core

Precision = Literal["f32", "bf16", "int8"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
# Tokens that could be computed in the time that a further batch takes: padding up to these is cheaper than a new batch.
_PADDING: dict[str, int] = {"f32": 16, "bf16": 64, "int8": 24}
_MAX_8_BIT = 127


class OpenVinoEncoder:
    """Encodes by OpenVINO on the CPU, one call at a time.

    Not usable in a process forked after it was made: a call would wait for threads that do not exist there.

    Args:
        model: The converted model.
        tokenizer: Its tokenizer, with truncation and padding token.
        precision: "f32", "bf16" or "int8".
        threads: CPU threads, each with its own batch.
        batch_size: Texts per batch at most.

    Raises:
        RuntimeError: A file cannot be read.
    """

    def __init__(self, model: Path, tokenizer: Path, *, precision: str, threads: int, batch_size: int = 32):
        from tokenizers import Tokenizer

        if precision not in PRECISIONS:
            raise unknown("precision", precision, PRECISIONS)
        self._tokenizer = Tokenizer.from_str(tokenizer.read_text(encoding="utf-8"))
        self._pad = int((self._tokenizer.padding or {})["pad_id"])
        self._tokenizer.no_padding()
        core = openvino_core()
        read = core.read_model(model)
        if precision == "int8":
            _quantise(read)
        compiled = core.compile_model(
            read,
            "CPU",
            {
                "INFERENCE_PRECISION_HINT": "bf16" if precision == "bf16" else "f32",
                "INFERENCE_NUM_THREADS": threads,
                "NUM_STREAMS": threads,
                "ENABLE_CPU_PINNING": False,  # other processes use the same cores
            },
        )
        self._names = [port.any_name for port in compiled.inputs]
        self._requests = [compiled.create_infer_request() for _ in range(threads)]
        self._width = int(compiled.outputs[0].partial_shape[1].get_length())
        self._batch_size, self._padding = batch_size, _PADDING[precision]

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return vectors of shape (len(texts), d)."""
        # One by one: `encode_batch` starts threads, warns after a fork, and is no faster for a few short texts.
        encodings = [self._tokenizer.encode(text) for text in texts]
        vectors = np.empty((len(texts), self._width), dtype=np.float32)
        most = min(self._batch_size, -(-len(texts) // len(self._requests)))
        running: list[tuple[Any, list[int]]] = []
        try:
            for number, places in enumerate(batches_of([len(e.ids) for e in encodings], most, self._padding)):
                if number >= len(self._requests):
                    _collect(*running.pop(0), vectors)
                # Requests end in about the order of their start, so the oldest is free.
                request = self._requests[number % len(self._requests)]
                request.start_async(self._inputs([encodings[place] for place in places]))
                running.append((request, places))
            while running:
                _collect(*running.pop(0), vectors)
        finally:
            for request, _ in running:  # after an interrupt: the next call must find them idle
                request.wait()
        return vectors

    def _inputs(self, encodings: Sequence[Any]) -> dict[str, NDArray[np.int64]]:
        shape = len(encodings), max(len(encoding.ids) for encoding in encodings)
        inputs = {name: np.zeros(shape, dtype=np.int64) for name in self._names}
        inputs["input_ids"].fill(self._pad)
        parts = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
        for row, encoding in enumerate(encodings):
            for name, array in inputs.items():
                array[row, : len(encoding.ids)] = getattr(encoding, parts[name])
        return inputs


def batches_of(lengths: Sequence[int], most: int, padding: int) -> list[list[int]]:
    """Return the places of texts by batch, the longest texts first, so that parallel batches end together.

    Args:
        lengths: Tokens of each text.
        most: Texts per batch at most.
        padding: Tokens at most by which all texts of a batch together are shorter than its longest.
    """
    batches: list[list[int]] = []
    room = 0
    for place in sorted(range(len(lengths)), key=lambda place: -lengths[place]):
        missing = lengths[batches[-1][0]] - lengths[place] if batches else 0
        if not batches or missing > room or len(batches[-1]) >= most:
            batches.append([place])
            room = padding
        else:
            batches[-1].append(place)
            room -= missing
    return batches


def _collect(request: Any, places: list[int], vectors: NDArray[np.float32]) -> None:
    request.wait()
    vectors[places] = request.get_output_tensor(0).data


def _quantise(model: Any) -> None:
    """Replace the weights of all matrix products by 8-bit integers with one scale per output.

    OpenVINO then quantises the activations as well while it computes. The embedding table stays as it is.
    """
    from openvino import Type
    from openvino import opset13 as ops

    for node in model.get_ordered_ops():
        if node.get_type_name() != "MatMul":
            continue
        source = node.input_value(1).get_node()
        if source.get_type_name() != "Constant" or len(source.get_output_shape(0)) != 2:
            continue
        weights = source.get_data()
        axis = 1 if node.get_attributes()["transpose_b"] else 0
        scale = np.abs(weights).max(axis=axis, keepdims=True) / _MAX_8_BIT
        scale[scale == 0] = 1
        whole = np.clip(np.round(weights / scale), -_MAX_8_BIT, _MAX_8_BIT).astype(np.int8)
        restored = ops.convert(ops.constant(whole, Type.i8), "f32")
        restored.get_rt_info()["decompression"] = ""
        node.input(1).replace_source_output(ops.multiply(restored, ops.constant(scale.astype(np.float32))).output(0))
