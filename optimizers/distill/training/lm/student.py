"""The LM in training: its trainable weights, the loss of a batch, and its files.

LoRA adds low-rank updates to frozen linear maps (Hu et al., 2022, https://arxiv.org/abs/2106.09685). The layers are our
own because PEFT's compute the update in single precision, which costs a quarter of the speed on CPUs that multiply in
bfloat16; the files are PEFT's, and `peft.PeftModel.from_pretrained` loads them.
"""

import functools
import math
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import ujson

from optimizers.distill.training.data import EncodedExample, Row, end_token, pack, single_rows, token_weights
from optimizers.distill.training.divergence import Diverged, finite
from optimizers.distill.training.lm import attention
from optimizers.distill.training.lm.base_model import BaseModel, Device, quiet
from optimizers.distill.training.settings import TrainingSettings
from programs.lms.weights import adapter, choice
from programs.lms.weights.choice import described_base
from signatures.common.errors import UserError, one_line
from signatures.common.files import atomic_write, sha256_file, share

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


# What may differ from PEFT's defaults: it is checked here, or changes nothing in weights that are loaded.
_KNOWN = frozenset({
    "peft_type", "peft_version", "task_type", "auto_mapping", "inference_mode", "revision", "base_model_name_or_path",
    "r", "lora_alpha", "lora_dropout", "target_modules", "exclude_modules", "layers_to_transform", "layers_pattern",
    "init_lora_weights",
})  # fmt: skip
_INITIAL = (True, False, None, "gaussian", "orthogonal", "eva")  # the others also change the base


def adapter_folder(name: str) -> Path:
    """Return the folder of an adapter: "embedded" is the one that the embedded LM has in this package."""
    return choice.DEFAULT_ADAPTER if name == "embedded" else Path(name)


def load_adapter(folder: Path, weights: dict[str, Any], *, rank: int, alpha: int, base: BaseModel) -> None:
    """Copy an adapter into the weights that `lora.add_lora` returned.

    Args:
        folder: With `adapter_config.json` and `adapter_model.safetensors`.
        weights: By their name in PEFT's files.
        rank: Of `weights`.
        alpha: Of `weights`.
        base: The LM that is trained.

    Raises:
        UserError: The folder holds no adapter, one that is computed otherwise here, or one of another shape or base.
    """
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        config = dict(ujson.loads((folder / CONFIG).read_text(encoding="utf-8")))
        saved = load_file(folder / WEIGHTS)
    except (OSError, ValueError, TypeError, SafetensorError) as error:
        raise UserError(f"{str(folder)!r} holds no LoRA adapter: {one_line(error)}.") from error
    _check_plain(folder, config)
    if (config.get("r"), config.get("lora_alpha")) != (rank, alpha):
        raise UserError(
            f"The adapter {str(folder)!r} has rank {config.get('r')} and alpha {config.get('lora_alpha')}, not {rank} "
            f"and {alpha}. Train with those of the adapter."
        )
    _check_base(folder, config, base)
    if missing := sorted(saved.keys() - weights.keys()) or [
        name for name, weight in saved.items() if weight.shape != weights[name].shape
    ]:
        raise UserError(
            f"The adapter {str(folder)!r} does not fit: {missing[0]!r}. Train from the layer that it begins with, on "
            "the same base."
        )
    for name in sorted(saved):
        other = name.replace("lora_A", "lora_B") if "lora_A" in name else name.replace("lora_B", "lora_A")
        if other not in saved:
            raise UserError(f"The adapter {str(folder)!r} has {name!r} without {other!r}. Save or copy it again.")
    with torch.no_grad():
        for name, weight in saved.items():
            weights[name].copy_(weight)


