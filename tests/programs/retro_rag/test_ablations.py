"""RetroRAG: what each ablation omits."""

import dspy
import pytest

from programs.lms.adapter import JsonForm
from programs.parts.knobs import with_knobs
from programs.retro_rag import RetroRAG

EVERYTHING = {
    "naming",
    "weighing",
    "answering",
    "concluding",
    "monitoring",
    "agreement",
    "assessing",
    "inferring",
    "relevance",
    "attribution",
    "searching",
}


@pytest.fixture
def run(tell, script):
    """Return a function that runs RetroRAG with some knobs and returns the story and the prediction."""

    def run(**knobs):
        story = tell(**script.worst(2), relevance=0.1)
        program = RetroRAG(script.Batches(), k=2, source_size=2, inferential_size=2, max_rounds=3, **knobs)
        return story, program("Question?")

    return run


def test_the_whole_asks_everything(run, script):
    story, result = run()
    assert script.kinds_asked(story) == EVERYTHING
    assert not result.details["inferential_evidence"]


def test_without_answer_evaluation_all_rounds_run_and_the_last_answer_wins(run, script):
    story, result = run(evaluate_answer=False)
    assert script.kinds_asked(story) == EVERYTHING - {"monitoring", "agreement", "assessing"}
    assert [(hop.draft, hop.verdict) for hop in result.hops] == [(None, None), (None, None), (None, "final")]
    assert result.details["agreement"] == [None, None, None]


def test_without_ellery_one_answer_is_given_from_memory(run, script):
    story, result = run(ellery=False)
    assert script.kinds_asked(story) == {"recalling", "recalling_directly", "agreement", "assessing"}
    assert (result.answer, result.passages, result.details["rounds"]) == ("answer number 0", [], 1)
    assert result.hops[0].candidates == result.hops[0].passage_ids == []
    assert story.offered == set()
    for prompt in story.prompts("recalling", "recalling_directly"):
        assert "## passages ##" not in prompt
        assert "## inferences ##" not in prompt


@pytest.mark.parametrize("evaluate", [True, False])
def test_without_ellery_an_obedient_lm_does_not_abstain(scripted, script, evaluate):
    """Asked with a prompt that offers "unknown" for missing evidence, it would."""
    scripted(script.Obedient(), JsonForm(probability_mode="verbalised"))
    result = RetroRAG(script.Batches(), ellery=False, evaluate_answer=evaluate)("Question?")
    assert (result.answer, result.abstained, result.hops[0].verdict) == ("Ansa Merrow", False, "final")


def test_a_compiled_program_without_ellery_keeps_the_prompts_of_memory(retriever):
    program = RetroRAG(retriever)
    program.answering.predict.demos = [dspy.Example(question="q", reasoning="r", answer="a")]
    ablated = with_knobs(program, ellery=False)
    assert ablated.recalling.predict.demos == []
    assert list(ablated.recalling.predict.signature.input_fields) == ["question"]
    assert not hasattr(program, "recalling")


def test_without_source_evidence_only_inferences_see_the_passages(run, script):
    story, result = run(source=False)
    assert script.kinds_asked(story) == EVERYTHING
    for kind in ("answering", "concluding", "monitoring", "searching"):
        assert not any("of search" in prompt for prompt in story.prompts(kind))
    assert all("of search" in prompt for prompt in story.prompts("inferring"))
    assert [passage.id for passage in result.passages] == ["r1.0", "r1.1", "r2.0", "r2.1", "r3.0", "r3.1"]


def test_without_inferential_evidence_no_claim_is_drawn(run, script):
    story, result = run(inferential=False)
    assert script.kinds_asked(story) == EVERYTHING - {"naming", "inferring", "relevance", "attribution"}
    assert all(candidate.passage_id for hop in result.hops for candidate in hop.candidates)


def test_without_updating_all_evidence_stays(run, script):
    story, result = run(update=False)
    assert script.kinds_asked(story) == EVERYTHING - {"weighing"}
    assert script.kept_of(result.hops[2]) == ["r3.0", "r3.1", "r2.0", "r2.1", "r1.0", "r1.1"]  # newest first
    assert [len(script.kept_of(hop)) for hop in result.hops] == [2, 4, 6]
    assert {candidate.reason for candidate in result.hops[0].candidates if candidate.kept} == {"kept without a score"}
    assert not result.details["inferential_evidence"]  # the gates still stand


def test_without_evidence_evaluation_every_inference_passes(run, script):
    story, result = run(evaluate_evidence=False)
    assert script.kinds_asked(story) == EVERYTHING - {"relevance", "attribution"}
    assert result.details["inferential_evidence"]
    # two passages, and two inferences in all rounds but the last
    assert [len(script.kept_of(hop)) for hop in result.hops] == [4, 4, 2]
