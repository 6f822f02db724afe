"""Runs that go wrong: an error, a kill, Ctrl-C or SIGTERM at a bad moment, a disk that fails in a write."""

import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from optimizers.distill.examples import write_examples
from optimizers.distill.training.checkpoints import remove_leftovers
from optimizers.distill.training.log import TrainingStep, write_step
from optimizers.distill.training.train import uninterrupted
from signatures.common.errors import UserError
from tests.optimizers.distill.training.runs import interrupt, make_training, read_log
from tests.tiny_llama import make_examples

ADAPTER = "adapter_model.safetensors"


@pytest.mark.slow
def test_a_run_that_an_error_ended_is_resumed(tiny: Path, folder: Path, tmp_path: Path) -> None:
    whole = make_training(tiny, folder, tmp_path / "whole", epochs=2).run()

    def fail(step: TrainingStep) -> None:
        if step.step == 3:
            raise RuntimeError("CUDA out of memory")

    with pytest.raises(RuntimeError, match="out of memory"):
        make_training(tiny, folder, tmp_path / "out", epochs=2).run(report=fail)
    description = make_training(tiny, folder, tmp_path / "out", epochs=2).run(resume=True)
    assert (tmp_path / "out" / ADAPTER).read_bytes() == (tmp_path / "whole" / ADAPTER).read_bytes()
    assert description["tokens"] == whole["tokens"]


