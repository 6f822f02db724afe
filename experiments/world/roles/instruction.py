"""What the words of an instruction ask for: only what they affirm counts, and only where they can mean it.

A clause with a negation ("do not guess from memory", "never answer ...") asks for nothing. A word counts with its
subject: passages may be enough, "one word is enough" says nothing of them.
"""

import re

_CLAUSE_ENDS = re.compile(r"[.,;:!?()\n]|\b(?=(?:if|when|where|unless|because|but|whether|instead)\b)", re.IGNORECASE)
_WITHOUT_TEXTS = r"without (?:any |the |further )?(?:searching|looking|passages?|references?|documents?|context)"
_NEGATED = re.compile(
    rf"\b(?:not|never|no|none|nor|neither|cannot|instead|rather than|ignor\w*|disregard\w*|avoid\w*|forget|set aside|"
    rf"refrain|(?!{_WITHOUT_TEXTS})without)\b|n't\b",
    re.IGNORECASE,
)
_CLOSE_NEGATION = re.compile(
    r"(?:\b(?:not|never|nor|avoid|without|instead of|rather than)|n't)\s+(?:\w+\s+){0,2}$", re.I
)
_CONDITION = re.compile(r"^\s*(?:if|when|where|unless|whenever)\b", re.IGNORECASE)

_QUOTED_UNKNOWN = r"[\"'“‘]unknown[.]?[\"'”’]"
_OFFER = re.compile(
    rf"(?<!\bthe )(?<!\ban )(?<!\byour )"
    rf"\b(?:answer|say|reply|write|give|return|respond|output|state|use|put|print)\w*\s+"
    rf"(?:(?:with|by|only|just|simply|exactly|the|word|answer|it|is|that|as|saying|short|a|phrase|or)\s+){{0,5}}"
    rf"{_QUOTED_UNKNOWN}|\bor\s+(?:else\s+|with\s+)?{_QUOTED_UNKNOWN}|{_QUOTED_UNKNOWN}\s+(?=(?:if|when|where|unless)\b)",
    re.IGNORECASE,
)
_REFUSAL = re.compile(r"[\"“]((?:I'm sorry|I am sorry|Sorry|I cannot|I can't)[^\"”]*)[\"”]", re.IGNORECASE)

_TEXTS = r"(?:passages?|evidence|references?|contexts?|documents?|sources?|excerpts?|hops|information|facts|they|these)"
_AUXILIARY = (
    r"(?:(?:is|are|be|alone|together|do|does|would|will|may|already|given|above|provided|retrieved|that|really)\s+)"
)
_SEARCH = r"(?:retriev\w*|search(?:es|ing)?|look(?:ing)?[- ]?ups?)"
_KINDS: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "search",
        re.compile(
            rf"\b{_SEARCH}\s+{_AUXILIARY}{{0,3}}(?:need|necess|requir)"
            rf"|\b(?:need|necess|requir)\w*\s+(?:(?:to|for|a|any|an|further|more|another|web|external)\s+){{0,3}}{_SEARCH}",
            re.IGNORECASE,
        ),
    ),
    (
        "memory",
        re.compile(rf"(?<!as )\byou (?:already )?know\b|\bfrom memory\b|\bown knowledge\b|\b{_WITHOUT_TEXTS}\b", re.I),
    ),
    (
        "suffices",
        re.compile(
            rf"\b{_TEXTS}\s+{_AUXILIARY}{{0,4}}(?:enough|suffic\w+|adequate)\b"
            rf"|\b(?:enough|sufficient|adequate)\s+{_TEXTS}\b|\bsuffic\w+ of (?:the )?{_TEXTS}\b",
            re.IGNORECASE,
        ),
    ),
    (
        "answered",
        re.compile(
            r"\b(?:commits|refuses|abstains|declines)\b|\bcommits? itself\b|\bcannot be answered"
            r"|\bdo(?:es)? (?:it|the \w+) (?:commit|refuse|abstain|decline)\b"
            r"|\bis (?:it |this |the \w+ )?an? refusal\b",
            re.IGNORECASE,
        ),
    ),
)
# What a field asks to judge by its own name or description.
_OWN_KINDS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("search", re.compile(r"\b(?:re)?(?:retriev|search|look up)\w*", re.IGNORECASE)),
    ("suffices", re.compile(r"\b(?:in)?(?:suffic\w*|enough|adequate)|everything (?:that is )?needed", re.IGNORECASE)),
    ("memory", re.compile(r"\b(?:you|memory|already) know|\bfrom memory\b|\b(?:is|are) known\b", re.IGNORECASE)),
    (
        "stated",
        re.compile(
            r"\b(?:un|not )?(?:support|ground|attribut|entail|faithful|verifi|back(?:s|ed)\b)|\bhallucinat|\bcontradict"
            r"|\brefut|\bstated\b|\bfound in\b",
            re.IGNORECASE,
        ),
    ),
    ("contributes", re.compile(r"\b(?:ir|un)?(?:relevan|help|contribut|useful|pertinent|on topic)", re.IGNORECASE)),
    ("correct", re.compile(r"\b(?:in)?(?:correct|accura)|\bright\b|\bwrong|\berrors?\b|\bmistake", re.IGNORECASE)),
    ("answered", re.compile(r"\bcommit|\brefus|\babstain|\bdeclin|\bcannot be answered", re.IGNORECASE)),
    ("agreement", re.compile(r"\b(?:dis)?agree|\bsame\b|\bequal|\bmatch|\bdiffer|\bequivalent", re.IGNORECASE)),
)


def affirmed(text: str) -> list[str]:
    """Return the clauses of a text that have no negation."""
    clauses = _CLAUSE_ENDS.split(" ".join(text.split()))
    # "cannot be answered" is what a refusal is described with, not a negation of the clause.
    return [clause for clause in clauses if not _NEGATED.search(clause.replace("cannot be answered", ""))]


def asked_kind(instruction: str) -> str | None:
    """Return the kind of judgement that an instruction affirms: search, memory, suffices or answered; else None."""
    clauses = [clause.replace("cannot be answered", "") for clause in affirmed(instruction)]
    if "cannot be answered" in instruction:
        clauses.append("cannot be answered")
    return next((kind for kind, words in _KINDS if any(words.search(clause) for clause in clauses)), None)


def own_kind(words: str) -> str | None:
    """Return the kind of judgement that a field's name (as words) or description asks for; None if they say nothing."""
    return next((kind for kind, expression in _OWN_KINDS if expression.search(words)), None)


def offers_unknown(text: str) -> bool:
    """Return whether a text offers the answer "unknown"; quoting or forbidding the word is no offer."""
    return any(not _is_negated(text, match.start()) for match in _OFFER.finditer(text))


def quoted_refusal(text: str) -> str:
    """Return the sentence with which a text asks to decline; empty if it quotes none, or forbids it."""
    return next((match[1] for match in _REFUSAL.finditer(text) if not _is_negated(text, match.start())), "")


def _is_negated(text: str, place: int) -> bool:
    """Return whether the clause before a place negates what follows; of a condition only the last words do."""
    before = _CLAUSE_ENDS.split(text[:place])[-1]
    return bool((_CLOSE_NEGATION if _CONDITION.search(before) else _NEGATED).search(before))
