"""`verihop distill synthesize` and `mix` as commands."""

import json
from pathlib import Path

import pytest

from corpora.passages import read_passages, write_passages
from corpora.questions import Question, read_questions, write_questions
from optimizers.distill.examples import read_examples, write_examples


@pytest.fixture
def synthesize(verihop, world):
    """Return a function that distils GenGround on the small world."""

    def run(out, *arguments):
        asked = f"world={world / 'questions.jsonl'}"
        options = ("--program", "genground", "--set", "k=4", "--index", world / "index", "--student", "json")
        return verihop("distill", "synthesize", asked, *options, "--out", out, "--quiet", *arguments)

    return run


SIMULATED = ("--teacher", "simulated", "--limit", 8)
COV_RAG = (*SIMULATED, "--recipe", "cov_rag")


def test_examples_are_written_and_the_next_command_trains_on_them(synthesize, tmp_path):
    code, out, err = synthesize(tmp_path / "ex", *SIMULATED)
    assert code == 0, err
    assert f"Next: verihop distill train {tmp_path / 'ex'} -o {tmp_path / 'ex-lm'}" in err
    assert "By skill: deduction" in out
    examples = read_examples(tmp_path / "ex" / "examples.jsonl")
    assert f"{len(examples)} examples from 8 questions" in out


def test_a_machine_gets_the_manifest(synthesize, tmp_path):
    code, out, _ = synthesize(tmp_path / "ex", *SIMULATED, "--json", "--predictors", "grounding")
    made = json.loads(out)
    assert (code, made["counts"]["by_predictor"].keys()) == (0, {"grounding"})
    assert made["folder"] == str(tmp_path / "ex")


@pytest.mark.slow
def test_a_compiled_program_is_distilled_with_its_own_prompts_if_wanted(synthesize, verihop, world, tmp_path):
    index = ("--index", world / "index")
    made = verihop("compile", world / "questions.jsonl", "--program", "genground", "--set", "k=4", "--limit", 6, "--lm",
                   "simulated", "--out", tmp_path / "a", "--quiet", *index)  # fmt: skip
    assert made[0] == 0
    asked = ("distill", "synthesize", f"world={world / 'questions.jsonl'}", "--artifact", tmp_path / "a", *index,
             "--student", "json", "--limit", 6, "--quiet", "--json")  # fmt: skip
    first = {}
    for prompts in ("plain", "compiled"):
        code, _, err = verihop(*asked, "--prompts", prompts, "--out", tmp_path / prompts)
        assert code == 0, err
        first[prompts] = read_examples(tmp_path / prompts / "examples.jsonl")[0]
    assert len(first["plain"].messages) == 2
    assert len(first["compiled"].messages) > 2
    assert first["plain"].completion == first["compiled"].completion


def test_a_spent_budget_is_code_3_and_is_resumed(synthesize, tmp_path):
    code, _, err = synthesize(tmp_path / "ex", *SIMULATED, "--budget", "calls=20", "--threads", 1)
    assert (code, "Resume with the same command, --resume" in err) == (3, True)
    assert synthesize(tmp_path / "ex", *SIMULATED)[0] == 2
    code, out, _ = synthesize(tmp_path / "ex", *SIMULATED, "--resume", "--json")
    assert (code, json.loads(out)["complete"]) == (0, True)


def test_ctrl_c_is_code_130_and_says_how_to_resume(synthesize, tmp_path, monkeypatch):
    def interrupted(*arguments, **keywords):
        raise KeyboardInterrupt

    monkeypatch.setattr("experiments.pipeline.synthesis.synthesize.map_rows", interrupted)
    code, _, err = synthesize(tmp_path / "ex", *SIMULATED)
    assert (code, "Resume with the same command and --resume" in err, "Traceback" in err) == (130, True, False)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "Name the teacher: --teacher ID"),
        (("--teacher", "nobody"), "Unknown LM 'nobody'"),
        ((*SIMULATED, "--prompts", "old"), "Unknown kind of prompts 'old'"),
        ((*SIMULATED, "questions.jsonl"), "Name the data set of 'questions.jsonl'"),
        ((*SIMULATED, "nobody=questions.jsonl"), "Unknown data set 'nobody'"),
        ((*COV_RAG, "--means", "lies"), "Unknown means of making wrong responses 'lies'"),
        ((*COV_RAG, "--verdicts", "people"), "Unknown verdicts 'people'"),
        ((*SIMULATED, "--recipe", "mine"), "Unknown recipe 'mine'"),
        ((*SIMULATED, "--answers-api-base", "http://localhost:1/v1"), "needs its name: add --answers-lm"),
        ((*SIMULATED, "--recipe", "genground"), "needs the corpus with the gold passages: name its file (passages)"),
        ((*SIMULATED, "--negatives", 5), "--negatives does nothing without --recipe cov_rag"),
        ((*SIMULATED, "--negatives", 1), "--negatives does nothing without --recipe cov_rag"),  # the default, but typed
        ((*COV_RAG, "--empty-share", 0.5), "--empty-share does nothing without --recipe genground"),
        ((*COV_RAG, "--accept", 0.5), "--accept does nothing with --recipe cov_rag"),
        ((*COV_RAG, "--gold-read"), "--gold-read does nothing with --recipe cov_rag"),
        ((*COV_RAG, "--predictors", "answering"), "--predictors does nothing with --recipe cov_rag"),
        ((*COV_RAG, "--negatives", 0, "--means", "query"), "--means does nothing with --negatives 0"),
        ((*COV_RAG, "--verdicts", "gold", "--show-gold"), "--show-gold does nothing with --verdicts gold"),
        ((*COV_RAG, "--verdicts", "teacher", "--strict"), "--strict does nothing with --verdicts teacher"),
    ],
)
def test_mistakes_are_one_line(arguments, message, synthesize, tmp_path):
    code, _, err = synthesize(tmp_path / "ex", *arguments)
    assert (code, message in err, len(err.strip().splitlines())) == (2, True, 1), err
    assert not (tmp_path / "ex").exists()


