"""CoV-RAG's recipe: two halves, wrong responses, labels from gold and from a teacher."""

import json

import dspy
import pytest

from corpora.questions import Question, SubQuestion
from optimizers.distill.cov_rag import VerificationDistillation, answer_half
from optimizers.distill.specs import VerificationSettings
from optimizers.distill.student import StudentPrompts
from optimizers.distill.trajectories import prompts_of
from programs.cov_rag import CoVRAG
from programs.lms.adapter import ChatForm, JsonForm
from signatures.common.errors import UserError
from tests.conftest import ListRetriever, ScriptedEngine

RIGHT = "The harbour master of Quillon is Ansa Merrow [5]."
HOPS = [SubQuestion(question="Who runs the harbour of Quillon?", answer="Ansa Merrow", gold_ids=["p4"])]
QUESTION = Question(
    id="q", question="Who is harbour master of Quillon?", answers=["Ansa Merrow"], gold_ids=["p4"], sub_questions=HOPS
)
VERDICT = {
    "reference_correctness": 0.9, "correctness": 0.8, "citation_accuracy": 0.7, "truthfulness": 0.6, "bias": 0.5,
    "conciseness": 0.4, "judgement": "true", "revised_question": "",
}  # fmt: skip
UNTRUE = {**VERDICT, "judgement": "false", "revised_question": "Who is the harbour master?"}


@pytest.fixture
def distil(scripted, passages, source, in_chat_form):
    """Return a function that distils one question, and the engine of the teacher."""

    def run(question=QUESTION, *, answers=False, response=RIGHT, verdict=VERDICT, chain=True, **settings):
        def reply(system, user):
            if "Examine the response" in system or "revised_question" in system:
                return in_chat_form(verdict if chain else {"revised_question": verdict["revised_question"]})
            return in_chat_form({"response": response})

        engine = scripted(reply, ChatForm())
        retrieve = ListRetriever(passages)
        program = CoVRAG(retrieve, chain=chain)
        recipe = VerificationDistillation(
            program,
            StudentPrompts(JsonForm(), prompts_of(program), "cov_rag"),
            retrieve,
            frozenset([question.id]) if answers else frozenset(),
            "teacher:x",
            settings=VerificationSettings(**{"negatives": 0, **settings}),
        )
        return recipe(question, source), engine

    return run


def verdicts(made):
    return [json.loads(example.completion) for example in made.examples]


@pytest.mark.parametrize("labels", ["gold", "teacher"])
@pytest.mark.parametrize(
    ("response", "verdict", "revised"),
    [(RIGHT, VERDICT, ""), ("It is Bert Oyle [1].", UNTRUE, "Who is the harbour master?")],
)
def test_without_the_chain_only_the_revised_question_is_learnt(response, verdict, revised, labels, distil):
    made, _ = distil(chain=False, response=response, verdict=verdict, labels=labels)
    (example,) = made.examples
    gold = "Who runs the harbour of Quillon?" if labels == "gold" and revised else revised
    assert (example.predictor, json.loads(example.completion)) == ("revising", {"revised_question": gold})


def test_without_the_chain_a_revision_of_a_right_response_is_not_learnt(distil):
    made, _ = distil(chain=False, verdict=UNTRUE, labels="teacher")
    assert (made.examples, dict(made.rejected_trajectories)) == ([], {"revision_follows_judgement": 1})


def test_a_question_of_the_first_half_teaches_to_answer(distil):
    made, engine = distil(answers=True)
    (example,) = made.examples
    assert (example.predictor, example.skill) == ("answering", "long_form")
    assert json.loads(example.completion) == {"response": RIGHT}
    assert len(engine.requests) == 1


@pytest.mark.parametrize(
    ("response", "rule"),
    [
        ("It is Bert Oyle [5].", "answer_is_right"),
        ("It is Ansa Merrow [9].", "marks_exist"),
        ("It is Ansa Merrow [1].", "citation_supports"),
        ("[5]", "every_reply_parsed"),
    ],
)
def test_answers_of_the_teacher_that_are_not_learnt(response, rule, distil):
    made, _ = distil(answers=True, response=response)
    assert (made.examples, dict(made.rejected_trajectories)) == ([], {rule: 1})


def test_a_right_response_is_verified_by_gold_without_a_call_for_the_verdict(distil):
    made, engine = distil()
    (example,) = made.examples
    assert (example.predictor, example.labels, example.verdict) == ("verifying", "gold", "yes")
    assert len(engine.requests) == 1
    assert verdicts(made)[0] == {
        "reference_correctness": 1.0, "correctness": 1.0, "citation_accuracy": 1.0, "truthfulness": 1.0, "bias": 0.0,
        "conciseness": 1.0, "judgement": "true", "revised_question": "",
    }  # fmt: skip


def test_a_wrong_response_gets_the_gold_revision_or_that_of_the_teacher(distil):
    made, _ = distil(response="It is Bert Oyle [1].")
    assert verdicts(made)[0]["revised_question"] == "Who runs the harbour of Quillon?"
    bare = QUESTION.model_copy(update={"sub_questions": []})
    made, engine = distil(bare, response="It is Bert Oyle [1].", verdict=UNTRUE)
    assert verdicts(made)[0]["revised_question"] == "Who is the harbour master?"
    assert verdicts(made)[0]["correctness"] == 0.0
    assert made.examples[0].labels == "teacher:x"
    assert len(engine.requests) == 2
    made, _ = distil(bare, response="It is Bert Oyle [1].", verdict=VERDICT)
    assert dict(made.rejected_trajectories) == {"revision_is_known": 1}


