"""Estimates, metrics on the validation examples, and the best weights."""

import functools
import json
from pathlib import Path

import pytest
import torch

from optimizers.distill.training.estimate import estimate
from optimizers.distill.training.scoring import (
    replies,
    reply_scores,
    score_reply,
    verdict_calibration_error,
    yes_probabilities,
)
from optimizers.distill.training.settings import make_settings
from signatures.common.errors import UserError
from tests.optimizers.distill.training import runs

make_training = functools.partial(runs.make_training, rank=16, alpha=32, precision="float32")


def test_an_estimate_counts_the_run_and_changes_no_weight(tiny: Path, folder: Path, tmp_path: Path) -> None:
    training = make_training(tiny, folder, tmp_path / "out", epochs=2)
    before = {name: weight.detach().clone() for name, weight in training.student.weights.items()}
    size = estimate(training, seconds=0)
    assert all(torch.equal(weight, before[name]) for name, weight in training.student.weights.items())
    assert (size.examples, size.steps, size.epochs) == (18, 10, 2.0)
    description = training.run()
    assert size.tokens == description["tokens"]
    assert size.hours == pytest.approx(size.tokens / size.tokens_per_second / 3600)


def test_an_estimate_of_a_time_says_how_many_epochs_fit(tiny: Path, folder: Path, tmp_path: Path) -> None:
    training = make_training(tiny, folder, tmp_path / "out", hours=1)
    times = iter(range(0, 1_000_000, 30))  # a batch takes 30 s
    training.clock = lambda: float(next(times))
    size = estimate(training, seconds=0)
    assert size.hours <= 1
    assert size.epochs > 2
    assert "measurements" not in str(size)
    training = make_training(tiny, folder, tmp_path / "out", max_steps=2, evaluate_every=1)
    assert "and the time of the measurements" in str(estimate(training, seconds=0))
    assert size.steps == pytest.approx(size.epochs * 5, abs=1)


def test_replies_in_batches_equal_those_one_by_one(tiny: Path, folder: Path, tmp_path: Path) -> None:
    training = make_training(tiny, folder, tmp_path / "out", epochs=12)
    training.run()
    student, held_back = training.student, training.data.validation
    together = replies(student, held_back)
    assert together == [replies(student, [one])[0] for one in held_back]
    assert len(set(together)) > 2
    assert student.packs


def test_replies_are_plainly_greedy_whatever_the_base_comes_with(tiny: Path, folder: Path, tmp_path: Path) -> None:
    training = make_training(tiny, folder, tmp_path / "out", epochs=8)
    training.run()
    student, examples = training.student, training.data.train[:6]
    before = replies(student, examples)
    own = student.model.generation_config
    own.update(repetition_penalty=5.0, no_repeat_ngram_size=1, min_new_tokens=9, do_sample=True)
    assert replies(student, examples) == before
    assert student.model.generation_config is own


def test_learnt_replies_score_high(tiny: Path, folder: Path, tmp_path: Path) -> None:
    training = make_training(tiny, folder, tmp_path / "out", epochs=20, evaluate_every=50, keep_best="em")
    training.evaluate = reply_scores(training.student, training.data, 20)
    description = training.run()
    first, last = description["validation"][0], description["validation"][-1]
    assert first["step"] == 0
    assert last["step"] == 100
    assert first["metrics"].keys() == {*("em", "f1", "em[reading]", "f1[reading]", "em[yes_no]", "f1[yes_no]", "ece")}
    assert last["metrics"]["em"] > first["metrics"]["em"]
    assert (tmp_path / "out" / "best" / "adapter_model.safetensors").exists()
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "adapter_config.json",
        "adapter_model.safetensors",
        "best",
        "training.json",
        "training.jsonl",
    ]


def test_the_best_weights_are_kept_by_a_function_of_their_folder(tiny: Path, folder: Path, tmp_path: Path) -> None:
    scores = iter([0.1, 0.9, 0.3, 0.2])
    seen: list[bytes] = []

    def evaluate(adapter: Path) -> dict[str, float]:
        assert json.loads((adapter / "adapter_config.json").read_text())["r"] == 16
        seen.append((adapter / "adapter_model.safetensors").read_bytes())
        return {"program": next(scores)}

    training = make_training(tiny, folder, tmp_path / "out", evaluate_every=2, keep_best="program", epochs=1)
    training.evaluate = evaluate
    description = training.run()
    assert [one["step"] for one in description["validation"]] == [0, 2, 4, 5]
    assert description["best"] == {"step": 2, "metric": "program", "value": 0.9, "folder": "best"}
    assert (tmp_path / "out" / "best" / "adapter_model.safetensors").read_bytes() == seen[1]
    assert (tmp_path / "out" / "adapter_model.safetensors").read_bytes() == seen[3]


