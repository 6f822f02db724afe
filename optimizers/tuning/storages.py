"""Where a study is kept: an SQLite file, a journal file on a shared disk, or a PostgreSQL database.

All of them notice a trial whose process was killed: a running trial gives a sign of life every few seconds, and one
that has given none for long is declared failed and queued again. For databases Optuna does both; for a journal, whose
storage class of Optuna has no such signs, a file beside it is touched.

Optuna's journal backend reads a half-written last line as damage, and appends to it, so that the study could never be
opened again. Here such a line is cut off: whoever wrote it has died, since nobody else writes while the lock is held.
"""

import contextlib
import json
import os
import re
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import optuna
from optuna.exceptions import ExperimentalWarning
from optuna.storages import BaseStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock
from optuna.trial import FrozenTrial, TrialState

from optimizers.tuning.checks import check_database
from optimizers.tuning.defaults import GRACE_SECONDS, HEARTBEAT_SECONDS
from optimizers.tuning.objective import BASELINE, SURPLUS
from optimizers.tuning.optuna_private import SIGNS, TRIALS, Heartbeat, fail_waiting, trial_id
from signatures.common.errors import UserError, one_line

_START = b'{"op_code":'  # of every record of Optuna's journals


class Journal(JournalFileBackend):
    """A journal that several processes write."""

    def __init__(self, path: str):
        # A lock file that is created exclusively works on NFS from version 3 on, and where there are no symbolic links.
        self._path, self._writing = path, JournalFileOpenLock(path)
        super().__init__(path, lock_obj=self._writing)
        with self._locked():
            cut_unfinished(path)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        self._writing.acquire()
        try:
            yield
        finally:
            self._writing.release()

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Write records, and wait until they are on the disk."""
        with self._locked():
            cut_unfinished(self._path)
            with open(self._path, "ab") as file:
                file.write(_lines(logs))
                file.flush()
                os.fsync(file.fileno())


class QuickJournal(JournalFileBackend):
    """A journal of one process, without lock and without waiting for the disk."""

    def __init__(self, path: str):
        super().__init__(path)
        self._path = path
        cut_unfinished(path)

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Write records."""
        with open(self._path, "ab") as file:
            file.write(_lines(logs))


def cut_unfinished(path: str | Path) -> None:
    """Cut off a last line without an end, unless the file is no journal: then it is left as it is."""
    with open(path, "r+b") as file:
        start = file.read(len(_START))
        if start != _START:
            return
        file.seek(-1, os.SEEK_END)
        if file.read(1) != b"\n":
            file.seek(0)
            file.truncate(file.read().rfind(b"\n") + 1)


def _lines(logs: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(log, separators=(",", ":")) + "\n" for log in logs).encode()


JOURNAL, QUICK = "journal:", "quick:"
_POSTGRES = re.compile(r"^postgres(?:ql)?(?:\+\w+)?://")
MOST_RETRIES = 3  # of a trial whose process dies: the trial may be what kills it
StaleCallback = Callable[[optuna.Study, FrozenTrial], None]
_FIRST, _HISTORY = "failed_trial", "retry_history"  # system attributes, named as Optuna's
_DEATHS = "process_deaths"  # likewise, ours


def queue_again(study: optuna.Study, trial: FrozenTrial, *, died: bool = True) -> None:
    """Queue a failed trial again, with its values, unless its process has died more than `MOST_RETRIES` times.

    Optuna's own callback for this also copies what the trial had found and spent, which would then count twice. The
    system attributes are those that it sets, so that its functions and the dashboard know the trial for a repetition.

    Args:
        study: Of the trial.
        trial: Failed.
        died: Whether its process died, perhaps by this trial; not if Ctrl-C, a spent budget or an error ended it.
    """
    history = [*trial.system_attrs.get(_HISTORY, []), trial.number]
    deaths = int(trial.system_attrs.get(_DEATHS, 0)) + died
    if deaths > MOST_RETRIES:
        return
    kept = {name: value for name, value in trial.system_attrs.items() if not name.startswith("constraints")}
    study.add_trial(
        optuna.create_trial(
            state=TrialState.WAITING,
            params=trial.params,
            distributions=trial.distributions,
            user_attrs={name: value for name, value in trial.user_attrs.items() if name == BASELINE},
            system_attrs={_FIRST: trial.number, **kept, _HISTORY: history, _DEATHS: deaths},
        )
    )
    _keep_one(study, history)


