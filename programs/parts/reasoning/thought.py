"""A thought that grows sentence by sentence, and the answer behind its cue ("the answer is")."""

import re
from collections.abc import Sequence

import dspy

from programs.parts.longform import gives_answer
from programs.parts.passages import is_no_item
from programs.parts.prediction import drop_from_trace
from signatures.text import split_sentences
from signatures.text_words import same_words

# Of several cues the last one counts, as with the greedy expressions of public code.
_CUE = re.compile(
    r".*(?:\banswer\s+(?:to\s+(?:the|this|that)\s+question\s+)?is\b|答案(?:[应應][该該])?(?:就|便|[则則])?[是为為])[\s*_]*[:：]?(?P<answer>.*)",
    re.IGNORECASE | re.DOTALL,
)
_EDGES = ' \t\n*_`"“”「」'
_FULL_STOPS = ".。．"
_COLONS = (":", "：")
_WIDE_ENDINGS = "。！？；：”」』）"


def next_sentence(reply: str, thought: Sequence[str]) -> str:
    """Return the first sentence of a reply that the thought does not contain yet; empty if there is none.

    Departure: IRCoT and FLARE take the first sentence, whatever it says. LMs without demonstrations repeat the thought
    before they go on; that is no new sentence here. Nor is one that only declines ("The passages do
    not mention it", "So the answer is: unknown"): it is nothing to search for, and no answer. A sentence that ends with
    a colon takes the next one with it ("So the answer is:" and the answer on its own line).

    Args:
        reply: Any number of sentences, as an LM wrote them.
        thought: The sentences that are kept.
    """
    known = {"", *map(same_words, thought)}
    new = [
        sentence for sentence in split_sentences(reply) if same_words(sentence) and same_words(sentence) not in known
    ]
    while new:
        size = 2 if new[0].rstrip(_EDGES).endswith(_COLONS) else 1
        sentence = " ".join(new[:size])
        if not declines(sentence):
            return "" if is_no_item(sentence) else sentence
        new = new[size:]
    return ""


def declines(sentence: str) -> bool:
    """Return whether a sentence only declines to answer, or the answer that it states does."""
    stated = stated_answer(sentence)
    return not gives_answer(sentence) or bool(stated and not gives_answer(stated))


def join_sentences(thought: Sequence[str]) -> str:
    """Return the sentences as one text, with a blank between them where the script has blanks."""
    text = ""
    for sentence in thought:
        blank = "" if not text or text[-1] in _WIDE_ENDINGS else " "
        text += blank + sentence
    return text


def stated_answer(text: str) -> str | None:
    """Return what follows the last cue ("the answer is", "答案是") of a text; None if it has no cue.

    One full stop at the end, quotation marks and emphasis are left out; a cue with nothing behind it gives "".
    """
    found = _CUE.fullmatch(text)
    if found is None:
        return None
    answer = found["answer"].strip(_EDGES)
    return (answer[:-1] if answer.endswith(tuple(_FULL_STOPS)) else answer).strip(_EDGES)


def drop_overruled(reply: dspy.Prediction | None, thought: Sequence[str], answer: str) -> None:
    """Remove the reply with the last sentence from the running trace if it states another answer than the one returned.

    It must not become a demonstration; nor must a cue with nothing behind it.
    """
    said = stated_answer(thought[-1]) if thought else None
    if said is not None and same_words(said) != same_words(answer):
        drop_from_trace(reply)
