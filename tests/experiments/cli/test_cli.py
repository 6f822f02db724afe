"""The command line as people use it: real commands on the simulated LM, and what goes wrong in one line."""

import json
import os
import signal
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("VERIHOP_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture(scope="session")
def world(tmp_path_factory) -> Path:
    """Return a folder with a small simulated world and its index."""
    from corpora.index.open import build_index
    from experiments.world.generate import generate

    folder = tmp_path_factory.mktemp("world")
    passages, _ = generate(folder, questions=60, seed=0)
    build_index(passages, folder / "index", retriever="bm25")
    return folder


DATA_COMMANDS = ["list", "fetch", "convert", "subset", "pool", "world"]
ROAD = ("--lm", "simulated", "--quiet", "--index")


def test_the_whole_road(verihop, world, tmp_path):
    questions, index = world / "questions.jsonl", world / "index"
    knobs = ("--set", "k=4", "--set", "max_hops=3")
    code, out, _ = verihop(
        "compile", questions, "--program", "genground", "--split", "train", "--limit", 20, *knobs,
        "--val", questions, "--val-split", "dev", "--val-limit", 10, "--out", tmp_path / "artifact",
        *ROAD, index, "--json",
    )  # fmt: skip
    made = json.loads(out)
    assert code == 0
    assert made["optimizer"]["accepted"]["deduction"] > 0
    assert len(made["metric"]["scores"]) == 10
    assert made["knobs"]["k"] == 4

    dev = (questions, "--split", "dev", "--limit", 15)
    assert verihop("eval", *dev, "--artifact", tmp_path / "artifact", "--out", tmp_path / "after", "--quiet")[0] == 0
    code, out, _ = verihop("eval", *dev, "--program", "rag", "--out", tmp_path / "rag", *ROAD, index, "--report")
    assert code == 0
    assert "15 of 15 questions" in out
    assert (tmp_path / "rag" / "report.html").exists()

    code, out, _ = verihop("compare", tmp_path / "rag", tmp_path / "after", "--json")
    assert json.loads(out)["questions"] == 15

    question = json.loads(questions.read_text().splitlines()[0])["question"]
    code, out, _ = verihop("ask", "--artifact", tmp_path / "artifact", question)
    assert (code, out.startswith("Answer: ")) == (0, True)
    assert "Hop 1: " in out
    assert "Cited passages: " in out
    code, out, _ = verihop("ask", "--artifact", tmp_path / "artifact", question, "--json")
    assert json.loads(out)["cost"]["calls"] >= 1


@pytest.mark.filterwarnings("default")  # warnings of ours are errors elsewhere
def test_another_lm_than_the_artifacts_is_one_line(verihop, world, tmp_path):
    made = tmp_path / "artifact"
    questions, index = world / "questions.jsonl", world / "index"
    assert verihop("compile", questions, "--program", "rag", "--limit", 2, "--out", made, *ROAD, index)[0] == 0
    code, _, err = verihop("ask", "--artifact", made, "Who is it?", "--lm", "simulated:1", "--index", index)
    assert code == 0
    assert len(err.strip().splitlines()) == 1
    assert err.startswith("verihop: note: The program was compiled for LM simulated ")


def test_a_server_that_is_down_leaves_no_compilation_in_the_way(verihop, world, tmp_path, monkeypatch):
    from programs.lms.metered import LMUnavailable

    command = ("compile", world / "questions.jsonl", "--program", "rag", "--limit", 4, "--out", tmp_path / "a",
               *ROAD, world / "index")  # fmt: skip

    def down(self, request):
        raise LMUnavailable("down")

    with monkeypatch.context() as patch:
        patch.setattr("experiments.world.simulated.SimulatedEngine.complete", down)
        assert verihop(*command)[0] == 2
    assert verihop(*command)[0] == 0


def test_help_is_light():
    """No heavy library is loaded for help: that is what keeps it under half a second."""
    code = (
        "import sys; import experiments.cli.main; "
        "sys.exit(str([m for m in ('dspy', 'torch', 'faiss', 'numpy', 'datasets', 'scipy') if m in sys.modules] or ''))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == ""


COMMANDS = ["demo", "ask", "index", "compile", "eval", "compare", "judge", "keyfacts", "programs", "data", "review"]


@pytest.mark.parametrize(
    "command", [[], *([name] for name in COMMANDS), *(["data", n] for n in DATA_COMMANDS)], ids=str
)
def test_every_command_has_help(command, verihop):
    code, out, err = verihop(*command, "--help")
    assert (code, err) == (0, "")
    assert "Usage: verihop" in out


def test_ctrl_c_is_code_130_and_says_how_to_go_on(verihop, world, tmp_path, monkeypatch):
    def interrupted(*arguments, **keywords):
        raise KeyboardInterrupt

    monkeypatch.setattr("experiments.pipeline.compile.compile_program", interrupted)
    code, _, err = verihop(
        "compile", world / "questions.jsonl", "--program", "rag", "--out", tmp_path / "a", *ROAD, world / "index"
    )
    assert (code, "with --resume" in err) == (130, True)
    assert "Traceback" not in err


def test_an_index_stands_beside_its_corpus_unless_told_otherwise(verihop, tmp_path):
    (tmp_path / "p.jsonl").write_text('{"id": "1", "text": "a river"}\n')
    assert verihop("index", tmp_path / "p.jsonl", "--retriever", "bm25", "--quiet")[0] == 0
    assert (tmp_path / "index" / "index.json").exists()


def test_programs_are_listed_for_people_and_machines(verihop):
    assert "genground" in verihop("programs")[1]
    listed = json.loads(verihop("programs", "--json")[1])
    assert listed["genground"]["knobs"]["k"] == {"default": 10, "space": "1..20"}


def test_data_sets_are_listed_converted_and_pooled(verihop, tmp_path):
    listed = verihop("data", "list")[1]
    assert "hotpotqa: https://hotpotqa.github.io (CC BY-SA 4.0)" in listed
    assert "subset halluqa-knowledge: " in listed
    assert "NQ-open.dev.jsonl" in json.loads(verihop("data", "list", "--json")[1])["nq_open"]["files"]
    record = {
        "_id": "1",
        "question": "Who keeps the gate?",
        "answer": "Ansa",
        "type": "bridge",
        "level": "easy",
        "supporting_facts": [["Gate", 0]],
        "context": [["Gate", ["Ansa keeps the gate."]], ["Wall", ["The wall is old."]]],
    }
    (tmp_path / "in.json").write_text(json.dumps([record]))
    code, out, _ = verihop("data", "convert", "hotpotqa", tmp_path / "in.json", "--out", tmp_path / "a", "--quiet")
    assert (code, "1 questions" in out) == (0, True)
    code, out, _ = verihop("data", "pool", tmp_path / "a" / "passages.jsonl", "--out", tmp_path / "p.jsonl", "--json")
    assert json.loads(out)["counts"]["written"] == 2
    code, _, err = verihop("data", "convert", "hotpotqa", tmp_path / "in.json", "--out", tmp_path / "a", "--quiet")
    assert (code, "--overwrite" in err) == (2, True)
    code, out, _ = verihop(
        "data", "convert", "own", tmp_path / "in.json", "--out", tmp_path / "own", "--quiet", "--json"
    )
    assert (code, json.loads(out)["passages"]) == (0, None)


def test_a_subset_is_written_with_the_hash_of_its_ids(verihop, tmp_path):
    rows = [{"id": f"h{n}", "question": "?", "type": kind} for n, kind in enumerate(("Knowledge", "Misleading"))]
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = ["data", "subset", "halluqa-knowledge", tmp_path / "q.jsonl", "--out", tmp_path / "s.jsonl"]
    code, out, _ = verihop(*command, "--json")
    assert (code, json.loads(out)["count"]) == (0, 1)
    assert (tmp_path / "s.jsonl").read_text().count("\n") == 1
    code, _, err = verihop(*command)
    assert (code, "exists already" in err) == (2, True)


def test_a_set_without_an_address_is_not_fetched(verihop, tmp_path):
    code, _, err = verihop("data", "fetch", "musique", "--out", tmp_path)
    assert (code, "no address to fetch from" in err) == (2, True)
    assert verihop("data", "fetch", "magic", "--out", tmp_path)[0] == 2


MISTAKES = {
    "unknown program": (["--program", "magic"], "Unknown program 'magic'. Choose from: cot, "),
    "unknown knob": (["--program", "rag", "--set", "kk=3"], "Unknown knob of RAG 'kk'"),
    "bad knob": (["--program", "rag", "--set", "k=99"], "Knob k must be a number from 1 to 20, got 99"),
    "no equals sign": (["--program", "rag", "--set", "k"], "--set takes name=value, got 'k'"),
    "unknown preset": (["--program", "rag", "--preset", "x"], "Unknown preset of rag 'x'"),
    "unknown metric": (["--program", "rag", "--metrics", "magic"], "Unknown metric 'magic'"),
    "unknown lm": (["--program", "rag", "--lm", "magic"], "Unknown LM 'magic'"),
    "unknown retriever": (["--program", "rag", "--retriever", "magic"], "Unknown retriever 'magic'"),
    "two programs": (["--program", "rag", "--artifact", "x"], "contains no artifact"),
    "no program": ([], "Give either --program NAME or --artifact DIR"),
    "empty split": (["--program", "rag", "--split", "test"], "No question has the split 'test'"),
    "no metric": (["--program", "rag", "--metrics", ","], "No metric is named"),
    "empty lm": (["--program", "rag", "--lm", ""], "Or: simulated"),
    "no weights": (["--program", "rag", "--lm", "gguf:missing.gguf"], "missing.gguf"),
    "key not set": (
        ["--program", "rag", "--lm", "m", "--api-base", "http://127.0.0.1:9", "--api-key-env", "NO_SUCH_KEY"],
        "NO_SUCH_KEY",
    ),
}


@pytest.mark.parametrize("name", sorted(MISTAKES))
def test_a_mistake_is_one_line_and_code_2_and_writes_nothing(name, verihop, world, tmp_path):
    arguments, message = MISTAKES[name]
    arguments = arguments if "--lm" in arguments else [*arguments, "--lm", "simulated"]
    out = tmp_path / "run"
    code, shown, err = verihop(
        "eval", world / "questions.jsonl", "--out", out, "--index", world / "index", "--quiet", *arguments
    )
    assert (code, shown) == (2, "")
    assert message in err
    assert len(err.strip().splitlines()) == 1
    assert not out.exists()


def test_a_program_that_retrieves_needs_an_index(verihop, world, tmp_path):
    code, _, err = verihop("eval", world / "questions.jsonl", "--out", tmp_path / "r", "--program", "rag", *ROAD[:-1])
    assert (code, "give --index DIR" in err) == (2, True)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"id": "1", "question": "Who?"', "questions.jsonl"),
        ('{"id": "1", "question": "  "}', "questions.jsonl"),
        ('{"id": "1"}', "questions.jsonl"),
        ("", "no question"),
        ('{"id": "1", "question": "x \\ud800 ?"}', "half a character"),
    ],
)
def test_a_broken_question_file_is_told_with_file_and_line(line, message, verihop, world, tmp_path):
    path = tmp_path / "questions.jsonl"
    path.write_text(line + "\n")
    code, _, err = verihop("eval", path, "--out", tmp_path / "run", "--program", "rag", *ROAD, world / "index")
    assert (code, len(err.strip().splitlines())) == (2, 1)
    assert message in err


