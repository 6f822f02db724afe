"""The log of a training run, `training.jsonl`: one line per step."""

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import IO

import ujson

from signatures.common.errors import UserError
from signatures.common.files import atomic_write

LOG = "training.jsonl"
_BEGINNING = '{"step":'


@dataclass(frozen=True)
class TrainingStep:
    """One finished step.

    Args:
        step: Its number, from 1.
        loss: Mean of the batch, weighed as the settings say; None if it was not a number, and the step was skipped.
        learning_rate: That it used.
        tokens: Computed in it.
        seconds: Training time up to its end, all sessions together.
        progress: Share of the run that is done, in [0, 1].
        gradient: Length of the gradient, before it was clipped; None if the step was skipped.
    """

    step: int
    loss: float | None
    learning_rate: float
    tokens: int
    seconds: float
    progress: float
    gradient: float | None


def write_step(log: IO[str], step: TrainingStep) -> None:
    """Append a step."""
    log.write(ujson.dumps(asdict(step)) + "\n")
    log.flush()


def is_log(path: Path) -> bool:
    """Return whether a file holds nothing but steps; a kill may have cut the last one."""
    names = {field.name for field in fields(TrainingStep)}
    try:
        with open(path, encoding="utf-8") as file:
            return all(_is_step(line, names) for line in file)
    except (OSError, ValueError):  # a folder; not UTF-8
        return False


def _is_step(line: str, names: set[str]) -> bool:
    try:
        step = ujson.loads(line)
    except ValueError:
        return line.startswith(_BEGINNING) and not line.endswith("\n")
    return isinstance(step, dict) and step.keys() == names


def cut_log(folder: Path, last: int) -> None:
    """Drop the lines of steps that were taken after the step `last`, and lines that a kill cut."""
    path = folder / LOG
    if not path.exists():
        return
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}): remove it, and resume again.") from None
    kept = [line for line in lines if _number(line) <= last]
    with atomic_write(path) as file:
        file.write("".join(f"{line}\n" for line in kept))


def _number(line: str) -> float:
    try:
        return float(ujson.loads(line)["step"])
    except (ValueError, KeyError, TypeError):
        return float("inf")
