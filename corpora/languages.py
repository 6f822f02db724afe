"""Languages by their ISO 639-1 codes: those with a stemmer or rules for sentences, and which one a text is written in.

The stemmers are Snowball's in tantivy, and so are the lists of function words (13 languages), by which texts in Latin
script are told apart; other scripts identify the language, or nearly so.
"""

import functools
import re
from collections import Counter
from collections.abc import Iterable

from signatures.common.errors import UserError
from signatures.text import CJK

DEFAULT_LANGUAGE = "en"
# Code -> name of tantivy's stemmer.
STEMMERS = {
    **{"ar": "arabic", "da": "danish", "de": "german", "el": "greek", "en": "english", "es": "spanish"},
    **{"fi": "finnish", "fr": "french", "hu": "hungarian", "it": "italian", "nl": "dutch", "no": "norwegian"},
    **{"pt": "portuguese", "ro": "romanian", "ru": "russian", "sv": "swedish", "ta": "tamil", "tr": "turkish"},
}
# pysbd has rules for the ends of sentences; all other languages get those of English.
SENTENCES = tuple("am ar bg da de el en es fa fr hi hy it ja kk mr my nl pl ru sk ur zh".split())
FUNCTION_WORDS = ("da", "de", "en", "es", "fi", "fr", "hu", "it", "nl", "no", "pt", "ru", "sv")
# Of scripts that few languages use, in the order in which a text is looked at: kana before Han characters.
_SCRIPTS = {
    "ja": re.compile("[\u3040-\u30ff]"),
    "zh": re.compile(f"[{CJK}]"),
    "ko": re.compile("[\u1100-\u11ff\uac00-\ud7af]"),
    "ar": re.compile("[\u0600-\u06ff]"),
    "el": re.compile("[\u0370-\u03ff]"),
    "ta": re.compile("[\u0b80-\u0bff]"),
    "ru": re.compile("[\u0400-\u04ff]"),
}
_SHARE = 0.2  # of the letters, for a script to be that of a text
_LEAST = 3  # function words that a text must have for its language to be known
_LONGEST = 2000  # characters of a text that are looked at
NAMES = {**{code: name.title() for code, name in STEMMERS.items()}, "zh": "Chinese", "ja": "Japanese", "ko": "Korean"}


def check_stemmer(code: str) -> str:
    """Return a code.

    Raises:
        UserError: There is no stemmer for it; the message lists the codes.
    """
    if code not in STEMMERS:
        cure = f"choose from {', '.join(STEMMERS)}"
        if code in ("ja", "zh"):
            cure = "omit it, since BM25 indexes characters in every language"
        raise UserError(f"There is no stemmer for the language {code!r:.20}: {cure}.")
    return code


def check_sentences(code: str) -> str:
    """Return a code.

    Raises:
        UserError: Nothing is known of the language; the message lists the codes.
    """
    if code not in STEMMERS and code not in SENTENCES:
        known = ", ".join(sorted({*STEMMERS, *SENTENCES}))
        raise UserError(f"The language {code!r:.20} is not known: choose from {known}.")
    return code


def language_of(text: str) -> str | None:
    """Return the code of the language of a text: one of `NAMES`; None if it has too few function words to tell.

    A script stands for its most frequent language here: "ru" is any Cyrillic text, "ar" any Arabic one.
    """
    text = text[:_LONGEST]
    if not text.isascii():
        letters = sum(map(str.isalpha, text))
        for code, script in _SCRIPTS.items():
            if len(script.findall(text)) > _SHARE * letters:
                return code
    words = text.lower()
    counts = {code: _function_words(code, words) for code in FUNCTION_WORDS}
    best = max(counts, key=lambda code: (counts[code], code == DEFAULT_LANGUAGE))
    return best if counts[best] >= _LEAST else None


def main_language(texts: Iterable[str]) -> str | None:
    """Return the language that more than half of the texts are written in; None if there is no such language."""
    counts = Counter(map(language_of, texts))
    code, count = counts.most_common(1)[0] if counts else (None, 0)
    return code if 2 * count > counts.total() else None


def _function_words(code: str, text: str) -> int:
    every, others = _counters(code)
    return len(every.analyze(text)) - len(others.analyze(text))


@functools.cache
def _counters(code: str):  # type: ignore[no-untyped-def]
    """Return analyzers of all words and of those that are no function words."""
    from tantivy import Filter, TextAnalyzerBuilder, Tokenizer

    without = TextAnalyzerBuilder(Tokenizer.simple()).filter(Filter.stopword(STEMMERS[code]))
    return TextAnalyzerBuilder(Tokenizer.simple()).build(), without.build()
