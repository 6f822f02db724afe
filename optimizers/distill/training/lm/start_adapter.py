"""The adapter that a training run starts from: read from PEFT's files, if the run can go on from it exactly."""

from pathlib import Path
from typing import Any

import ujson

from optimizers.distill.training.lm.base_model import BaseModel
from optimizers.distill.training.lm.lora import CONFIG, WEIGHTS
from programs.lms.weights.bases import described_base
from signatures.common.errors import UserError, one_line
from signatures.common.files import sha256_file

# What may differ from PEFT's defaults: it is checked here, or changes nothing in weights that are loaded.
_KNOWN = frozenset({
    "peft_type", "peft_version", "task_type", "auto_mapping", "inference_mode", "revision", "base_model_name_or_path",
    "r", "lora_alpha", "lora_dropout", "target_modules", "exclude_modules", "layers_to_transform", "layers_pattern",
    "init_lora_weights",
})  # fmt: skip
_INITIAL = (True, False, None, "gaussian", "orthogonal", "eva")  # the others also change the base


def adapter_folder(name: str) -> Path:
    """Return the folder of an adapter: "embedded" is the one that the embedded LM has in this package."""
    from programs.lms.weights.choice import DEFAULT_ADAPTER

    return DEFAULT_ADAPTER if name == "embedded" else Path(name)


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
            f"The adapter {str(folder)!r} is no plain LoRA: {one_line(special, 200)}. Merge it into its base and train "
            "that, or start without it."
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
    from programs.lms import smollm

    plain = name.lower().replace("_", "-")
    of_hub = plain in (smollm.NAME, f"huggingfacetb/{smollm.NAME}") and not Path(name).exists()
    return name == "embedded:base" or of_hub


def _last_part(name: str) -> str:
    return name.rstrip("/\\").replace("\\", "/").rpartition("/")[2].lower().replace("_", "-")
