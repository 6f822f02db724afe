"""Each rule rejects its case and nothing else."""

import dspy
import pytest

from optimizers.distill import recipes
from optimizers.distill.recipes import Distillation
from optimizers.distill.student import Made, StudentPrompts
from optimizers.distill.trajectories import PredictorPrompt, Trajectory, TrajectoryStep, prompts_of
from optimizers.metrics.catalog import get_metric
from programs.genground import GenGround
from programs.lms.adapter import ChatForm, JsonForm
from signatures.common.errors import UserError
from signatures.reading import CiteAnswer, ReadAnswer
from signatures.types import Hop, Passage

PASSAGES = [Passage(id="p1", title="Quillon", text="The harbour master of Quillon is Ansa Merrow.")]
GOLD = dspy.Example(question="?", answers=["Quillon"])


def trajectory(**changes):
    fields = {"answer": "Quillon", "passages": PASSAGES, "citations": ["p1"], "hops": []}
    prediction = dspy.Prediction(**{**fields, **{name: changes.pop(name) for name in fields if name in changes}})
    return Trajectory(**{"prediction": prediction, **changes})


SOUND_AND_RIGHT = (*recipes.SOUND, recipes.answer_is_right(get_metric("em")))


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({}, None),
        ({"hops": [Hop(question="q", answer="a", evidence="harbour master of Quillon is Ansa")]}, None),
        ({"prediction": None, "error": "ValueError: x"}, "ended_without_error"),
        ({"parse_failures": 1}, "every_reply_parsed"),
        ({"truncated": 1}, "no_prompt_cut"),
        ({"cut_replies": 1}, "no_reply_cut"),
        ({"citations": ["p2"]}, "citations_exist"),
        ({"hops": [Hop(question="q", answer="a", evidence="It snows in summer")]}, "evidence_of_hops_is_quoted"),
        ({"answer": "Elsewhere"}, "answer_is_right"),
    ],
)
def test_rules_on_trajectories(changes, rule):
    assert recipes.first_broken(SOUND_AND_RIGHT, trajectory(**changes), GOLD) == rule
    broken = [each.__name__ for each in SOUND_AND_RIGHT if not each(trajectory(**changes), GOLD)]
    assert changes.get("prediction", True) is None or broken == ([rule] if rule else [])


def test_a_question_without_gold_has_no_right_answer():
    right = recipes.answer_is_right(get_metric("em"))
    assert not right(trajectory(), dspy.Example(question="?", answers=[]))


def test_the_answer_may_be_right_in_part():
    f1 = get_metric("f1[hotpot]")
    almost = trajectory(answer="Quillon harbour")
    assert not recipes.answer_is_right(f1)(almost, GOLD)
    assert recipes.answer_is_right(f1, 0.5)(almost, GOLD)


@pytest.mark.parametrize(
    ("gold", "read", "kept"),
    [(["p1"], PASSAGES, True), (["p1", "p2"], PASSAGES, False), (["p1"], [], False), ([], PASSAGES, False)],
)
def test_all_gold_passages_were_read_or_not(gold, read, kept):
    question = dspy.Example(question="?", answers=["Quillon"], gold_ids=gold)
    assert recipes.gold_is_read(get_metric("passage_recall[all]"))(trajectory(passages=read), question) is kept


@pytest.mark.parametrize(
    ("inputs", "outputs", "rule"),
    [
        ({"passages": PASSAGES}, {"evidence": PASSAGES[0].text, "answer": "x"}, None),
        ({"passages": PASSAGES}, {"evidence": "", "answer": "x"}, None),
        ({"passages": PASSAGES}, {"evidence": "It snows in summer", "answer": "x"}, "evidence_is_quoted"),
        ({"passages": PASSAGES}, {"response": "She is Ansa Merrow [1]."}, None),
        ({"passages": PASSAGES}, {"response": "She is Ansa Merrow [1][2]."}, "marks_exist"),
        ({}, {"response": "From memory [7]."}, None),
    ],
)
def test_rules_on_steps(inputs, outputs, rule):
    step = TrajectoryStep("any", inputs, outputs)
    kept, rejected = recipes.kept_steps([step])
    assert (kept, dict(rejected)) == (([], {rule: 1}) if rule else ([step], {}))


def test_a_prompt_beyond_the_students_context_is_rejected(source):
    student = StudentPrompts(JsonForm(context_size=300), {"reading": PredictorPrompt(ReadAnswer, [])}, "rag")
    made = Made()
    many = [Passage(id=str(n), text="Words " * 40) for n in range(5)]
    step = TrajectoryStep("reading", {"passages": many, "question": "?"}, {"answer": "x"})
    assert not student.add(made, step, question_id="q", source=source, labels="gold")
    assert (made.examples, dict(made.rejected_examples)) == ([], {"prompt_fits_student": 1})


def test_a_reply_that_the_student_could_not_parse_is_rejected(source):
    student = StudentPrompts(JsonForm(), {"answering": PredictorPrompt(CiteAnswer, [])}, "cov_rag")
    made = Made()
    step = TrajectoryStep("answering", {"passages": PASSAGES, "question": "?"}, {"response": "x" * 300_000})
    assert not student.add(made, step, question_id="q", source=source, labels="gold")
    assert dict(made.rejected_examples) == {"reply_parses_for_student": 1}


def test_a_predictor_that_the_student_lacks_is_named(source):
    student = StudentPrompts(JsonForm(), {"reading": PredictorPrompt(ReadAnswer, [])}, "rag")
    with pytest.raises(UserError, match="rag has no predictor 'grounding': it has reading"):
        student.add(Made(), TrajectoryStep("grounding", {}, {}), question_id="q", source=source, labels="gold")


def test_rejections_are_counted_by_rule(scripted, retriever, teacher, question, source):
    scripted(teacher(), ChatForm())
    program = GenGround(retriever, k=6)
    student = StudentPrompts(JsonForm(), prompts_of(program), "genground")
    wrong = question.model_copy(update={"answers": ["Elsewhere"]})
    made = Distillation(program, student, SOUND_AND_RIGHT[-1], "teacher:x")(wrong, source)
    assert (made.examples, dict(made.rejected_trajectories)) == ([], {"answer_is_right": 1})
