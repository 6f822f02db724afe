"""Checkpoints: weights, optimizer state and place in the data, written completely or not at all."""

import shutil
import tempfile
from pathlib import Path
from typing import Any

import ujson

from optimizers.distill.training.lm.student import Student
from signatures.common.errors import UserError, one_line
from signatures.common.files import atomic_write, remove_temporaries

FOLDER, MEASURED = "checkpoint", ".measured-"
_WEIGHTS, _OPTIMIZER, _STATE = "weights.safetensors", "optimizer.safetensors", "state.json"


def write_checkpoint(run: Path, student: Student, optimizer: Any, state: dict[str, Any]) -> None:
    """Replace the run's checkpoint.

    Args:
        run: Output folder of the run.
        student: Its trainable weights are written.
        optimizer: AdamW.
        state: Step, times, hashes, settings: JSON.
    """
    from safetensors.torch import save

    run.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=run, prefix=".checkpoint-") as name:
        new = Path(name) / FOLDER
        new.mkdir()
        student.write_weights(new / _WEIGHTS)
        tensors = {
            f"{weight}/{entry}": value.detach().cpu().contiguous()
            for weight, parameter in student.weights.items()
            for entry, value in optimizer.state.get(parameter, {}).items()
        }
        with atomic_write(new / _OPTIMIZER, "wb") as file:
            file.write(save(tensors))
        with atomic_write(new / _STATE) as file:
            file.write(ujson.dumps(state, indent=2) + "\n")
        old = run / f"{FOLDER}-{state['step']:07d}"
        if old.exists():  # of the same step, so just as good
            return
        new.rename(old)
    for folder in _all(run)[:-1]:
        shutil.rmtree(folder, ignore_errors=True)


def _all(run: Path) -> list[Path]:
    return sorted(folder for folder in run.glob(f"{FOLDER}-*") if (folder / _STATE).is_file())


def newest(run: Path) -> Path | None:
    """Return the folder of the last complete checkpoint; None if there is none."""
    return max(_all(run), default=None)


def read_state(checkpoint: Path) -> dict[str, Any]:
    """Return the state of a checkpoint.

    Raises:
        UserError: It is damaged.
    """
    try:
        state = ujson.loads((checkpoint / _STATE).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{str(checkpoint)!r} is damaged ({one_line(error)}). Start the training anew.") from error
    return dict(state)


def restore(checkpoint: Path, student: Student, optimizer: Any) -> None:
    """Read weights and optimizer state of a checkpoint.

    Raises:
        UserError: It is damaged.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        student.read_weights(checkpoint / _WEIGHTS)
        tensors = load_file(checkpoint / _OPTIMIZER)
    except (OSError, KeyError, RuntimeError, SafetensorError) as error:
        raise UserError(f"{str(checkpoint)!r} is damaged ({one_line(error)}). Start the training anew.") from error
    names = list(student.weights)
    states: dict[int, dict[str, Any]] = {}
    for name, value in tensors.items():
        weight, _, entry = name.rpartition("/")
        states.setdefault(names.index(weight), {})[entry] = value
    optimizer.load_state_dict({"state": states, "param_groups": optimizer.state_dict()["param_groups"]})


def remove_leftovers(run: Path) -> None:
    """Delete what a killed process left half-written; the caller must have the lock of the run."""
    for folder in [*run.glob(".checkpoint-*"), *run.glob(f"{MEASURED}*")]:
        shutil.rmtree(folder, ignore_errors=True)
    remove_temporaries(run)


def remove_checkpoints(run: Path) -> None:
    """Delete the checkpoints of a finished run."""
    for folder in _all(run):
        shutil.rmtree(folder, ignore_errors=True)
