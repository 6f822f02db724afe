"""Trials of one process: how many, what is kept of them, and how the work ends."""

import contextlib

import pytest
from optuna.trial import TrialState

from optimizers.tuning.defaults import SAMPLERS
from optimizers.tuning.objective import Goal
from optimizers.tuning.records import baseline_of, best_of, front_of, read_trial
from optimizers.tuning.samplers import open_pruner
from optimizers.tuning.space import Numbers, Options, Space
from optimizers.tuning.storages import queue_again
from optimizers.tuning.worker import enqueue, fail_running, spent_of, work
from programs.lms.calls.budget import BudgetExceeded
from signatures.common.errors import UserError

SMALL = Space((Numbers("k", 1, 3, whole=True), Options("gate", ("soft", "hard"))), {"k": 2, "gate": "soft"})


def records(study):
    return [read_trial(trial) for trial in study.get_trials()]


def states(study):
    return [trial.state.name for trial in study.get_trials()]


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_study_starts_with_the_program_as_it_is_and_has_as_many_trials_as_asked(sampler, study_of, questions):
    study, objective = study_of(sampler=sampler)
    enqueue(study, [objective.space.present])
    ended = work(study, objective, trials=15)
    found = records(study)
    assert (ended.own, ended.finished, ended.stopped) == (15, 15, None)
    assert [trial.state for trial in found] == ["complete"] * 15
    assert baseline_of(found) == found[0]
    assert found[0].setting == objective.space.present
    assert len(found[0].scores) == len(questions)
    assert best_of(found, Goal()).score() >= found[0].score()


def test_learning_finds_a_better_setting_than_the_one_it_started_from(study_of):
    study, objective = study_of()
    enqueue(study, [{"k": 18, "threshold": 0.9, "gate": "soft"}])
    work(study, objective, trials=40)
    best = best_of(records(study), Goal())
    assert abs(best.setting["k"] - 7) <= 2
    assert abs(best.setting["threshold"] - 0.3) < 0.2


def test_the_same_seed_gives_the_same_trials_also_after_an_interruption(study_of):
    whole, objective = study_of()
    enqueue(whole, [objective.space.present])
    work(whole, objective, trials=14)
    parts, objective = study_of()
    enqueue(parts, [objective.space.present])
    for trials in (3, 9, 14):
        work(parts, objective, trials=trials)
    assert [trial.params for trial in parts.trials] == [trial.params for trial in whole.trials]
    assert len({str(trial.params) for trial in whole.trials}) > 10


@pytest.mark.parametrize("sampler", sorted(set(SAMPLERS) - {"grid"}))  # a grid has the same trials in another order
def test_a_study_with_trials_that_were_cut_off_has_the_trials_of_an_uninterrupted_one(sampler, study_of):
    def settings(study):
        return [trial.setting for trial in records(study) if trial.complete]

    def score(setting, number):
        asked[0] += 1
        if asked[0] in (10, 30, 200, 400):
            raise KeyboardInterrupt
        return setting["k"] / 20

    asked = [1000]
    whole, objective = study_of(score, sampler=sampler)
    enqueue(whole, [objective.space.present])
    work(whole, objective, trials=24)
    asked = [0]
    parts, objective = study_of(score, sampler=sampler)
    enqueue(parts, [objective.space.present])
    for _ in range(5):
        with contextlib.suppress(KeyboardInterrupt):
            work(parts, objective, trials=24)
    assert states(parts).count("FAIL") == 4
    assert settings(parts) == settings(whole)


def test_a_grid_visits_every_combination_once_beside_the_first_trial(study_of):
    study, objective = study_of(lambda setting, number: setting["k"] / 3, sampler="grid", space=SMALL)
    enqueue(study, [SMALL.present])
    work(study, objective, trials=7)
    settings = [tuple(sorted(trial.params.items(), key=str)) for trial in study.trials]
    assert len(set(settings[1:])) == 6


def test_scores_and_costs_of_every_question_are_kept(study_of):
    study, objective = study_of(lambda setting, number: None if number == 5 else 0.5)
    enqueue(study, [objective.space.present])
    work(study, objective, trials=1)
    trial = records(study)[0]
    assert trial.scores == [0.5] * 5 + [None] + [0.5] * 18
    assert trial.score() == 0.5
    assert trial.costs == {"calls": [5] * 24, "tokens": [507] * 24, "seconds": [0.25] * 24}
    assert trial.cost("tokens") == 507
    assert trial.cost("usd") == 0


def test_a_metric_without_any_value_is_an_error(study_of):
    study, objective = study_of(lambda setting, number: None)
    with pytest.raises(UserError, match="undefined for every question"):
        work(study, objective, trials=1)


def test_settings_beyond_a_limit_are_not_chosen(study_of):
    goal = Goal(at_most={"calls": 4})
    study, objective = study_of(goal=goal)
    enqueue(study, [objective.space.present])
    work(study, objective, trials=25)
    found = records(study)
    assert not found[0].feasible(goal)
    assert best_of(found, goal).setting["k"] <= 4
    assert study.best_trial.params["k"] <= 4
    later = [trial.setting["k"] for trial in found[12:]]
    assert sum(k <= 4 for k in later) > len(later) / 2  # the sampler has learned the limit


def test_quality_against_cost_is_a_front(study_of):
    study, objective = study_of(goal=Goal("tokens"), sampler="nsga2")
    enqueue(study, [objective.space.present])
    work(study, objective, trials=30)
    front = front_of(records(study), Goal("tokens"))
    assert len(front) > 1
    assert [trial.cost("tokens") for trial in front] == sorted({trial.cost("tokens") for trial in front})
    assert [trial.score() for trial in front] == sorted({trial.score() for trial in front})
    assert {trial.number for trial in front} <= {trial.number for trial in study.best_trials}


