"""`verihop artifact`: what is shown, checked, compared, exported and combined, for people and machines."""

import json

import dspy
import pytest

from programs.artifact import LMRecord, freeze, load
from programs.catalog import build
from programs.nearest_demos import NearestDemos, PoolQuestion

pytestmark = pytest.mark.filterwarnings("default::signatures.common.errors.UserNotice")  # another LM, another corpus

LM = LMRecord(id="simulated", adapter="JsonForm", probability_mode="samples", weights_hash="f" * 64)


class Zero:
    fingerprint = "zero"

    def __call__(self, left, right):
        return [[0.0] * len(right) for _ in left]


def metric(scores):
    mean = sum(scores.values()) / len(scores)
    return {"name": "em", "definition": "d", "mean": mean, "low": 0.1, "high": 0.9, "n": len(scores), "scores": scores}


def rag(answers=(), instructions=None, **knobs):
    program = build("rag", **knobs)
    program.reading.demos = [
        dspy.Example(augmented=True, question=f"Q{number}?", passages=[], answer=answer)
        for number, answer in enumerate(answers)
    ]
    if instructions:
        program.reading.signature = program.reading.signature.with_instructions(instructions)
    return program


@pytest.fixture
def first(tmp_path):
    candidates = [
        {"label": "bootstrap 1", "mean": 0.5, "calls": 12},
        {"label": "bootstrap 2", "mean": 0.25, "calls": 9},
    ]
    optimizer = {
        "name": "bootstrap_rs",
        "arguments": {"seed": 0, "options": {"rungs": 4}},
        "cost": {"calls": 21, "usd": 0.0},
        "candidates": candidates,
        "details": {"race": {"winner": "none", "stopped": None, "rows": [{"optimizer": "knn", "score": 0.5}]}},
    }
    freeze(
        rag(["one", "two"], k=3),
        tmp_path / "first",
        lm=LM,
        corpus="bm25-1",
        data={"train": {"n": 8, "sha256": "0" * 64}},
        optimizer={**optimizer, "cost": {"calls": 21, "usd": 0.0}},
        metric=metric({"a": 1.0, "b": 0.0, "c": 0.0}),
        revision="abc",
    )
    return tmp_path / "first"


@pytest.fixture
def second(tmp_path):
    scores = metric({"a": 1.0, "b": 1.0, "d": 0.0})
    freeze(rag(["one", "zwei"], "Answer.\nBriefly."), tmp_path / "second", lm=LM, corpus="bm25-2", metric=scores)
    return tmp_path / "second"


def test_show_says_what_it_is_and_how_it_was_made(first, verihop):
    code, out, err = verihop("artifact", "show", first)
    assert code == 0
    for words in (
        "first: rag (at most 1 LM calls a question)",
        "Knobs: k=3 (default 5)",
        "LM: simulated, weights ffffffffffff; adapter JsonForm, P(yes) from samples",
        "Corpus: bm25-1",
        "Optimizer: bootstrap_rs",
        "Optimizer, arguments: seed=0, options={'rungs': 4}\n",
        "Optimizer, cost: calls=21\n",
        "Optimizer, details, race, winner: none\n",
        "Optimizer, details, race, rows:\n    optimizer  score\n    knn        0.5\n",
        "    label        mean  calls\n    bootstrap 1  0.5   12\n    bootstrap 2  0.25  9\n",
        "Metric: em 0.333 [0.100, 0.900] on 3 validation questions",
        "Revision: abc",
        "reading: passages, question -> answer; 2 demos, 2 of them bootstrapped",
        "Answer the question with what the passages say.",
    ):
        assert words in out
    assert "artifact export" in err
    assert "with what the passages say" not in verihop("artifact", "show", first, "--no-instructions")[1]


def test_show_gives_machines_the_whole_record(first, second, verihop, tmp_path):
    verihop("artifact", "ensemble", first, second, "-o", tmp_path / "both")
    shown = json.loads(verihop("artifact", "show", tmp_path / "both", "--json")[1])
    assert (shown["kind"], shown["max_calls"], list(shown["parts"])) == ("ensemble", 2, ["1", "2"])
    part = shown["parts"]["1"]
    assert part["changed_knobs"] == {"k": {"value": 3, "default": 5}}
    assert part["metric"]["scores"]["a"] == 1
    assert part["predictors"]["reading"]["demos"] == 2


def test_verify_names_file_and_field_of_each_fault(first, second, verihop):
    assert verihop("artifact", "verify", first, second)[:2] == (0, f"{first}: valid (rag)\n{second}: valid (rag)\n")
    state = second / "program.json"
    state.write_text(state.read_text().replace("zwei", "drei"))
    code, out, err = verihop("artifact", "verify", first, second)
    assert (code, out) == (2, f"{first}: valid (rag)\n")
    assert err.startswith(f"verihop: {state} has changed since it was frozen")
    assert len(err.splitlines()) == 1
    code, out, err = verihop("artifact", "verify", first, second, "--json")
    found = json.loads(out)
    assert (code, found["valid"], [one["valid"] for one in found["artifacts"]]) == (2, False, [True, False])
    assert "program.json" in found["artifacts"][1]["fault"]


def test_verify_tells_a_missing_artifact(tmp_path, verihop):
    code, out, err = verihop("artifact", "verify", tmp_path / "none")
    assert (code, out, "contains no artifact" in err) == (2, "", True)


