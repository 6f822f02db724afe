"""Questions that offer two named things, or ask about both: what the words of their passages decide, without an LM.

Which of two passages states what is asked, the words that it shares with the question say more often than a small LM,
as they do whether a text entails a sentence (Jijkoun and de Rijke, "Recognizing Textual Entailment Using Lexical
Similarity", PASCAL Challenges Workshop on Recognising Textual Entailment, 2005). The rules were chosen on comparisons
of HotpotQA's train set; what they gain is in `experiments/papers/README.md`.
"""

import re
from collections.abc import Sequence

from programs.parts.passages import passages_named, terms_of
from programs.parts.reasoning.comparing import about_two, name_in
from signatures.text_words import without_brackets
from signatures.types import Passage

# Words of questions that passages do not repeat.
_OF_QUESTIONS = terms_of(
    "categories category consider considered describe described find following form forms found kind kinds known "
    "locate located sort sorts true type types"
)
# What turns the meaning of the other words, or has none of its own left in them ("the U.S." is read as "us").
_UNREAD = re.compile(
    r"\b(?:not|never|neither|nor|without|except|longer|cannot|whether|different)\b|n't\b|\bU\.? ?S\b|是否|[吗嗎不]",
    re.IGNORECASE,
)


def answer_by_words(question: str, passages: Sequence[Passage]) -> str:
    """Return the answer to a question about two named things that the words of their passages decide; "" if none do.

    Of two things that it offers ("Which is a herb, A or B?") it is the one whose passage, title included, has more of
    its other content words, and at least half of them. About both ("Are A and B herbs?") it is yes if both passages have all of these words, and
    no if one has some and the other none. Questions about an order, about what is alike, and with a negation are left
    to the LM, and so is everything unless exactly two titles of passages are named.

    Args:
        question: The question.
        passages: What was found for it, in order; of several with one title the first counts.
    """
    titled: dict[str, Passage] = {}
    for passage in passages_named(question, passages):
        titled.setdefault(name_in(question, without_brackets(passage.title)), passage)
    asked = about_two(question, list(titled)) if len(titled) == 2 else None
    if asked is None or asked.ranks() or _UNREAD.search(asked.without_names()):
        return ""
    wanted = terms_of(asked.without_names()) - _OF_QUESTIONS
    of_names = (titled[name] for name in asked.names)
    first, second = (len(wanted & terms_of(f"{passage.title} {passage.text}")) for passage in of_names)
    if asked.offers():
        decides = first != second and 2 * max(first, second) >= len(wanted)
        return asked.names[0 if first > second else 1] if decides else ""
    if not asked.joins() or not wanted:
        return ""
    return "yes" if first == second == len(wanted) else "no" if (first == 0) != (second == 0) else ""
