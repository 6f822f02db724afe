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
# What turns the meaning of the other words, asks how the two stand to each other, or is spelled otherwise in passages.
_UNREAD = re.compile(
    r"\b(?:not|no|none|nothing|never|neither|nor|without|except|lacks?|lacking|excluded|outside|other than|rather than"
    r"|instead of|longer|still|former|cannot|whether|different|similar|alike|common|related|married|together|ever|met"
    r"|meet|each other|USA?|United States"
    r"|(?:has|have|had|with) (?:an? |the )?(?:director|author|producer|composer|founder))\b"
    r"|n't\b|\bU\.? ?S\b|是否|[吗嗎不]",
    re.IGNORECASE,
)


def answer_by_words(question: str, passages: Sequence[Passage]) -> str:
    """Return the answer to a question about two named things that the words of their passages decide; "" if none do.

    Of two things that it offers ("Which is a herb, A or B?") it is the one whose passages, titles included, have more
    of its other content words, and at least half of them. About both ("Are A and B herbs?") it is yes if the passages
    of each have all of these words, and no if those of one have some and those of the other none. Questions about an
    order, about how the two stand to each other, with a negation, and of any other form are left to the LM, and so is
    everything unless exactly two titles of passages are named.

    Args:
        question: The question.
        passages: What was found for it.
    """
    texts: dict[str, str] = {}
    for passage in passages_named(question, passages):
        name = name_in(question, without_brackets(passage.title))
        texts[name] = f"{texts.get(name, '')} {passage.title} {passage.text}"
    asked = about_two(question, list(texts)) if len(texts) == 2 else None
    if asked is None or asked.ranks() or _UNREAD.search(asked.without_names()):
        return ""
    wanted = terms_of(asked.without_names()) - _OF_QUESTIONS
    first, second = (len(wanted & terms_of(texts[name])) for name in asked.names)
    if asked.offers():
        decides = first != second and 2 * max(first, second) >= len(wanted)
        return asked.names[0 if first > second else 1] if decides else ""
    if not asked.joins() or not wanted:
        return ""
    return "yes" if first == second == len(wanted) else "no" if (first == 0) != (second == 0) else ""