def test_a_corpus_with_duplicate_ids_is_refused_and_leaves_no_index(verihop, tmp_path):
    (tmp_path / "p.jsonl").write_text('{"id": "1", "text": "a"}\n{"id": "1", "text": "b"}\n')
    code, _, err = verihop("index", tmp_path / "p.jsonl", "--out", tmp_path / "index", "--retriever", "bm25", "--quiet")
    assert (code, "'1'" in err) == (2, True)
    assert not (tmp_path / "index" / "index.json").exists()


@pytest.mark.parametrize("status", [429, 500, "garbage", "closed"])
def test_a_server_that_does_not_answer_well_is_one_line(status, verihop, world, tmp_path, monkeypatch):
    monkeypatch.setattr("programs.lms.metered._wait", lambda error, attempt: 0)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            self.send_response(200 if status == "garbage" else status)
            self.end_headers()
            self.wfile.write(b"<html>what?</html>" if status == "garbage" else b'{"error": {"message": "no"}}')

        do_GET = do_POST  # noqa: N815 - the name is the base class's

        def log_message(self, *arguments):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    if status == "closed":
        server.shutdown()
        server.server_close()
    address = f"http://127.0.0.1:{server.server_port}"
    try:
        code, _, err = verihop(
            "eval", world / "questions.jsonl", "--out", tmp_path / "run", "--program", "rag",
            "--index", world / "index", "--lm", "model", "--api-base", address, "--quiet",
        )  # fmt: skip
    finally:
        if status != "closed":
            server.shutdown()
            server.server_close()
        thread.join()
    assert code == 2, err
    assert len(err.strip().splitlines()) == 1, err
    assert not (tmp_path / "run").exists()


