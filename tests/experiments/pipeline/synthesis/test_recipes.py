"""The recipes of the papers, and gold as the teacher, over the generated world."""

import json
from pathlib import Path

import pytest

from experiments.pipeline.synthesis.mixing import mix_folders
from experiments.pipeline.synthesis.opened import open_synthesis
from optimizers.distill.examples import read_examples
from optimizers.distill.specs import GroundingSettings, Mixture, VerificationSettings
from programs.lms.spec import LMSpec
from signatures.common.errors import UserError


def manifest_in(folder: Path) -> dict:
    return json.loads((folder / "manifest.json").read_text())


def test_genground_learns_to_ground_and_nothing_else(request_for, world, tmp_path):
    asked = request_for(None, recipe="genground", passages=world / "passages.jsonl", knobs={},
                        grounding=GroundingSettings(batch_size=3, empty_share=0.5))  # fmt: skip
    made = open_synthesis(asked).run(tmp_path / "out", progress=False)
    assert {(example.program, example.predictor) for example in made.examples} == {("genground", "grounding")}
    replies = [json.loads(example.completion) for example in made.examples]
    assert 0 < sum(not reply["evidence"] for reply in replies) < len(replies)
    for example, reply in zip(made.examples, replies, strict=True):
        assert reply["evidence"] in example.messages[-1].content
    manifest = manifest_in(tmp_path / "out")
    assert manifest["recipe"] == {"name": "genground", "batch_size": 3, "empty_share": 0.5}
    assert manifest["arguments"]["metric"] == "acc[substring]"
    assert manifest["trajectories"] >= 12


def test_the_estimate_counts_the_parts_of_the_questions(request_for, world, tmp_path, capsys):
    asked = request_for(None, recipe="genground", passages=world / "passages.jsonl", knobs={})
    open_synthesis(asked).run(tmp_path / "out")
    trajectories, calls = (manifest_in(tmp_path / "out")[key] for key in ("trajectories", "cost"))
    assert trajectories > 12
    assert calls["calls"] <= 2 * trajectories
    assert f"12 questions: at most {2 * trajectories} LM calls" in capsys.readouterr().err


def test_cov_rag_learns_to_answer_and_to_verify(request_for, world, tmp_path):
    asked = request_for(None, recipe="cov_rag", limit=30, knobs={}, passages=world / "passages.jsonl",
                        verification=VerificationSettings(negatives=2))  # fmt: skip
    made = open_synthesis(asked).run(tmp_path / "out", progress=False)
    skills = {example.skill for example in made.examples}
    assert skills == {"long_form", "verification"}
    by_skill = {skill: {e.question_id for e in made.examples if e.skill == skill} for skill in skills}
    assert not set.intersection(*by_skill.values())
    verdicts = [json.loads(e.completion) for e in made.examples if e.skill == "verification"]
    assert {verdict["judgement"] for verdict in verdicts} >= {"true", "false"}
    assert all((verdict["judgement"] == "true") == (not verdict["revised_question"]) for verdict in verdicts)
    kinds = manifest_in(tmp_path / "out")["kinds"]
    assert {name.partition(":")[0] for name in kinds} == {
        "answer", "seed", "repetition", "citations", "retrieval", "query"
    }  # fmt: skip


def test_another_lm_may_write_the_answers_that_are_checked(request_for, world, tmp_path):
    asked = request_for(None, recipe="genground", passages=world / "passages.jsonl", knobs={}, limit=4,
                        answers=LMSpec(id="simulated:5", cache=False))  # fmt: skip
    open_synthesis(asked).run(tmp_path / "out", progress=False)
    lms = manifest_in(tmp_path / "out")["lms"]
    assert lms["teacher"]["model"] != lms["answers"]["model"]


@pytest.mark.parametrize("recipe", ["program", "genground", "cov_rag"])
def test_gold_is_a_teacher_that_needs_no_lm(recipe, request_for, world, tmp_path):
    asked = request_for("genground" if recipe == "program" else None, recipe=recipe, teacher=LMSpec(id="gold"),
                        knobs={}, passages=world / "passages.jsonl")  # fmt: skip
    first = open_synthesis(asked).run(tmp_path / "a", progress=False)
    manifest = manifest_in(tmp_path / "a")
    assert manifest["cost"]["calls"] == 0
    assert manifest["lms"]["teacher"]["id"] == "gold"
    assert {example.labels for example in first.examples} == {"made"}
    wanted = {"genground": {"grounding"}, "cov_rag": {"answering", "verifying"}}
    found = {example.predictor for example in first.examples}
    assert found == wanted.get(recipe, {"deduction", "grounding", "conclusion"})
    assert open_synthesis(asked).run(tmp_path / "b", progress=False).examples == first.examples


def test_gold_is_made_for_the_predictors_that_the_program_has(request_for, world, tmp_path):
    gold = {"teacher": LMSpec(id="gold"), "passages": world / "passages.jsonl"}
    truth = open_synthesis(request_for(knobs={"true_false": True}, limit=40, **gold)).run(
        tmp_path / "a", progress=False
    )
    assert {example.predictor for example in truth.examples} == {"deduction", "grounding", "truth"}
    named = open_synthesis(request_for(predictors=["citing"], knobs={}, **gold)).run(tmp_path / "b", progress=False)
    assert {example.predictor for example in named.examples} == {"citing"}
    with pytest.raises(UserError, match="Unknown program with gold replies 'cot'"):
        open_synthesis(request_for("cot", knobs={}, **gold))
    with pytest.raises(UserError, match="Unknown predictor of genground with gold replies 'memory'"):
        open_synthesis(request_for(predictors=["memory"], knobs={}, **gold))


def test_gold_and_a_teacher_are_mixed(request_for, world, tmp_path):
    gold = request_for(teacher=LMSpec(id="gold"), passages=world / "passages.jsonl", knobs={})
    open_synthesis(gold).run(tmp_path / "gold", progress=False)
    open_synthesis(request_for()).run(tmp_path / "teacher", progress=False)
    folders = [tmp_path / "gold", tmp_path / "teacher"]
    manifest = mix_folders(folders, Mixture(made_share=1, counts={"grounding": 20}), out=tmp_path / "mixed")
    assert manifest["counts"]["by_skill"]["grounding"] == 20
    splits: dict[str, set] = {}
    for example in read_examples(tmp_path / "mixed" / "examples.jsonl"):
        splits.setdefault(example.question_id, set()).add(example.split)
    assert {len(found) for found in splits.values()} == {1}
    with pytest.raises(UserError, match="is one of the folders to mix"):
        mix_folders(folders, Mixture(), out=tmp_path / "gold", overwrite=True)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"recipe": "mine"}, "Unknown recipe 'mine'"),
        ({"recipe": "genground"}, "The recipe genground needs the corpus"),
        ({"teacher": LMSpec(id="gold")}, "Gold annotations need the corpus"),
        ({"answers": LMSpec(id="simulated")}, "Only the recipes genground and cov_rag"),
        ({"recipe": "cov_rag", "gold_read": True}, "Only trajectories of a program"),
    ],
)
def test_impossible_requests_are_refused(changes, message, request_for):
    with pytest.raises(UserError, match=message):
        request_for(**changes)


def test_a_recipe_needs_its_program_and_an_index(request_for, world):
    with pytest.raises(UserError, match="needs a program with the predictor 'answering'"):
        open_synthesis(request_for("rag", recipe="cov_rag"))
    with pytest.raises(UserError, match="Gold replies are for the plain prompts"):
        open_synthesis(request_for(teacher=LMSpec(id="gold"), passages=world / "passages.jsonl", prompts="compiled"))
