"""Yes against no, and the first choice against the second: what is more frequent, an LM learns as a prior."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from corpora.kinds import choices
from optimizers.distill.examples import Example, Verdict, shuffled
from signatures.text_words import same_words

_OPPOSITES: dict[str, str] = {"yes": "no", "no": "yes", "first": "second", "second": "first"}
_JUDGEMENTS = ("judgement", "verification")
_SPOKEN: dict[str, Verdict] = {"yes": "yes", "no": "no", "true": "yes", "false": "no"}


def verdict_of(question: str, reply: Any) -> Verdict:
    """Return what a reply decides for: yes or no, or the first or second choice of its question; "" if for none.

    Args:
        question: What is asked.
        reply: The answer; a bool is yes or no, and what is neither bool nor text decides for nothing.
    """
    if isinstance(reply, bool):
        return "yes" if reply else "no"
    if not isinstance(reply, str):
        return ""
    spoken = _SPOKEN.get(same_words(reply))
    if spoken is not None:
        return spoken
    offered = choices(question, [reply])
    if offered is None or same_words(offered[0]) == same_words(offered[1]):
        return ""
    return "first" if same_words(offered[0]) == same_words(reply) else "second"


def verdict_of_call(inputs: Mapping[str, Any], outputs: Mapping[str, Any], answer: str) -> Verdict:
    """Return what the outputs of a predictor decide for.

    Args:
        inputs: Of the predictor.
        outputs: Its answer, or its judgement where that is all it gives, or a response that states the answer.
        answer: To the question, which a response states.
    """
    question = str(outputs.get("sub_question") or inputs.get("sub_question") or inputs.get("question") or "")
    if "judgement" in outputs:
        return verdict_of("", outputs["judgement"])
    if "answer" in outputs:
        return verdict_of(question, outputs["answer"])
    if len(outputs) == 1 and isinstance(value := next(iter(outputs.values())), bool):
        return verdict_of("", value)
    return verdict_of(question, answer) if outputs.get("response") and outputs.get("sufficient", True) else ""


def balanced(examples: Sequence[Example], seed: int) -> list[Example]:
    """Return the examples in their order, of each predictor as many for yes as for no, and for the first choice as for
    the second; the more frequent are drawn at random.

    Answers are balanced within each source, too: each has its own style, which would else tell the answer.

    Args:
        examples: Those that decide for nothing are all kept.
        seed: Of the choice.
    """
    left = Counter(map(_place, examples))
    room = {place: min(count, left[(*place[:-1], _OPPOSITES[place[-1]])]) for place, count in left.items() if place[-1]}
    kept = set()
    for example in shuffled(examples, seed):
        place = _place(example)
        if not example.verdict or room[place] > 0:
            kept.add(id(example))
        if example.verdict:
            room[place] -= 1
    return [example for example in examples if id(example) in kept]


def balanced_within(
    examples: Sequence[Example], seed: int, limit: Callable[[Sequence[Example]], Sequence[Example]]
) -> list[Example]:
    """Return balanced examples that `limit` leaves as they are; what one of both leaves out may upset the other.

    Args:
        examples: To choose from.
        seed: Of the choice.
        limit: Returns those of the examples that may stay.
    """
    while True:
        fewer = list(limit(balanced(examples, seed)))
        if len(fewer) == len(examples):
            return fewer
        examples = fewer


def _place(example: Example) -> tuple[str, ...]:
    """Return within what an example is balanced, and what it decides for."""
    source = "" if example.skill in _JUDGEMENTS else example.source  # a source may give wrong answers alone
    return example.program, example.predictor, source, example.verdict
