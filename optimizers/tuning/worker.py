"""One process's work on a study: trial after trial, until the study has as many as were asked for.

Trials are begun through `Study.optimize`, because Optuna's signs of life do not cover `ask` and `tell`.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import optuna
from optuna.trial import FrozenTrial, TrialState

from optimizers.tuning.objective import BASELINE, SPENT, SURPLUS, Objective, TrialCut
from optimizers.tuning.storages import fail_stale, not_queued, queue_again
from signatures.common.costs import Costs

FINISHED = (TrialState.COMPLETE, TrialState.PRUNED)
_WAIT = 1.0  # seconds between looks at the trials of other processes


class _Surplus(Exception):
    """The study had enough trials when this one began."""


@dataclass(frozen=True)
class WorkEnd:
    """How the work of a process ended.

    Args:
        own: Trials that this process finished.
        finished: Those of all processes.
        stopped: Why it ended early; None if the study has all its trials.
    """

    own: int
    finished: int
    stopped: str | None = None


def enqueue(study: optuna.Study, settings: Sequence[Mapping[str, Any]]) -> None:
    """Queue settings, the first of which is the baseline; settings that are queued already are not repeated."""
    for number, setting in enumerate(settings):
        attributes = {BASELINE: True} if number == 0 else None
        study.enqueue_trial(dict(setting), user_attrs=attributes, skip_if_exists=True)


def work(
    study: optuna.Study,
    objective: Objective,
    *,
    trials: int,
    limits: Mapping[str, float] | None = None,
    tell: Callable[[str], None] | None = None,
    wait: float = _WAIT,
) -> WorkEnd:
    """Run trials until the study has `trials` finished ones, those of other processes included.

    Args:
        study: With its sampler, pruner and queued trials.
        objective: Evaluates a trial.
        trials: Of the whole study, finished or pruned.
        limits: Cost -> most that all trials of the study may have spent (calls, tokens, usd); once it is reached, no
            trial begins.
        tell: Called with a line for the user, when another process is waited for.
        wait: Seconds between looks at other processes' trials.

    Raises:
        KeyboardInterrupt: Ctrl-C; the trial in progress is queued again.
        Exception: What a trial raised; it is queued again, too.
    """
    own, told = 0, False
    noticed: set[int] = set()
    guarded = _Guarded(study, objective, trials)
    while True:
        known = study.get_trials(deepcopy=False)
        done = sum(trial.state in FINISHED for trial in known)
        running = sum(trial.state == TrialState.RUNNING for trial in known)
        if done >= trials:
            return WorkEnd(own, done)
        if reason := _used_up(known, limits or {}):
            return WorkEnd(own, done, reason)
        if done + running >= trials:
            if tell is not None and not told:
                tell("Waiting for trials that other processes run; those of a killed process are redone here.")
            told = True
            fail_stale(study)
            time.sleep(wait)
            continue
        if lost := not_queued(known):
            if lost - noticed:  # the process that has just declared it failed will queue it, unless it is killed, too
                noticed |= lost
                time.sleep(wait)
                continue
            for number in sorted(lost):
                _queue_again(study, number, died=True)
        try:
            study.optimize(guarded, n_trials=1, catch=(_Surplus,))
        except TrialCut as cut:
            _queue_again(study, guarded.number, died=False)
            return WorkEnd(own, done, str(cut))
        except (KeyboardInterrupt, Exception):
            if guarded.lost():
                continue  # it gave no sign of life for so long that another process runs it again
            _queue_again(study, guarded.number, died=False)
            raise
        own += study.get_trials(deepcopy=False)[guarded.number].state in FINISHED


class _Guarded:
    """The objective, except for trials that began when the study had enough of them already."""

    def __init__(self, study: optuna.Study, objective: Objective, trials: int):
        self._study, self._objective, self._trials = study, objective, trials
        self.number = -1
        self._ended = False

    def lost(self) -> bool:
        """Return whether another process has declared the trial failed that this one was running to its end."""
        state = self._study.get_trials(deepcopy=False)[self.number].state if self._ended else None
        return state == TrialState.FAIL

    def __call__(self, trial: optuna.Trial) -> Any:
        self.number, self._ended = trial.number, False
        # Numbers are unique, so that of trials begun at the same moment exactly as many go on as are needed.
        earlier = self._study.get_trials(deepcopy=False)[: trial.number]
        if sum(other.state in (*FINISHED, TrialState.RUNNING) for other in earlier) >= self._trials:
            trial.set_user_attr(SURPLUS, True)
            raise _Surplus
        try:
            values = self._objective(trial)
        except (optuna.TrialPruned, optuna.exceptions.UpdateFinishedTrialError):
            self._ended = True
            raise
        self._ended = True
        return values


def _queue_again(study: optuna.Study, number: int, *, died: bool) -> None:
    """Queue a trial that failed, with its values, unless its processes died too often or it is still running."""
    if number < 0:  # none has begun
        return
    trial = study.get_trials(deepcopy=True)[number]
    if trial.state == TrialState.FAIL and not trial.user_attrs.get(SURPLUS):
        queue_again(study, trial, died=died)


def fail_running(study: optuna.Study) -> int:
    """Declare every running trial failed and queue it again; only for a study that no other process works on."""
    running = study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
    for trial in running:
        study.tell(trial.number, state=TrialState.FAIL)
        _queue_again(study, trial.number, died=True)
    return len(running)


def spent_of(trials: Sequence[FrozenTrial]) -> Costs:
    """Return what all trials have spent, by cost."""
    return sum((Costs(trial.user_attrs.get(SPENT) or {}) for trial in trials), start=Costs())


def _used_up(trials: Sequence[FrozenTrial], limits: Mapping[str, float]) -> str | None:
    spent = spent_of(trials)
    for name, limit in limits.items():
        if spent[name] >= limit:
            return f"The study's budget of {limit:g} {name} is used up."
    return None