@pytest.mark.slow
def test_folders_are_mixed(synthesize, verihop, tmp_path):
    for name, predictor in (("a", "grounding"), ("b", "deduction")):
        assert synthesize(tmp_path / name, *SIMULATED, "--predictors", predictor)[0] == 0
    folders = (tmp_path / "a", tmp_path / "b", tmp_path / "a")
    code, out, err = verihop("distill", "mix", *folders, "--out", tmp_path / "m", "--made-share", 1, "--count",
                             "deduction=3", "--json")  # fmt: skip
    assert code == 0, err
    manifest = json.loads(out)
    whole = len(read_examples(tmp_path / "a" / "examples.jsonl"))
    assert manifest["counts"]["by_skill"] == {"deduction": 3, "grounding": whole}
    assert manifest["dropped"]["repeats"] == whole
    assert [part["manifest"]["kind"] for part in manifest["parts"]] == ["distillation"] * 3
    code, _, err = verihop("distill", "mix", tmp_path / "a", "--out", tmp_path / "m")
    assert (code, "already contains examples" in err) == (2, True)
    code, _, err = verihop("distill", "mix", tmp_path / "a", "--out", tmp_path / "half")
    assert (code, "of the generated world" in err) == (2, True)
    for wrong in ("reading", "reading=inf", "reading=nan", "grounding=2.7"):
        for option in ("--count", "--weight") if "." not in wrong else ("--count",):
            code, _, err = verihop("distill", "mix", tmp_path / "a", "--out", tmp_path / "x", option, wrong)
            said = "a whole number" if "." in wrong else "not SKILL=NUMBER"
            assert (code, said in err, len(err.splitlines())) == (2, True, 1), err


def test_a_mixture_has_no_gold_of_an_evaluation(synthesize, verihop, world, tmp_path):
    assert synthesize(tmp_path / "a", *SIMULATED, "--predictors", "grounding")[0] == 0
    examples = read_examples(tmp_path / "a" / "examples.jsonl")
    by_id = {question.id: question for question in read_questions(world / "questions.jsonl")}
    gold = by_id[examples[0].question_id].gold_ids[0]
    held = Question(id="e", question="Never asked?", gold_ids=[gold])
    (tmp_path / "held").mkdir()
    write_questions(tmp_path / "held" / "questions.jsonl", [held])
    mixing = ("distill", "mix", tmp_path / "a", "--made-share", 1, "--exclude", tmp_path / "held" / "questions.jsonl")
    known = (*mixing, "--questions", world / "questions.jsonl", "--out", tmp_path / "known", "--json")
    code, out, err = verihop(*known)
    assert code == 0, err
    needing = {example.question_id for example in examples if gold in by_id[example.question_id].gold_ids}
    kept = {example.question_id for example in read_examples(tmp_path / "known" / "examples.jsonl")}
    assert kept == {example.question_id for example in examples} - needing
    assert json.loads(out)["dropped"]["same_gold_passage"] > 0

    (passage,) = [one for one in read_passages(world / "passages.jsonl") if one.id == gold]
    write_passages(tmp_path / "held" / "passages.jsonl", [passage])
    code, out, err = verihop(*mixing, "--out", tmp_path / "shown", "--json")
    assert code == 0, err
    shown = read_examples(tmp_path / "shown" / "examples.jsonl")
    assert not any(passage.text in example.messages[-1].content for example in shown)
    assert json.loads(out)["dropped"]["evaluation_gold_is_shown"] == len(examples) - len(shown) > 0


