"""Whether a judgement asks for the good or for the bad: "is it right?" and "is it wrong?" have opposite answers."""

import re

_FLIP = re.compile(
    r"(?:\b(?:not|never|no|without|cannot|fails? to|free (?:of|from)|lack of|lacks)|n't)\s+(?:\w+\s+){0,2}$",
    re.IGNORECASE,
)
_FORM = re.compile(
    r"\b(?:true|yes)\s+or\s+(?:false|no)\b|\b(?:or|and|else)?\s*\bfalse\s+(?:otherwise|if|when)\b[^.;?]*", re.IGNORECASE
)
_ASKED = re.compile(r"\bwhether\s+[^.;?!]*|[^.;?!]*\?|\b(?:true|yes) if\s+[^.;!]*", re.IGNORECASE)

_GENERAL = (
    re.compile(
        r"\b(?:support|right|correct|accura|agree|same\b|match|equal|equivalent|relevan|help|contribut|useful|pertinent|"
        r"consisten|faithful|ground|entail|attribut|found\b|stated\b|confirm|valid|verif|suffic|enough|complete|truth)",
        re.IGNORECASE,
    ),
    re.compile(
        r"\b(?:wrong|incorrect|inaccura|errors?\b|mistake|flaw|hallucinat|fabricat|unsupport|ungrounded|unfaithful|"
        r"unverif|contradict|conflict|refut|disprov|irrelevan|unrelated|unhelpful|useless|differ|disagree|mismatch|"
        r"inconsisten|invalid|insufficien|inadequate|incomplete|unstated|lack|gaps?\b|fail)"
        r"|\bmissing\b(?! (?:fact|piece|information|link|hop|detail|evidence|knowledge|entity|step))"
        r"|\bis (?:\w+ ){0,2}false\b|\bneeds? (?:a |to be )?(?:revis|correct|fix)",
        re.IGNORECASE,
    ),
)
# A search is wanted because something is missing, so other words are its contrary; likewise for a refusal.
_OF_KIND = {
    "search": (
        re.compile(r"\bneed|\brequir|\bnecess", re.IGNORECASE),
        re.compile(r"\bunnecess|\bneedless|\bunneeded|\bsuperfluous", re.IGNORECASE),
    ),
    "answered": (
        re.compile(r"\bcommit|\bdefinite|\banswers\b", re.IGNORECASE),
        re.compile(r"\brefus|\babstain|\bdeclin|\bunanswer", re.IGNORECASE),
    ),
}


def asks_for_the_contrary(kind: str, name: str, description: str, instruction: str) -> bool:
    """Return whether "yes" is the bad verdict.

    The description tells, else the name, else what the instruction asks. A text with words of both sides, or of
    neither, tells nothing.

    Args:
        kind: The kind of judgement.
        name: The field's name.
        description: Its description.
        instruction: The instruction.
    """
    asked = " ".join(match[0] for match in _ASKED.finditer(" ".join(instruction.split())))
    texts = (description, name.replace("_", " "), asked)
    sides = (_side(text, *_OF_KIND.get(kind, _GENERAL)) for text in texts)
    return next((side for side in sides if side is not None), True) is False


def _side(text: str, good: re.Pattern[str], bad: re.Pattern[str]) -> bool | None:
    """Return True for words of the good side alone, False for the bad side alone, None otherwise."""
    text = _FORM.sub(" ", text)
    found = {
        side is not bool(_FLIP.search(text[: match.start()]))
        for side, words in ((True, good), (False, bad))
        for match in words.finditer(text)
        if side is False or not bad.match(text, match.start())
    }
    return found.pop() if len(found) == 1 else None
