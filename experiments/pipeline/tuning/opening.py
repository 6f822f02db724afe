"""Open a study: create it, go on with it, or join the processes that work on it."""

import contextlib
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict

from experiments.pipeline.tuning.candidates import Prepared
from experiments.pipeline.tuning.config import DATABASE, QUICK_JOURNAL, TuneConfig
from optimizers.replay.replaying import ReplayEvaluator
from optimizers.tuning.objective import Goal
from optimizers.tuning.prompts import read_prompts
from programs.parts.gates import replayable_knobs
from programs.parts.knobs import knobs_of
from programs.parts.threads import daemon
from signatures.common.costs import Costs
from signatures.common.errors import UserError, undone_by_error, with_causes
from signatures.common.files import refuse_links
from signatures.common.work import difference, locked_folder

if TYPE_CHECKING:
    import dspy
    import optuna

    from corpora.questions import Question
    from programs.lms.connect import Connection


REQUEST, QUESTIONS, PREPARED, READY, PREPARING = "request", "questions", "prepared", "ready", "preparing"
BOOKED = "spent_preparing"  # so far, whether it was finished or not
_RELEASED = "nobody"
_LOOK = 1.0  # seconds between looks at a study that another process prepares


@dataclass(frozen=True)
class Opened:
    """A study that is ready for trials.

    Args:
        study: Without sampler and pruner yet.
        prepared: Its candidates, checked against the program.
        spent: What preparing them has cost.
        joined: Whether it existed.
    """

    study: "optuna.Study"
    prepared: Prepared
    spent: dict[str, float]
    joined: bool


def open_study(
    storage: Any,
    name: str,
    request: dict[str, Any],
    ids: list[str],
    goal: Goal,
    student: "dspy.Module",
    make: "Callable[[optuna.Study], Prepared]",
    queue: "Callable[[optuna.Study, Prepared], None]",
    *,
    grace: float,
    say: Callable[[str], None],
) -> Opened:
    """Create a study and prepare its candidates, or join it once another process has done so.

    If the process that prepares it gives no sign of life for `grace` seconds, this one takes over.

    Args:
        request: Everything that decides the study's results; all processes must agree on it.
        ids: Of its questions, in their order.
        goal: Decides the directions.
        make: Returns candidates; what they cost, it books with `booked`.
        queue: Queues the first trials of a study that is new.
        grace: Seconds; 0 if no other process can work on it.
        say: Receives lines for the user.

    Raises:
        UserError: The study was started with other settings; the first difference is named.
    """
    import optuna

    from optimizers.tuning.checks import readable

    joined, mine = False, False
    with readable(name):
        try:
            study = optuna.create_study(storage=storage, study_name=name, directions=goal.directions)
            mine = True
        except optuna.exceptions.DuplicatedStudyError:
            study = optuna.load_study(storage=storage, study_name=name)
            joined = True
        if [direction.name.lower() for direction in study.directions] != goal.directions:
            raise ValueError("it was to find something else")
    while True:
        attributes = _attributes(study)
        if mine or (not grace and not attributes.get(READY)):
            if REQUEST in attributes:
                _check(attributes[REQUEST], request, name)
            _prepare(study, request, ids, make)
            attributes = study.user_attrs
            queue(study, _read(attributes[PREPARED], student)[0])
            study.set_user_attr(READY, True)
            attributes = study.user_attrs
        if REQUEST in attributes:
            _check(attributes[REQUEST], request, name)
        if attributes.get(READY):
            prepared, spent = _read(attributes[PREPARED], student)
            return Opened(study, prepared, spent, joined)
        say("Waiting for the process that prepares the study.")
        mine = _abandoned(study, grace)


class _Prepared(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True)

    queued: list[dict[str, Any]]
    notes: list[str]
    spent: dict[str, float]


class _Attributes(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True)

    request: dict[str, Any] = {}
    questions: list[str] = []
    prepared: _Prepared | None = None
    ready: bool = False
    preparing: str | None = None
    spent_preparing: dict[str, float] = {}


def _attributes(study: "optuna.Study") -> dict[str, Any]:
    from optimizers.tuning.checks import readable

    with readable(study.study_name):
        attributes: dict[str, Any] = study.user_attrs
        read = _Attributes.model_validate(attributes)
        if read.ready and not (read.prepared and REQUEST in attributes):
            raise ValueError("it does not say what it searches")
        return attributes


def _check(stored: dict[str, Any], request: dict[str, Any], name: str) -> None:
    if changed := difference(stored, request):
        raise UserError(
            f"The study {name!r} was started with another {changed.field} ({changed.stored}, now {changed.asked}): "
            f"use the same settings, or another name or folder for a new study."
        )


def _prepare(
    study: "optuna.Study",
    request: dict[str, Any],
    ids: list[str],
    make: "Callable[[optuna.Study], Prepared]",
) -> None:
    study.set_user_attr(REQUEST, request)
    study.set_user_attr(QUESTIONS, ids)
    with undone_by_error(lambda: study.set_user_attr(PREPARING, _RELEASED)), _signs_of_life(study):
        prepared = make(study)
    spent = study.user_attrs.get(BOOKED, {})
    record = {"queued": prepared.queued, "notes": prepared.notes, "spent": spent, **prepared.prompts.as_dict()}
    study.set_user_attr(PREPARED, record)


