"""Prompts vary: demonstrations of other questions, other wordings, and never more tokens than allowed."""

from typing import Any

import dspy
import pytest

from experiments.papers.embedded_lm.varied import (
    DEMOS_DROPPED,
    TOO_LONG,
    Draft,
    Variation,
    has_demos,
    plain_example,
    render_drafts,
    share_with_demos,
    tokens_of,
)
from optimizers.distill.gold.calls import GoldCall
from programs.lms.adapter import JsonForm

ABOUT = {"program": "rag", "predictor": "reading", "source": "toy", "licence": "MIT", "labels": "gold"}
OTHER = "Reply to what is asked."


class Reply(dspy.Signature):
    """Answer the question."""

    question: str = dspy.InputField()
    answer: str = dspy.OutputField()


def draft(number: int, *, question: str | None = None, gold: str | None = None, split: str = "train", words: int = 1):
    text = question or f"Which is number {number}?"
    call = GoldCall("reading", {"question": text + " please" * words}, {"answer": f"answer {number}"})
    return Draft(call, f"q{number}", text, f"answer {number}", frozenset([gold or f"p{number}"]), split)  # type: ignore[arg-type]


def rendered(drafts: list[Draft], **changed: Any):
    known: dict[str, Any] = {"demos": 1.0, "reworded": 0.0, "wordings_of": lambda signature: (OTHER,),
                             "count_tokens": lambda text: len(text.split())}  # fmt: skip
    return render_drafts(drafts, Reply, JsonForm(), Variation(**{**known, **changed}), "seed", **ABOUT)


def shown(example: Any) -> list[str]:
    """Return the replies of the demonstrations."""
    return [message.content for message in example.messages if message.role == "assistant"]


def test_demonstrations_are_rendered_as_the_adapter_renders_them():
    made, _ = rendered([draft(number) for number in range(8)])
    for number, example in enumerate(made):
        turns = zip(example.messages[1:-1:2], example.messages[2:-1:2], strict=True)
        demos = [{"question": asked.content.split("\n")[1], "answer": reply.content[12:-2]} for asked, reply in turns]
        assert 1 <= len(demos) <= 3
        expected = JsonForm().format(Reply, demos, {"question": f"Which is number {number}? please"})
        assert [message.model_dump() for message in example.messages] == expected


def test_no_demonstration_is_of_the_same_question_or_gold():
    drafts = [
        draft(0),
        draft(1),
        draft(2, gold="p0"),
        draft(3, question="which is NUMBER 0"),
        draft(4, split="validation"),
    ]
    made, _ = rendered(drafts * 1)
    assert not any("answer 2" in reply or "answer 3" in reply or "answer 0" in reply for reply in shown(made[0]))
    for number, example in enumerate(made):
        assert f'{{"answer": "answer {number}"}}' not in shown(example)
        assert not any("answer 4" in reply for reply in shown(example))  # a held-back question is no demonstration
        assert len(set(shown(example))) == len(shown(example))


def test_one_question_alone_has_no_demonstrations():
    made, counts = rendered([draft(0), draft(0)])
    assert not any(map(has_demos, made))
    assert not counts


def test_too_long_a_prompt_loses_demonstrations_first():
    drafts = [draft(number, words=20) for number in range(6)]
    alone = max(
        tokens_of(plain_example(one, Reply, JsonForm(), **ABOUT), lambda text: len(text.split())) for one in drafts
    )
    made, counts = rendered(drafts, longest=alone)
    assert len(made) == 6
    assert not any(map(has_demos, made))
    assert counts == {DEMOS_DROPPED: 6}
    made, counts = rendered(drafts, longest=alone - 20)
    assert not made
    assert counts == {TOO_LONG: 6}


def test_as_many_demonstrations_stay_as_fit():
    drafts = [draft(number, words=20) for number in range(6)]
    made, counts = rendered(drafts, longest=120)
    assert {len(shown(example)) for example in made} == {1}
    assert not counts


@pytest.mark.parametrize(("share", "own"), [(0.0, 1.0), (1.0, 0.0), (0.5, 0.5)])
def test_a_share_of_the_instructions_is_worded_otherwise(share, own):
    made, _ = rendered([draft(number) for number in range(200)], reworded=share, demos=0.0)
    said = [example.messages[0].content.partition("\n")[0] for example in made]
    assert set(said) <= {Reply.instructions, OTHER}
    assert said.count(Reply.instructions) / 200 == pytest.approx(own, abs=0.1)


def test_a_share_of_the_examples_carries_demonstrations():
    made, _ = rendered([draft(number) for number in range(300)], demos=0.36)
    assert share_with_demos(made) == pytest.approx(0.36, abs=0.08)
    assert share_with_demos([]) == 0.0


def test_tokens_are_counted_with_the_turns_of_the_template():
    example = plain_example(draft(0), Reply, JsonForm(), **ABOUT)
    words = sum(len(message.content.split()) for message in example.messages) + len(example.completion.split())
    lines = sum(message.content.count("\n") for message in example.messages)
    assert tokens_of(example, lambda text: len(text.split())) == words + lines + 3 * 5
