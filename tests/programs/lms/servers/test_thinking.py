"""Thinking stays out of answers, in whatever form a server gives it, and the log-probabilities are the answer's."""

import pytest
from dspy.lm15 import TokenLogprob

from programs.lms.servers.thinking import answer_tokens, split_message, split_text

QUOTED = "[[ ## evidence ## ]]\nThe tag </think> ends it."


@pytest.mark.parametrize(
    ("text", "thinking", "answer"),
    [
        ("Paris", "", "Paris"),
        ("<think>\nHm.\n</think>\n\nParis", "Hm.", "Paris"),
        ("  <think>Hm.", "Hm.", ""),  # cut before its end
        ("Hm.\n</think>\n\nParis", "Hm.", "Paris"),  # opened by the chat template
        ("<think>\n\n</think>\n\nParis", "", "Paris"),  # turned off
        ("[THINK]Hm.[/THINK]Paris", "Hm.", "Paris"),
        ("◁think▷Hm.◁/think▷Paris", "Hm.", "Paris"),
        (QUOTED, "", QUOTED),
        ('{"evidence": "a </think> b"}', "", '{"evidence": "a </think> b"}'),
        ("I <think> so", "", "I <think> so"),
        ("<think>\n\n</think>\n\n<think>Hm.</think>Paris", "Hm.", "Paris"),  # turned off, and yet it thinks
        ("<think>Hm.</think>\n<think>Well.", "Hm.\nWell.", ""),
        ("Hm.</think><think>Well.</think>Paris", "Hm.\nWell.", "Paris"),
    ],
)
def test_thinking_is_separated_from_the_answer(text: str, thinking: str, answer: str) -> None:
    assert split_text(text) == (thinking, answer)


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_a_field_of_the_message_holds_the_thinking(field: str) -> None:
    assert split_message({"content": "Paris", field: "Hm."}) == ("Hm.", "Paris", False)
    assert split_message({"content": None, field: "Hm."}) == ("Hm.", "", False)


def test_content_may_be_a_list_of_parts() -> None:
    parts = [{"type": "text", "text": "Pa"}, {"type": "text", "text": "ris"}]
    assert split_message({"content": parts}) == ("", "Paris", False)
    with pytest.raises(TypeError):
        split_message({"content": 7})


def tokens(*texts: str) -> list[TokenLogprob]:
    return [TokenLogprob(token=text, logprob=-0.1) for text in texts]


@pytest.mark.parametrize(
    ("given", "answer", "thinking", "kept"),
    [
        (["yes"], "yes", "", ["yes"]),
        (["yes"], "yes", "Hm.", ["yes"]),  # the server gives those of the answer alone
        (["<think>", "yes", "?", "</think>", "\n\n", "yes", "<|im_end|>"], "yes", "yes?", ["yes", "<|im_end|>"]),
        (["Is", " it", " yes", "?", "yes"], "yes", "Is it yes?", ["yes"]),  # the parser's tags are no tokens
        (["<think>", "yes"], "", "yes", []),  # no answer
        (["<think>", "yes", "</think>"], "no", "yes", []),  # those of the answer are missing
    ],
)
def test_the_tokens_of_the_answer_are_found(given, answer, thinking, kept) -> None:
    assert [token.token for token in answer_tokens(tokens(*given), answer, thinking)] == kept
