"""The judge of several answers: blind, shuffled, and without invented scores."""

from dataclasses import replace

import pytest

from optimizers.metrics.judges.answer_judge import CRITERIA, ranks
from optimizers.metrics.judges.listwise_judge import ComparedAnswers, ListwiseJudge
from signatures.common.errors import UserError
from tests.programs.fakes import block


def comparison(passages, number=0, systems=("rag", "cov", "plain"), **changes):
    values = {
        "id": f"q{number}",
        "question": "Where was Ansa Merrow born?",
        "golds": ["Quillon"],
        "responses": {system: f"Said by nobody {position} [1]." for position, system in enumerate(systems)},
        "references": dict.fromkeys(systems, passages[:2]),
    }
    return ComparedAnswers(**{**values, **changes})


def shown(user):
    lines = user.split("[[ ## answers ## ]]\n")[1].split("\n\n")[0].splitlines()
    return [line.removeprefix("- ").split(": ", 1)[1] for line in lines]


def ranked(user, scores, criteria=CRITERIA, reason="So it is."):
    """Return a reply with the scores of the answers as shown, best first on each criterion."""
    reply = {}
    for criterion in criteria:
        order = sorted(range(len(scores)), key=lambda position: scores[position], reverse=criterion != "bias")
        reply[criterion] = [f"answer{position + 1}: {scores[position]}" for position in order]
    return reply | {"reason": reason}


def by_content(system, user):
    """Score each answer by the number in it, in any order."""
    scores = [int(answer.split("nobody ")[1][0]) / 10 for answer in shown(user)]
    return ranked(user, scores, CRITERIA[1:] if "right_answers" in user else CRITERIA[:1])


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


def test_only_answers_without_references_have_no_score_for_citations(scripted, passages):
    scripted(by_content)
    verdict = ListwiseJudge()(comparison(passages, references={"rag": passages[:2], "cov": passages[:2]}))
    assert verdict.scores["citation_accuracy"] == {"rag": 0.0, "cov": 0.1, "plain": None}
    assert sorted(verdict.rankings["citation_accuracy"]) == ["cov", "rag"]
    assert None not in verdict.scores["correctness"].values()


def test_marks_on_different_references_are_renumbered_for_the_judge(scripted, passages):
    engine = scripted(by_content)
    asked = comparison(passages, references={"rag": passages[:2], "cov": passages[1:3]})
    said = {"rag": "It is nobody 0 [2].", "cov": "It is nobody 1 [1].", "plain": "It is nobody 2."}
    ListwiseJudge()(replace(asked, responses=said))
    prompt = next(prompt for prompt in engine.prompts if "right_answers" not in prompt)
    listed, answers = block(prompt, "passages"), {answer[-6:-1] for answer in shown(prompt)}
    number = listed[: listed.index(passages[1].text)].rsplit("[", 1)[1].split("]")[0]
    assert answers == {f"0 [{number}]", f"1 [{number}]"}  # both cite the same passage


def test_without_a_gold_only_citations_are_judged(scripted, passages):
    engine = scripted(by_content)
    verdict = ListwiseJudge()(comparison(passages, golds=[]))
    assert len(engine.requests) == 1
    assert set(verdict.scores["correctness"].values()) == {None}
    assert None not in verdict.scores["citation_accuracy"].values()


def test_a_wrong_number_of_scores_is_no_verdict_and_is_counted(scripted, passages):
    scripted(lambda system, user: ranked(user, [0.5]))
    verdict = ListwiseJudge()(comparison(passages))
    assert verdict.unparsed == 5
    assert all(value is None for scores in verdict.scores.values() for value in scores.values())


def test_an_unparseable_reply_is_counted(scripted, passages):
    scripted(lambda system, user: "no idea")
    verdict = ListwiseJudge()(comparison(passages))
    assert verdict.unparsed == 2


def test_scores_out_of_range_are_moved_and_counted(scripted, passages):
    scripted(lambda system, user: ranked(user, [1.5, -1, 0.5]))
    verdict = ListwiseJudge()(comparison(passages))
    assert verdict.clamped == 10
    assert {0.0, 0.5, 1.0} == set(verdict.scores["bias"].values())


@pytest.mark.parametrize("count", [1, 5])
def test_two_to_four_answers_can_be_compared(scripted, passages, count):
    scripted(by_content)
    with pytest.raises(UserError, match=f"{count} answers"):
        ListwiseJudge()(comparison(passages, systems=[f"s{number}" for number in range(count)]))