@pytest.mark.parametrize(
    ("response", "verdict", "rule"),
    [
        (RIGHT, VERDICT, None),
        ("It is Bert Oyle.", UNTRUE, None),
        (RIGHT, UNTRUE, "judgement_agrees_with_gold"),
        ("It is Bert Oyle.", VERDICT, "judgement_agrees_with_gold"),
        (RIGHT, {**VERDICT, "bias": 1.5}, "scores_in_range"),
        (RIGHT, {**VERDICT, "revised_question": "Who is she?"}, "revision_follows_judgement"),
        ("It is Bert Oyle.", {**UNTRUE, "revised_question": ""}, "revision_is_known"),
        ("It is Bert Oyle.", {**UNTRUE, "revised_question": QUESTION.question}, "revision_is_known"),
        (RIGHT, {"judgement": "true"}, "every_reply_parsed"),
    ],
)
def test_verdicts_of_a_teacher(response, verdict, rule, distil):
    made, _ = distil(response=response, verdict=verdict, labels="teacher")
    assert dict(made.rejected_trajectories) == ({rule: 1} if rule else {})
    if rule is None:
        assert verdicts(made) == [verdict]
        assert made.examples[0].labels == "teacher:x"


def test_the_teacher_sees_the_gold_only_if_it_shall(distil):
    shown = []
    for show_gold in (False, True):
        bare = QUESTION.model_copy(update={"sub_questions": []})
        made, engine = distil(bare, response="It is Bert Oyle [1].", verdict=UNTRUE, show_gold=show_gold)
        shown.append("[[ ## gold_answers ## ]]\n- Ansa Merrow" in engine.prompts[-1])
        assert "gold_answers" not in made.examples[0].messages[-1].content
    assert shown == [False, True]


def test_wrong_responses_are_made_by_each_means_in_turn(distil):
    made, engine = distil(negatives=4)
    assert made.trajectories == 5
    assert {kind.partition(":")[0] for kind in made.kinds} == {"seed", "repetition", "citations", "retrieval", "query"}
    assert len(engine.requests) == 3  # seed, wrong retrieval, incomplete query
    assert set(made.kinds.values()) == {1}
    scores = verdicts(made)
    assert {verdict["citation_accuracy"] for verdict in scores} >= {0.0, 1.0}
    assert min(verdict["conciseness"] for verdict in scores) < 1.0
    assert {verdict["reference_correctness"] for verdict in scores} == {0.0, 1.0}


def test_the_seed_model_answers_and_the_teacher_only_verifies(passages, source, scripted, in_chat_form, retriever):
    bare = QUESTION.model_copy(update={"sub_questions": []})
    teacher = scripted(lambda system, user: in_chat_form(UNTRUE), ChatForm())
    weak = ScriptedEngine(lambda system, user: {"response": "It is Bert Oyle [1]."})
    lm = dspy.LM("scripted/weak", engine=weak, cache=False)
    program = CoVRAG(retriever)
    recipe = VerificationDistillation(
        program,
        StudentPrompts(JsonForm(), prompts_of(program), "cov_rag"),
        retriever,
        frozenset(),
        "teacher:x",
        seed_model=lambda: dspy.context(lm=lm, adapter=JsonForm()),
        settings=VerificationSettings(negatives=0),
    )
    made = recipe(bare, source)
    assert len(weak.requests) == len(teacher.requests) == len(made.examples) == 1
    assert "It is Bert Oyle [1]." in made.examples[0].messages[-1].content


def test_the_prompts_of_both_halves_are_those_that_the_program_sends(distil, scripted, retriever):
    learnt = {}
    for answers in (True, False):
        made, _ = distil(answers=answers)
        learnt[made.examples[0].messages[-1].content] = made.examples[0].completion
    engine = scripted(lambda system, user: learnt.get(user, {"answer": "Ansa Merrow"}), JsonForm())
    result = CoVRAG(retriever)(question=QUESTION.question)
    assert engine.prompts[:2] == list(learnt)
    assert result.details["verifications"][0]["judgement"] == "true"


def test_halves_are_exact_and_depend_on_ids_alone():
    ids = [f"q{number}" for number in range(101)]
    first = answer_half(ids, 0.5)
    assert len(first) == 50
    assert answer_half(reversed(ids), 0.5) == first
    assert answer_half(ids, 0.5, seed=1) != first
    assert (answer_half(ids, 0.0), answer_half(ids, 1.0)) == (frozenset(), frozenset(ids))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"answer_share": 2}, "from 0 to 1"),
        ({"negatives": -1}, "from 0"),
        ({"means": ["lies"]}, "Unknown means of making wrong responses 'lies'"),
        ({"labels": "people"}, "Unknown verdicts 'people'"),
        ({"means": []}, "need a way"),
    ],
)
def test_impossible_settings_are_refused(settings, message):
    with pytest.raises(UserError, match=message):
        VerificationSettings(**settings)
