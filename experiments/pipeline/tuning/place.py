"""The storage of a study."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from experiments.pipeline.tuning.config import DATABASE, TuneConfig
from signatures.common.errors import UserError
from signatures.common.files import exclusive_lock


@contextlib.contextmanager
def opened_storage(out: Path, config: TuneConfig, *, resume: bool, overwrite: bool) -> Iterator[tuple[Any, bool]]:
    """Open the storage; yield it, and whether no other process can work on the study: so it is with that in `out`."""
    from optimizers.tuning.storages import open_storage

    out.mkdir(parents=True, exist_ok=True)
    if config.storage is not None:
        yield open_storage(config.storage, heartbeat=config.heartbeat, grace=config.grace), False
        return
    database = out / DATABASE
    busy = f"Another process tunes in {out}: wait for it, or let both name one storage, which they then share."
    with exclusive_lock(out / f".{DATABASE}.lock", busy):
        if overwrite:
            database.unlink(missing_ok=True)
        elif database.exists() and not resume:
            raise UserError(f"{out} contains a study already: resume it, overwrite it, or choose another folder.")
        yield open_storage(str(database), heartbeat=config.heartbeat, grace=config.grace), True


@contextlib.contextmanager
def quiet_optuna() -> Iterator[None]:
    """Silence Optuna's log of every trial: progress is shown, and failures are raised."""
    import optuna

    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)
