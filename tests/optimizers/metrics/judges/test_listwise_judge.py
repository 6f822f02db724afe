"""The judge of several answers: blind, shuffled, and without invented scores."""

import pytest

from optimizers.metrics.judges.dimensions import CRITERIA
from optimizers.metrics.judges.listwise_judge import Comparison, ListwiseJudge
from signatures.common.errors import UserError

LETTERS = "ABCD"


def comparison(passages, number=0, systems=("rag", "cov", "plain"), **changes):
    values = {
        "id": f"q{number}",
        "question": "Where was Ansa Merrow born?",
        "golds": ["Quillon"],
        "responses": {system: f"Said by nobody {position} [1]." for position, system in enumerate(systems)},
        "references": dict.fromkeys(systems, passages[:2]),
    }
    return Comparison(**{**values, **changes})


def shown(user):
    lines = user.split("[[ ## answers ## ]]\n")[1].split("\n\n")[0].splitlines()
    return [line.removeprefix("- ")[3:] for line in lines]


def by_content(system, user):
    """Score each answer by the number in it, in any order."""
    scores = [int(answer.split("nobody ")[1][0]) / 10 for answer in shown(user)]
    if "right_answers" in user:
        return dict.fromkeys(CRITERIA[1:], scores)
    return {CRITERIA[0]: scores}


def test_every_system_gets_the_score_of_its_own_answer_whatever_the_order(scripted, passages):
    engine = scripted(by_content)
    orders = set()
    for number in range(12):
        verdict = ListwiseJudge()(comparison(passages, number))
        assert verdict.scores == {name: {"rag": 0.0, "cov": 0.1, "plain": 0.2} for name in CRITERIA}
        orders.add(tuple(shown(engine.prompts[-1])))
    assert len(orders) > 1
    assert len(engine.requests) == 24 == 12 * ListwiseJudge().max_calls()


def test_the_judge_sees_no_name_of_a_system(scripted, passages):
    engine = scripted(by_content)
    ListwiseJudge()(comparison(passages, systems=("zebra_rag", "yak_cov")))
    assert not any("zebra" in prompt or "yak" in prompt for prompt in engine.prompts)


def test_citations_are_judged_only_over_the_same_references(scripted, passages):
    scripted(by_content)
    differing = {"rag": passages[:2], "cov": passages[1:3], "plain": passages[:2]}
    verdict = ListwiseJudge()(comparison(passages, references=differing))
    assert set(verdict.scores["citation_accuracy"].values()) == {None}
    assert None not in verdict.scores["correctness"].values()


def test_without_a_gold_only_citations_are_judged(scripted, passages):
    engine = scripted(by_content)
    verdict = ListwiseJudge()(comparison(passages, golds=[]))
    assert len(engine.requests) == 1
    assert set(verdict.scores["correctness"].values()) == {None}
    assert None not in verdict.scores["citation_accuracy"].values()


def test_a_wrong_number_of_scores_is_no_verdict_and_is_counted(scripted, passages):
    scripted(lambda system, user: {name: [0.5] for name in CRITERIA})
    verdict = ListwiseJudge()(comparison(passages))
    assert verdict.unparsed == 5
    assert all(value is None for scores in verdict.scores.values() for value in scores.values())


def test_an_unparseable_reply_is_counted(scripted, passages):
    scripted(lambda system, user: "no idea")
    verdict = ListwiseJudge()(comparison(passages))
    assert verdict.unparsed == 2


def test_scores_out_of_range_are_moved_and_counted(scripted, passages):
    scripted(lambda system, user: {name: [1.5, -1, 0.5] for name in CRITERIA})
    verdict = ListwiseJudge()(comparison(passages))
    assert verdict.clamped == 10
    assert {0.0, 0.5, 1.0} == set(verdict.scores["bias"].values())


@pytest.mark.parametrize("count", [1, 5])
def test_two_to_four_answers_can_be_compared(scripted, passages, count):
    scripted(by_content)
    with pytest.raises(UserError, match=f"{count} answers"):
        ListwiseJudge()(comparison(passages, systems=[f"s{number}" for number in range(count)]))
