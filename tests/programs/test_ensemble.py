"""The majority of several programs: which prediction is returned, and at which cost."""

import dspy
import pytest

from programs.cascade import Cascade
from programs.catalog import build
from programs.ensemble import MOST_PROGRAMS, Ensemble
from programs.parts.prediction import make_prediction
from signatures.common.errors import UserError
from signatures.types import Passage


class Fixed(dspy.Module):
    """Answers with a fixed text, without an LM."""

    def __init__(self, answer, name="", calls=1, retrieve=None):
        super().__init__()
        self.answer, self.name, self.calls, self.retrieve = answer, name, calls, retrieve

    def forward(self, question, passages=None):
        read = passages or [Passage(id=self.name, text="t")]
        return make_prediction(
            self.answer, passages=read, citations=[self.name], response=f"{self.answer} [1]", details={"by": self.name}
        )

    def max_calls(self):
        return self.calls


def ask(*answers):
    return Ensemble([Fixed(answer, f"p{number}") for number, answer in enumerate(answers, start=1)])(question="Q?")


class Bare(Fixed):
    """An own program that states its answer alone."""

    def forward(self, question, passages=None):
        return dspy.Prediction(answer=self.answer)


def test_programs_that_state_their_answer_alone_can_be_members():
    for program in (Ensemble([Bare("Oslo"), Bare("Rome")]), Cascade(Bare("Oslo"), Bare("Rome"), before=False)):
        result = program(question="Q?")
        assert (result.answer, result.response, result.details["member_details"]) == ("Oslo", "Oslo", {})


@pytest.mark.parametrize(
    ("answers", "chosen", "agreement"),
    [
        (["Rome", "Oslo", "the oslo."], "Oslo", 2 / 3),
        (["Rome", "Oslo"], "Rome", 1 / 2),  # a tie
        (["Rome", "Oslo", "Oslo", "Rome"], "Rome", 1 / 2),
        (["", "unknown", "Oslo"], "Oslo", 1 / 3),  # abstentions have no vote
        (["A", "B", "B"], "B", 2 / 3),
        (["an", "A", "A"], "A", 2 / 3),  # normalised, each would be empty
    ],
)
def test_the_most_frequent_answer_wins_and_the_earlier_program_breaks_ties(answers, chosen, agreement):
    result = ask(*answers)
    assert (result.answer, result.details["agreement"]) == (chosen, agreement)
    assert result.details["answers"] == answers


def test_the_prediction_is_whole_that_of_the_earliest_winner():
    result = ask("Rome", "Oslo", "oslo")
    assert (result.answer, result.response, result.citations) == ("Oslo", "Oslo [1]", ["p2"])
    assert [passage.id for passage in result.passages] == ["p2"]
    assert result.details["member"] == 2
    assert result.details["member_details"] == {"by": "p2"}


def test_it_abstains_only_if_all_programs_do():
    result = ask("", "", "")
    assert result.abstained is True
    assert result.details["agreement"] == 1


def test_bounds_calls_and_fixed_contexts_are_those_of_all_programs(scripted, retriever, passages):
    engine = scripted(lambda system, user: {"answer": "Ansa Merrow", "reasoning": "r"})
    ensemble = Ensemble([build("rag", retriever, k=2), build("cot"), build("standard")])
    assert ensemble.max_calls() == 3
    assert ensemble.retrieve is retriever
    result = ensemble("Who?", passages=passages[:1])
    assert len(engine.requests) == 3
    assert sum("fog" in prompt for prompt in engine.prompts) == 1
    assert result.answer == "Ansa Merrow"
    assert retriever.queries == []


def test_optimizers_find_the_predictors_of_every_program(retriever):
    ensemble = Ensemble([build("rag", retriever), build("cot")])
    assert [name for name, _ in ensemble.named_predictors()] == ["programs[0].reading", "programs[1].answering.predict"]
    copy = ensemble.deepcopy()
    assert copy.programs[0] is not ensemble.programs[0]
    assert copy.retrieve is retriever


def test_an_error_of_one_program_is_an_error():
    class Broken(Fixed):
        def forward(self, question, passages=None):
            raise UserError("no server")

    with pytest.raises(UserError, match="no server"):
        Ensemble([Fixed("Rome"), Broken("Oslo")])(question="Q?")


def test_fewer_than_two_programs_too_many_and_repeats_are_refused():
    one = Fixed("x")
    for programs in ([], [one], [Fixed("x") for _ in range(MOST_PROGRAMS + 1)]):
        with pytest.raises(UserError, match="2 to 16 programs"):
            Ensemble(programs)
    with pytest.raises(UserError, match="twice"):
        Ensemble([one, one])
