"""Training in stages as a plan says, on a tiny model."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from experiments.analysis.training_curves import Curve, StageCurves, draw_curves, read_curves
from experiments.pipeline.progress import TrainingProgress
from experiments.pipeline.training.plan import Plan, PlanRun, read_plan
from optimizers.distill.examples import write_examples
from signatures.common.errors import UserError
from tests.tiny_llama import make_examples

STAGES = """
threads = 1
epochs = 1
batch_size = 4
rank = 4

[[stages]]
name = "first"
examples = "one"

[[stages]]
name = "second"
examples = "two/examples.jsonl"
learning_rate = 5e-4
weights = { yes_no = 2 }
"""


def written(folder: Path, text: str) -> Path:
    (folder / "plan.toml").write_text(text)
    return folder / "plan.toml"


def test_a_plan_states_what_all_stages_share_once(tmp_path):
    first, second = read_plan(written(tmp_path, STAGES), {"base": "gguf:other"}).stages
    assert (first.name, first.examples) == ("first", tmp_path / "one")
    assert first.settings == {"threads": 1, "epochs": 1, "batch_size": 4, "rank": 4, "base": "gguf:other"}
    assert second.settings["weights"] == {"yes_no": 2}
    assert second.settings["rank"] == 4


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "no stages"),
        ("[[stages]", "not a TOML"),
        ("[stages]\nname = 'a'", "must be tables"),
        ("stages = 3", "must be tables"),
        (STAGES.replace("threads", "asked = 3\nthreads"), "asked must be tables"),
        (STAGES.replace("learning_rate", "rank = 8\nlearning_rate"), "rank"),
        (STAGES.replace("threads", 'method = "full"\nthreads'), "lora"),
        (STAGES.replace("epochs = 1", 'epochs = "2"'), "another type"),
        (STAGES.replace("{ yes_no = 2 }", "3"), "must be a mapping"),
        (STAGES.replace('"one"', '"~nobody-of-that-name/x"'), "in full"),
        (f"{STAGES}[[asked]]\nname = 'x'\nprogram = 'rag'\nquestions = 'q'\nlimit = 'x'", "limit"),
        (f"{STAGES}[[asked]]\nname = 'x'\nprogram = 'rag'\nquestions = 'q'\nlimit = true", "limit"),
        (f"{STAGES}[[asked]]\nname = 'x'\nprogram = 'rag'\nquestions = 'q'\nknobs = 3", "knobs"),
        (f"{STAGES}[[asked]]\nname = 'x'\nprogram = 5\nquestions = 'q'", "needs program"),
        ("[[stages]]\nname = 'a'", "needs examples"),
        ("[[stages]]\nexamples = 'a'", "needs name"),
        ("[[stages]]\nname = '../a'\nexamples = 'a'", r"\.\./a"),
        ("[[stages]]\nname = 'a'\nexamples = 'a'\nranc = 4", "rank"),
        ("[[stages]]\nname = 'a'\nexamples = 'a'\nrank = 0", "rank"),
        ("[[stages]]\nname = 'a'\nexamples = 'a'\n[[stages]]\nname = 'a'\nexamples = 'b'", "has two"),
        (STAGES + 'resume_adapter = "elsewhere"', "only for the first"),
        (STAGES + "[[asked]]\nname = 'x'", "needs questions"),
    ],
)
def test_a_wrong_plan_is_refused_before_anything_is_trained(tmp_path, text, word):
    with pytest.raises(UserError, match=word):
        read_plan(written(tmp_path, text))


def test_a_missing_plan_is_named(tmp_path):
    with pytest.raises(UserError, match=r"none\.toml"):
        read_plan(tmp_path / "none.toml")


def test_curves_go_on_where_the_run_before_ended(tmp_path):
    for name, losses in (("a", [4.0, 2.0]), ("b", [1.0])):
        (tmp_path / name).mkdir()
        lines = [json.dumps({"step": n, "loss": loss, "tokens": 10}) + "\n" for n, loss in enumerate(losses, 1)]
        (tmp_path / name / "training.jsonl").write_text("".join(lines) + '{"step": 9, "lo')  # a kill cut the last line
    a, b = tmp_path / "a", tmp_path / "b"
    measured = {a: [{"step": 2, "losses": {"all": 0.5}, "metrics": {"f1": 0.25}}]}
    first, second = read_curves([a, tmp_path / "not started", b], measured)
    assert (first.end, first.loss) == (20, Curve([10, 20], [4.0, 3.0]))
    assert first.measured == {"f1": Curve([20], [0.25]), "loss": Curve([20], [0.5])}
    assert (second.end, second.loss) == (30, Curve([30], [1.0]))


def test_the_scores_of_programs_are_drawn_by_their_questions(tmp_path, monkeypatch):
    shown: list[str] = []
    monkeypatch.setattr("matplotlib.axes.Axes.plot", lambda axes, *points, label=None, **style: shown.append(label))
    names = ("f1", "f1[reading]", "ece", "program_f1[hotpotqa]", "program_errors[hotpotqa]", "loss")
    curves = StageCurves(1, Curve([1], [2.0]), {name: Curve([1], [0.5]) for name in names})
    draw_curves([curves], ["one"], tmp_path / "plot.png")
    assert shown == ["training loss", "validation loss", "calibration error", "f1", "program_f1[hotpotqa]"]


@pytest.fixture
def plan(tiny: Path, tmp_path: Path) -> Plan:
    write_examples(tmp_path / "one" / "examples.jsonl", make_examples())
    write_examples(tmp_path / "two" / "examples.jsonl", make_examples()[::-1])
    return read_plan(written(tmp_path, STAGES), {"base": str(tiny)})


@pytest.mark.slow
def test_stages_follow_each_other_and_finished_ones_are_not_trained_again(plan, tmp_path):
    out = tmp_path / "out"
    done = PlanRun(plan, out).run(resume=False)
    assert [stage["name"] for stage in done["stages"]] == ["first", "second"]
    assert done["stages"][1]["settings"]["resume_adapter"] == str(out / "1-first")
    assert json.loads((out / "plan.json").read_text()) == json.loads(json.dumps(done))
    assert (out / "training.png").read_bytes().startswith(b"\x89PNG")
    assert 0 <= done["stages"][0]["validation"][-1]["metrics"]["ece"] <= 1
    times = {path: path.stat().st_mtime_ns for path in out.rglob("adapter_model.safetensors")}
    assert PlanRun(plan, out).run(resume=True) == done
    assert {path: path.stat().st_mtime_ns for path in times} == times
    with pytest.raises(UserError, match="already"):
        PlanRun(plan, out).run(resume=False)
    (tmp_path / "plan.toml").write_text(STAGES.replace("5e-4", "6e-4"))
    changed = read_plan(tmp_path / "plan.toml", {"base": plan.stages[0].settings["base"]})
    with pytest.raises(UserError, match="learning_rate"):
        PlanRun(changed, out).run(resume=True)


@pytest.mark.slow
def test_the_command_trains_goes_on_and_says_so(verihop, plan, tiny, tmp_path):
    out = tmp_path / "out"
    code, shown, err = verihop("distill", "plan", tmp_path / "plan.toml", "--base", tiny, "-o", out)
    assert code == 0, err
    assert "Stage 2 of 2: second" in err
    assert "second: 6 steps" in shown
    assert "Next:" not in shown + err  # its vocabulary is not that of the embedded LM
    code, shown, _ = verihop("distill", "plan", tmp_path / "plan.toml", "--base", tiny, "-o", out, "--resume", "--json")
    assert code == 0
    assert [stage["name"] for stage in json.loads(shown)["stages"]] == ["first", "second"]


@pytest.mark.slow
def test_a_stage_that_was_interrupted_goes_on_where_it_was(plan, tmp_path, monkeypatch):
    def interrupt(self: TrainingProgress, step: Any) -> None:
        if "2-second" in str(self._training.folder) and step.step == 2:
            raise KeyboardInterrupt

    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr(TrainingProgress, "add", interrupt)
        with pytest.raises(KeyboardInterrupt):
            PlanRun(plan, out).run(resume=False)
    assert (out / "2-second" / "checkpoint-0000002").is_dir()
    done = PlanRun(plan, out).run(resume=True)
    steps = (out / "2-second" / "training.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in steps] == list(range(1, done["stages"][1]["steps"] + 1))
    shutil.move(out, tmp_path / "moved")
    assert PlanRun(plan, tmp_path / "moved").run(resume=True) == done


@pytest.mark.slow
def test_a_stage_is_not_taken_for_finished_after_one_before_it_was_trained_anew(plan, tiny, tmp_path):
    out = tmp_path / "out"
    PlanRun(plan, out).run(resume=False)
    shutil.rmtree(out / "1-first")
    (tmp_path / "plan.toml").write_text(STAGES.replace('name = "first"', 'name = "first"\nlearning_rate = 1e-4'))
    anew = read_plan(tmp_path / "plan.toml", {"base": str(tiny)})
    with pytest.raises(UserError, match="weights of stage 'first'"):
        PlanRun(anew, out).run(resume=True)
    (tmp_path / "plan.toml").write_text(STAGES.replace('"second"', '"other"'))
    with pytest.raises(UserError, match="another plan"):
        PlanRun(read_plan(tmp_path / "plan.toml", {"base": str(tiny)}), out).run(resume=True)
    (out / "1-first" / "training.json").write_text("{}")
    with pytest.raises(UserError, match="does not describe a stage"):
        PlanRun(plan, out).run(resume=True)


def test_what_a_later_stage_lacks_is_said_before_the_first_is_trained(plan, tmp_path):
    (tmp_path / "two" / "examples.jsonl").unlink()
    with pytest.raises(UserError, match="No file"):
        PlanRun(plan, tmp_path / "out").run(resume=False)
    assert not (tmp_path / "out" / "1-first").exists()
