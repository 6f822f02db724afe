"""Training in stages as a plan says, on a tiny model."""

import json
from pathlib import Path

import pytest

from experiments.analysis.training_curves import Curve, read_curves
from experiments.pipeline.training.plan import Plan, PlanRun, read_plan
from optimizers.distill.examples import write_examples
from signatures.common.errors import UserError
from tests.tiny_llama import make_examples, write_tiny_llama

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
        ("[[stages]", "no TOML"),
        ("[stages]\nname = 'a'", "no stages"),
        ("[[stages]]\nname = 'a'", "needs examples"),
        ("[[stages]]\nexamples = 'a'", "needs name"),
        ("[[stages]]\nname = '../a'\nexamples = 'a'", r"\.\./a"),
        ("[[stages]]\nname = 'a'\nexamples = 'a'\nranc = 4", "rank"),
        ("[[stages]]\nname = 'a'\nexamples = 'a'\nrank = 0", "rank"),
        ("[[stages]]\nname = 'a'\nexamples = 'a'\n[[stages]]\nname = 'a'\nexamples = 'b'", "two stages"),
        (STAGES + 'resume_adapter = "elsewhere"', "the first alone"),
        (STAGES + "[[asked]]\nname = 'x'", "needs a name, a program and questions"),
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


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("peft", reason="the extra [train] is not installed")
    folder = tmp_path_factory.mktemp("tiny")
    write_tiny_llama(folder)
    return folder


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
