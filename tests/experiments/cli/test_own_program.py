"""A program, a metric and a retriever from outside the package: the guide's example, in every command."""

import asyncio
import json
import re
import sys
from pathlib import Path

import pytest

from verihop import load

GUIDE = Path(__file__).parents[3] / "programs" / "own" / "README.md"
NAME = "my_strategy:AskTwice"
SIMULATED = ("--lm", "simulated", "--quiet")
BARE = """
import dspy


class Bare(dspy.Module):
    def __init__(self, retrieve=None):
        super().__init__()

    def forward(self, question, passages=None):
        return dspy.Prediction(answer="Tolmen", passages=passages)

    def max_calls(self):
        return 1
"""


@pytest.fixture
def guide(tmp_path, monkeypatch):
    """Work in a folder that holds the guide's module."""
    (code,) = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), flags=re.DOTALL)
    (tmp_path / "my_strategy.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for name in ("my_strategy", "bare_strategy"):
        sys.modules.pop(name, None)


def test_the_guides_commands_are_those_that_are_tested_here():
    named = re.findall(r"^\$ verihop (\w+)", GUIDE.read_text(), flags=re.MULTILINE)
    assert named == ["programs", "ask", "eval", "eval", "compile", "ask"]


def test_it_keeps_the_contract_and_is_shown_as_ours_are(verihop, guide):
    code, out, err = verihop("programs", "check", NAME)
    assert (code, "BROKEN" in out, "keeps 12 of 12 points" in err) == (0, False, True)
    code, out, _ = verihop("programs", NAME)
    assert code == 0
    assert out.startswith(f"{NAME}: Read, then search for the answer as well")
    assert "    --preset small: k=2" in out.splitlines()
    assert "    --set rounds=2 (1..5): Readings at most." in out.splitlines()


def test_a_knob_without_a_description_says_where_it_is_read_from(verihop, guide):
    text = (guide / "my_strategy.py").read_text().replace("        rounds: Readings at most.\n", "")
    (guide / "terse_strategy.py").write_text(text)
    _, out, _ = verihop("programs", "terse_strategy:AskTwice")
    assert "--set rounds=2 (1..5): not described below Args: in the docstring" in " ".join(out.split())


def test_a_broken_program_ends_with_1_and_says_what_was_seen(verihop, guide):
    text = (guide / "my_strategy.py").read_text().replace("return self.rounds", "return 1")
    (guide / "broken.py").write_text(text)
    code, out, err = verihop("programs", "check", "broken:AskTwice")
    assert (code, "call 2, where at most 1 are allowed" in out) == (1, True)
    assert "11 of 12" in err or "BROKEN" in out
    code, out, _ = verihop("programs", "check", "broken:AskTwice", "--json")
    assert (code, json.loads(out)["kept"]) == (1, False)


def test_what_a_program_prints_is_no_result(verihop, guide):
    text = (guide / "my_strategy.py").read_text()
    (guide / "printing.py").write_text(text.replace("    found, hops", "    print('asked')\n        found, hops"))
    code, out, _ = verihop("programs", "check", "printing:AskTwice", "--json")
    assert (code, json.loads(out)["kept"]) == (0, True)


def test_ask_eval_and_resume(verihop, guide, world):
    index = ("--index", world / "index")
    question = json.loads((world / "questions.jsonl").read_text().splitlines()[0])["question"]
    code, out, _ = verihop("ask", "--program", NAME, *SIMULATED[:2], *index, question)
    assert (code, "Answer: " in out) == (0, True)
    asked = ("eval", world / "questions.jsonl", "--limit", 4, "--program", NAME, "--out", guide / "run", *SIMULATED)
    code, out, _ = verihop(*asked, *index, "--metrics", "em,my_strategy:short", "--json")
    assert (code, "my_strategy:short" in json.loads(out)["metrics"]) == (0, True)
    described = json.loads((guide / "run" / "run.json").read_text())["program"]
    assert (described["name"], len(described["code"])) == (NAME, 12)
    assert verihop(*asked, *index, "--metrics", "em,my_strategy:short", "--resume")[0] == 0
    with (guide / "my_strategy.py").open("a") as file:
        file.write("\n# other code\n")
    code, _, err = verihop(*asked, *index, "--metrics", "em,my_strategy:short", "--resume")
    assert (code, "code" in err) == (2, True)


def test_a_program_that_states_its_answer_alone_is_asked_and_streamed(verihop, guide):
    (guide / "bare_strategy.py").write_text(BARE)
    code, out, err = verihop("ask", "--program", "bare_strategy:Bare", "--lm", "simulated", "Who?")
    assert (code, "Answer: Tolmen" in out, "Traceback" in err) == (0, True, False)
    code, out, _ = verihop("ask", "--program", "bare_strategy:Bare", "--lm", "simulated", "Who?", "--json")
    told = json.loads(out)
    assert (code, told["response"], told["citations"], told["stop_reason"]) == (0, "Tolmen", [], None)
    program = load(program="bare_strategy:Bare", lm="simulated")
    (streamed,) = program.stream("Who?")
    assert (streamed.hops, program("Who?").response, asyncio.run(program.acall("Who?")).details) == ([], "Tolmen", {})


def test_an_own_retriever_needs_no_index(verihop, guide, world):
    words = ("--program", NAME, "--retriever", "my_strategy:search", "--lm", "simulated")
    code, out, _ = verihop("ask", *words, "Where was Ilse Varrow born?", "--json")
    assert (code, [passage["id"] for passage in json.loads(out)["passages"]]) == (0, ["tolmen"])
    code, out, _ = verihop(
        "eval", world / "questions.jsonl", "--limit", 2, *words, "--quiet", "--out", guide / "run", "--json"
    )
    assert (code, json.loads(out)["answered"]) == (0, 2)
    code, _, err = verihop("ask", *words, "Who?", "--rerank", "own")
    assert (code, "Own retrievers do not support reranker" in err) == (2, True)


@pytest.mark.slow
def test_compiled_tuned_frozen_and_asked(verihop, guide, world):
    index = ("--index", world / "index")
    train = (world / "questions.jsonl", "--split", "train", "--limit", 6)
    made = guide / "artifact"
    compiled = verihop(
        "compile", *train, "--program", NAME, "--optimizer", "bootstrap", "--out", made, *SIMULATED, *index
    )
    assert compiled[0] == 0
    assert json.loads((made / "artifact.json").read_text())["program"] == NAME
    sys.modules.pop("my_strategy")
    code, _, err = verihop("ask", "--artifact", made, "Who?", "--lm", "simulated")
    assert (code, "is not imported, and a file never decides which code runs" in err) == (2, True)
    assert "my_strategy" not in sys.modules
    code, out, _ = verihop("ask", "--program", NAME, "--artifact", made, "Who?", "--lm", "simulated", "--json")
    assert (code, "answer" in json.loads(out)) == (0, True)
    tuned = verihop(
        "tune", *train, "--program", NAME, "--trials", 2, "--search", "k", "--out", guide / "tuned", *SIMULATED, *index
    )
    assert tuned[0] == 0, tuned[2]


def test_every_command_on_artifacts_takes_the_programs_they_hold(verihop, guide, world):
    made, other = guide / "one", guide / "two"
    questions = (world / "questions.jsonl", "--limit", 2, "--program", NAME, *SIMULATED, "--index", world / "index")
    for out in (made, other):
        assert verihop("compile", *questions, "--optimizer", "bootstrap", "--out", out)[0] == 0
    for words in (
        ("show", made),
        ("verify", made, other),
        ("diff", made, other),
        ("export", made, "--out", guide / "prompts"),
        ("ensemble", made, other, "--out", guide / "both"),
        ("cascade", made, other, "--out", guide / "cascade"),
    ):
        sys.modules.pop("my_strategy", None)
        code, _, err = verihop("artifact", *words)
        assert (code, "is not imported" in err) == (2, True), err
        code, _, err = verihop("artifact", *words, "--program", NAME)
        assert code == 0, err


def test_what_follows_names_the_program_that_an_artifact_holds(verihop, guide, world):
    train = (world / "questions.jsonl", "--split", "train", "--limit", 4, "--program", NAME, *SIMULATED)
    index = ("--index", world / "index")
    ran = [
        verihop("compile", *train, *index, "--optimizer", "bootstrap", "--out", "one"),
        verihop("tune", *train, *index, "--trials", 1, "--search", "k", "--out", "tuned"),
        verihop("artifact", "ensemble", "one", "tuned/artifact", "--program", NAME, "--out", "both"),
        verihop("artifact", "show", "one", "--program", NAME),
    ]
    for code, _, err in ran:
        lines = [line for line in err.splitlines() if " verihop " in f" {line}" and "artifact" in line]
        assert (code, len(lines) > 0, all(f"--program {NAME}" in line for line in lines)) == (0, True, True), err


def test_a_program_that_exits_costs_its_question_alone(verihop, guide, world):
    text = (guide / "my_strategy.py").read_text()
    (guide / "leaving.py").write_text(text.replace("    found, hops", "    raise SystemExit(0)\n        found, hops"))
    asked = ("eval", world / "questions.jsonl", "--limit", 2, "--program", "leaving:AskTwice", *SIMULATED)
    code, out, _ = verihop(*asked, "--index", world / "index", "--out", guide / "run", "--json")
    assert (code, json.loads(out)["errors"]) == (2, 2)
    rows = (guide / "run" / "rows.jsonl").read_text()
    assert "RuntimeError: the program called for an exit (0)" in rows


def test_an_artifact_of_another_program_is_not_taken_for_it(verihop, guide, world):
    made = guide / "artifact"
    questions = (world / "questions.jsonl", "--limit", 2)
    assert (
        verihop("compile", *questions, "--program", "rag", "--out", made, *SIMULATED, "--index", world / "index")[0]
        == 0
    )
    code, _, err = verihop("ask", "--program", NAME, "--artifact", made, "Who?")
    assert (code, f"holds no {NAME}" in err) == (2, True)
    code, _, err = verihop("ask", "--program", "rag", "--artifact", made, "Who?")
    assert (code, "either a program or an artifact" in err) == (2, True)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("my_strategy:Nothing", "has no 'Nothing'"),
        ("no_such_module:A", "there is no module 'no_such_module'"),
        ("my_strategy:short", "of type function, not a subclass of dspy.Module"),
        ("my_strategy:", "names no own program"),
    ],
)
def test_names_that_lead_to_no_program_are_one_line(verihop, guide, name, says):
    for words in (("ask", "--program", name, "--lm", "simulated", "Who?"), ("programs", "check", name)):
        code, _, err = verihop(*words)
        assert (code, says in err, len(err.strip().splitlines())) == (2, True, 1), err