def not_queued(trials: Sequence[FrozenTrial]) -> set[int]:
    """Return the numbers of failed trials that `queue_again` would repeat and that nobody has queued yet."""
    queued = {trial.system_attrs[_HISTORY][-1] for trial in trials if trial.system_attrs.get(_HISTORY)}
    return {
        trial.number
        for trial in trials
        if trial.state == TrialState.FAIL
        and trial.number not in queued
        and not trial.user_attrs.get(SURPLUS)
        and int(trial.system_attrs.get(_DEATHS, 0)) < MOST_RETRIES
    }


def _keep_one(study: optuna.Study, history: list[int]) -> None:
    """Drop repetitions of one trial but the first: SQLite lets two processes declare the same trial failed at once."""
    waiting = study.get_trials(deepcopy=False)
    same = [trial for trial in waiting if trial.system_attrs.get(_HISTORY) == history]
    for trial in same[1:]:
        if trial.state == TrialState.WAITING:
            with contextlib.suppress(optuna.exceptions.UpdateFinishedTrialError):  # another process was faster
                fail_waiting(study, trial, SURPLUS)


@contextlib.contextmanager
def _no_experimental_warning() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        yield


def fail_stale(study: optuna.Study) -> None:
    """Declare the trials of killed processes failed, and queue them again."""
    with _no_experimental_warning():
        optuna.storages.fail_stale_trials(study)


def open_storage(place: str, *, heartbeat: int = HEARTBEAT_SECONDS, grace: int = GRACE_SECONDS) -> BaseStorage:
    """Open a storage.

    Args:
        place: "journal:FILE", "postgresql://...", "sqlite:///FILE", or the path of an SQLite file. "quick:FILE" is a
            journal of one process, for trials that take milliseconds: they give no signs of life, and the last ones may
            be lost if the machine fails.
        heartbeat: Seconds between two signs of life of a running trial.
        grace: Seconds without one after which its process is taken for dead.

    Raises:
        UserError: The database cannot be reached, its driver is missing, or the file is not that of a study.
    """
    if place.startswith(QUICK):
        return _open_journal(Path(place.removeprefix(QUICK)), heartbeat=0, grace=0)
    if place.startswith(JOURNAL):
        return _open_journal(Path(place.removeprefix(JOURNAL)), heartbeat=heartbeat, grace=grace)
    url = database_url(place)
    if url.startswith("sqlite:///"):
        Path(url.removeprefix("sqlite:///")).parent.mkdir(parents=True, exist_ok=True)
    try:
        with _no_experimental_warning():
            storage = DatabaseWithHeartbeat(
                url,
                heartbeat_interval=heartbeat,
                grace_period=grace,
                heartbeat_stale_trial_callback=queue_again,
                engine_kwargs={} if url.startswith("sqlite") else {"pool_pre_ping": True},
            )
        if url.startswith("sqlite"):
            check_database(storage)
        return storage
    except ImportError:
        raise UserError("PostgreSQL needs its driver: pip install 'verihop[tune]' (package psycopg).") from None
    except Exception as error:  # noqa: BLE001 - SQLAlchemy and its drivers have many
        raise UserError(f"The storage {without_password(place)} cannot be opened: {_reason(error, place)}") from None


def database_url(place: str) -> str:
    """Return the URL that SQLAlchemy takes, with the driver that we install for PostgreSQL.

    Raises:
        UserError: Another kind of database.
    """
    if found := _POSTGRES.match(place):
        return f"postgresql+psycopg://{place[found.end() :]}"
    if place.startswith("sqlite:///"):
        return place
    if "://" in place:
        raise UserError(
            f"A study is kept in an SQLite file, a journal (journal:FILE) or a PostgreSQL database "
            f"(postgresql://USER@HOST/DATABASE), not in {without_password(place)!r}."
        )
    return f"sqlite:///{Path(place).absolute()}"


def without_password(place: str) -> str:
    """Return a URL without the password in it, and any other place unchanged."""
    hidden = re.sub(r"(://[^/:@?#]*):.*@", r"\1@", place)
    return re.sub(r"([?&]password=)[^&]*", r"\1...", hidden)


def _reason(error: Exception, place: str) -> str:
    """Return why a database cannot be opened, on one line, without what might be a password in it."""
    text = one_line(getattr(error, "orig", None) or error, 300)
    secrets = {*re.findall(r"://[^/:@?#]*:(.*)@", place), *re.findall(r"[?&]password=([^&]*)", place)}
    for secret in secrets - {""}:
        text = text.replace(secret, "...")
    cure = "Check address, user and rights; a password is best kept in PGPASSWORD or ~/.pgpass."
    if not _POSTGRES.match(place):
        cure = "Free some space, or choose another folder or file."
    return f"{text.rstrip('.')}. {cure}"