def test_a_run_in_which_nothing_worked_is_no_success(verihop, world, tmp_path, monkeypatch):
    def refuse(self, request):
        from dspy.lm15 import InvalidRequestError

        raise InvalidRequestError("no such\nparameter")

    monkeypatch.setattr("experiments.world.simulated.SimulatedEngine.complete", refuse)
    code, _, err = verihop(
        "eval", world / "questions.jsonl", "--limit", 3, "--program", "rag", "--out", tmp_path / "run",
        *ROAD, world / "index", "--json",
    )  # fmt: skip
    assert code == 2
    assert "All 3 questions ended in an error" in err.strip().splitlines()[-1]
    assert "no such parameter" in err.strip().splitlines()[-1]


def test_a_spent_budget_is_code_3_and_keeps_what_is_done(verihop, world, tmp_path):
    command = ("eval", world / "questions.jsonl", "--limit", 10, "--program", "rag", "--out", tmp_path / "run",
               "--threads", 1, *ROAD, world / "index", "--json")  # fmt: skip
    code, out, _ = verihop(*command, "--budget-calls", 4)
    assert (code, json.loads(out)["answered"]) == (3, 4)
    code, out, _ = verihop(*command, "--resume")
    assert (code, json.loads(out)["answered"]) == (0, 10)


