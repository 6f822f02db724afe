"""What the trials of a study say: the best setting, its gain, and what is printed and drawn of them."""

import optuna
import pytest

from experiments.analysis.tuning.findings import findings, importances, ranked, trials_table
from experiments.analysis.tuning.plots import draw_all
from optimizers.tuning.objective import Goal
from optimizers.tuning.records import Trial
from signatures.common.terminal import open_console


def trial(number: int, scores: list[float], *, tokens: float = 100.0, **more) -> Trial:
    setting = {"k": number, "gate": "soft" if number % 2 else "hard"}
    costs = {"calls": [1.0] * len(scores), "tokens": [tokens] * len(scores)}
    return Trial(number, more.pop("state", "complete"), setting, scores, costs, **more)


BASE = trial(0, [0.0, 1.0] * 20, baseline=True)
BETTER = trial(1, [1.0] * 38 + [0.0] * 2, tokens=300.0)
WORSE = trial(2, [0.0] * 40, tokens=50.0)


def found(*trials: Trial, goal: Goal | None = None, folds: int = 5):
    return findings(list(trials), goal or Goal(), folds=folds, questions=range(40))


def test_a_gain_is_judged_on_questions_that_did_not_choose():
    result = found(BASE, BETTER, WORSE)
    assert result.best is BETTER
    assert result.held_gain.n == 40
    assert result.surely_better
    assert result.recommended is BETTER
    assert "better than the program as it was, on held-out questions: +45.0 points" in result.verdict
    assert result.as_dict()["held_out"]["chosen"] == [1] * 5
    assert "where it was chosen" in found(BASE, BETTER, folds=0).verdict


def test_a_small_gain_is_no_gain():
    lucky = trial(1, [0.0, 1.0] * 19 + [1.0, 1.0])
    result = found(BASE, lucky)
    assert result.best is lucky
    assert not result.surely_better
    assert "not better than the program as it was beyond chance" in result.verdict


def test_settings_that_only_look_better_where_they_were_chosen_are_called_worse():
    # Each trial fails on one fold and shines on the others, so that the fold's other questions choose it.
    base = trial(0, [0.7] * 40, baseline=True)
    traps = [trial(n + 1, [0.0 if place % 5 == n else 0.9 for place in range(40)]) for n in range(5)]
    result = found(base, *traps)
    assert result.best.number == 1
    assert result.held_score.mean == 0.0
    assert "Keep it as it was." in result.verdict
    assert result.recommended is base
    assert result.as_dict()["recommended"] == 0
    assert found(base, *traps, folds=0).recommended is result.best


def test_a_program_beyond_the_limits_is_not_kept_as_it_was():
    base = trial(0, [0.7] * 40, baseline=True, tokens=500.0)
    traps = [trial(n + 1, [0.0 if place % 5 == n else 0.9 for place in range(40)]) for n in range(5)]
    result = found(base, *traps, goal=Goal(at_most={"tokens": 200.0}))
    assert result.held_gain.difference < 0
    assert result.recommended is result.best
    assert result.verdict.endswith("But that is beyond the limits.")
    assert "Keep it" not in found(base, *traps, folds=0).verdict


def test_a_setting_that_is_as_good_and_cheaper_is_recommended():
    cheaper = trial(1, BASE.scores, tokens=50.0)
    for goal in (Goal("tokens"), Goal(at_most={"tokens": 200.0})):
        result = found(
            BASE, Trial(**{**vars(cheaper), "costs": {"calls": [0.5] * 40, "tokens": [50.0] * 40}}), goal=goal
        )
        assert result.held_gain.difference == 0
        assert result.recommended is result.best
        assert result.best.number == 1
        assert "Keep it" not in result.verdict


def test_the_frozen_trial_is_always_in_the_table():
    others = [trial(10 + n, [n / 100] * 40) for n in range(12)]
    result = found(BASE, BETTER, *others)
    assert [each.number for each, _ in ranked(result, most=2, chosen=12)] == [1, 0, 12]


def test_what_cannot_be_compared_is_said():
    assert found(BASE).verdict == "No setting scored higher than the program as it was."
    assert found(BETTER).verdict == "The program as it was has no complete trial to compare with."
    assert found().verdict == "No trial is complete."
    assert found(BASE, goal=Goal(at_most={"calls": 0.5})).verdict == "No trial is complete and within the limits."


def test_the_table_shows_equal_trials_once_and_the_program_as_it_was_always():
    same = trial(3, BETTER.scores, tokens=300.0)
    others = [trial(10 + n, [n / 100] * 40) for n in range(12)]
    result = found(BASE, BETTER, same, *[Trial(**{**vars(each), "scores": [0.9] * 40}) for each in others[:1]], *others)
    shown = ranked(result, most=3)
    assert [(each.number, alike) for each, alike in shown] == [(1, 1), (10, 0), (0, 0)]
    console = open_console(width=100, record=True, quiet=False, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(trials_table(result, {"k": 0, "gate": "hard"}, metric="f1[hotpot]", chosen=1))
    text = console.export_text()
    assert "f1[hotpot]" in text
    assert "1*" in text
    assert "as it was" in text
    assert "k=1, gate=soft (1 more with the same answers)" in text


def test_plots_are_drawn_for_what_there_is(tmp_path):
    result = found(BASE, BETTER, WORSE, goal=Goal("tokens"))
    assert [each.number for each in result.front] == [2, 0, 1]
    drawn = draw_all(result, {"k": 0, "gate": "hard"}, {"fanova": {"k": 0.9}}, tmp_path, metric="em")
    assert [path.name for path in drawn] == ["slices.png", "importance.png", "front.png"]
    svg = (tmp_path / "front.svg").read_text()
    assert "tokens per question" in svg
    assert "as it was" in svg
    again = draw_all(result, {"k": 0, "gate": "hard"}, {}, tmp_path / "b", metric="em")
    assert [path.name for path in again] == ["slices.png", "front.png"]
    assert (tmp_path / "b" / "front.svg").read_text() == svg
    assert draw_all(found(), {}, {}, tmp_path / "c", metric="em") == []


def test_the_knob_that_decides_is_the_important_one():
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.RandomSampler(seed=0))
    study.optimize(lambda trial: trial.suggest_float("a", 0, 1) + 0 * trial.suggest_float("b", 0, 1), n_trials=30)
    values = importances(study)
    assert set(values) == {"fanova", "ped_anova"}
    for each in values.values():
        assert each["a"] > 0.8
        assert next(iter(each)) == "a"
    empty = optuna.create_study()
    assert importances(empty) == {}


@pytest.mark.parametrize("scores", [[0.5] * 5, [0.1, 0.2]])
def test_too_few_or_equal_trials_have_no_importance(scores):
    study = optuna.create_study(direction="maximize")
    numbers = iter(scores)
    study.optimize(lambda trial: trial.suggest_float("a", 0, 1) * 0 + next(numbers), n_trials=len(scores))
    assert importances(study) == {}
