"""Where and in which precision is computed."""

from dataclasses import dataclass
from typing import Any

from signatures.common.errors import UserError, unknown


@dataclass(frozen=True)
class Device:
    """Device and precision.

    Args:
        name: "cpu", "cuda" or "mps".
        bfloat16: Whether matrices are multiplied in bfloat16; else in single precision.
    """

    name: str
    bfloat16: bool

    @property
    def precision(self) -> Any:
        """Return the dtype of matrix products."""
        import torch

        return torch.bfloat16 if self.bfloat16 else torch.float32


def choose_device(name: str = "auto", precision: str = "auto") -> Device:
    """Return the device by name; "auto" is the first of cuda, mps and cpu that is there.

    Args:
        name: "auto", "cuda", "mps" or "cpu".
        precision: "auto", "bfloat16" or "float32".

    Raises:
        UserError: There is no such device.
    """
    import torch

    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if name == "auto":
        name = next(device for device, present in there.items() if present)
    if name not in there:
        raise unknown("device", name, ["auto", *there])
    if not there[name]:
        raise UserError(f"There is no {name} device here. Choose auto or cpu.")
    if precision != "auto":
        return Device(name, precision == "bfloat16")
    if name == "cuda":
        return Device(name, torch.cuda.is_bf16_supported())
    if name != "cpu" or not torch.backends.mkldnn.is_available():
        return Device(name, False)
    # Without instructions for it (AVX-512 BF16, AMX, Arm BF16), bfloat16 is slower than single precision.
    return Device(name, bool(torch.ops.mkldnn._is_mkldnn_bf16_supported()) and _fast_bfloat16())


def _fast_bfloat16() -> bool:
    import platform

    import torch

    if platform.machine().lower() in ("x86_64", "amd64"):
        capable = getattr(torch.cpu, "_is_avx512_bf16_supported", None)
        amx = getattr(torch.cpu, "_is_amx_tile_supported", None)
        return bool((capable and capable()) or (amx and amx()))
    return True