def test_a_compilation_stopped_by_its_budget_goes_on(verihop, world, tmp_path):
    command = ("compile", world / "questions.jsonl", "--program", "genground", "--out", tmp_path / "artifact",
               "--threads", 1, "--limit", 12, *ROAD, world / "index", "--json")  # fmt: skip
    code, _, err = verihop(*command, "--budget-calls", 6)
    assert code == 3, err
    assert not (tmp_path / "artifact").exists()
    code, _, err = verihop(*command)
    assert (code, "go on with --resume" in err) == (2, True)
    code, _, err = verihop(*command, "--resume", "--max-demos", 1)
    assert (code, "had another optimizer" in err) == (2, True)
    code, out, _ = verihop(*command, "--resume")
    assert (code, json.loads(out)["optimizer"]["cost"]["cached_calls"] >= 6) == (0, True)
    assert not list(tmp_path.glob(".artifact*"))


def test_after_kill_9_a_compilation_goes_on_and_makes_the_same_artifact(verihop, world, tmp_path):
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
    process = subprocess.run(
        [sys.executable, "-c", slow, *killed], env=dict(os.environ), capture_output=True, check=False
    )
    assert process.returncode == -signal.SIGKILL
    assert note.exists()
    assert not (tmp_path / "killed").exists()
    assert verihop(*killed, "--resume", "--quiet")[0] == 0
    assert verihop(*map(str, arguments), "--out", tmp_path / "whole", "--quiet")[0] == 0
    for name in ("killed", "whole"):
        assert (tmp_path / name / "program.json").exists()
    assert (tmp_path / "killed" / "program.json").read_bytes() == (tmp_path / "whole" / "program.json").read_bytes()


