"""The description of a finished training run: `training.json`."""

import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ujson

from optimizers.distill.training.checkpoints import BEST
from programs.lms.weights.choice import DESCRIPTION
from signatures.common.errors import UserError, unknown
from signatures.common.files import atomic_write, sha256_file
from signatures.common.versions import installed_version

NONE_HELD_BACK = "no example is held back for validation. Make or mix the examples with a share held back."
_PACKAGES = ("torch", "transformers", "peft", "safetensors")


def describe(training: Any, about: dict[str, Any]) -> dict[str, Any]:
    """Return what was trained, with what, for how long, and what was measured."""
    student = training.student
    return {
        "base": student.base.name,
        "base_sha256": student.base.sha256,
        "data_sha256": training.data.sha256,
        "examples": training.data.counts(),
        "sources": training.data.sources,
        "left_out": training.data.left_out,
        "resume_adapter_sha256": student.resumed_sha256,
        "settings": training.settings.as_dict(),
        "device": student.device.name,
        "bfloat16": student.device.bfloat16,
        "packed": student.packs,
        "weights": sum(weight.numel() for weight in student.weights.values()),
        "steps": training.step,
        "planned_steps": training.total,  # more if the time was over before; None if only it ends the run
        "skipped": training.skips.total,
        "tokens": training.tokens,
        "hours": training.seconds() / 3600,
        "evaluated": training.evaluated,
        "validation": training.measured,
        "files": {path.name: sha256_file(path) for path in sorted(training.folder.glob("*.safetensors"))},
        "versions": {"python": platform.python_version(), **{name: installed_version(name) for name in _PACKAGES}},
        **({"best": best(training.measured, keep)} if (keep := training.settings.keep_best) else {}),
        **about,
    }


def best(measured: Sequence[dict[str, Any]], name: str) -> dict[str, Any]:
    """Return the step with the best value of a metric, the latest of equals, with that value and its folder.

    Args:
        measured: Step, losses and metrics of each measurement.
        name: A metric, of which the highest is the best, or "loss", of which the lowest is.

    Raises:
        UserError: There is no such metric, or nothing was measured.
    """
    values = []
    for one in measured:
        there = {**one["metrics"], **({"loss": -one["losses"]["all"]} if "all" in one["losses"] else {})}
        if not there:
            raise UserError(f"Nothing is measured to keep the best weights by {name!r}: {NONE_HELD_BACK}")
        if name not in there:
            raise unknown("metric", name, there)
        values.append((there[name], one["step"]))
    value, step = max(values)
    return {"step": step, "metric": name, "value": -value if name == "loss" else value, "folder": BEST}


def write(folder: Path, description: dict[str, Any]) -> None:
    """Write the description of a finished run."""
    with atomic_write(folder / DESCRIPTION) as file:
        file.write(ujson.dumps(description, indent=2, ensure_ascii=False, escape_forward_slashes=False) + "\n")