def _check_plain(folder: Path, config: dict[str, Any]) -> None:
    """Refuse whatever would make PEFT compute other updates than alpha / r times B A."""
    from peft import LoraConfig

    if (kind := config.get("peft_type")) != "LORA":
        raise UserError(f"The adapter {str(folder)!r} is of type {kind!r}, not LORA. Start without it.")
    usual = LoraConfig().to_dict()
    special = {
        name: value for name, value in config.items() if name not in _KNOWN and value and value != usual.get(name)
    }
    if config.get("init_lora_weights") not in _INITIAL:
        special["init_lora_weights"] = config["init_lora_weights"]
    if special:
        raise UserError(
            f"The adapter {str(folder)!r} is not a plain LoRA: {one_line(special, 200)}. Merge it into its base and "
            "train that, or start without it."
        )


def _check_base(folder: Path, config: dict[str, Any], base: BaseModel) -> None:
    """Refuse an adapter of another LM: of other weights if its run says which they were, else of another name."""
    trained_on = str(config.get("base_model_name_or_path") or "")
    name, sha256 = described_base(folder)
    # A hash of safetensors and one of a GGUF file say nothing about each other.
    comparable = bool(sha256) and _in_gguf(name) == _in_gguf(base.name)
    if sha256 != base.sha256 if comparable else not _same_name(trained_on, base):
        raise UserError(
            f"The adapter {str(folder)!r} was trained on {trained_on[:200]!r}, which is not the LM {base.name!r} or had"
            " other weights. Train on the adapter's base, or start without the adapter."
        )


def _in_gguf(name: str) -> bool:
    return name == "embedded" or name.startswith("gguf:")


def _same_name(name: str, base: BaseModel) -> bool:
    """Tell whether a name may be that of the base; a model has one name on the hub and others in folders."""
    if name in ("", base.name):
        return True
    if name.startswith("gguf:"):
        path = Path(name.removeprefix("gguf:"))
        return path.is_file() and sha256_file(path) == base.sha256
    if base.name == "embedded":
        return _is_embedded(name)
    return _last_part(name) == _last_part(base.name)


def _is_embedded(name: str) -> bool:
    plain = name.lower().replace("_", "-")
    of_hub = plain in (choice.NAME, f"huggingfacetb/{choice.NAME}") and not Path(name).exists()
    return name == "embedded:base" or of_hub


def _last_part(name: str) -> str:
    return name.rstrip("/\\").replace("\\", "/").rpartition("/")[2].lower().replace("_", "-")


SAVING = ".saving-"
SAVED = (
    CONFIG, WEIGHTS, "config.json", "generation_config.json", "model*.safetensors", "model*.index.json",
    "tokenizer*", "special_tokens_map.json", "added_tokens.json", "chat_template.jinja", "vocab.*", "merges.txt",
    "spiece.model", "sentencepiece.bpe.model",
)  # fmt: skip
"""Patterns of the files that `Student.save` writes."""