def test_a_mixture_that_the_evaluations_empty_says_why(synthesize, verihop, world, tmp_path):
    assert synthesize(tmp_path / "a", *SIMULATED)[0] == 0
    examples = read_examples(tmp_path / "a" / "examples.jsonl")
    mixing = ("distill", "mix", tmp_path / "a", "--out", tmp_path / "m", "--made-share", 1)
    everything = ("--exclude", world / "questions.jsonl")
    for more in ((), ("--count", "grounding=3"), ("--weight", "deduction=2")):
        code, _, err = verihop(*mixing, *everything, *more)
        assert (code, len(err.splitlines())) == (2, 1)
        said = f"no example to mix: of {len(examples)} examples are left out evaluation_question_is_asked "
        assert f"{said}{len(examples)}. Make" in err
    assert not (tmp_path / "m").exists()
    code, _, err = verihop(*mixing[:-1], 0)
    assert (code, f"is empty: of {len(examples)} examples are left out made_share {len(examples)}, and" in err) == (
        2, True,
    )  # fmt: skip

    one_skill = [example.model_copy(update={"skill": "rare"}) for example in examples[:1]]
    write_examples(tmp_path / "a" / "examples.jsonl", [*one_skill, *examples[1:]])
    asked = [one for one in read_questions(world / "questions.jsonl") if one.id == examples[0].question_id]
    write_questions(tmp_path / "one.jsonl", asked)
    code, _, err = verihop(*mixing, "--exclude", tmp_path / "one.jsonl", "--count", "rare=1")
    assert (code, "leave no example of 'rare' to mix: of " in err) == (2, True), err


def test_a_mixture_says_how_many_examples_are_held_back(synthesize, verihop, tmp_path):
    assert synthesize(tmp_path / "a", *SIMULATED)[0] == 0
    code, out, err = verihop("distill", "mix", tmp_path / "a", "--out", tmp_path / "m", "--made-share", 1,
                             "--validation", 0.5)  # fmt: skip
    assert code == 0, err
    examples = read_examples(tmp_path / "m" / "examples.jsonl")
    held = sum(example.split == "validation" for example in examples)
    assert 0 < held < len(examples)
    assert f"{len(examples)} examples (train {len(examples) - held}, validation {held}).\nBy skill: deduction " in out


@pytest.mark.slow
def test_the_recipes_of_the_papers_and_gold(verihop, world, tmp_path):
    asked = ("distill", "synthesize", f"world={world / 'questions.jsonl'}", "--index", world / "index", "--passages",
             world / "passages.jsonl", "--student", "json", "--limit", 12, "--quiet")  # fmt: skip
    code, out, err = verihop(*asked, "--recipe", "genground", "--teacher", "simulated", "--out", tmp_path / "g")
    assert (code, "By skill: grounding" in out) == (0, True), err
    wrong = ("--negatives", 2, "--means", "citations,query", "--n-references", 4, "--verdicts", "gold")
    code, out, err = verihop(
        *asked, "--recipe", "cov_rag", "--teacher", "simulated", "--out", tmp_path / "c", *wrong, "--json"
    )
    assert code == 0, err
    made = json.loads(out)
    assert made["recipe"]["means"] == ["citations", "query"]
    assert {kind.partition(":")[0] for kind in made["kinds"]} <= {"answer", "seed", "citations", "query"}
    code, out, err = verihop(*asked, "--teacher", "gold", "--program", "rag", "--out", tmp_path / "gold")
    assert (code, "By skill: reading" in out) == (0, True), err


@pytest.mark.parametrize(
    "unused",
    ["--negatives 5", "--answer-share 0.5", "--n-references 5", "--verdicts gold", "--strict", "--metric em",
     "--accept 0.5", "--batch-passages 3", "--empty-share 0", "--temperature 0.5",
     "--recipe genground --predictors grounding"],
)  # fmt: skip
def test_gold_refuses_what_only_a_teacher_needs(unused, synthesize, world, tmp_path):
    gold = ("--teacher", "gold", "--passages", world / "passages.jsonl", "--limit", 4)
    code, _, err = synthesize(tmp_path / "ex", *gold, *unused.split())
    assert (code, f"{unused.split()[0]} does nothing with --teacher gold" in err) == (2, True), err


def test_the_manifest_names_no_metric_that_nothing_used(synthesize, world, tmp_path):
    gold = ("--teacher", "gold", "--passages", world / "passages.jsonl", "--limit", 4, "--json")
    code, out, err = synthesize(tmp_path / "gold", *gold)
    assert code == 0, err
    arguments = json.loads(out)["arguments"]
    assert (arguments["metric"], arguments["accept"]) == (None, None)
    arguments = json.loads(synthesize(tmp_path / "asked", *SIMULATED, "--accept", 0.9, "--json")[1])["arguments"]
    assert (arguments["metric"], arguments["accept"]) == ("em", 0.9)


@pytest.mark.parametrize(
    ("arguments", "unused"),
    [(("--to", "gguf", "--dtype", "bfloat16"), "--dtype"), (("--to", "hf", "--file-type", "f16"), "--file-type")],
)
def test_export_refuses_what_the_other_form_needs(arguments, unused, verihop, tmp_path):
    code, _, err = verihop("distill", "export", "base", *arguments, "-o", tmp_path / "out")
    assert (code, f"{unused} does nothing with --to {arguments[1]}" in err) == (2, True), err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("planned", "said"), [(40, "12 of 40 steps"), (12, "12 steps"), (None, "12 steps")])
def test_training_that_ends_before_all_steps_says_so(capsys, planned, said):
    """Before, only the progress did."""
    from experiments.cli.distill.train import _print

    _print({"steps": 12, "planned_steps": planned, "tokens": 99, "hours": 0.5, "validation": []}, Path("out"))
    assert capsys.readouterr().out.startswith(f"{said}, 99 tokens in 30.0 minutes")
