"""A `dspy.Module` that answers no question, compiled with a budget, an estimate, and candidates that outlive a stop."""

import os
import re
import signal
import uuid
from pathlib import Path
from typing import Any

import dspy
import pytest
from hypothesis import given
from hypothesis import strategies as st

import verihop
from experiments.pipeline.compile_module import OPTIMIZERS
from optimizers.examples import asked_words, hold_out
from programs.lms.calls.budget import Budget
from programs.lms.calls.metered import metered_lm
from programs.lms.connect import Connection
from signatures.common.errors import UserError, UserNotice
from tests.conftest import ScriptedEngine

HINT = "Money goes to billing."
pytestmark = pytest.mark.filterwarnings(f"ignore::{UserNotice.__module__}.{UserNotice.__qualname__}")


class Sort(dspy.Module):
    """Sorts a letter, in two steps."""

    def __init__(self):
        super().__init__()
        self.summarize = dspy.Predict("subject: str, body: str -> summary: str")
        self.classify = dspy.Predict("summary: str -> department: str")

    def forward(self, subject, body):
        return self.classify(summary=self.summarize(subject=subject, body=body).summary)


class Mailroom(ScriptedEngine):
    """An LM that knows where money goes only if an instruction or a demonstration says so."""

    def __init__(self, on_call=None):
        super().__init__(self._said)
        self.on_call = on_call

    def complete(self, request):
        if self.on_call is not None:
            self.on_call(len(self.requests) + 1)
        self.shown = "".join(message.text for message in request.messages[:-1])
        return super().complete(request)

    def _said(self, system, user):
        if "proposed_instruction" in system:
            return f"[[ ## proposed_instruction ## ]]\n{HINT}\n\n[[ ## completed ## ]]"
        if "new_instruction" in system:
            return f"[[ ## new_instruction ## ]]\n{HINT}\n\n[[ ## completed ## ]]"
        if "summary` (str):" in system.partition("output fields")[2]:
            return (
                f"[[ ## summary ## ]]\n{user.split('## ]]')[2].strip().partition(chr(10))[0]}\n\n[[ ## completed ## ]]"
            )
        knows = HINT in system or "billing" in self.shown
        said = "billing" if knows and "money" in user else "access"
        thought = "[[ ## reasoning ## ]]\nSo it is.\n\n" if "`reasoning`" in system else ""
        return f"{thought}[[ ## department ## ]]\n{said}\n\n[[ ## completed ## ]]"


def letters(n: int) -> list[dspy.Example]:
    return [
        dspy.Example(
            subject=f"Letter {number}",
            body=f"About {'money' if number % 2 else 'keys'}, {number}",
            department="billing" if number % 2 else "access",
        ).with_inputs("subject", "body")
        for number in range(n)
    ]


TRAIN, VAL = letters(16)[:8], letters(16)[8:]


def right(example, prediction, trace=None):
    """Whether the department is right."""
    return example.department == prediction.department


@pytest.fixture
def connected(own_cache):
    """Return a function that connects the scripted LM, the same one each time, so that its replies are cached."""
    model = f"scripted/{uuid.uuid4()}"

    def connect(budget: dict[str, Any] | None = None, *, cache: bool = True, on_call=None) -> Connection:
        from programs.lms.calls.reply_cache import use_reply_cache

        use_reply_cache()
        lm = metered_lm(model, engine=Mailroom(on_call), cache=cache, budget=Budget(**budget) if budget else None)
        return Connection("scripted", lm, None, None, "samples")

    return connect


@pytest.fixture
def compiled(connected, tmp_path):
    """Return a function that compiles a module into `tmp_path/made`."""

    def run(module=None, lm=None, **settings):
        given = {"metric": right, "valset": VAL, "optimizer": "copro", "threads": 1, "progress": False, **settings}
        if given["optimizer"] == "copro":
            given.setdefault("options", {"breadth": 3, "depth": 1})
        return verihop.compile_module(module or Sort(), TRAIN, tmp_path / "made", lm=lm or connected(), **given)

    return run


SMALL = {
    "random_search": {"candidates": 2},
    "mipro": {"num_candidates": 2, "num_trials": 2},
    "simba": {"bsize": 4, "num_candidates": 2, "max_steps": 1},
    "gepa": {"max_metric_calls": 40},
    "infer_rules": {"num_candidates": 1},
    "copro": {"breadth": 3, "depth": 1},
}