def test_a_spent_budget_ends_the_study_and_its_trial_is_run_again(study_of):
    spent = {"calls": 0.0}

    def score(setting, number):
        spent["calls"] += 1
        if spent["calls"] > 60:
            raise BudgetExceeded("The budget of 60 calls is used up.")
        return near(setting)

    def near(setting):
        return setting["k"] / 20

    study, objective = study_of(score, spent=lambda: dict(spent))
    enqueue(study, [objective.space.present])
    ended = work(study, objective, trials=5)
    assert ended.stopped == "The budget of 60 calls is used up."
    assert ended.finished == 2
    assert states(study) == ["COMPLETE", "COMPLETE", "FAIL", "WAITING"]
    assert spent_of(study.trials)["calls"] == 61
    cut = study.trials[2].params
    spent["calls"] = -1000.0
    assert work(study, objective, trials=5).finished == 5
    assert states(study) == ["COMPLETE", "COMPLETE", "FAIL", "COMPLETE", "COMPLETE", "COMPLETE"]
    assert study.trials[3].params == cut
    assert records(study)[3].redo_of == 2


def test_no_trial_begins_once_the_whole_study_has_spent_its_budget(study_of):
    study, objective = study_of()
    enqueue(study, [objective.space.present])
    done = {"calls": 0.0}
    counted = type(objective)(
        objective.space,
        objective.goal,
        objective.evaluator,
        objective.questions,
        prune=False,
        spent=lambda: {"calls": done.__setitem__("calls", done["calls"] + 50) or done["calls"]},
    )
    ended = work(study, counted, trials=10, limits={"calls": 120})
    assert "budget of 120 calls" in ended.stopped
    assert 1 <= ended.finished < 10


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("no server")])
def test_what_ends_a_trial_from_outside_leaves_it_in_the_queue_and_is_paid_for(error, study_of):
    def score(setting, number):
        spent["calls"] += 1
        if failing and number == 3:
            raise error
        return 0.5

    failing, spent = True, {"calls": 0}
    study, objective = study_of(score, spent=lambda: dict(spent))
    enqueue(study, [objective.space.present])
    with pytest.raises(type(error)):
        work(study, objective, trials=2)
    assert states(study) == ["FAIL", "WAITING"]
    assert spent_of(study.trials) == {"calls": 4}
    failing = False
    assert work(study, objective, trials=2).finished == 2
    assert baseline_of(records(study)).setting == objective.space.present


@pytest.mark.parametrize("error", [KeyboardInterrupt(), BudgetExceeded("Used up."), RuntimeError("no server")])
def test_a_trial_that_was_interrupted_is_repeated_however_often(error, study_of):
    def score(setting, number):
        if failing:
            raise error
        return 0.5

    failing = True
    study, objective = study_of(score)
    enqueue(study, [objective.space.present])
    for _ in range(6):
        with contextlib.suppress(type(error)):
            work(study, objective, trials=1)
    failing = False
    work(study, objective, trials=1)
    assert states(study) == ["FAIL"] * 6 + ["COMPLETE"]
    assert baseline_of(records(study)).setting == objective.space.present


def test_a_trial_that_kills_its_process_is_not_repeated_for_ever(study_of):
    study, objective = study_of()
    enqueue(study, [objective.space.present])
    for _ in range(5):
        study.ask()  # a process that was killed leaves its trial running
        fail_running(study)
    assert states(study)[:4] == ["FAIL"] * 4
    assert records(study)[3].redo_of == 0
    assert records(study)[4].redo_of is None  # a new trial


@pytest.mark.parametrize("prune", [False, True])
def test_a_trial_that_another_process_took_for_dead_is_left_to_it(prune, study_of):
    def score(setting, number):
        if number == 20 and not taken:
            taken.append(study.trials[-1])
            study._storage.set_trial_state_values(taken[0]._trial_id, state=TrialState.FAIL)
            queue_again(study, study.trials[taken[0].number])
        return 0.5

    taken = []
    study, objective = study_of(score, prune=prune)
    study.pruner = open_pruner(prune=prune)
    enqueue(study, [objective.space.present])
    ended = work(study, objective, trials=2)
    assert ended.finished == 2
    assert states(study) == ["FAIL", "COMPLETE", "COMPLETE"]
    assert records(study)[1].redo_of == 0


def test_a_trial_that_was_declared_failed_and_not_queued_yet_is_redone_before_new_ones(study_of):
    study, objective = study_of()
    enqueue(study, [objective.space.present])
    study._storage.set_trial_state_values(study.ask()._trial_id, state=TrialState.FAIL)  # its process was killed
    assert work(study, objective, trials=2, wait=0.0).finished == 2
    queue_again(study, study.trials[0])  # the process that declared it failed was slow
    assert states(study) == ["FAIL", "COMPLETE", "COMPLETE", "FAIL"]
    assert [record.redo_of for record in records(study)] == [None, 0, None, 0]
    assert baseline_of(records(study)).number == 1


def test_a_trial_too_many_is_dropped(study_of):
    study, objective = study_of()
    enqueue(study, [objective.space.present])
    running = [study.ask() for _ in range(2)]  # other processes have begun the last two

    def tell(text):
        for trial in running:
            if study.trials[trial.number].state == TrialState.RUNNING:
                study.tell(trial, 0.5)

    ended = work(study, objective, trials=2, tell=tell, wait=0.0)
    assert (ended.own, ended.finished) == (0, 2)
    assert states(study) == ["COMPLETE", "COMPLETE"]
