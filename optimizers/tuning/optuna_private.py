"""The private parts of Optuna that studies need, and nothing else uses; `tests/test_private_parts.py` pins each."""

import optuna
from optuna.samplers import BaseSampler
from optuna.search_space import IntersectionSearchSpace
from optuna.storages._heartbeat import BaseHeartbeat  # `fail_stale_trials` asks no storage that is of another class
from optuna.storages._rdb.models import BaseModel, TrialHeartbeatModel, TrialModel  # the tables: a file may lack some
from optuna.trial import FrozenTrial, TrialState

TABLES, TRIALS, SIGNS = BaseModel.metadata.sorted_tables, TrialModel, TrialHeartbeatModel


class Heartbeat(BaseHeartbeat):
    """Mixed in before a storage, which then tells which running trials have given no sign of life for too long."""

    def stale_trials(self, study_id: int) -> list[int]:
        """Return the ids of these trials."""
        return super()._get_stale_trial_ids(study_id)  # type: ignore[safe-super]  # of the storage it is mixed into

    def _get_stale_trial_ids(self, study_id: int) -> list[int]:  # the hook of `fail_stale_trials`
        return self.stale_trials(study_id)


def trial_id(trial: FrozenTrial) -> int:
    """Return the id by which a storage knows a trial; the public look-up reads the storage for each."""
    return trial._trial_id


def fail_waiting(study: optuna.Study, trial: FrozenTrial, mark: str) -> None:
    """Mark a trial that waits and declare it failed; `Study.tell` does so for running trials only."""
    storage = study._storage  # of which a study has no public name
    storage.set_trial_user_attr(trial_id(trial), mark, True)
    storage.set_trial_state_values(trial_id(trial), state=TrialState.FAIL)


def pass_search_space(before: BaseSampler, after: BaseSampler) -> None:
    """Give a sampler the search space that another has inferred, which takes a third of the time of 1,000 trials."""
    space = getattr(before, "_search_space", None)  # the samplers that infer one have it under this name
    if isinstance(space, IntersectionSearchSpace):
        setattr(after, "_search_space", space)  # noqa: B010 - an attribute that Optuna does not declare
