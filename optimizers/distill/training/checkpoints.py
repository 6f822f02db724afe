"""Checkpoints: weights, optimizer state and place in the data, written completely or not at all."""

import shutil
import tempfile
from pathlib import Path
from typing import Annotated, Any

import ujson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from optimizers.distill.training.lm.student import SAVED, SAVING, Student
from optimizers.distill.training.log import LOG, is_log
from signatures.common.errors import UserError, first_problem, one_line
from signatures.common.files import atomic_write
from signatures.common.work import difference, new_folder

FOLDER, MEASURED, BEST = "checkpoint", ".measured-", "best"
_WEIGHTS, _OPTIMIZER, _STATE = "weights.safetensors", "optimizer.safetensors", "state.json"
_OLD = "old"
_Count = Annotated[int, Field(ge=0)]
_FOREIGN = ("*.safetensors", "*.bin", "*.gguf", "adapter_config.json")


class _Record(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True)


class _Measured(_Record):
    step: _Count
    losses: dict[str, float | None]
    metrics: dict[str, float]


class _State(_Record):
    step: _Count
    tokens: _Count
    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    measured: list[_Measured]
    data: str
    base: str
    settings: dict[str, Any]
    evaluated: dict[str, Any] = {}
    skipped: _Count = 0


def write_checkpoint(run: Path, student: Student, optimizer: Any, state: dict[str, Any]) -> None:
    """Replace the run's checkpoint."""
    from safetensors.torch import save

    place = run / f"{FOLDER}-{state['step']:07d}"
    if place.exists():  # of the same step, so with the same weights, but more may have been measured
        _write_state(place, state)
        return
    with new_folder(place, ".checkpoint-") as new:
        new.mkdir()
        student.write_weights(new / _WEIGHTS)
        tensors = {
            f"{weight}/{entry}": value.detach().cpu().contiguous()
            for weight, parameter in student.weights.items()
            for entry, value in optimizer.state.get(parameter, {}).items()
        }
        with atomic_write(new / _OPTIMIZER, "wb") as file:
            file.write(save(tensors))
        _write_state(new, state)
    for folder in _all(run)[:-1]:
        shutil.rmtree(folder, ignore_errors=True)


def _write_state(folder: Path, state: dict[str, Any]) -> None:
    with atomic_write(folder / _STATE) as file:
        file.write(ujson.dumps(state, indent=2) + "\n")


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
        _State.model_validate(state)
    except ValidationError as error:
        raise _damaged(checkpoint, f"{_STATE}: {first_problem(error)}") from error
    except (OSError, ValueError) as error:
        raise _damaged(checkpoint, error) from error
    return dict(state)


def check_unchanged(state: dict[str, Any], run: dict[str, Any]) -> None:
    """Check that a checkpoint is of a run.

    Args:
        state: Of the checkpoint.
        run: State of the run that is to continue from it.

    Raises:
        UserError: Its data, base, settings or measurements are others.
    """
    if state["data"] != run["data"]:
        raise UserError("The examples have changed since the checkpoint was written. Start a new run.")
    if state["base"] != run["base"]:
        raise UserError("The base LM's weights have changed since the checkpoint was written. Start a new run.")
    measured = state.get("evaluated", {})  # states of before do not say what was measured
    before = {**state["settings"], **measured}
    now = {**run["settings"], **(run["evaluated"] if "evaluated" in state else {})}
    if differs := difference({name: before.get(name) for name in (*now, *measured)}, now):
        raise UserError(
            f"The checkpoint was written with {differs.field} = {differs.stored}, not {differs.asked}. Resume with the "
            "same settings, or start a new run."
        )


def restore_weights(checkpoint: Path, student: Student) -> None:
    """Read the weights of a checkpoint.

    Raises:
        UserError: They are damaged.
    """
    from safetensors import SafetensorError

    try:
        student.read_weights(checkpoint / _WEIGHTS)
    except (OSError, KeyError, ValueError, RuntimeError, SafetensorError) as error:
        raise _damaged(checkpoint, error) from error


def _damaged(checkpoint: Path, error: Exception | str) -> UserError:
    return UserError(f"{str(checkpoint)!r} is damaged ({one_line(error)}). Restart the training.")


def restore(checkpoint: Path, student: Student, optimizer: Any) -> None:
    """Read weights and optimizer state of a checkpoint.

    Raises:
        UserError: It is damaged.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    restore_weights(checkpoint, student)
    names = list(student.weights)
    states: dict[int, dict[str, Any]] = {}
    try:
        for name, value in load_file(checkpoint / _OPTIMIZER).items():
            weight, _, entry = name.rpartition("/")
            states.setdefault(names.index(weight), {})[entry] = value
        for number, state in states.items():
            size = tuple(student.weights[names[number]].shape)
            shapes = {entry: tuple(value.shape) for entry, value in state.items()}
            if shapes != {"step": (), "exp_avg": size, "exp_avg_sq": size}:
                raise ValueError(f"the optimizer's state of {names[number]} is of another shape")
    except (OSError, ValueError, SafetensorError) as error:
        raise _damaged(checkpoint, error) from error
    optimizer.load_state_dict({"state": states, "param_groups": optimizer.state_dict()["param_groups"]})


def replace_best(run: Path, student: Student) -> None:
    """Write the weights into the folder `best`: those of before stay there until all files are written."""
    with tempfile.TemporaryDirectory(dir=run, prefix=MEASURED) as name:
        new, old = Path(name) / BEST, Path(name) / _OLD
        student.save(new)
        if (run / BEST).exists():
            (run / BEST).rename(old)
        new.rename(run / BEST)


def remove_leftovers(run: Path) -> None:
    """Delete what a killed process left half-written; the caller must have the lock of the run."""
    for folder in run.glob(f"{MEASURED}*"):
        if (folder / _OLD).exists() and not (run / BEST).exists():  # killed between the two renames
            (folder / BEST).rename(run / BEST)
    for folder in [path for kind in (".checkpoint-", MEASURED, SAVING) for path in run.glob(f"{kind}*")]:
        shutil.rmtree(folder, ignore_errors=True)


def check_no_weights(run: Path) -> None:
    """Check that a folder without checkpoint or description has no weights, which a run would replace.

    Raises:
        UserError: It has an adapter or an LM, such as one that was downloaded.
    """
    if there := sorted(path.name for kind in _FOREIGN for path in run.glob(kind)):
        raise UserError(
            f"{str(run)!r} holds {there[0]}, which no run described there has written. Choose another folder."
        )


def remove_unstarted(run: Path) -> None:
    """Delete the files of a run that ended before its first checkpoint.

    Raises:
        UserError: There are files of these names that no run has written; nothing is deleted.
    """
    log, best = run / LOG, run / BEST
    foreign = [] if is_log(log) or not log.exists() else [log]
    if best.is_dir() and log.exists():
        own = {path for kind in SAVED for path in best.glob(kind) if path.is_file()}
        foreign += sorted(set(best.iterdir()) - own)
    elif best.exists():
        foreign.append(best)
    if foreign:
        name = foreign[0].relative_to(run).as_posix()
        raise UserError(f"{str(run)!r} holds {name!r}, which no run has written. Choose another folder.")
    if log.exists():
        shutil.rmtree(best, ignore_errors=True)
        log.unlink()


def remove_checkpoints(run: Path) -> None:
    """Delete the checkpoints of a finished run."""
    for folder in _all(run):
        shutil.rmtree(folder, ignore_errors=True)