@pytest.mark.parametrize("optimizer", [name for name in OPTIMIZERS if name != "labeled"])
def test_every_optimizer_takes_it_and_what_is_loaded_answers_alike(compiled, connected, tmp_path, optimizer):
    made = compiled(optimizer=optimizer, options=SMALL.get(optimizer, {}))
    assert made.stopped is None
    loaded = verihop.load_module(tmp_path / "made", Sort())
    assert loaded.dump_state() == made.program.dump_state()
    with dspy.context(lm=connected().lm):
        assert [loaded(**each.inputs()).toDict() for each in VAL] == [
            made.program(**each.inputs()).toDict() for each in VAL
        ]
    assert made.artifact.program.endswith(":Sort")
    assert len(made.artifact.metric["scores"]) == len(VAL)


def test_a_better_instruction_is_found_and_every_candidate_is_kept(compiled, tmp_path):
    made = compiled()
    assert (made.candidates[0].label, made.candidates[0].mean) == ("copro 0: as it was", 0.5)
    assert made.artifact.metric["mean"] == 1.0
    assert made.program.classify.signature.instructions == HINT
    kept = verihop.candidates(tmp_path / "made", Sort())
    assert [(each.label, each.mean) for each in kept] == [(each.label, each.mean) for each in made.candidates]
    assert max(kept, key=lambda each: each.mean).program.dump_state() == made.program.dump_state()


def test_labels_alone_are_demonstrations_without_a_call(connected, tmp_path):
    lm = connected(cache=False)
    module = dspy.Predict("subject: str, body: str -> department: str")
    made = verihop.compile_module(
        module, TRAIN, tmp_path / "made", metric=right, lm=lm, optimizer="labeled", max_demos=3, progress=False
    )
    assert len(made.program.demos) == 3
    assert {demo["department"] for demo in made.program.demos} <= {"billing", "access"}
    assert len(lm.lm.engine.requests) == 3  # for the estimate


@pytest.mark.parametrize("optimizer", ["copro", "random_search", "bootstrap"])
def test_the_estimate_knows_the_modules_own_calls_and_is_not_exceeded(connected, tmp_path, optimizer):
    settings = {"metric": right, "valset": VAL, "optimizer": optimizer, "options": SMALL.get(optimizer, {})}
    lm = connected(cache=False)
    estimate = verihop.estimate_module(Sort(), TRAIN, lm=lm, **settings)
    assert (estimate.measured, len(lm.lm.engine.requests)) == (3, 6)
    assert f"about {estimate.calls:,} LM calls" in str(estimate)
    assert "by 3 runs on training examples" in str(estimate)
    verihop.compile_module(Sort(), TRAIN, tmp_path / "made", lm=lm, progress=False, **settings)
    assert len(lm.lm.engine.requests) - 12 <= estimate.calls


def test_a_spent_budget_keeps_the_best_so_far_and_more_of_it_goes_on(compiled, connected, tmp_path):
    lm = connected({"calls": 36})
    with pytest.warns(UserNotice, match="The best of 2 candidates scored so far is frozen"):
        first = compiled(lm=lm)
    assert first.stopped.startswith("The budget of 36 calls is used up")
    assert len(lm.lm.engine.requests) <= 36
    assert [each.complete for each in first.candidates] == [True, True]
    assert verihop.load_module(tmp_path / "made", Sort()).dump_state() == first.program.dump_state()
    more = connected({"calls": 600})
    second = compiled(lm=more, resume=True)
    assert (second.stopped, second.artifact.metric["mean"]) == (None, 1.0)
    assert len(more.lm.engine.requests) < 36  # what was asked before is not asked again
    again = connected()
    third = compiled(lm=again, resume=True)
    assert (third.program.dump_state(), again.lm.engine.requests) == (second.program.dump_state(), [])
    assert len(third.candidates) == len(second.candidates)


def test_without_any_candidate_the_module_is_frozen_as_it_was(compiled, connected):
    first = compiled(lm=connected({"calls": 10}))
    assert first.stopped is not None
    assert (first.candidates, first.program.dump_state()) == ([], Sort().dump_state())


def test_ctrl_c_returns_the_best_so_far_and_it_goes_on(compiled, connected, tmp_path):
    def interrupt(number):
        if number == 38:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.warns(UserNotice, match="interrupted.*Go on with the same arguments and resume=True"):
        first = compiled(lm=connected(on_call=interrupt))
    assert "interrupted" in first.stopped
    assert len(verihop.candidates(tmp_path / "made", Sort())) == len(first.candidates) >= 1
    with pytest.raises(UserError, match="was stopped: resume it"):
        compiled()
    second = compiled(resume=True)
    assert (second.stopped, second.artifact.metric["mean"]) == (None, 1.0)


