"""Attention within the segments of a packed row, as an attention function of transformers.

A mask over the whole row would compute mostly zeros; here each segment is multiplied with its prefix and itself alone.
https://huggingface.co/docs/transformers/attention_interface
"""

from collections.abc import Callable, Sequence
from typing import Any

from optimizers.distill.training.rows import Row

NAME = "verihop_segments"


def supports_segments(model: Any) -> bool:
    """Tell whether a model's attention can be replaced: it must be plain softmax attention over all earlier tokens."""
    config = model.config.get_text_config()
    special = ("attn_logit_softcapping", "sliding_window", "layer_types", "attention_chunk_size")
    layer_types = getattr(config, "layer_types", None) or ()
    ordinary = not any(getattr(config, name, None) for name in special if name != "layer_types")
    ordinary = ordinary and set(layer_types) <= {"full_attention"}
    return bool(getattr(model, "_supports_attention_backend", False)) and ordinary and not _uses_alibi(config)


def _uses_alibi(config: Any) -> bool:
    return bool(getattr(config, "alibi", False)) or not hasattr(config, "rope_parameters")


def use_segments(model: Any) -> None:
    """Make `model` compute attention by segments; its `forward` then takes `segments=`."""
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface

    AttentionInterface.register(NAME, segment_attention)
    AttentionMaskInterface.register(NAME, lambda *_, **__: None)  # no mask is needed
    model.config._attn_implementation = NAME


def segments_of(row: Row) -> tuple[tuple[int, ...], tuple[int | None, ...]]:
    """Return what `segment_attention` takes as `segments`."""
    return tuple(row.lengths), tuple(row.prefixes)


def segment_attention(
    module: Any,
    query: Any,
    key: Any,
    value: Any,
    attention_mask: Any,
    scaling: float,
    segments: tuple[Sequence[int], Sequence[int | None]] | None = None,
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
        segments: As `segments_of` returns; None for one segment.
    """
    import torch

    lengths, prefixes = segments or ((query.shape[2],), (None,))
    queries, keys, values = (states[0].split(list(lengths), dim=1) for states in (query, key, value))
    outputs = []
    for number, prefix in enumerate(prefixes):
        if prefix is None:
            known_keys, known_values = keys[number], values[number]
        else:
            known_keys = torch.cat([keys[prefix], keys[number]], dim=1)
            known_values = torch.cat([values[prefix], values[number]], dim=1)
        outputs.append(_attend(queries[number], known_keys, known_values, scaling))
    return torch.cat(outputs, dim=1).transpose(0, 1)[None], None


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
