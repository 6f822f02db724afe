"""LoRA adapters as PEFT writes them (https://huggingface.co/docs/peft), merged into weights without torch.

An adapter is an untrusted file: everything that would change the computation and is not known here is refused.
"""

import json
import math
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from programs.lms.weights.llama import MODULES, Shape, TensorFile, read_json
from signatures.common.errors import UserError
from signatures.common.files import sha256_file, sha256_text

CONFIG, TENSORS = "adapter_config.json", "adapter_model.safetensors"
LARGEST_RANK = 1024
LARGEST_UPDATE = 10.0  # norm of an update over the norm of the weights; training stays far below 1

_MOST = sys.float_info.max  # integers of JSON may be larger
_NAME = re.compile(r"base_model\.model\.model\.layers\.(\d{1,4})\.([a-z_.]+)\.lora_([AB])(?:\.default)?\.weight")
_PLAIN = re.compile(r"\w+(\.\w+)*")  # a pattern that is the end of a module's name
_REFUSED = (
    "use_dora", "use_qalora", "use_bdlora", "fan_in_fan_out", "lora_bias", "modules_to_save", "trainable_token_indices",
    "target_parameters", "layer_replication", "alora_invocation_tokens", "arrow_config", "kasa_config",
    "monteclora_config",
)  # fmt: skip
_INITIAL = (True, False, None, "gaussian", "orthogonal", "eva")  # the others also change the base


