"""Attention within the segments of a packed row, an attention function of transformers.

https://huggingface.co/docs/transformers/attention_interface. A mask over the whole row would compute mostly zeros; here
each segment is multiplied with its prefix and itself alone: on a GPU all segments in one kernel, else one by one.
"""

import contextlib
import functools
import inspect
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from optimizers.distill.training.data import Row

NAME = "verihop_segments"


def supports_segments(model: Any) -> bool:
    """Tell whether a model's attention can be replaced: it must be plain softmax attention over all earlier tokens."""
    config = model.config.get_text_config()
    special = ("attn_logit_softcapping", "sliding_window", "attention_chunk_size")
    layer_types = getattr(config, "layer_types", None) or ()
    plainly = not any(getattr(config, name, None) for name in special)
    plainly = plainly and set(layer_types) <= {"full_attention"}
    return model.is_backend_compatible() and plainly and not _uses_alibi(config)


def _uses_alibi(config: Any) -> bool:
    return bool(getattr(config, "alibi", False)) or not hasattr(config, "rope_parameters")


def use_segments(model: Any) -> None:
    """Make `model` compute attention by segments; its `forward` then takes `segments=`."""
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface

    AttentionInterface.register(NAME, segment_attention)
    AttentionMaskInterface.register(NAME, lambda *_, **__: None)  # no mask is needed
    model.set_attn_implementation(NAME)


@contextlib.contextmanager
def ordinary(model: Any) -> Iterator[None]:
    """Let `model` compute attention as transformers does, while the block runs, and by segments after it."""
    model.set_attn_implementation("sdpa")
    try:
        yield
    finally:
        model.set_attn_implementation(NAME)


class Packed(NamedTuple):
    """The segments of a row as the kernel for sequences of various lengths takes them.

    Args:
        known: Places of what each segment sees, its prefix first, one segment after the other; None if no segment has
            a prefix.
        starts: Where each segment begins in the row, and where the last ends: 32-bit integers, (segments + 1).
        known_starts: The same of what each segment sees, in `known`.
        longest: Tokens of the longest segment.
        longest_known: Tokens of the longest that is seen.
    """

    known: Any
    starts: Any
    known_starts: Any
    longest: int
    longest_known: int


@dataclass(frozen=True)
class Segments:
    """The segments of a row; the tensors that say so are made once for all layers.

    Args:
        lengths: Tokens of each.
        prefixes: For each the number of the segment that it continues; None for one that stands alone.
    """

    lengths: Sequence[int]
    prefixes: Sequence[int | None]
    _made: dict[Any, Packed] = field(default_factory=dict)

    @classmethod
    def of(cls, row: Row) -> "Segments":
        """Return those of a row."""
        return cls(tuple(row.lengths), tuple(row.prefixes))

    def packed(self, device: Any) -> Packed:
        """Return them as tensors on a device."""
        if device not in self._made:
            self._made[device] = self._pack(device)
        return self._made[device]

    def _pack(self, device: Any) -> Packed:
        import torch

        starts = [0, *itertools.accumulate(self.lengths)]
        places, known_starts = list[int](), [0]
        for number, prefix in enumerate(self.prefixes):
            for seen in (number,) if prefix is None else (prefix, number):
                places.extend(range(starts[seen], starts[seen + 1]))
            known_starts.append(len(places))
        alone = all(prefix is None for prefix in self.prefixes)
        longest_known = max(end - start for start, end in itertools.pairwise(known_starts))
        return Packed(
            known=None if alone else torch.tensor(places, device=device),
            starts=torch.tensor(starts, dtype=torch.int32, device=device),
            known_starts=torch.tensor(known_starts, dtype=torch.int32, device=device),
            longest=max(self.lengths),
            longest_known=longest_known,
        )


def segment_attention(
    module: Any,
    query: Any,
    key: Any,
    value: Any,
    attention_mask: Any,
    scaling: float,
    segments: Segments | None = None,
    **_: Any,
) -> tuple[Any, None]:
    """Return the attention output of a row, (1, tokens, heads, size), for an attention module of transformers.

    Args:
        module: Of the model; not used.
        query: (1, heads, tokens, size).
        key: (1, key heads, tokens, size).
        value: As `key`.
        attention_mask: Not used; the segments say what is seen.
        scaling: Factor of the scores.
        segments: Of the row; None for one segment.
    """
    segments = segments or Segments((query.shape[2],), (None,))
    attend = together if _has_kernel(query, scaling) else one_by_one
    return attend(query[0], key[0], value[0], scaling, segments)[None], None


