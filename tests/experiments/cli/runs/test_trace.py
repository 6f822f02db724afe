"""`verihop trace` and `ask --trace` show what was said; `eval --no-calls` keeps nothing."""

import json

import pytest

from corpora.questions import read_questions, write_questions

QUESTION = "Who is the harbour master of Quillon?"


@pytest.fixture
def run(verihop, world, tmp_path, scripted_lm):
    """Return a run on three questions, the second of which has an unreadable reply, and its questions."""
    questions = read_questions(world / "questions.jsonl")[:3]
    write_questions(tmp_path / "first.jsonl", questions)
    texts = [each.question for each in questions]

    def reply(system, user):
        if texts[1] in user:
            return "[[ ## reasoning ## ]]\nI do not know"
        return f"[[ ## reasoning ## ]]\n\x1b[31mso\n\n[[ ## answer ## ]]\nAnsa of {len(user)}"

    scripted_lm(reply)
    code, _, err = verihop("eval", tmp_path / "first.jsonl", "--program", "cot", "--out", tmp_path / "run", "-q")
    assert code == 0, err
    return tmp_path / "run", texts


def next_words(err):
    (line,) = [line for line in err.splitlines() if line.startswith("Next: ")]
    return line.split()[2:]


def test_from_the_list_to_a_question_to_a_call(run, verihop):
    folder, texts = run
    code, out, err = verihop("trace", folder)
    assert code == 0
    assert out.index("w0-q00000") < out.index("w0-q00002")
    code, out, err = verihop(*next_words(err))
    assert code == 0
    assert f"w0-q00000: {texts[0]}" in out
    assert "Call 1: answering.predict: 10 + 5 tokens, " in out
    assert texts[0] not in out.partition("Call 1")[2]  # not whole
    code, out, _ = verihop(*next_words(err))
    assert code == 0
    assert "  system:\n" in out
    assert texts[0] in out.partition("Call 1")[2]
    assert "\\x1b[31mso" in out
    assert "\x1b" not in out


def test_a_question_is_named_by_a_part_of_its_text(run, verihop):
    folder, texts = run
    found = json.loads(verihop("trace", folder, texts[1].upper()[5:], "--json")[1])
    assert (found["row"]["question"], len(found["calls"])) == (texts[1], 1)
    assert found["calls"][0]["unreadable"] == "missing: answer"
    _, out, err = verihop("trace", folder, texts[1])
    assert "the reply could not be read: missing: answer" in out
    assert next_words(err)[-2:] == ["--call", "1"]
    name = found["calls"][0]["predictor"]
    chosen = json.loads(verihop("trace", folder, texts[1], "--predictor", name, "--json")[1])
    assert chosen["calls"] == found["calls"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nobody asked this"], "No question of"),
        (["w0-q0000"], "No question of"),
        ([" "], "3 questions have the words"),
        (["w0-q00001", "--call", 2], "No call 2 here. Calls: 1."),
        (["w0-q00001", "--predictor", "plan"], "No call of 'plan'. Predictors that called: "),
        (["--call", 1], "Give the question whose call"),
        (["--repeat", 2], "Give the question whose call or repeat"),
        (["w0-q00001", "--repeat", 2], "w0-q00001 has no answer of repeat 2. Repeats with an answer: 1."),
    ],
)
def test_what_cannot_be_shown_is_said_with_a_cure(words, message, run, verihop):
    code, out, err = verihop("trace", run[0], *words)
    assert (code, out) == (2, "")
    assert message in err


def test_a_run_without_calls_says_how_to_get_them(verihop, world, tmp_path, scripted_lm):
    scripted_lm(lambda system, user: "[[ ## reasoning ## ]]\nso\n\n[[ ## answer ## ]]\nAnsa")
    asked = ("eval", world / "questions.jsonl", "--limit", 2, "--program", "cot", "-q", "--no-calls")
    assert verihop(*asked, "--out", tmp_path / "run")[0] == 0
    assert {path.name for path in (tmp_path / "run").iterdir()} == {"run.json", "rows.jsonl", "summary.json"}
    for words in ([], ["w0-q00000"]):
        code, _, err = verihop("trace", tmp_path / "run", *words)
        assert code == 2
        assert "has no LM calls" in err
        assert "Evaluate again" in err


def test_a_vote_names_the_runs_that_have_the_calls(verihop, world, tmp_path):
    for name in ("cot", "rag"):
        asked = ("eval", world / "questions.jsonl", "--limit", 2, "--lm", "simulated", "-q", "--program", name)
        index = ("--index", world / "index") if name == "rag" else ()
        assert verihop(*asked, *index, "--out", tmp_path / name)[0] == 0
    assert verihop("vote", tmp_path / "cot", tmp_path / "rag", "--out", tmp_path / "voted")[0] == 0
    code, _, err = verihop("trace", tmp_path / "voted")
    assert (code, "Trace one of the runs that voted: cot, rag." in err) == (2, True), err


def test_ask_shows_each_call_whole(verihop, world, scripted_lm):
    scripted_lm(lambda system, user: "[[ ## reasoning ## ]]\n\x1b[31mso\n\n[[ ## answer ## ]]\nAnsa")
    asked = ("ask", QUESTION, "--program", "rag", "--index", world / "index")
    code, out, _ = verihop(*asked, "--trace")
    assert code == 0
    assert out.count("Call ") == 1
    prompt = out.partition("  user:\n")[2].partition("  reply:\n")
    assert QUESTION in prompt[0]
    assert "[[ ## answer ## ]]\n    Ansa" in prompt[2]
    assert "\x1b" not in out
    plain, traced = (json.loads(verihop(*asked, "--json", *more)[1]) for more in ([], ["--trace"]))
    assert "calls" not in plain
    (call,) = traced["calls"]
    assert (call["call"], call["messages"][0]["role"], call["prompt_tokens"]) == (1, "system", 10)


def test_ask_shows_the_calls_before_an_error(verihop, world, scripted_lm):
    scripted_lm(lambda system, user: 1 / 0)
    code, out, err = verihop("ask", QUESTION, "--program", "cot", "--trace")
    assert code == 2
    assert "division" in err
    assert "Call 1: " in out
    assert "  error: " in out