def test_the_ranking_is_kept_best_first_and_low_bias_is_best(scripted, passages):
    scripted(by_content)
    verdict = ListwiseJudge()(comparison(passages))
    assert verdict.rankings["correctness"] == ["plain", "cov", "rag"]
    assert verdict.rankings["bias"] == ["rag", "cov", "plain"]
    assert verdict.misordered == 0
    assert ranks(verdict.scores["bias"], "bias") == {"rag": 1, "cov": 2, "plain": 3}


def test_the_reason_is_kept_and_names_the_systems(scripted, passages):
    def reply(system, user):
        best = next(number for number, answer in enumerate(shown(user), start=1) if "nobody 2" in answer)
        reason = f"Answer {best} is right, answer{best} is short; answer9 is none."
        return by_content(system, user) | {"reason": reason}

    scripted(reply)
    for number in range(6):
        verdict = ListwiseJudge()(comparison(passages, number))
        said = "plain is right, plain is short; answer9 is none."
        assert verdict.reasons == {CRITERIA[0]: said, ", ".join(CRITERIA[1:]): said}
        assert sorted(verdict.shown) == ["cov", "plain", "rag"]


def test_the_prompts_ask_for_the_ranking_first_and_its_reason_last(scripted, passages):
    engine = scripted(by_content)
    ListwiseJudge()(comparison(passages))
    for request in engine.requests:
        asked = str(request.system)
        assert "best first" in asked
        assert asked.rstrip().splitlines()[-1].startswith("- reason")


def test_without_a_reason_the_scores_are_kept(scripted, passages):
    def reply(system, user):
        said = by_content(system, user)
        del said["reason"]
        return said

    scripted(reply)
    verdict = ListwiseJudge()(comparison(passages))
    assert (verdict.unparsed, verdict.reasons) == (0, {})
    assert verdict.scores["correctness"] == {"rag": 0.0, "cov": 0.1, "plain": 0.2}


def test_where_ranking_and_scores_disagree_the_scores_hold_and_it_is_counted(scripted, passages):
    def reply(system, user):
        said = by_content(system, user)
        return {name: value[::-1] if name in ("correctness", "bias") else value for name, value in said.items()}

    scripted(reply)
    verdict = ListwiseJudge()(comparison(passages))
    assert verdict.misordered == 2
    assert verdict.rankings["correctness"] == ["rag", "cov", "plain"]
    assert ranks(verdict.scores["correctness"], "correctness") == {"rag": 3, "cov": 2, "plain": 1}
    assert verdict.unparsed == 0


def test_equal_scores_in_any_order_contradict_nothing(scripted, passages):
    scripted(lambda system, user: ranked(user, [0.5, 0.5, 0.5]))
    verdict = ListwiseJudge()(comparison(passages))
    assert verdict.misordered == 0
    assert set(ranks(verdict.scores["bias"], "bias").values()) == {1}


@pytest.mark.parametrize(
    "lines",
    [
        ["**answer2**: 0.7", "- Answer 1 (0.5)", "answer_3 = .25/1"],
        ["1. answer2: 0.7", "2. answer1: 0.5", "3. answer3: 0.25"],
        ["answer2: 0.7, answer1: 0.5, answer3: 0.25"],
        ['("answer2", 0.7)', '("answer1", 0.5)', '("answer3", 0.25)'],
    ],
)
def test_places_are_read_as_lms_write_them(scripted, passages, lines):
    scripted(lambda system, user: dict.fromkeys(CRITERIA, lines) | {"reason": ""})
    verdict = ListwiseJudge()(comparison(passages))
    scores = dict(zip((verdict.shown[1], verdict.shown[0], verdict.shown[2]), (0.7, 0.5, 0.25), strict=True))
    assert verdict.scores["correctness"] == scores
    assert verdict.rankings["correctness"] == list(scores)


@pytest.mark.parametrize(
    "lines",
    [
        ["0.7", "0.5", "0.25"],
        ["answer1: 0.7", "answer1: 0.5", "answer2: 0.3"],
        ["answer1: 0.7", "answer2: 0.5", "answer4: 0.3"],
        ["answer2 is better than answer1: 0.7", "answer3: 0.2"],
        [],
    ],
)
def test_a_ranking_that_does_not_name_each_answer_once_is_no_verdict(scripted, passages, lines):
    scripted(lambda system, user: dict.fromkeys(CRITERIA, lines) | {"reason": "So it is."})
    verdict = ListwiseJudge()(comparison(passages))
    assert verdict.unparsed == 5
    assert set(verdict.rankings.values()) == {None}