def one_by_one(query: Any, key: Any, value: Any, scaling: float, segments: Segments) -> Any:
    """Return the attention output, (tokens, heads, size), computed for each segment by itself."""
    import torch

    queries, keys, values = (states.split(list(segments.lengths), dim=1) for states in (query, key, value))
    outputs = []
    for number, prefix in enumerate(segments.prefixes):
        if prefix is None:
            known_keys, known_values = keys[number], values[number]
        else:
            known_keys = torch.cat([keys[prefix], keys[number]], dim=1)
            known_values = torch.cat([values[prefix], values[number]], dim=1)
        outputs.append(_attend(queries[number], known_keys, known_values, scaling))
    return torch.cat(outputs, dim=1).transpose(0, 1)


def together(query: Any, key: Any, value: Any, scaling: float, segments: Segments) -> Any:
    """Return the attention output, (tokens, heads, size), computed for all segments in one kernel.

    Args:
        query: (heads, tokens, size), on a GPU, in 16 bits; (key heads, tokens, size) for `key` and `value`.
        key: See `query`.
        value: See `query`.
        scaling: 1 / sqrt(size), which is what the kernel multiplies the scores by.
        segments: Of the row.
    """
    packed = segments.packed(query.device)
    # A key head is repeated for the query heads that share it: not every version of the kernel shares it itself.
    keys, values = (
        (states if packed.known is None else states.index_select(1, packed.known))
        .repeat_interleave(len(query) // len(key), dim=0)
        .transpose(0, 1)
        for states in (key, value)
    )
    # The last tokens of what is seen are the segment's own, and each of these sees what is before it.
    return varlen_kernel()(
        query.transpose(0, 1),
        keys,
        values,
        packed.starts,
        packed.known_starts,
        packed.longest,
        packed.longest_known,
    )


def _has_kernel(query: Any, scaling: float) -> bool:
    import torch

    usual = abs(scaling * query.shape[-1] ** 0.5 - 1) < 1e-6
    return query.device.type == "cuda" and query.dtype != torch.float32 and usual and varlen_kernel() is not None


@functools.cache
def varlen_kernel() -> Any:
    """Return PyTorch's causal attention of sequences of various lengths; None before version 2.10."""
    try:
        from torch.nn.attention.varlen import varlen_attn
    except ImportError:
        return None
    window = "window_size" in inspect.signature(varlen_attn).parameters
    causal: dict[str, Any] = {"window_size": (-1, 0)} if window else {"is_causal": True}
    return functools.partial(varlen_attn, **causal)


def _attend(query: Any, key: Any, value: Any, scaling: float) -> Any:
    """Return the causal attention of the last tokens of a sequence, (heads, tokens, size)."""
    return (plain if query.device.type == "cpu" else fused)(query, key, value, scaling)


def fused(query: Any, key: Any, value: Any, scaling: float) -> Any:
    """Return the attention, computed by PyTorch's kernel."""
    import torch

    mask = _visible(query.shape[1], key.shape[1], query.device)
    grouped = key.shape[0] != query.shape[0]
    return torch.nn.functional.scaled_dot_product_attention(
        query[None], key[None], value[None], attn_mask=mask, scale=scaling, enable_gqa=grouped
    )[0]


def plain(query: Any, key: Any, value: Any, scaling: float) -> Any:
    """Return the attention, computed by plain products: on CPUs a quarter of the time of the kernel (README)."""
    import torch

    heads, length, size = query.shape
    groups, known = key.shape[0], key.shape[1]
    # The heads that share their keys are computed as one matrix; the product is added to the copies of the mask.
    scores = _bias(length, known, query.dtype).repeat(groups, heads // groups, 1)
    scores = scores.baddbmm_(query.reshape(groups, -1, size), key.transpose(1, 2), alpha=scaling)
    return torch.bmm(torch.softmax(scores, dim=-1), value).view(heads, length, size)


_STEP = 512  # tokens by which a mask grows
_masks: dict[tuple[Any, Any], Any] = {}  # the longest mask needed so far, of which the others are parts


def _visible(length: int, known: int, device: Any) -> Any:
    """Return which of the `known` tokens each of the last `length` tokens sees."""
    import torch

    def make(side: int) -> Any:
        return torch.ones(side, side, dtype=torch.bool, device=device).tril_()

    return _part((torch.bool, device), length, known, make).contiguous()  # as kernels want it


def _bias(length: int, known: int, dtype: Any) -> Any:
    """Return what is added to the scores of the last `length` of `known` tokens: 0 for what is seen, else -inf."""
    import torch

    def make(side: int) -> Any:
        return torch.full((side, side), float("-inf"), dtype=dtype).triu_(1)

    return _part((dtype, None), length, known, make)


def _part(kind: tuple[Any, Any], length: int, known: int, make: Callable[[int], Any]) -> Any:
    """Return the last `length` rows of a mask of `known` tokens: all causal masks are parts of the longest."""
    mask = _masks.get(kind)
    if mask is None or len(mask) < known:
        mask = _masks[kind] = make(-(-known // _STEP) * _STEP)
    return mask[known - length : known, :known]
