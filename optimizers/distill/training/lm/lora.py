"""LoRA: low-rank updates of frozen linear maps (Hu et al., 2022, https://arxiv.org/abs/2106.09685), saved as PEFT does.

The layers are our own because PEFT's compute the update in single precision, which costs a quarter of the speed on CPUs
that multiply in bfloat16; the files are PEFT's, and `peft.PeftModel.from_pretrained` loads them.
"""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ujson

from optimizers.distill.training.divergence import Diverged, finite
from programs.lms.weights import adapter
from signatures.common.errors import UserError
from signatures.common.files import atomic_write

WEIGHTS, CONFIG = adapter.TENSORS, adapter.CONFIG
_PREFIX = "base_model.model."


def add_lora(model: Any, *, rank: int, alpha: int, first_layer: int, seed: int) -> dict[str, Any]:
    """Freeze `model`, add updates to the linear maps of its layers from `first_layer` on, and return the new weights.

    Returns:
        The trainable weights by their name in PEFT's files, in single precision.

    Raises:
        UserError: The model has no such layer.
    """
    import torch

    model.requires_grad_(False)
    layers = decoder_layers(model)
    if first_layer >= len(layers):
        raise UserError(f"The LM has {len(layers)} layers, so the first to train is 0 to {len(layers) - 1}.")
    chance = torch.Generator().manual_seed(seed)
    weights: dict[str, Any] = {}
    for path, layer in list(layers.items())[first_layer:]:
        for name, linear in [item for item in layer.named_modules() if isinstance(item[1], torch.nn.Linear)]:
            parent = layer.get_submodule(name.rpartition(".")[0]) if "." in name else layer
            lora = _lora_linear()(linear, rank, alpha / rank, chance)
            setattr(parent, name.rpartition(".")[2], lora)
            weights[f"{_PREFIX}{path}.{name}.lora_A.weight"] = lora.lora_a
            weights[f"{_PREFIX}{path}.{name}.lora_B.weight"] = lora.lora_b
    if not weights:
        raise UserError(f"Models of type {model.config.model_type!r} have no linear maps for LoRA. Use method 'full'.")
    return weights


def decoder_layers(model: Any) -> dict[str, Any]:
    """Return the transformer layers of a causal LM by their path.

    Raises:
        UserError: The model has no list of layers.
    """
    import torch

    for path, module in model.named_modules():
        if isinstance(module, torch.nn.ModuleList) and len(module) == model.config.get_text_config().num_hidden_layers:
            return {f"{path}.{number}": layer for number, layer in enumerate(module)}
    raise UserError(
        f"Models of type {model.config.model_type!r} have no list of layers. Train all of them, with method 'full'."
    )


def _lora_linear() -> Any:
    """Return the class of a linear map with an update; torch is imported late, so the class is made late."""
    import torch

    class Product(torch.autograd.Function):
        """x W' + (x A') B', with the additions inside the products; W is frozen."""

        @staticmethod
        def forward(ctx: Any, states: Any, weight: Any, lora_a: Any, lora_b: Any) -> Any:
            """Return the product for states (rows, inputs)."""
            narrow = states @ lora_a.t()
            ctx.save_for_backward(states, weight, lora_a, lora_b, narrow)
            return (states @ weight.t()).addmm_(narrow, lora_b.t())

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            """Return the gradients of states, A and B."""
            states, weight, lora_a, lora_b, narrow = ctx.saved_tensors
            through = gradient @ lora_b
            to_states = (gradient @ weight).addmm_(through, lora_a) if ctx.needs_input_grad[0] else None
            return to_states, None, through.t() @ states, gradient.t() @ narrow

    class LoraLinear(torch.nn.Module):
        """A frozen linear map plus scale * B A."""

        def __init__(self, linear: Any, rank: int, scale: float, chance: Any):
            super().__init__()
            self.linear, self.scale = linear, scale
            device = linear.weight.device
            first = torch.empty(rank, linear.in_features)
            torch.nn.init.kaiming_uniform_(first, a=math.sqrt(5), generator=chance)  # as PEFT starts
            self.lora_a = torch.nn.Parameter(first.to(device))
            self.lora_b = torch.nn.Parameter(torch.zeros(linear.out_features, rank, device=device))

        def forward(self, states: Any) -> Any:
            weight = self.linear.weight
            lora_a, lora_b = (self.lora_a * self.scale).to(weight.dtype), self.lora_b.to(weight.dtype)
            product = Product.apply(states.reshape(-1, states.shape[-1]), weight, lora_a, lora_b)
            product = product.view(*states.shape[:-1], -1)
            return product if self.linear.bias is None else product + self.linear.bias

    return LoraLinear


def save_adapter(folder: Path, weights: dict[str, Any], *, base: str, rank: int, alpha: int) -> None:
    """Write the adapter in PEFT's format, in half precision.

    Raises:
        Diverged: The weights are too large for it.
    """
    import torch
    from peft import LoraConfig, TaskType
    from safetensors.torch import save

    config = LoraConfig(
        task_type=TaskType.CAUSAL_LM,
        base_model_name_or_path=base,
        r=rank,
        lora_alpha=alpha,
        target_modules=sorted({path.split(".")[-1] for path in _paths(weights)}),
        layers_to_transform=sorted({_layer(path) for path in _paths(weights)}),
        inference_mode=True,
    ).to_dict()
    halves = {name: weight.detach().to("cpu", torch.float16).contiguous() for name, weight in weights.items()}
    if not finite(halves):
        raise Diverged("The weights are too large for half precision. Lower the learning rate in a new run")
    folder.mkdir(parents=True, exist_ok=True)
    with atomic_write(folder / WEIGHTS, "wb") as file:
        file.write(save(halves, metadata={"format": "pt"}))
    config = {name: sorted(value) if isinstance(value, set) else value for name, value in config.items()}
    with atomic_write(folder / CONFIG) as file:
        file.write(ujson.dumps(config, indent=2, sort_keys=True, default=str) + "\n")


def _paths(weights: dict[str, Any]) -> Iterator[str]:
    return (name.removeprefix(_PREFIX).rpartition(".lora_")[0] for name in weights)


def _layer(path: str) -> int:
    return next(int(part) for part in path.split(".") if part.isdigit())