def test_a_run_that_is_resumed_says_which_weights_of_before_were_the_best(
    tiny: Path, folder: Path, tmp_path: Path
) -> None:
    first, second = (
        make_training(tiny, folder, tmp_path / "out", evaluate_every=2, keep_best="program") for _ in range(2)
    )
    scores = iter([0.9, 0.1, 0.3, 0.2])
    first.evaluate = second.evaluate = lambda _: {"program": next(scores)}
    runs.interrupt(first, after=3)
    kept = (tmp_path / "out" / "best" / "adapter_model.safetensors").read_bytes()
    description = second.run(resume=True)
    assert description["best"] == {"step": 0, "metric": "program", "value": 0.9, "folder": "best"}
    assert (tmp_path / "out" / "best" / "adapter_model.safetensors").read_bytes() == kept
    loss = make_training(tiny, folder, tmp_path / "loss", evaluate_every=2, keep_best="loss").run()
    assert loss["best"]["value"] == min(one["losses"]["all"] for one in loss["validation"])
    assert "best" not in make_training(tiny, folder, tmp_path / "other").run()


def test_an_unknown_metric_is_refused_before_training(tiny: Path, folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="after how many steps"):
        make_settings(keep_best="loss")
    training = make_training(tiny, folder, tmp_path / "out", evaluate_every=2, keep_best="glory")
    with pytest.raises(UserError, match=r"Unknown metric 'glory'. Choose from: loss"):
        training.run()


@pytest.mark.parametrize(
    ("reply", "gold", "em", "f1"),
    [
        ('{"answer": "The Nile"}', '{"answer": "nile"}', 1.0, 1.0),
        ('{"evidence": "x", "answer": "blue Nile"}', '{"evidence": "y", "answer": "nile"}', 0.0, 1 / 3),
        ('{"reasoning": "x", "answer": "nile"}', '{"reasoning": "y", "answer": "nile"}', 1.0, 1.0),
        # A step of `self_ask`: the sub-question and whether it is the last step decide, beside an empty answer.
        (
            '{"finished": true, "sub_question": "which way", "answer": ""}',
            '{"finished": false, "sub_question": "what river", "answer": ""}',
            1 / 3,
            1 / 3,
        ),
        (
            '{"correctness": 0.9, "judgement": "true", "truthfulness": 1.0}',
            '{"correctness": 0.1, "judgement": "false", "truthfulness": 1.0}',
            0.0,
            0.0,
        ),
        ('{"score": 0.5}', '{"score": 0.5}', 1.0, 1.0),
        ("yes", "Yes", 1.0, 1.0),
        ("no", "yes", 0.0, 0.0),
        ("I do not know", '{"answer": "nile"}', 0.0, 0.0),
        ('{"queries": ["a river"], "done": true}', '{"queries": ["a river"], "done": false}', 0.5, 0.5),
        ('{"answer": ""}', '{"answer": ""}', 1.0, 1.0),
    ],
)
def test_scores_of_a_reply(reply: str, gold: str, em: float, f1: float) -> None:
    assert score_reply(reply, gold) == pytest.approx((em, f1))


def test_probabilities_of_yes_in_batches_equal_those_one_by_one_and_follow_the_replies(
    tiny: Path, folder: Path, tmp_path: Path
) -> None:
    training = make_training(tiny, folder, tmp_path / "out", epochs=12)
    training.run()
    student, data = training.student, training.data
    judged = [place for place, each in enumerate(data.train_examples) if each.completion in ("yes", "no")]
    examples = [data.train[place] for place in judged]
    together = yes_probabilities(student, examples)
    assert together == pytest.approx([yes_probabilities(student, [one])[0] for one in examples], abs=1e-4)
    said = replies(student, examples)
    assert set(said) == {"yes", "no"}
    assert [probability >= 0.5 for probability in together] == [reply == "yes" for reply in said]


def test_judgements_that_are_as_sure_as_they_are_right_have_no_calibration_error() -> None:
    calibrated = [0.75] * 4 + [0.25] * 4
    truths = [True, True, True, False, False, False, False, True]
    assert verdict_calibration_error(calibrated, truths) == pytest.approx(0)
    assert verdict_calibration_error([0.99] * 4, [True, False, False, False]) == pytest.approx(0.74)
    assert verdict_calibration_error([1.0, 0.0], [True, False]) == 0
    assert verdict_calibration_error([1.0, 0.0], [False, True]) == 1
    # Parts do not cancel out.
    assert verdict_calibration_error([0.9, 0.6], [True, False]) == pytest.approx((0.1 + 0.6) / 2)
