"""Calls rendered as examples whose prompts vary: with and without demonstrations, in several wordings, at most so long.

An LM that never saw a demonstration or another wording in training gains nothing from either when it is compiled.
"""

import functools
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from optimizers.distill.balance import verdict_of_call
from optimizers.distill.examples import Example, Split, make_example
from optimizers.distill.gold.calls import GoldCall
from signatures.text_words import same_words

TOO_LONG, DEMOS_DROPPED = "too_long", "demos_dropped"


@dataclass(frozen=True)
class Draft:
    """A call of a predictor that is not rendered yet."""

    call: GoldCall
    question_id: str
    question: str
    answer: str
    gold_ids: frozenset[str]
    split: Split


@dataclass(frozen=True)
class Variation:
    """How prompts vary.

    Args:
        demos: Share of the examples that are to carry demonstrations, in [0, 1].
        most_demos: Largest number of them.
        reworded: Share of the examples whose instruction has another wording, if there is one, in [0, 1].
        wordings_of: Returns the other wordings of a signature's instruction.
        count_tokens: Returns the tokens of a text.
        longest: Tokens of prompt and reply together; of a longer one demonstrations are dropped, and then all of it.
    """

    demos: float
    reworded: float
    wordings_of: Callable[[Any], Sequence[str]]
    count_tokens: Callable[[str], int]
    most_demos: int = 3
    longest: int = 2048


_TURN = 5  # tokens of the chat template around a message, rounded up


def tokens_of(example: Example, count_tokens: Callable[[str], int]) -> int:
    """Return the tokens of prompt and reply in the chat template, or a few more.

    Lines are counted one by one, each once: many prompts show the same passages.
    """
    texts = [*(message.content for message in example.messages), example.completion]
    parts = (part for text in texts for line in text.splitlines() for part in _NUMBER.split(line, maxsplit=1))
    return sum(_counted(count_tokens, part) for part in parts) + sum(text.count("\n") + _TURN for text in texts)


_NUMBER = re.compile(r"(?<=^\[\d\])")  # of a passage, behind it


@functools.lru_cache(maxsize=1 << 17)
def _counted(count_tokens: Callable[[str], int], text: str) -> int:
    return count_tokens(text) if text else 0


def render_drafts(
    drafts: Sequence[Draft], signature: Any, adapter: Any, variation: Variation, seed: str, **about: str
) -> tuple[list[Example], Counter[str]]:
    """Return the drafts of one predictor as examples, and how many lost their demonstrations or are too long.

    Demonstrations are other drafts of the list whose questions are trained on, the shorter half of them: never of the
    same question, nor with one of its gold passages.
    """
    shown = [draft for draft in drafts if draft.split == "train"]
    shown.sort(key=lambda draft: (len(str(draft.call.inputs)), draft.question_id))
    short = shown[: (len(shown) + 1) // 2]
    made, counts = [], Counter[str]()
    for number, draft in enumerate(drafts):
        rng = random.Random(f"{seed} {draft.question_id} {number}")
        wordings = variation.wordings_of(signature)
        reworded = bool(wordings) and rng.random() < variation.reworded
        told = signature.with_instructions(rng.choice(list(wordings))) if reworded else signature
        wanted = rng.randint(1, variation.most_demos) if rng.random() < variation.demos else 0
        demos = _demos(draft, short, wanted, rng)
        example = _fitting(draft, told, adapter, variation, demos, about)
        counts[DEMOS_DROPPED] += bool(demos) and example is not None and not has_demos(example)
        counts[TOO_LONG] += example is None
        if example is not None:
            made.append(example)
    return made, +counts


def has_demos(example: Example) -> bool:
    """Return whether the prompt of an example carries demonstrations."""
    return any(message.role == "assistant" for message in example.messages)


def plain_example(draft: Draft, signature: Any, adapter: Any, **about: str) -> Example:
    """Return a draft as an example without demonstrations."""
    return _example(draft, signature, adapter, (), about)


def _fitting(
    draft: Draft, signature: Any, adapter: Any, variation: Variation, demos: list[dict[str, Any]], about: dict[str, str]
) -> Example | None:
    """Return the example with as many of the demonstrations as fit; None if it is too long without any."""
    for count in range(len(demos), -1, -1):
        example = _example(draft, signature, adapter, demos[:count], about)
        if tokens_of(example, variation.count_tokens) <= variation.longest:
            return example
    return None


def _example(
    draft: Draft, signature: Any, adapter: Any, demos: Sequence[dict[str, Any]], about: dict[str, str]
) -> Example:
    call = draft.call
    return make_example(
        adapter,
        signature,
        call.inputs,
        call.outputs,
        demos=demos,
        skill=call.skill,
        question_id=draft.question_id,
        split=draft.split,
        verdict=verdict_of_call(call.inputs, call.outputs, draft.answer),
        **about,
    )


_TRIES = 12  # draws for each demonstration


def _demos(draft: Draft, short: Sequence[Draft], wanted: int, rng: random.Random) -> list[dict[str, Any]]:
    """Return at most so many demonstrations for a draft, all of different questions."""
    chosen: list[Draft] = []
    for _ in range(wanted * _TRIES if short else 0):
        if len(chosen) == wanted:
            break
        other = rng.choice(short)
        if not any(_overlap(other, one) for one in (draft, *chosen)):
            chosen.append(other)
    return [{**one.call.inputs, **one.call.outputs} for one in chosen]


def _overlap(one: Draft, other: Draft) -> bool:
    """Return whether two drafts share their question or a gold passage."""
    same = one.question_id == other.question_id or same_words(one.question) == same_words(other.question)
    return same or not one.gold_ids.isdisjoint(other.gold_ids)


def share_with_demos(examples: Iterable[Example]) -> float:
    """Return the share of the examples that carry demonstrations, in [0, 1]."""
    given = [has_demos(example) for example in examples]
    return sum(given) / len(given) if given else 0.0
