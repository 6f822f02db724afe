"""Commands that are interrupted or run out of budget, and are resumed."""

import json
import signal

import pytest

from programs.artifact import load
from programs.catalog import build

SIMULATED = ("--lm", "simulated", "--quiet", "--index")


@pytest.mark.parametrize(("command", "work"), [("compile", "compile.compile_program"), ("eval", "evaluate.evaluate")])
def test_ctrl_c_is_code_130_and_says_how_to_resume(command, work, verihop, world, tmp_path, monkeypatch):
    def interrupted(*arguments, **keywords):
        raise KeyboardInterrupt

    monkeypatch.setattr(f"experiments.pipeline.{work}", interrupted)
    code, _, err = verihop(
        command, world / "questions.jsonl", "--program", "rag", "--out", tmp_path / "a", *SIMULATED, world / "index"
    )
    assert (code, "with the same command and --resume" in err) == (130, True)
    assert "Traceback" not in err


def test_a_spent_budget_is_code_3_and_keeps_what_is_done(verihop, world, tmp_path):
    command = ("eval", world / "questions.jsonl", "--limit", 10, "--program", "rag", "--out", tmp_path / "run",
               "--threads", 1, *SIMULATED, world / "index", "--json")  # fmt: skip
    code, out, err = verihop(*command, "--budget", "calls=4")
    assert (code, json.loads(out)["answered"]) == (3, 4)
    assert "Resume with the same command, --resume" in err
    assert "Next: verihop compare" not in err
    code, out, _ = verihop(*command, "--resume")
    assert (code, json.loads(out)["answered"]) == (0, 10)


def test_how_calls_are_repeated_does_not_make_another_run(verihop, world, tmp_path):
    command = ("eval", world / "questions.jsonl", "--limit", 10, "--program", "rag", "--out", tmp_path / "run",
               "--threads", 1, *SIMULATED, world / "index", "--json")  # fmt: skip
    assert verihop(*command, "--budget", "calls=4")[0] == 3
    calls = ("--retries", 9, "--retry-timeout", 5, "--timeout", 7, "--no-cache")
    code, out, err = verihop(*command, "--resume", *calls)
    assert (code, json.loads(out)["answered"]) == (0, 10), err


def test_a_compilation_stopped_by_its_budget_goes_on(verihop, world, tmp_path):
    command = ("compile", world / "questions.jsonl", "--program", "genground", "--out", tmp_path / "artifact",
               "--threads", 1, "--limit", 12, *SIMULATED, world / "index", "--json")  # fmt: skip
    code, _, err = verihop(*command, "--budget", "calls=6")
    assert code == 3, err
    assert "The budget of 6 calls is used up" in err
    assert "No candidate was scored completely: the uncompiled program is frozen. Resume with the same command" in err
    assert load(tmp_path / "artifact").dump_state() == build("genground").dump_state()
    code, _, err = verihop(*command)
    assert (code, "was stopped: resume it" in err) == (2, True)
    code, _, err = verihop(*command, "--resume", "--max-demos", 1)
    assert (code, "had another optimizer" in err, "(4, now 1): resume it" in err) == (2, True, True)
    code, out, _ = verihop(*command, "--resume")
    cost = json.loads(out)["optimizer"]["cost"]
    assert (code, cost["cached_calls"] >= 5) == (0, True)  # one of the 6 was unparseable
    whole = verihop(*command[:-1], "--json", "--out", tmp_path / "whole")  # what was parsed is cached now
    assert cost["calls"] == json.loads(whole[1])["optimizer"]["cost"]["calls"] + 6
    assert not list(tmp_path.glob(".artifact*"))


@pytest.mark.slow
def test_after_kill_9_a_compilation_goes_on_and_makes_the_same_artifact(verihop, forked, world, tmp_path):
    arguments = ["compile", world / "questions.jsonl", "--program", "genground", "--split", "train", "--threads", "1",
                 "--accept", "1", "--max-demos", "64", "--lm", "simulated", "--index", world / "index"]  # fmt: skip
    killed = [*map(str, arguments), "--out", str(tmp_path / "killed")]
    note = tmp_path / ".killed.compiling" / "request.json"
    slow = (
        "import os, signal, sys; from experiments.world.simulated import SimulatedEngine as E\n"
        "real = E.complete; n = [0]\n"
        "def complete(self, request):\n"
        "    n[0] += 1\n"
        "    if n[0] > 40: os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return real(self, request)\n"
        "E.complete = complete; from experiments.cli.main import main; main()"
    )
    assert forked.run(slow, *killed).returncode == -signal.SIGKILL
    assert note.exists()
    assert not (tmp_path / "killed").exists()
    assert verihop(*killed, "--resume", "--quiet")[0] == 0
    assert verihop(*map(str, arguments), "--out", tmp_path / "whole", "--quiet")[0] == 0
    for name in ("killed", "whole"):
        assert (tmp_path / name / "program.json").exists()
    assert (tmp_path / "killed" / "program.json").read_bytes() == (tmp_path / "whole" / "program.json").read_bytes()


KILLED = (
    "import os, signal; from experiments.world.simulated import SimulatedEngine as E\n"
    "real = E.complete; n = [0]\n"
    "def complete(self, request):\n"
    "    n[0] += 1\n"
    "    if n[0] > {calls}: os.kill(os.getpid(), signal.SIGKILL)\n"
    "    return real(self, request)\n"
    "E.complete = complete; from experiments.cli.main import main; main()"
)


@pytest.mark.slow
def test_a_killed_search_keeps_its_candidates_and_its_cost(verihop, forked, world, tmp_path):
    arguments = ["compile", world / "questions.jsonl", "--program", "genground", "--split", "train", "--limit", "16",
                 "--set", "k=4", "--set", "max_hops=2", "--threads", "1", "--no-cache", "--optimizer", "random_search",
                 "--option", "candidates=2", "--max-demos", "2", "--lm", "simulated", "--index", world / "index",
                 "--quiet"]  # fmt: skip
    killed = [*map(str, arguments), "--out", str(tmp_path / "killed")]
    assert forked.run(KILLED.format(calls=110), *killed).returncode == -signal.SIGKILL
    folder = tmp_path / ".killed.compiling"
    kept = [json.loads(line) for line in (folder / "candidates.jsonl").read_text().splitlines()]
    assert [each["label"] for each in kept] == ["uncompiled", "labeled"]
    with open(folder / "candidates.jsonl", "a") as file:
        file.write('{"label": "half a li')  # the worst moment to die
    spent = json.loads((folder / "costs.json").read_text())["calls"]
    assert spent >= kept[-1]["n_calls"]
    code, out, err = verihop(*killed, "--resume", "--json")
    assert code == 0, err
    resumed = json.loads(out)["optimizer"]
    whole = json.loads(verihop(*map(str, arguments), "--out", tmp_path / "whole", "--json")[1])["optimizer"]
    # Without a cache of replies, what was recorded is not asked again, and what was spent is not forgotten.
    assert resumed["cost"]["calls"] == whole["cost"]["calls"] - kept[-1]["n_calls"] + spent
    assert resumed["candidates"][:2] == whole["candidates"][:2]
    assert [each["mean"] for each in resumed["candidates"]] == [each["mean"] for each in whole["candidates"]]
    assert (tmp_path / "killed" / "program.json").read_bytes() == (tmp_path / "whole" / "program.json").read_bytes()
    assert not folder.exists()