def _open_journal(path: Path, *, heartbeat: int, grace: int) -> JournalStorage:
    """Open a journal; without `heartbeat` one of a single process."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        if not heartbeat:
            return JournalStorage(QuickJournal(str(path)))
        alive = path.with_name(f"{path.name}.alive")
        return JournalWithHeartbeat(Journal(str(path)), alive, heartbeat=heartbeat, grace=grace)
    except OSError as error:
        raise UserError(f"The journal {path} cannot be opened: {_reason(error, str(path))}") from None
    except Exception as error:  # noqa: BLE001 - whatever Optuna makes of the lines
        raise UserError(f"{path} is not the journal of a study ({one_line(error)}): name another file.") from None


class _WithoutHeartbeat:
    """Trials that run without any sign of life: their process may have been killed just before the first one."""

    def __init__(self, grace: float):
        self._grace = grace
        self._seen: dict[int, float] = {}

    def stale(self, trial_ids: Iterable[int]) -> list[int]:
        """Return those of the trials that were passed for longer than the grace period, by this machine's clock."""
        now = time.monotonic()
        self._seen = {trial_id: self._seen.get(trial_id, now) for trial_id in trial_ids}
        return [trial_id for trial_id, since in self._seen.items() if now - since > self._grace]


class DatabaseWithHeartbeat(Heartbeat, RDBStorage):
    """Optuna's storage, which also notices trials that were killed before their first sign of life."""

    def __init__(self, url: str, *, heartbeat_interval: int, grace_period: int, **settings: Any):
        super().__init__(url, heartbeat_interval=heartbeat_interval, grace_period=grace_period, **settings)
        self._without_heartbeat = _WithoutHeartbeat(grace_period)

    def stale_trials(self, study_id: int) -> list[int]:
        """Return the ids of trials that were killed."""
        from sqlalchemy import select

        silent = (
            select(TRIALS.trial_id)
            .outerjoin(SIGNS, SIGNS.trial_id == TRIALS.trial_id)
            .where(TRIALS.study_id == study_id, TRIALS.state == TrialState.RUNNING, SIGNS.trial_id.is_(None))
        )
        with self.engine.connect() as connection:
            unborn = [int(row[0]) for row in connection.execute(silent)]
        return [*super().stale_trials(study_id), *self._without_heartbeat.stale(unborn)]


class JournalWithHeartbeat(Heartbeat, JournalStorage):
    """A journal whose running trials touch their own file, so that those of killed processes are noticed.

    Ages are compared with a file touched just now, so that the clocks of machine and file server may differ.

    Args:
        backend: The journal.
        folder: Where the files are; one per running trial.
        heartbeat: Seconds between two touches.
        grace: Seconds after which a trial is taken for dead.
    """

    def __init__(self, backend: JournalFileBackend, folder: Path, *, heartbeat: int, grace: int):
        super().__init__(backend)
        self._folder = folder
        self._interval = heartbeat
        self._grace = grace
        self._without_heartbeat = _WithoutHeartbeat(grace)

    def _file(self, trial_id: int) -> Path:
        return self._folder / str(trial_id)

    def record_heartbeat(self, trial_id: int) -> None:
        """Touch the trial's file."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._file(trial_id).touch()

    def stale_trials(self, study_id: int) -> list[int]:
        """Return the ids of trials that were killed."""
        running = self.get_all_trials(study_id, deepcopy=False, states=(TrialState.RUNNING,))
        limit = self._now() - self._grace if running else 0.0
        stale, silent = [], []
        for number in map(trial_id, running):
            try:
                if self._file(number).stat().st_mtime < limit:
                    stale.append(number)
            except FileNotFoundError:
                silent.append(number)
        return [*stale, *self._without_heartbeat.stale(silent)]

    def _now(self) -> float:
        self._folder.mkdir(parents=True, exist_ok=True)
        now = self._folder / f"now-{os.getpid()}-{threading.get_ident()}"
        now.touch()
        try:
            return now.stat().st_mtime
        finally:
            now.unlink(missing_ok=True)

    def get_heartbeat_interval(self) -> int | None:
        """Return the seconds between two touches."""
        return self._interval

    def get_heartbeat_stale_trial_callback(self) -> StaleCallback | None:
        """Return what is called for a trial that was declared failed."""
        return queue_again