def test_candidates_of_one_that_was_killed_are_there(compiled, tmp_path):
    seen = []

    def failing(example, prediction):
        seen.append(example)
        if len(seen) > 14:
            raise OSError("the disk is gone")
        return right(example, prediction)

    with pytest.raises(UserError, match=r"failing.* failed .*the disk is gone"):
        compiled(metric=failing)
    (kept,) = verihop.candidates(tmp_path / "made", Sort())
    assert (kept.label, kept.mean, kept.complete) == ("copro 0: as it was", 0.5, True)
    with pytest.raises(UserError, match="has no candidates"):
        verihop.candidates(tmp_path / "nothing", Sort())


def test_another_module_metric_or_set_is_not_taken_for_the_stopped_one(compiled, connected):
    compiled(lm=connected({"calls": 36}))
    for changed in ({"valset": VAL[:4]}, {"metric": lambda example, prediction: 1.0}, {"max_demos": 1}):
        with pytest.raises(UserError, match="had another"):
            compiled(resume=True, **changed)


def needs_trace(example, prediction, trace):
    return right(example, prediction)


def for_gepa(gold, prediction, trace, pred_name, pred_trace):
    return dspy.Prediction(score=float(right(gold, prediction)), feedback=f"{pred_name}: look for money")


def dictionary(example, prediction, trace=None):
    return {"score": float(right(example, prediction)), "feedback": "look for coins"}


class AsObject:
    def __call__(self, example, prediction):
        return right(example, prediction)


@pytest.mark.parametrize("metric", [right, needs_trace, for_gepa, dictionary, AsObject(), lambda e, p: right(e, p)])
def test_every_form_of_a_metric_scores(compiled, metric):
    made = compiled(metric=metric)
    assert (made.artifact.metric["mean"], made.candidates[0].mean) == (1.0, 0.5)


@pytest.mark.parametrize(
    ("metric", "words"),
    [
        (for_gepa, "classify: look for money"),
        (dictionary, "look for coins"),
        (right, 'expected "billing", got "access"'),
    ],
)
def test_gepa_shows_the_words_of_the_metric_or_names_what_was_expected(compiled, connected, metric, words):
    lm = connected(cache=False)
    compiled(lm=lm, metric=metric, optimizer="gepa", options={"max_metric_calls": 30}, seed=1)
    asked = [request.messages[-1].text for request in lm.lm.engine.requests if "new_instruction" in str(request.system)]
    assert any(words in text.replace('\\"', '"') for text in asked)


@pytest.mark.parametrize(
    ("metric", "says"),
    [
        (lambda example: 1, "it must take"),
        (lambda a, b, c, d: 1, "it must take"),
        (Sort, "metric must be a function"),
        (3, "metric must be a function"),
        (lambda example, prediction: "good", "return a number from 0 to 1"),
        (lambda example, prediction: 7, "return a number from 0 to 1"),
        (lambda example, prediction: prediction.nothing, "AttributeError"),
    ],
)
def test_what_is_no_metric_is_one_line(compiled, metric, says):
    with pytest.raises(UserError, match=says) as raised:
        compiled(metric=metric)
    assert "\n" not in str(raised.value)


def never(example, prediction):
    return None


def answered(example):
    return dspy.Example(**example, answers=["billing"]).with_inputs(*example.inputs())


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        *(
            ({"metric": never, "optimizer": name, "options": options}, "no value for any of the 8 validation examples")
            for name, options in {**SMALL, "bootstrap": {}}.items()
        ),
        ({"metric": "em", "valset": [answered(each) for each in VAL]}, "reads the output answer, .* only department"),
        ({"metric": "em"}, "reads the output answer"),
    ],
)
def test_a_metric_that_never_has_a_value_freezes_nothing(compiled, tmp_path, settings, says):
    with pytest.raises(UserError, match=says):
        compiled(**settings)
    assert not (tmp_path / "made").exists()
    assert compiled().stopped is None  # with a metric that fits


@pytest.mark.parametrize("optimizer", ["copro", "gepa", "bootstrap"])
def test_examples_without_a_value_are_counted_and_not_in_the_mean(compiled, optimizer):
    def of_money(example, prediction):
        return right(example, prediction) if example.department == "billing" else None

    made = compiled(metric=of_money, optimizer=optimizer, options=SMALL.get(optimizer, {})).artifact.metric
    assert (made["n"], made["undefined"]) == (4, 4)
    assert sorted(made["scores"].values(), key=str).count(None) == 4


def test_a_metric_that_was_mended_is_not_refused(compiled, tmp_path):
    def yes(example, prediction):
        return "yes"

    with pytest.raises(UserError, match=r"returned 'yes' on the example with subject 'Letter \d+': return a number"):
        compiled(metric=yes)
    assert not (tmp_path / ".made.compiling").exists()
    assert compiled().stopped is None


