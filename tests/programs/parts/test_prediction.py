import dspy
import pytest

from programs.parts.prediction import Answer, completed, make_prediction
from signatures.common.errors import UserError
from signatures.types import Hop, Passage
from signatures.voting import is_answer


@pytest.mark.parametrize(
    ("answer", "expected"), [("no", True), ("Unknown.", False), (" ", False), ("...", False), ("A", True)]
)
def test_nothing_and_unknown_are_no_answers(answer, expected):
    assert is_answer(answer) is expected


def test_what_an_own_program_leaves_out_is_filled_in_in_a_copy():
    own = dspy.Prediction(answer="Tolmen", hops=None, confidence=0.5)
    own.set_lm_usage({"lm": {"total_tokens": 3}})
    filled = completed(own)
    assert isinstance(filled, Answer)
    assert dict(filled.items()) == {
        "answer": "Tolmen", "response": "Tolmen", "hops": [], "passages": [], "citations": [], "abstained": False,
        "stop_reason": None, "details": {}, "confidence": 0.5,
    }  # fmt: skip
    assert (filled.get_lm_usage(), "response" in own) == ({"lm": {"total_tokens": 3}}, False)


def test_a_complete_prediction_stays_itself_and_what_is_none_is_refused():
    whole = make_prediction("Tolmen")
    assert completed(whole) is whole
    with pytest.raises(UserError, match="returned str"):
        completed("Tolmen")


def test_evidence_that_a_program_has_not_checked_is_compared_with_what_its_hop_read():
    read = [Passage(id="a", text="Its manager is Agneta Blom."), Passage(id="b", text="The coach is Tomasz Wrona.")]
    hops = [
        Hop(question="q", answer="", evidence="manager is Agneta Blom", passage_ids=["a"]),
        Hop(question="q", answer="", evidence="The coach is Tomasz Wrona", passage_ids=["a"]),
        Hop(question="q", answer="", evidence="Tomasz Wrona", match="near"),
        Hop(question="q", answer=""),
    ]
    given = make_prediction("x", hops=hops, passages=read)
    assert [hop.match for hop in completed(given).hops] == ["verbatim", "absent", "near", None]
    assert [hop.match for hop in given.hops] == [None, None, "near", None]
