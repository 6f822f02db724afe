"""Questions that offer two named things, or ask about both: what the words of their passages decide, without an LM.

Which of two passages states what is asked, the words that it shares with the question say more often than a small LM,
as they do whether a text entails a sentence (Jijkoun and de Rijke, "Recognizing Textual Entailment Using Lexical
Similarity", PASCAL Challenges Workshop on Recognising Textual Entailment, 2005). The rules were chosen on comparisons
of HotpotQA's train set; what they gain is in `experiments/papers/README.md`.
"""

import re
from collections.abc import Sequence

from programs.parts.passages import passages_named, terms_of
from programs.parts.reasoning.comparing import COMPARING, VERDICT, AboutTwo, about_two, name_in
from signatures.text_words import without_brackets
from signatures.types import Passage

_RANKS = re.compile(
    r"\b(?:best(?! known)|better|worst|worse|farther|farthest|further|furthest"
    r"|(?:clos|near|deep|wid|heavi|fast|great|strong|rich)(?:er|est))\b",
    re.IGNORECASE,
)
_OFFERS = re.compile(r"\bor\b|还是|還是", re.IGNORECASE)
_JOINS = re.compile(r"\band\b", re.IGNORECASE)
_BOTH = re.compile(r"\bboth\b|, (?:are|is|were|was|do|does|did|have|has|can)\b", re.IGNORECASE)
_OUT_OF = re.compile(r"\W*(?:in )?(?:between|of)\b(?! (?:what|which|whom)\b)", re.IGNORECASE)
# What may stand between two names, and before the first one, for the question to be about the two and nothing else.
_ONLY_OR = re.compile(r"\W*(?:or\b|还是|還是)(?: (?:the|an?))?\W*", re.IGNORECASE)
_ONLY_AND = re.compile(r"\W*and(?: (?:the|an?))?\W*", re.IGNORECASE)
_BEFORE_OFFER = re.compile(r".*[,:](?: (?:the|an?))?\W*|\W*\w+(?: (?:the|an?))?\W*", re.IGNORECASE | re.DOTALL)
_BEFORE_BOTH = re.compile(r"\W*(?:\w+(?: both)?(?: (?:the|an?))?(?: [a-z]+)?)?\W*")
_ASKS_ONE = re.compile(r"\b(?:which|who)\b|哪|谁|誰", re.IGNORECASE)
_ASKS_ELSE = re.compile(r"\b(?:what|when|where|why|how|whose|whom|year|date)\b", re.IGNORECASE)
_ONE_OR_BOTH = re.compile(r"\b(?:either|any|or|between|one of)\b", re.IGNORECASE)
_BEFORE_LAST = re.compile(r"(?:[,:] [A-Z][^,:]*, |\bor )$")  # "Which, A, " and "A or ": there are more than two
_AND_MORE = re.compile(r",? (?:or|and)\b", re.IGNORECASE)
# Before and behind a name that is a part of a longer one.
_BEGINS = re.compile(r"\w\W*[ .][A-Z]\w*(?:['’]s)? $")
_GOES_ON = re.compile(r" [A-Z]")
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


def names_two(question: str) -> bool:
    """Return whether a question may offer two things, or ask about both of two."""
    joins = VERDICT.match(question) or _BOTH.search(question) or _OUT_OF.match(question)
    return bool(_OFFERS.search(question) or (_JOINS.search(question) and joins))


def answer_by_words(question: str, passages: Sequence[Passage]) -> str:
    """Return the answer to a question about two named things that the words of their passages decide; "" if none do.

    Of two things that it offers ("Which is a herb, A or B?") it is the one whose passages, titles included, have more
    of its other content words, and at least half of them. About both ("Are A and B herbs?") it is yes if the passages
    of each have all of these words, and no if those of one have some and those of the other none. Questions about an
    order, about how the two stand to each other, with a negation, and of any other form are left to the LM, and so is
    everything unless exactly two titles of passages are named.
    """
    texts: dict[str, str] = {}
    for passage in passages_named(question, passages):
        name = name_in(question, without_brackets(passage.title))
        texts[name] = f"{texts.get(name, '')} {passage.title} {passage.text}"
    asked = about_two(question, list(texts)) if len(texts) == 2 else None
    if asked is None or _ranks(asked) or _UNREAD.search(asked.without_names()):
        return ""
    wanted = terms_of(asked.without_names()) - _OF_QUESTIONS
    first, second = (len(wanted & terms_of(texts[name])) for name in asked.names)
    if _offers(asked):
        decides = first != second and 2 * max(first, second) >= len(wanted)
        return asked.names[0 if first > second else 1] if decides else ""
    if not _joins(asked) or not wanted:
        return ""
    return "yes" if first == second == len(wanted) else "no" if (first == 0) != (second == 0) else ""


def _offers(asked: AboutTwo) -> bool:
    """Return whether it asks which of the two, and nothing else: "Which is a herb, A or B?"."""
    words, (before, after) = asked.without_names(), _around(asked)
    if _ASKS_ELSE.search(words) or _BEFORE_LAST.search(before) or _AND_MORE.match(after) or _are_parts(asked):
        return False
    if _OUT_OF.fullmatch(before.rstrip()):
        return bool(_ONLY_AND.fullmatch(asked.between()) and _ASKS_ONE.search(words))
    asks = _ASKS_ONE.search(words) or (VERDICT.match(asked.question) and not _ONE_OR_BOTH.search(before + after))
    return bool(asks and _ONLY_OR.fullmatch(asked.between()) and _BEFORE_OFFER.fullmatch(before))


def _joins(asked: AboutTwo) -> bool:
    """Return whether it asks, to be answered with yes or no, about both: "Are A and B herbs?"."""
    words, (before, _) = asked.without_names(), _around(asked)
    asks = VERDICT.match(asked.question) if before.strip() else _BOTH.search(words)
    if not asks or _ASKS_ONE.search(words) or _ASKS_ELSE.search(words) or _ONE_OR_BOTH.search(words):
        return False
    alone = _ONLY_AND.fullmatch(asked.between()) and _BEFORE_BOTH.fullmatch(before)
    return bool(alone) and not _are_parts(asked)


def _around(asked: AboutTwo) -> tuple[str, str]:
    """Return what stands before the first of the two, and what stands behind the second."""
    return asked.question[: asked.spans[0][0]], asked.question[asked.spans[1][1] :]


def _are_parts(asked: AboutTwo) -> bool:
    """Return whether one of the names may be a part of a longer one, which is spelled with capitals."""
    question = asked.question
    return any(_BEGINS.search(question[:start]) or _GOES_ON.match(question[end:]) for start, end in asked.spans)


def _ranks(asked: AboutTwo) -> bool:
    """Return whether it asks about an order of the two, or what they have alike."""
    return any(words.search(asked.without_names()) for words in (*COMPARING, _RANKS))
