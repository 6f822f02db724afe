"""The storage of a study."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from experiments.pipeline.tuning.config import DATABASE, QUICK_JOURNAL, TuneConfig
from signatures.common.errors import UserError, with_causes
from signatures.common.files import exclusive_lock, refuse_links


@contextlib.contextmanager
def opened_storage(out: Path, config: TuneConfig, *, resume: bool, overwrite: bool) -> Iterator[tuple[Any, bool]]:
    """Open the storage; yield it, and whether no other process can work on the study: so it is with that in `out`.

    Raises:
        UserError: It cannot be opened, another process has it, or its file cannot be written to any more.
    """
    from optimizers.tuning.storages import QUICK, open_storage

    out.mkdir(parents=True, exist_ok=True)
    refuse_links(out)
    if config.storage is not None:
        with _full_disk_told():
            yield open_storage(config.storage, heartbeat=config.heartbeat, grace=config.grace), False
        return
    database = out / (DATABASE if config.replay is None else QUICK_JOURNAL)
    busy = f"Another process tunes in {out}: wait for it, or let both name one storage, which they then share."
    with exclusive_lock(out / f".{DATABASE}.lock", busy):
        if overwrite:
            for name in (DATABASE, QUICK_JOURNAL):
                (out / name).unlink(missing_ok=True)
        elif any((out / name).exists() for name in (DATABASE, QUICK_JOURNAL)) and not resume:
            raise UserError(f"{out} contains a study already: resume it, overwrite it, or choose another folder.")
        if config.replay is not None:
            yield open_storage(f"{QUICK}{database}"), True
            return
        with _full_disk_told():
            yield open_storage(str(database), heartbeat=config.heartbeat, grace=config.grace), True


@contextlib.contextmanager
def _full_disk_told() -> Iterator[None]:
    """Raise UserError where SQLite can write no more, whatever Optuna makes of it."""
    import sqlite3

    try:
        yield
    except UserError:
        raise
    except Exception as error:
        for cause in with_causes(error):
            if isinstance(cause, sqlite3.OperationalError) and "disk" in str(cause):
                raise UserError(f"The study cannot be written ({cause}): free some space, then resume it.") from error
        raise


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