def test_diff_shows_what_changed_and_compares_the_shared_questions(first, second, verihop):
    code, out, _ = verihop("artifact", "diff", first, second)
    assert code == 0
    for words in (
        f"--- {first}\n+++ {second}\n",
        "corpus: bm25-1 -> bm25-2",
        "optimizer: bootstrap_rs -> none",
        "knob k: 3 -> 5",
        "-Answer the question with what the passages say.",
        "+Briefly.",
        "demonstrations: 0 added, 0 removed, 1 changed",
        "- answer: two\n        + answer: zwei",
        "Score: 0.333 -> 0.667; paired difference +0.500",
        "on 2 questions",
    ):
        assert words in out
    found = json.loads(verihop("artifact", "diff", first, second, "--json")[1])
    assert (found["same"], found["scores"]["n"], found["knobs"]) == (False, 2, {"k": [3, 5]})
    assert "are the same" in verihop("artifact", "diff", first, first)[1]


def test_diff_compares_no_scores_of_different_metrics(first, tmp_path, verihop):
    other = {**metric({"a": 1.0}), "definition": "another"}
    freeze(rag(), tmp_path / "other", metric=other)
    assert "not comparable" in verihop("artifact", "diff", first, tmp_path / "other")[1]
    freeze(rag(), tmp_path / "none")
    assert "Score: 0.333 -> unknown (not comparable" in verihop("artifact", "diff", first, tmp_path / "none")[1]


def test_export_writes_markdown_and_json(first, verihop, tmp_path):
    out = tmp_path / "prompts"
    code, printed, err = verihop("artifact", "export", first, "-o", out)
    assert (code, printed) == (0, "")
    assert "prompts.md" in err
    record = json.loads((out / "prompts.json").read_text())
    (prompt,) = record["prompts"]
    assert (record["adapter"], prompt["predictor"]) == ("JsonForm", "reading")
    assert [message["role"] for message in prompt["messages"]] == ["system", *["user", "assistant"] * 2, "user"]
    assert prompt["messages"][-1]["content"].count("{question}") == 1
    text = (out / "prompts.md").read_text()
    assert all(message["content"] in text for message in prompt["messages"])
    assert json.loads(verihop("artifact", "export", first, "--json")[1]) == record
    assert "Reply with `[[ ## answer ## ]]`" in verihop("artifact", "export", first, "--adapter", "chat")[1]


def test_export_of_a_question_is_what_the_engine_received(first, world, scripted_lm, verihop):
    engine = scripted_lm(lambda system, user: "[[ ## answer ## ]]\nx\n\n[[ ## completed ## ]]")
    code, out, _ = verihop("artifact", "export", first, "--question", "Who?", "--index", world / "index", "--json")
    record = json.loads(out)
    assert (code, record["answer"], record["adapter"]) == (0, "x", "ChatForm")
    (request,) = engine.requests
    received = [("system", request.system), *((message.role, message.text) for message in request.messages)]
    assert [(m["role"], m["content"]) for m in record["prompts"][0]["messages"]] == received
    assert "Who?" in received[-1][1]


def test_export_of_chosen_demonstrations_says_that_they_depend_on_the_question(tmp_path, verihop):
    demo = dspy.Example(question="Q?", passages=[], answer="near")
    freeze(NearestDemos(rag(), [PoolQuestion("Who?", {"reading": [demo]})], Zero()), tmp_path / "k")
    code, out, err = verihop("artifact", "export", tmp_path / "k")
    assert (code, "near" in out) == (0, False)
    assert "chosen per question" in err
    assert "names no adapter" in err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--adapter", "xml"], "Unknown adapter 'xml'"),
        (["--lm", "simulated"], "add --question"),
        (["--question", "Who?", "--adapter", "json"], "omit --adapter"),
    ],
)
def test_options_of_export_that_do_not_fit_are_one_line(options, words, first, verihop):
    code, _, err = verihop("artifact", "export", first, *options)
    assert (code, len(err.splitlines()), words in err) == (2, 1, True)


def test_combinations_are_made_and_answer(first, second, world, scripted_lm, verihop, tmp_path, monkeypatch):
    monkeypatch.chdir(world)  # its index is offered
    scripted_lm(lambda system, user: "[[ ## answer ## ]]\nx\n\n[[ ## completed ## ]]")
    for made, options in (("ensemble", []), ("cascade", ["--set", "threshold=0.1"])):
        code, out, err = verihop("artifact", made, first, second, "-o", tmp_path / made, *options)
        assert (code, f"{made} of" in out, "--index index" in err) == (0, True, True)
        code, out, _ = verihop("ask", "Who?", "--artifact", tmp_path / made, "--index", world / "index", "--json")
        assert (code, json.loads(out)["answer"]) == (0, "x")
    assert load(tmp_path / "cascade").threshold == 0.1
    code, _, err = verihop("artifact", "ensemble", first, "-o", tmp_path / "one")
    assert (code, "2 to 16 programs" in err) == (2, True)
    code, _, err = verihop("artifact", "cascade", first, second, "-o", tmp_path / "cascade")
    assert (code, "exists already" in err) == (2, True)
    assert verihop("artifact", "ensemble", first, second, "-o", tmp_path / "cascade", "--overwrite")[0] == 0


def test_thresholds_for_another_probability_mode_are_refused_until_accepted(world, scripted_lm, verihop, tmp_path):
    record = LM.model_copy(update={"probability_mode": "logprobs"})
    freeze(build("retro_rag", max_rounds=1), tmp_path / "r", lm=record)
    scripted_lm(lambda system, user: "yes")
    question = json.loads((world / "questions.jsonl").read_text().splitlines()[0])["question"]  # which finds passages
    asked = ("ask", question, "--artifact", tmp_path / "r", "--index", world / "index")
    code, _, err = verihop(*asked)
    assert (code, "accept the other mode (accept_probability_mode)" in err) == (2, True)
    code, _, err = verihop(*asked, "--accept-probability-mode")
    assert (code, "were set for P(yes) from logprobs" in err) == (1, True)  # it was asked; "yes" is no answer to read