@contextlib.contextmanager
def booked(study: "optuna.Study", paid: Callable[[], Costs]) -> Iterator[dict[str, float]]:
    """Add what the block spends to what preparing the study has cost, also if it is cut off; yield what it had cost.

    Args:
        study: Stores the sums.
        paid: Returns what the LM calls of this process have cost so far.
    """
    earlier = dict(study.user_attrs.get(BOOKED, {}))
    before = paid()
    try:
        yield earlier
    finally:
        study.set_user_attr(BOOKED, Costs(earlier) + (paid() - before))


def _read(record: dict[str, Any], student: "dspy.Module") -> tuple[Prepared, dict[str, float]]:
    prepared = Prepared(read_prompts(record, student), list(record["queued"]), list(record["notes"]))
    return prepared, dict(record["spent"])


@contextlib.contextmanager
def _signs_of_life(study: "optuna.Study") -> Iterator[None]:
    """Change an attribute of the study every second while the block runs."""
    ended = threading.Event()
    own = f"{os.getpid()}-{uuid.uuid4()}"

    def beat() -> None:
        number = 0
        while not ended.wait(_LOOK):
            number += 1
            study.set_user_attr(PREPARING, f"{own} {number}")

    study.set_user_attr(PREPARING, f"{own} 0")
    thread = daemon(beat, name="heartbeat")
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _abandoned(study: "optuna.Study", grace: float) -> bool:
    """Wait until the study is ready (False), or until its process seems dead and this one has taken it over (True)."""
    last, since = study.user_attrs.get(PREPARING), time.monotonic()
    while time.monotonic() - since <= grace and last != _RELEASED:
        time.sleep(_LOOK)
        attributes = study.user_attrs
        if attributes.get(READY):
            return False
        if attributes.get(PREPARING) != last:
            last, since = attributes.get(PREPARING), time.monotonic()
    # Several processes may notice at the same moment: the last one that claims the study has it.
    claim = f"{os.getpid()}-{uuid.uuid4()}"
    study.set_user_attr(PREPARING, claim)
    time.sleep(2 * _LOOK)
    return bool(study.user_attrs.get(PREPARING) == claim)


@contextlib.contextmanager
def opened_storage(out: Path, config: TuneConfig, *, resume: bool, overwrite: bool) -> Iterator[tuple[Any, bool]]:
    """Open the storage; yield it, and whether no other process can work on the study: so it is with that in `out`.

    Raises:
        UserError: It cannot be opened, another process has it, or its file cannot be written to any more.
    """
    from optimizers.tuning.storages import QUICK, open_storage

    if config.storage is not None:
        out.mkdir(parents=True, exist_ok=True)
        refuse_links(out)
        with _full_disk_told():
            yield open_storage(config.storage, heartbeat=config.heartbeat, grace=config.grace), False
        return
    database = out / (DATABASE if config.replay is None else QUICK_JOURNAL)
    busy = f"Another process tunes in {out}: wait for it, or let both name one storage, which they then share."
    with locked_folder(out, f".{DATABASE}.lock", busy):
        if overwrite:
            for name in (DATABASE, QUICK_JOURNAL):
                (out / name).unlink(missing_ok=True)
        elif any((out / name).exists() for name in (DATABASE, QUICK_JOURNAL)) and not resume:
            raise UserError(f"{out} already contains a study: resume it, overwrite it, or choose another folder.")
        replayed, new = config.replay is not None, not database.exists()
        with contextlib.nullcontext() if replayed else _full_disk_told():
            place = f"{QUICK}{database}" if replayed else str(database)
            storage = open_storage(place, heartbeat=config.heartbeat, grace=config.grace)
            with undone_by_error(lambda: _without_study(storage, database)) if new else contextlib.nullcontext():
                yield storage, True


def _without_study(storage: Any, database: Path) -> None:
    """Remove the file of a study that did not begin, as with a record that is not there: the folder stays free."""
    if not storage.get_all_studies():
        database.unlink(missing_ok=True)


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


@contextlib.contextmanager
def replayed(
    student: "dspy.Module", questions: "Sequence[Question]", config: TuneConfig, connection: "Connection"
) -> "Iterator[ReplayEvaluator | None]":
    """Open the record that trials are evaluated from; None if the study asks the LM.

    Raises:
        UserError: The record is of another program, LM, corpus or metric, lacks a question, or has none with the
            knobs of the student that no gate reads.
    """
    if config.replay is None:
        yield None
        return
    from experiments.pipeline.branches.recorder import buying, checked_record

    metric = config.metric.name
    if config.buy:
        with buying(
            config.replay,
            metric=metric,
            questions=questions,
            program=student,
            connection=connection,
            threads=config.threads,
        ) as evaluator:
            yield evaluator
        return
    record = checked_record(config.replay, metric=metric, questions=questions, program=student, connection=connection)
    record.check_root({})  # the knobs of the student, of which only those of gates are searched
    yield ReplayEvaluator(record, metric)


def searched_knobs(student: "dspy.Module", config: TuneConfig) -> tuple[str, ...] | None:
    """Return the knobs that a study searches; None means all that have a range.

    A replay without buying searches those alone that only gates read.

    Raises:
        UserError: Another knob is named.
    """
    if config.replay is None or config.buy:
        return config.searched
    known = knobs_of(student)
    own = tuple(name for name in replayable_knobs(student) if known[name].space is not None)
    for name in [*(config.searched or ()), *config.narrowed]:
        if name in known and name not in own:
            raise UserError(
                f"Knob {name} decides more than gates do, so no record can say what it changes: search "
                f"{', '.join(own) or 'another program'}, buy what the record lacks, or tune without a record."
            )
    return own if config.searched is None else config.searched