def test_all_faults_of_examples_are_named_at_once(connected, tmp_path):
    broken = [
        *TRAIN[:1],
        {"subject": "a"},
        dspy.Example(subject="a", body="b"),
        dspy.Example(title="a").with_inputs("title"),
    ]
    with pytest.raises(UserError) as raised:
        verihop.compile_module(
            Sort(), broken, tmp_path / "made", metric=right, lm=connected(), valset=[dspy.Example()], progress=False
        )
    for said in (
        "4 examples do not fit",
        "trainset[1] is of type dict",
        "trainset[2] has no inputs",
        "trainset[3] has inputs that the module does not take",
        "valset[0] has no inputs",
    ):
        assert said in str(raised.value)


class Failing(Sort):
    def forward(self, subject, body):
        raise KeyError("no such letter")


class Sometimes(Sort):
    def forward(self, subject, body):
        if "9" in subject:
            raise KeyError("no such letter")
        return super().forward(subject, body)


def test_a_module_that_fails_is_told_before_anything_is_spent(compiled, connected):
    lm = connected()
    with pytest.raises(UserError, match="fails on all of the first 3 training examples: KeyError: 'no such letter'"):
        compiled(Failing(), lm=lm)
    assert lm.lm.engine.requests == []


def test_an_example_that_fails_scores_0_and_ends_nothing(compiled):
    made = compiled(Sometimes())
    assert (made.artifact.metric["errors"], made.artifact.metric["mean"]) == (1, 7 / 8)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"optimizer": "knn"}, "changes the kind of program.*labeled, bootstrap"),
        ({"optimizer": "magic"}, "Unknown optimizer 'magic'"),
        ({"module": dspy.Module()}, "has no predictor"),
        ({"module": 3}, "module must be a dspy.Module"),
        ({"lm": 3}, "lm must be a connection"),
        ({"valset": 3}, "valset must be a list of dspy.Example"),
        ({"teacher": 3}, "teacher must be a connection"),
    ],
)
def test_what_does_not_fit_is_one_line(compiled, change, says):
    with pytest.raises(UserError, match=says):
        compiled(**change)


def test_a_predictor_with_its_own_lm_would_run_past_the_budget(compiled, connected):
    module = Sort()
    module.classify.lm = connected().lm
    with pytest.raises(UserError, match="has an LM of its own"):
        compiled(module)


def test_misspelled_settings_name_the_function():
    with pytest.raises(TypeError, match=r"compile_module\(\) has no argument optimiser: did you mean optimizer"):
        verihop.compile_module(Sort(), TRAIN, "made", metric=right, lm="simulated", optimiser="gepa")


def test_an_artifact_is_loaded_only_into_its_own_kind(compiled, tmp_path, world):
    compiled()
    with pytest.raises(UserError, match="load it with verihop.load_module"):
        verihop.load(tmp_path / "made", lm="simulated")
    with pytest.raises(UserError, match="had the predictors"):
        verihop.load_module(tmp_path / "made", dspy.Predict("summary -> department"))
    program = verihop.load(program="rag", index=world / "index", lm="simulated")
    verihop.freeze(program, tmp_path / "rag")
    with pytest.raises(UserError, match="holds the program rag"):
        verihop.load_module(tmp_path / "rag", Sort())
    (tmp_path / "made" / "program.json").write_text("{}")
    with pytest.raises(UserError, match="has changed since it was frozen"):
        verihop.load_module(tmp_path / "made", Sort())


def test_the_page_runs_as_it_is_written(connected, tmp_path, monkeypatch):
    page = (Path(__file__).parents[3] / "docs" / "any_dspy_module.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", page, flags=re.DOTALL | re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(verihop, "connect", lambda lm, budget: connected({"calls": budget["calls"]}))  # it has no price
    names = {"trainset": letters(12), "__name__": "page"}
    for block in blocks:
        exec(block, names)
    assert (len(blocks), names["best"].stopped, names["best"].artifact.metric["mean"]) == (2, None, 1.0)
    assert names["program"].dump_state() == names["best"].program.dump_state()
    assert (tmp_path / "sort.json").is_file()


@given(st.lists(st.tuples(st.text(max_size=3), st.text(max_size=3)), min_size=2, max_size=12))
def test_examples_held_out_share_nothing_with_those_that_are_left(pairs):
    examples = [dspy.Example(left=left, right=right).with_inputs("left", "right") for left, right in pairs]
    if len({asked_words(each) for each in examples}) < 2:
        with pytest.raises(UserError, match="at least two different"):
            hold_out(examples)
        return
    training, held_out = hold_out(examples)
    assert len(training) + len(held_out) == len(examples)
    assert not {asked_words(each) for each in training} & {asked_words(each) for each in held_out}