def test_a_full_disk_is_one_line(verihop, world, tmp_path, monkeypatch):
    import errno

    def full(*arguments, **keywords):
        raise OSError(errno.ENOSPC, "No space left on device", str(tmp_path / "artifact"))

    monkeypatch.setattr("programs.artifact._dump", full)
    code, _, err = verihop("compile", world / "questions.jsonl", "--program", "rag", "--limit", 2, "--out",
                           tmp_path / "artifact", *ROAD, world / "index")  # fmt: skip
    assert (code, "No space left on device" in err, "Free some space" in err) == (2, True, True)
    assert not (tmp_path / "artifact").exists()


def test_a_run_never_stands_among_other_files(verihop, world, tmp_path):
    (tmp_path / "precious.txt").write_text("mine")
    code, _, err = verihop(
        "eval", world / "questions.jsonl", "--program", "rag", "--out", tmp_path, *ROAD, world / "index"
    )
    assert (code, "holds other files" in err) == (2, True)
    assert (tmp_path / "precious.txt").read_text() == "mine"


def test_a_file_where_a_folder_is_needed_is_one_line(verihop, tmp_path):
    (tmp_path / "taken").write_text("x")
    code, _, err = verihop("data", "world", "--questions", 5, "--out", tmp_path / "taken")
    assert (code, len(err.strip().splitlines())) == (2, 1)
    assert "A file stands where a folder is needed" in err


def test_a_row_that_is_no_row_is_told_with_file_and_line(verihop, world, tmp_path):
    run = tmp_path / "run"
    assert (
        verihop("eval", world / "questions.jsonl", "--limit", 2, "--program", "standard", "--out", run, *ROAD[:-1])[0]
        == 0
    )
    (run / "rows.jsonl").write_text('{"id": "x"}\n')
    code, _, err = verihop("compare", run, tmp_path)
    assert (code, "rows.jsonl:1 is not a row of a run" in err) == (2, True)


def test_an_edited_index_is_refused(verihop, world, tmp_path):
    import shutil

    shutil.copytree(world / "index", tmp_path / "index")
    path = tmp_path / "index" / "index.json"
    path.write_text(path.read_text().replace('"files": {', '"files": {}, "old": {'))
    code, _, err = verihop("ask", "Who?", "--program", "rag", *ROAD[:2], "--index", tmp_path / "index")
    assert (code, "not as it was written" in err) == (2, True)


def test_a_question_of_broken_bytes_is_one_line(verihop, world):
    code, _, err = verihop("ask", "who \udcff?", "--program", "rag", *ROAD[:2], "--index", world / "index")
    assert (code, "no valid UTF-8" in err) == (2, True)


def test_repeated_and_judged_runs_are_compared_by_groups_and_by_question(verihop, world, tmp_path):
    asked = ("eval", world / "questions.jsonl", "--split", "dev", "--limit", 6, *ROAD, world / "index", "--json")
    judged = ("--metrics", "em,acc[judge]", "--judge-lm", "simulated")
    code, out, _ = verihop(*asked, *judged, "--program", "rag", "--out", tmp_path / "once")
    assert (code, json.loads(out)["judging"]["calls"]) == (0, 6)
    often = ("--program", "rag", "--out", tmp_path / "often", "--repeats", 2)
    code, _, err = verihop(*asked, *judged, *often)
    assert (code, "at temperature 0 every repeat is the same" in err) == (2, True)
    code, out, _ = verihop(*asked, *judged, *often, "--temperature", 0.8)
    assert (code, json.loads(out)["answered"]) == (0, 12)

    runs = (tmp_path / "once", tmp_path / "often")
    code, out, _ = verihop("compare", *runs, "--by", "sub_questions", "--json")
    groups = json.loads(out)["by"]["groups"]
    assert (code, sum(group["questions"] for group in groups.values())) == (0, 6)
    name = json.loads((tmp_path / "once" / "rows.jsonl").read_text().splitlines()[0])["id"]
    code, out, _ = verihop("compare", *runs, "--question", name, "--json")
    assert (code, list(json.loads(out)["runs"])) == (0, ["once", "often #1", "often #2"])
    code, out, _ = verihop("compare", *runs, "--question", name)
    assert (code, "scores" in out) == (0, True)
    code, _, err = verihop("compare", *runs, "--question", name, "--by", "type")
    assert (code, "leave out --by" in err) == (2, True)
