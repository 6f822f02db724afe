"""Low-rank adapters of encoders: updates of their linear maps, in one safetensors file, merged without torch.

Hu et al., "LoRA", ICLR 2022, section 4.1 (https://arxiv.org/abs/2106.09685). Each adapted map has the tensors
`<map>.lora_A.weight` (rank, inputs) and `<map>.lora_B.weight` (outputs, rank); its weights become W + factor * B A. The
key `verihop` of the file's metadata is JSON with the `factor` and the `base` (weights hash of the model it was trained
on).
"""

import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from signatures.common.errors import UserError, one_line
from signatures.common.files import atomic_write, sha256_file
from signatures.common.strict_json import parse_strict_json

ABOUT = "verihop"  # key of the metadata
_A, _B = ".lora_A.weight", ".lora_B.weight"

Weights = Mapping[str, NDArray[np.float32]]


class LowRank:
    """The adapter in a file, which is read at the first use of its tensors.

    Args:
        path: A safetensors file.

    Raises:
        UserError: It is missing or damaged, or says no `factor` and `base`.
    """

    def __init__(self, path: Path):
        self.path = path
        about = self._about()
        factor, base = about.get("factor"), about.get("base")
        if type(factor) is not float or not 0 < factor < 100 or not isinstance(base, str) or not base:
            raise self._damaged("its metadata state no factor and base")
        self.factor, self.base = factor, base

    @functools.cached_property
    def hash(self) -> str:
        """SHA-256 of the file."""
        return sha256_file(self.path)

    def merged(self, weights: Weights) -> dict[str, NDArray[np.float32]]:
        """Return the weights of a model with the updates.

        Args:
            weights: By name, as transformers names them; those of linear maps have the shape (outputs, inputs).

        Raises:
            UserError: A factor is missing, fits no map, or has values that are not numbers.
        """
        tensors = self._tensors()
        found, used = dict(weights), set()
        for name in sorted(tensors):
            if not name.endswith(_A):
                continue
            module, other = name.removesuffix(_A), name.removesuffix(_A) + _B
            before = found.get(f"{module}.weight")
            if before is None or other not in tensors:
                raise self._damaged(f"{name} belongs to no linear map of the model, or has no second factor")
            a, b = (tensors[each].astype(np.float32) for each in (name, other))
            if a.ndim != 2 or b.ndim != 2 or (b.shape[0], a.shape[1]) != before.shape or b.shape[1] != a.shape[0]:
                raise self._damaged(f"{module} has factors of the shapes {a.shape} and {b.shape}")
            with np.errstate(over="ignore", invalid="ignore"):
                found[f"{module}.weight"] = np.asarray(before + np.float32(self.factor) * (b @ a), dtype=np.float32)
            if not np.isfinite(found[f"{module}.weight"]).all():
                raise self._damaged(f"{module} has values that are not numbers")
            used |= {name, other}
        if not used or used != tensors.keys():
            raise self._damaged("it has tensors that are not pairs of factors, or none")
        return found

    def _about(self) -> dict[str, Any]:
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(self.path, framework="numpy") as file:
                about = parse_strict_json((file.metadata() or {}).get(ABOUT, "{}").encode())
        except (OSError, ValueError, SafetensorError) as error:
            raise self._damaged(one_line(str(error), 200)) from error
        return about if isinstance(about, dict) else {}

    def _tensors(self) -> dict[str, NDArray[np.floating[Any]]]:
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        try:
            return dict(load_file(self.path))
        except (OSError, ValueError, SafetensorError) as error:
            raise self._damaged(one_line(str(error), 200)) from error

    def _damaged(self, why: str) -> UserError:
        return UserError(f"The adapter {self.path} cannot be used ({why}): reinstall verihop, or train it again.")


def save(path: Path, tensors: Weights, **about: object) -> None:
    """Write an adapter, complete or not at all.

    Args:
        path: Of the file.
        tensors: The factors, by name.
        about: What its metadata say: `factor`, `base`, and whatever describes the training.
    """
    from safetensors.numpy import save as dump

    with atomic_write(path, "wb") as file:
        file.write(dump(dict(tensors), metadata={ABOUT: json.dumps(about, sort_keys=True)}))
