import dspy
import pytest
from dspy.clients.provider import Provider

from optimizers.teleprompters.catalog import get_optimizer
from optimizers.teleprompters.compile import checked_task, compile
from programs.closed_book.cot import CoT
from programs.single_step.rag import RAG
from signatures.common.errors import UserError


class Training(Provider):
    """Training that makes every answer right: the engine knows the trained LM by its name."""

    def __init__(self):
        super().__init__()
        self.finetunable = True
        self.data = []

    def finetune(self, job, model, train_data, train_data_format, train_kwargs=None):
        self.data.append(list(train_data))
        return f"{model}-trained"


def trainable(here):
    complete = here.task_engine.complete

    def by_weights(request):
        if not request.model.endswith("-trained"):
            return complete(request)
        here.task_engine.requests.append(request)
        return right.complete(request)

    right = type(here.task_engine)(lambda system, user: {"answer": "right"})
    here.task_engine.complete = by_weights
    here.lm.provider = Training()
    return here.lm.provider


def test_steps_go_on_from_one_another(world, retriever):
    here = world()
    options = {"strategy": "random_search -> infer_rules"}
    with here.context():
        task = here.task(options=options)
        estimate = get_optimizer("better_together").estimate(
            RAG(retriever), checked_task(RAG(retriever), task, "better_together")
        )
        compiled = compile(RAG(retriever), task, optimizer="better_together")
    labels = [each.label for each in compiled.candidates if each.label.startswith("step")]
    assert labels == ["step 0: as it was", "step 1: random_search", "step 2: infer_rules"]
    assert "MAGIC" in compiled.program.reading.signature.instructions
    assert here.runs <= estimate.student + estimate.teacher
    assert 0 < len(here.prompt_engine.requests) <= estimate.prompt_calls


def test_trained_weights_stay_with_the_program(world, retriever):
    here = world()
    provider = trainable(here)
    student = RAG(retriever)
    with here.context():
        task = here.task(options={"strategy": "p -> w -> p", "prompt_optimizer": "random_search"})
        compiled = compile(student, task, optimizer="better_together")
        with dspy.context(lm=compiled.lm):
            assert [compiled.program(f"Question {n}?").answer for n in (1, 2)] == ["right", "right"]
    assert compiled.lm.model.endswith("-trained")
    assert [each.mean for each in compiled.candidates if each.label == "step 2: w"] == [1.0]
    assert compiled.program.reading.lm is student.reading.lm is None
    replies = [row["messages"][-1]["content"] for row in provider.data[0]]
    assert replies == ['{"answer": "right"}'] * 2  # of six training questions the program answers two rightly
    assert len(here.lm.provider.data) == 1


@pytest.mark.parametrize(
    ("program", "options", "said"),
    [
        (RAG, {}, r"its step w trains weights.*trainable_lm.*leave w out"),
        (lambda _: CoT(), {"strategy": "labeled"}, r"its step labeled does not: "),
        (RAG, {"strategy": "p -> x"}, r"unknown step 'x'. A step is p .*random_search"),
    ],
)
def test_a_step_that_cannot_be_made_is_named(program, options, said, world, retriever):
    here = world()
    with here.context(), pytest.raises(UserError, match=said):
        compile(program(retriever), here.task(options=options), optimizer="better_together")


def test_the_listing_does_not_ask_for_an_lm(retriever):
    with dspy.context(lm=None):
        assert get_optimizer("better_together").fits(RAG(retriever), None) is None