class Adapter:
    """A LoRA adapter: for some linear maps, an update of rank r of their weights.

    Args:
        folder: With `adapter_config.json` and `adapter_model.safetensors`.

    Raises:
        UserError: A file is missing or damaged, or the adapter is of a kind that cannot be merged here.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self._config = read_json(folder / CONFIG)
        self._check_config()
        self._file = TensorFile(folder / TENSORS)
        self._parts: dict[str, dict[str, str]] = {}  # "12.mlp.up_proj" -> names of its "A" and "B"
        for name in self._file.shapes:
            found = _NAME.fullmatch(name)
            if found is None or found[2] not in MODULES:
                raise self._error(
                    f"{name} belongs to no linear map of a Llama block. Train with target modules among "
                    f"{', '.join(module.partition('.')[2] for module in MODULES)}"
                )
            self._parts.setdefault(f"{int(found[1])}.{found[2]}", {})[found[3]] = name
        for module, parts in self._parts.items():
            if len(parts) != 2:
                raise self._error(f"layer {module} has only one of its two factors. Save or copy the adapter again")
        self._check_complete()

    @property
    def base(self) -> str:
        """The model it was trained on, as the trainer called it; empty if it does not say."""
        return str(self._config.get("base_model_name_or_path") or "")

    def hash(self) -> str:
        """Return the SHA-256 of everything that changes the merged weights."""
        names = ("r", "lora_alpha", "use_rslora", "rank_pattern", "alpha_pattern")
        settings = json.dumps({name: self._config.get(name) for name in names}, sort_keys=True)
        return sha256_text(f"{settings}\n{sha256_file(self.folder / TENSORS)}")

    def check(self, shape: Shape) -> None:
        """Check that the adapter fits a model.

        Raises:
            UserError: Its factors have other shapes.
        """
        self._check_patterns(shape)
        for module, parts in self._parts.items():
            layer, _, kind = module.partition(".")
            if int(layer) >= shape.layers:
                raise self._error(f"it has layer {layer}, but its base has {shape.layers}. Name the right base")
            rank, (outputs, inputs) = self._rank(module), shape.linear(kind)
            for factor, expected in (("A", (rank, inputs)), ("B", (outputs, rank))):
                if (actual := self._file.shapes[parts[factor]]) != expected:
                    raise self._error(
                        f"{parts[factor]} has the shape {actual}, its base needs {expected}. Name the right base"
                    )

    def merge(self, name: str, weights: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the weights with the adapter's update, if it has one for them.

        Args:
            name: Of the tensor, in transformers.
            weights: In the layout of transformers (outputs, inputs).

        Raises:
            UserError: The update has values that are not numbers, or outweighs the weights.
        """
        module = name.removeprefix("model.layers.").removesuffix(".weight")
        if (parts := self._parts.get(module)) is None:
            return weights
        with np.errstate(over="ignore", invalid="ignore"):
            update = self._scale(module) * (self._file.read(parts["B"]) @ self._file.read(parts["A"]))
            merged: NDArray[np.float32] = weights + update.astype(np.float32)
            size = np.linalg.norm(update) / max(float(np.linalg.norm(weights)), 1e-12)
        if not np.isfinite(merged).all() or not size <= LARGEST_UPDATE:
            raise self._error(
                f"the update of layer {module} is {size:.3g} times as large as its weights. "
                "Check lora_alpha and r, or take an earlier checkpoint"
            )
        return merged

    def _scale(self, module: str) -> float:
        rank = self._rank(module)
        alpha = self._number("lora_alpha", self._pattern("alpha_pattern", module, self._config.get("lora_alpha")))
        return alpha / (math.sqrt(rank) if self._config.get("use_rslora") else rank)

    def _rank(self, module: str) -> int:
        rank = self._number("r", self._pattern("rank_pattern", module, self._config.get("r")))
        if rank != int(rank) or not 1 <= rank <= LARGEST_RANK:
            raise self._error(f"r is {rank}; it must be a whole number between 1 and {LARGEST_RANK}. Train it again")
        return int(rank)

    def _pattern(self, field: str, module: str, default: Any) -> Any:
        """Return the value of the first pattern that a module's name ends with."""
        for pattern, value in (self._config.get(field) or {}).items():
            if f".model.layers.{module}".endswith(f".{pattern}"):  # PEFT matches the end of the whole name
                return value
        return default

    def _check_patterns(self, shape: Shape) -> None:
        """Refuse a pattern that would change nothing: it is mistyped, or of another model."""
        modules = ["lm_head", *(name.removesuffix(".weight") for name in shape.tensors())]
        for field in ("rank_pattern", "alpha_pattern"):
            for pattern in self._config.get(field) or {}:
                if not any(f".{module}".endswith(f".{pattern}") for module in modules):
                    raise self._error(
                        f"{field} names {pattern[:100]!r}, which no module of its base has. Name the right base, or "
                        "remove it"
                    )

    def _number(self, field: str, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= _MOST:
            raise self._error(f"{field} is {value!r}; it must be a positive number. Train it again")
        return float(value)

    def _check_config(self) -> None:
        config = self._config
        if (kind := config.get("peft_type")) != "LORA":
            raise self._error(f"peft_type {kind!r} cannot be merged, only LORA. Save the merged model instead")
        special = {name: config[name] for name in _REFUSED if config.get(name)}
        if config.get("bias", "none") != "none":
            special["bias"] = config["bias"]
        if config.get("init_lora_weights") not in _INITIAL:
            special["init_lora_weights"] = config["init_lora_weights"]
        if special:
            raise self._error(f"{str(special)[:200]} cannot be merged here. Save the merged model instead")
        for field in ("rank_pattern", "alpha_pattern"):
            patterns = config.get(field) or {}
            if not isinstance(patterns, dict) or not all(_PLAIN.fullmatch(pattern) for pattern in patterns):
                raise self._error(
                    f"{field} must name modules without regular expressions. Save the merged model instead"
                )
        self._scale("")
        self._rank("")

    def _check_complete(self) -> None:
        """Refuse a file without a part that the configuration lists: a copy may have lost it."""
        modules, layers = self._config.get("target_modules"), self._config.get("layers_to_transform")
        if not self._parts:
            raise self._error("it has no tensors. Save or copy it again")
        if not isinstance(modules, list):
            return
        present = {tuple(module.split(".", 1)) for module in self._parts}
        layers = [layers] if isinstance(layers, int) else layers or sorted({int(layer) for layer, _ in present})
        if not isinstance(layers, list) or not all(isinstance(layer, int) for layer in layers):
            raise self._error("layers_to_transform must be a list of numbers. Save or copy it again")
        for layer in layers:
            for module in modules:
                if not any(number == str(layer) and kind.endswith(str(module)) for number, kind in present):
                    raise self._error(f"layer {layer} has no {module}, which it lists. Save or copy the adapter again")

    def _error(self, problem: str) -> UserError:
        return UserError(f"Adapter {str(self.folder)!r}: {problem}.")
