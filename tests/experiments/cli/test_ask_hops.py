"""`verihop ask` shows each hop when it is settled, in text and as JSON lines."""

import io
import json
import sys

import pytest

from experiments.cli.ask import show_answer, show_hop
from experiments.cli.shared.console import Activity
from programs.parts.prediction import make_prediction
from signatures.types import Hop

QUESTION = "Who is the harbour master of Quillon?"


@pytest.fixture
def ask(verihop, world, scripted_lm):
    """Return a function that asks `multihop`, and notes what was printed before each call of the LM."""
    printed = []

    def reply(system, user):
        printed.append(sys.stdout.getvalue())
        query = f"query {len(printed)}"
        return f"[[ ## reasoning ## ]]\nso\n\n[[ ## query ## ]]\n{query}\n\n[[ ## answer ## ]]\nAnsa Merrow"

    def run(*options):
        scripted_lm(reply)
        code, out, err = verihop(
            "ask", QUESTION, "--program", "multihop", "--preset", "paper", "--index", world / "index", *options
        )
        return code, out, err, printed

    return run


def test_each_hop_is_shown_before_the_next_call(ask):
    code, out, err, printed = ask()
    assert (code, err.startswith("Next: verihop ask "), err.count("\n")) == (0, True, 1)
    assert [text.count("Hop ") for text in printed] == [0, 1, 2]
    lines = out.splitlines()
    assert lines[:4] == ["Hop 1: query 1", "", "Hop 2: query 2", ""]
    assert lines[4] == "Answer: Ansa Merrow"
    assert out.count("Hop ") == 2


def test_json_is_one_object_as_ever(ask):
    code, out, _, printed = ask("--json")
    assert (code, printed) == (0, ["", "", ""])
    assert [hop["question"] for hop in json.loads(out)["hops"]] == ["query 1", "query 2"]


def test_json_lines_are_hops_and_then_that_object(ask):
    code, out, _, printed = ask("--json-lines")
    *hops, last = map(json.loads, out.splitlines())
    assert code == 0
    assert [text.count("\n") for text in printed] == [0, 1, 2]
    assert [(hop["hop"], hop["question"]) for hop in hops] == [(1, "query 1"), (2, "query 2")]
    assert last["hops"] == [{name: value for name, value in hop.items() if name != "hop"} for hop in hops]
    assert last["cost"]["calls"] == 3


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_on_a_terminal_the_line_of_progress_is_not_among_the_results(monkeypatch):
    out, err = io.StringIO(), Terminal()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    monkeypatch.setenv("TERM", "xterm")
    with Activity("Answering", shown=True) as activity, activity.paused("Answering, after hop 1"):
        show_hop(1, Hop(question="Who?", answer="Ansa"))
    assert out.getvalue() == "Hop 1: Who?\n    Ansa\n\n"
    assert "Answering" in err.getvalue()
    assert "Hop" not in err.getvalue()


def test_the_confidence_is_shown_where_the_program_states_one(capsys):
    show_answer(make_prediction("Veld", details={"confidence": 0.256}))
    assert capsys.readouterr().out.startswith("Answer: Veld\nConfidence: 0.26\n")
    show_answer(make_prediction("Veld", details={"confidence": None}))
    assert "Confidence" not in capsys.readouterr().out
