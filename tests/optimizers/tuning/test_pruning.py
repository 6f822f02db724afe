"""Trials that are ended early."""

import pytest

from optimizers.tuning.defaults import check_prune_below
from optimizers.tuning.objective import Goal
from optimizers.tuning.records import best_of, read_trial
from optimizers.tuning.samplers import open_pruner
from optimizers.tuning.space import Numbers, Options, Space
from optimizers.tuning.worker import enqueue, work
from signatures.common.errors import UserError

SMALL = Space((Numbers("k", 1, 3, whole=True), Options("gate", ("soft", "hard"))), {"k": 2, "gate": "soft"})


def records(study):
    return [read_trial(trial) for trial in study.get_trials()]


def test_a_trial_that_is_worse_is_pruned_after_growing_parts_of_the_same_order(study_of, questions):
    def score(setting, number):
        return (1.0 if setting["gate"] == "soft" else 0.1) - number / 1000

    study, objective = study_of(score, space=SMALL, prune=True)
    study.pruner = open_pruner(prune=True)
    enqueue(study, [SMALL.present, {"k": 2, "gate": "hard"}, {"k": 3, "gate": "soft"}])
    work(study, objective, trials=3)
    found = records(study)
    assert [trial.state for trial in found] == ["complete", "pruned", "complete"]
    assert [len(trial.scores) for trial in found] == [24, 8, 24]
    ids = [question.id for question in questions]
    assert [part for setting, part in objective.evaluator.asked if setting["k"] == 3] == [ids[:8], ids[8:16], ids[16:]]
    assert best_of(found, Goal()).number == 0


@pytest.mark.parametrize(("below", "state"), [(0.1, "complete"), (0.5, "pruned")])
def test_a_higher_p_ends_more_trials(below, state, study_of):
    def score(setting, number):  # a little worse on two questions of three, a little better on the third
        return 0.5 if setting["k"] == 2 else 0.49 if number % 3 else 0.51

    study, objective = study_of(score, space=SMALL, prune=True)
    study.pruner = open_pruner(prune=True, below=below)
    enqueue(study, [SMALL.present, {**SMALL.present, "k": 3}])
    work(study, objective, trials=2)
    assert [trial.state for trial in records(study)] == ["complete", state]


@pytest.mark.parametrize("below", [0.0, 1.0, -0.1, float("nan")])
def test_an_impossible_p_is_refused(below):
    with pytest.raises(UserError, match="must be between 0 and 1"):
        check_prune_below(below)
