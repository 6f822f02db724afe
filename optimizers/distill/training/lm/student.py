"""The LM in training: its trainable weights, the loss of a batch, and its files."""

import functools
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from optimizers.distill.training.encoding import Encoded, end_token
from optimizers.distill.training.lm import attention, lora
from optimizers.distill.training.lm.base_model import BaseModel, quiet
from optimizers.distill.training.lm.device import Device
from optimizers.distill.training.lm.start_adapter import adapter_folder, load_adapter
from optimizers.distill.training.rows import Row, pack, single_rows, token_weights
from optimizers.distill.training.settings import TrainingSettings
from signatures.common.files import atomic_write, sha256_file

SAVING = ".saving-"
SAVED = (
    lora.CONFIG, lora.WEIGHTS, "config.json", "generation_config.json", "model*.safetensors", "model*.index.json",
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
            self.weights = lora.add_lora(
                self.model,
                rank=settings.rank,
                alpha=settings.alpha,
                first_layer=settings.first_layer,
                seed=settings.seed,
            )
            if settings.resume_adapter:
                folder = adapter_folder(settings.resume_adapter)
                load_adapter(folder, self.weights, rank=settings.rank, alpha=settings.alpha, base=base)
                self.resumed_sha256 = sha256_file(folder / lora.WEIGHTS)
        else:
            self.model.to(device.name, torch.float32).requires_grad_(True)
            self._freeze_below(settings.first_layer)
            self.weights = {name: weight for name, weight in self.model.named_parameters() if weight.requires_grad}
        self.model.eval()  # without dropout, so that a run can be repeated and resumed exactly

    def _freeze_below(self, first_layer: int) -> None:
        if not first_layer:
            return
        for layer in list(lora.decoder_layers(self.model).values())[:first_layer]:
            layer.requires_grad_(False)
        self.model.get_input_embeddings().requires_grad_(False)

    def rows(self, examples: Sequence[Encoded]) -> list[Row]:
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
        segments = {"segments": attention.segments_of(row)} if self.packs else {}
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
            lora.save_adapter(folder, self.weights, base=self.base.name, rank=settings.rank, alpha=settings.alpha)
            return
        folder.mkdir(parents=True, exist_ok=True)
        # The libraries write in place: a kill in the middle would leave no weights, neither these nor those of before.
        with tempfile.TemporaryDirectory(dir=folder, prefix=SAVING) as name:
            self._save_all(Path(name))
            for path in Path(name).iterdir():
                if path.suffix == ".safetensors":
                    path.chmod(0o644)  # the library gives 0600, which only the owner can read
                path.replace(folder / path.name)

    def _save_all(self, folder: Path) -> None:
        trained, self.model.config._attn_implementation = self.model.config._attn_implementation, "sdpa"
        try:
            with quiet():
                self.model.save_pretrained(folder)
        finally:
            self.model.config._attn_implementation = trained
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
