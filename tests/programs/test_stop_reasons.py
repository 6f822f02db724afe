"""Why the strategies of the four papers stop, and the simplest baselines."""

import pytest

from programs.catalog import build
from programs.parts.verification import SCORES
from tests.programs.fakes import Fake
from tests.programs.obliging import obliging


class FindsOnce(Fake):
    """Finds two passages for the first query, and nothing for any other."""

    def __init__(self, passages):
        super().__init__()
        self.passages, self.first = passages, None

    def find(self, query, k):
        self.first = self.first or query
        return self.passages[:2] if query == self.first else []


def changed(**fields):
    """Reply as obliging as ever, but for these fields."""

    def reply(system, user):
        said = obliging(system, user)
        return {**said, **fields} if isinstance(said, dict) else said

    return reply


def deducing(*steps):
    """Reply as obliging as ever, but to each deduction with the next of these fields; None cannot be read."""
    remaining = iter(steps)

    def reply(system, user):
        if "Take the next step" not in system:
            return obliging(system, user)
        fields = next(remaining)
        return "?" if fields is None else {**obliging(system, user), "finished": False, **fields}

    return reply


@pytest.mark.parametrize("name", ["standard", "cot", "rag", "multihop"])
def test_a_fixed_number_of_steps_is_done_or_unparseable(name, scripted, retriever):
    scripted(obliging)
    assert build(name, retriever)("Question?").stop_reason == "done"
    scripted(lambda system, user: "?")
    assert build(name, retriever)("Question?").stop_reason == "unparseable"


def test_genground_finishes_repeats_itself_runs_out_of_hops_or_cannot_be_read(scripted, retriever):
    program = build("genground", retriever, max_hops=2)
    scripted(obliging)
    assert program("Question?").stop_reason == "finished"
    first, second = ({"sub_question": f"Who was the {which} of them?"} for which in ("first", "second"))
    scripted(deducing(first, second))
    assert program("Question?").stop_reason == "cap"
    scripted(deducing(first, first))
    assert program("Question?").stop_reason == "repeated"
    scripted(deducing(first, None))
    assert program("Question?").stop_reason == "unparseable"
    scripted(obliging)
    assert build("genground", retriever, deduce=False)("Question?").stop_reason == "done"


def test_cov_rag_finishes_unless_it_revises_or_cannot_be_read(scripted, retriever, passages):
    verified = {**dict.fromkeys(SCORES, 0.9), "judgement": "true"}
    scripted(changed(**verified, revised_question=""))
    assert build("cov_rag", retriever)("Question?").stop_reason == "finished"
    scripted(obliging)
    assert build("cov_rag", retriever)("Question?").stop_reason == "cap"
    assert build("cov_rag", FindsOnce(passages))("Question?").stop_reason == "nothing found"
    assert build("cov_rag", retriever, preset="single")("Question?").stop_reason == "done"
    scripted(lambda system, user: {"response": "Ansa [1].", "answer": "Ansa"})  # no verification
    assert build("cov_rag", retriever)("Question?").stop_reason == "unparseable"


def test_self_completion_finishes_or_runs_out_of_room_queries_or_passages(scripted, retriever, passages):
    abstaining = {"sufficient": False, "response": ""}
    scripted(obliging)
    assert build("self_completion", retriever)("Question?").stop_reason == "finished"
    scripted(changed(**abstaining))
    assert build("self_completion", retriever, cap=5)("Question?").stop_reason == "cap"
    assert build("self_completion", FindsOnce(passages))("Question?").stop_reason == "nothing found"
    scripted(changed(**abstaining, queries=["Question?"]))
    assert build("self_completion", retriever, k=2)("Question?").stop_reason == "repeated"
    assert build("self_completion", retriever, preset="reflection")("Question?").stop_reason == "done"


def test_retro_rag_finishes_when_its_answers_agree(scripted, retriever):
    scripted(obliging)
    assert build("retro_rag", retriever)("Question?").stop_reason == "finished"
    scripted(lambda system, user: "no" if "one word, yes or no" in user else obliging(system, user))
    assert build("retro_rag", retriever, max_rounds=2)("Question?").stop_reason == "cap"