class Student:
    """A causal LM that is trained.

    Args:
        base: The LM; it is changed in place.
        settings: Method, LoRA's rank and layers, row size.
        device: Where it is computed.
    """

    def __init__(self, base: BaseModel, settings: TrainingSettings, device: Device):
        import torch

        self.base, self.settings, self.device = base, settings, device
        self.model = base.model
        self.packs = settings.packing and attention.supports_segments(self.model)
        if self.packs:
            attention.use_segments(self.model)
        self.resumed_sha256: str | None = None
        if settings.method == "lora":
            self.model.to(device.name, device.precision)
            self.weights = add_lora(
                self.model,
                rank=settings.rank,
                alpha=settings.alpha,
                first_layer=settings.first_layer,
                seed=settings.seed,
            )
            if settings.resume_adapter:
                folder = adapter_folder(settings.resume_adapter)
                load_adapter(folder, self.weights, rank=settings.rank, alpha=settings.alpha, base=base)
                self.resumed_sha256 = sha256_file(folder / WEIGHTS)
        else:
            self.model.to(device.name, torch.float32).requires_grad_(True)
            self._freeze_below(settings.first_layer)
            self.weights = {name: weight for name, weight in self.model.named_parameters() if weight.requires_grad}
        self.model.eval()  # without dropout, so that a run can be repeated and resumed exactly

    def ordinary_attention(self) -> AbstractContextManager[None]:
        """Return a context in which attention is that of transformers, which has a cache and can be saved."""
        return attention.ordinary(self.model) if self.packs else nullcontext()

    def _freeze_below(self, first_layer: int) -> None:
        if not first_layer:
            return
        for layer in list(decoder_layers(self.model).values())[:first_layer]:
            layer.requires_grad_(False)
        self.model.get_input_embeddings().requires_grad_(False)

    def rows(self, examples: Sequence[EncodedExample]) -> list[Row]:
        """Return the rows of a batch."""
        weights = token_weights(examples, self.settings.loss)
        if self.packs:
            return pack(examples, self.settings.row_tokens, weights)
        return single_rows(examples, weights)

    def losses(self, row: Row) -> tuple[Any, Any]:
        """Return the weighted sum of a row's token losses, and the loss of each of its targets."""
        import torch

        device = self.device.name
        tokens = torch.tensor([row.tokens], device=device)
        positions = torch.tensor([row.positions], device=device)
        segments = {"segments": attention.Segments.of(row)} if self.packs else {}
        places, targets, weights, _ = zip(*row.targets, strict=True)
        with self.mixed_precision():
            # The LM head may be as large as a third of the LM: it runs on what predicts the replies alone.
            keep = torch.tensor(places, device=device)
            logits = self.model(
                input_ids=tokens, position_ids=positions, use_cache=False, logits_to_keep=keep, **segments
            ).logits[0]
        losses = torch.nn.functional.cross_entropy(
            logits.float(), torch.tensor(targets, device=device), reduction="none"
        )
        return (losses * torch.tensor(weights, device=device)).sum(), losses.detach()

    def mixed_precision(self) -> Any:
        """Return the context in which `forward` runs."""
        import torch

        # Full fine-tuning keeps its weights in single precision; LoRA's frozen ones are in bfloat16 already.
        mixed = self.device.bfloat16 and self.settings.method == "full"
        return torch.autocast(self.device.name, dtype=torch.bfloat16, enabled=mixed)

    @functools.cached_property
    def end_token(self) -> int:
        """The token that ends a reply."""
        return end_token(self.base.tokenizer, [{"role": "user", "content": "question"}])

    def save(self, folder: Path) -> None:
        """Write the adapter in PEFT's format, or all weights in Hugging Face format, with the tokenizer."""
        settings = self.settings
        if settings.method == "lora":
            save_adapter(folder, self.weights, base=self.base.name, rank=settings.rank, alpha=settings.alpha)
            return
        folder.mkdir(parents=True, exist_ok=True)
        # The libraries write in place: a kill in the middle would leave no weights, neither these nor those of before.
        with tempfile.TemporaryDirectory(dir=folder, prefix=SAVING) as name:
            self._save_all(Path(name))
            for path in Path(name).iterdir():
                if path.suffix == ".safetensors":
                    share(path)  # the library gives 0600, which only the owner can read
                path.replace(folder / path.name)

    def _save_all(self, folder: Path) -> None:
        with self.ordinary_attention(), quiet():
            self.model.save_pretrained(folder)
        self.base.tokenizer.save_pretrained(folder)

    def write_weights(self, path: Path) -> None:
        """Write the trainable weights as they are, in single precision."""
        from safetensors.torch import save

        with atomic_write(path, "wb") as file:
            file.write(save({name: weight.detach().cpu().contiguous() for name, weight in self.weights.items()}))

    def read_weights(self, path: Path) -> None:
        """Copy what `write_weights` wrote into the LM."""
        import torch
        from safetensors.torch import load_file

        saved = load_file(path)
        with torch.no_grad():
            for name, weight in self.weights.items():
                if saved[name].shape != weight.shape:
                    raise ValueError(f"{name} has another shape")
                weight.copy_(saved[name])