def test_a_full_disk_is_reported_not_the_checkpoint_that_does_not_fit(
    tiny: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = make_training(tiny, folder, tmp_path / "out")

    def full(path: Path) -> None:
        raise OSError("No space left on device")

    def fail(step: TrainingStep) -> None:
        raise RuntimeError("the first error")

    monkeypatch.setattr(training.student, "write_weights", full)
    with pytest.raises(RuntimeError, match="the first error") as raised:
        training.run(report=fail)
    assert "No checkpoint could be written: No space left on device" in raised.value.__notes__


@pytest.mark.parametrize("content", ["{}", "[]", "{", '{"step": "1"}'])
def test_a_damaged_state_is_one_line(content: str, tiny: Path, folder: Path, tmp_path: Path) -> None:
    interrupt(make_training(tiny, folder, tmp_path / "out"))
    (path,) = (tmp_path / "out").glob("checkpoint-*/state.json")
    path.write_text(content)
    with pytest.raises(UserError, match=r"\A.*checkpoint-0000001' is damaged \(.+\). Restart the training.*\Z"):
        make_training(tiny, folder, tmp_path / "out").run(resume=True)


@pytest.mark.parametrize(
    ("entry", "value"), [("evaluated", [1]), ("measured", [3]), ("skipped", "1"), ("step", -1), ("seconds", -0.5)]
)
def test_a_state_of_other_types_is_one_line(
    entry: str, value: object, tiny: Path, folder: Path, tmp_path: Path
) -> None:
    interrupt(make_training(tiny, folder, tmp_path / "out"))
    (path,) = (tmp_path / "out").glob("checkpoint-*/state.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), entry: value}))
    with pytest.raises(UserError, match=rf"\A.*damaged \(state.json: '{entry}.*\Z"):
        make_training(tiny, folder, tmp_path / "out").run(resume=True)


@pytest.mark.parametrize("name", ["weights", "optimizer"])
@pytest.mark.parametrize("change", ["name", "shape"])
def test_tensors_of_another_model_are_one_line(
    name: str, change: str, tiny: Path, folder: Path, tmp_path: Path
) -> None:
    from safetensors.torch import load_file, save_file

    interrupt(make_training(tiny, folder, tmp_path / "out"))
    (path,) = (tmp_path / "out").glob(f"checkpoint-*/{name}.safetensors")
    first, *rest = load_file(path).items()
    changed = (f"{first[0]}x", first[1]) if change == "name" else (first[0], first[1].new_zeros(1))
    save_file(dict([changed, *rest]), path)
    with pytest.raises(UserError, match=r"\A.*is damaged.*\Z"):
        make_training(tiny, folder, tmp_path / "out").run(resume=True)


def test_a_damaged_log_is_no_reason_to_stop(tiny: Path, folder: Path, tmp_path: Path) -> None:
    interrupt(make_training(tiny, folder, tmp_path / "out"))
    (tmp_path / "out" / "training.jsonl").write_bytes(b'\xff\xfe{"step": 1}\n')
    assert make_training(tiny, folder, tmp_path / "out").run(resume=True)["steps"] > 1


def test_the_adapter_of_somebody_else_is_not_replaced(tiny: Path, folder: Path, tmp_path: Path) -> None:
    make_training(tiny, folder, tmp_path / "out").run()
    for name in ("training.json", "training.jsonl"):
        (tmp_path / "out" / name).unlink()
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    with pytest.raises(UserError, match=r"holds adapter_config.json, which no run described there has written"):
        make_training(tiny, folder, tmp_path / "out", seed=1).run()
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before


def test_a_run_killed_before_its_first_checkpoint_is_started_anew(tiny: Path, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    (out / "best").mkdir(parents=True)
    (out / "best" / ADAPTER).write_bytes(b"of the killed run")
    first, second = (TrainingStep(number, 2.0, 1e-3, 9, 1.0, 0.1, 0.5) for number in (1, 2))
    with open(out / "training.jsonl", "w", encoding="utf-8") as log:
        write_step(log, first)
        write_step(log, second)
        log.write('{"step":3,"lo')  # cut by the kill
    with pytest.raises(UserError, match=r"holds no checkpoint to resume. Start without resuming"):
        make_training(tiny, folder, out).run(resume=True)
    make_training(tiny, folder, out).run()
    assert [line["step"] for line in read_log(out)] == [1, 2, 3, 4, 5]
    assert not (out / "best").exists()
    with pytest.raises(UserError, match="contains a training run"):
        make_training(tiny, folder, out).run()


@pytest.mark.slow
@pytest.mark.parametrize("method", ["lora", "full"])
def test_the_best_weights_of_a_killed_run_are_known(method: str, tiny: Path, folder: Path, tmp_path: Path) -> None:
    settings = {"method": method, "evaluate_every": 3, "keep_best": "loss"}
    make_training(tiny, folder, tmp_path / "whole", **settings).run()
    for name in ("best", "training.jsonl"):
        (tmp_path / "out").mkdir(exist_ok=True)
        (tmp_path / "whole" / name).rename(tmp_path / "out" / name)
    assert make_training(tiny, folder, tmp_path / "out", **settings).run()["steps"] == 5


MINE = {
    "examples": {"training.jsonl": '{"messages": [], "completion": "x"}\n', "best/adapter_config.json": "{}"},
    "one line": {"training.jsonl": '{"step": 1, "text": "x"}'},
    "another log": {"training.jsonl": '{"step": 1, "loss": 2.0}\n'},
    "not text": {"training.jsonl": b"\xff\xfe\n"},
    "best": {"training.jsonl": "", "best/adapter_config.json": "{}", "best/notes.txt": "mine"},
    "folder in best": {"training.jsonl": "", "best/mine/config.json": "{}"},
    "best without a log": {"best/model.safetensors": "mine"},
    "file": {"best": "mine"},
}
NAMED = {"best": "best/notes.txt", "folder in best": "best/mine", "best without a log": "best", "file": "best"}


@pytest.mark.parametrize("name", sorted(MINE))
def test_files_of_the_user_are_not_taken_for_those_of_a_run(
    name: str, tiny: Path, folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    for path, content in MINE[name].items():
        (out / path).parent.mkdir(parents=True, exist_ok=True)
        (out / path).write_bytes(content if isinstance(content, bytes) else content.encode())
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    said = f"holds '{NAMED.get(name, 'training.jsonl')}', which no run has written. Choose another folder."
    with pytest.raises(UserError, match=re.escape(said)):
        make_training(tiny, folder, out, evaluate_every=2, keep_best="loss").run()
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


def test_the_command_with_a_mistyped_metric_can_be_corrected(tiny: Path, folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="Unknown metric 'f11'"):
        make_training(tiny, folder, tmp_path / "out", evaluate_every=2, keep_best="f11").run()
    description = make_training(tiny, folder, tmp_path / "out", evaluate_every=2, keep_best="loss").run()
    assert description["steps"] == 5


def test_without_validation_examples_nothing_is_the_best(tiny: Path, folder: Path, tmp_path: Path) -> None:
    write_examples(folder / "examples.jsonl", [one for one in make_examples() if one.split == "train"])
    with pytest.raises(UserError, match="by 'loss': no example is held back for validation. Make or mix"):
        make_training(tiny, folder, tmp_path / "out", evaluate_every=2, keep_best="loss").run()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_while_weights_change_is_obeyed_after_the_step_is_logged(
    name: str, tiny: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = make_training(tiny, folder, tmp_path / "whole", epochs=2).run()
    before = signal.getsignal(getattr(signal, name))
    training = make_training(tiny, folder, tmp_path / "out", epochs=2)
    change = training.optimizer.step

    def change_and_signal() -> None:
        change()
        if training.step == 2:  # the third step
            os.kill(os.getpid(), getattr(signal, name))

    monkeypatch.setattr(training.optimizer, "step", change_and_signal)
    with pytest.raises(KeyboardInterrupt):
        training.run()
    assert signal.getsignal(getattr(signal, name)) is before
    assert [line["step"] for line in read_log(tmp_path / "out")] == [1, 2, 3]
    description = make_training(tiny, folder, tmp_path / "out", epochs=2).run(resume=True)
    assert [line["step"] for line in read_log(tmp_path / "out")] == list(range(1, 11))
    assert description["tokens"] == whole["tokens"]
    assert (tmp_path / "out" / ADAPTER).read_bytes() == (tmp_path / "whole" / ADAPTER).read_bytes()


def test_the_log_is_cut_by_the_numbers_of_its_steps(tiny: Path, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    interrupt(make_training(tiny, folder, out), after=3)
    first, _, third = (out / "training.jsonl").read_text().splitlines(keepends=True)
    (out / "training.jsonl").write_text(first + third + '{"step":4,"loss":1.0}\n{"step":5,"lo')  # cut by a kill
    make_training(tiny, folder, out).run(resume=True)
    assert [line["step"] for line in read_log(out)] == [1, 3, 4, 5]


def test_a_signal_in_a_block_within_another_waits_for_the_outer() -> None:
    done: list[str] = []
    with pytest.raises(KeyboardInterrupt), uninterrupted():
        with uninterrupted():
            signal.raise_signal(signal.SIGINT)
            done.append("inner")
        done.append("outer")
    assert done == ["inner", "outer"]


def test_full_weights_can_be_read_by_other_users(tiny: Path, folder: Path, tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        make_training(
            tiny, folder, tmp_path / "out", method="full", max_steps=1, evaluate_every=1, keep_best="loss"
        ).run()
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert set(modes.values()) == {0o644}
    assert "model.safetensors" in modes


def test_the_best_full_weights_survive_a_write_that_fails(
    tiny: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    best = tmp_path / "out" / "best" / "model.safetensors"
    training = make_training(tiny, folder, tmp_path / "out", method="full", evaluate_every=2, keep_best="loss")
    write, kept = training.student.model.save_pretrained, list[bytes]()

    def write_half(target: Any, **options: Any) -> None:
        write(target, **options)
        if best.exists():
            kept.append(best.read_bytes())
            weights = Path(target) / "model.safetensors"
            weights.write_bytes(weights.read_bytes()[:100])
            raise OSError("No space left on device")

    monkeypatch.setattr(training.student.model, "save_pretrained", write_half)
    with pytest.raises(OSError, match="No space left"):
        training.run()
    assert kept == [best.read_bytes()]
    assert len(kept[0]) > 1000


def test_best_weights_between_two_places_are_put_back(tiny: Path, folder: Path, tmp_path: Path) -> None:
    """A kill between the two renames."""
    out = tmp_path / "out"
    interrupt(make_training(tiny, folder, out, evaluate_every=3, keep_best="loss"))
    (out / ".measured-x").mkdir()
    (out / "best").rename(out / ".measured-x" / "best")
    (out / ".measured-x" / "old").mkdir()
    remove_leftovers(out)
    assert (out / "best" / ADAPTER).is_file()
    assert not (out / ".measured-x").exists()
