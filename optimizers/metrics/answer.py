"""Answer metrics: exact match, token F1, precision, recall, cover-EM and verdicts, as published evaluators define them.

The evaluators share one normalisation (`signatures.text.normalize_answer`) and differ in two points, which `Definition`
states: the score of a wrong yes/no, and of two empty sides. Quirks of the official scripts are kept ("Plan A" is
"plan", "C++" is "C") so that numbers stay comparable.

Every function takes one prediction and the list of all accepted answers ("golds"; a str raises TypeError). Each score
is the maximum over the golds separately, so precision and recall may come from different golds.

ROUGE compares reasoning trajectories of one question (GenGround's measure of stability), as Google's `rouge-score`:
F1 of ROUGE-1, ROUGE-2 and ROUGE-L (of the whole text, not `rougeLsum`), without a stemmer. Its tokens are words of
Latin letters and digits; here every Han character and kana is one, too, which that package leaves out. Texts in other
scripts score 0. It brings nltk and four others for a stemmer nobody asks for.
"""

import functools
import re
import string
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, groupby, pairwise
from typing import Any, Literal, NamedTuple

from signatures.text import CJK, normalize_answer
from signatures.text_words import same_words, text_words
from signatures.yes_no import first_verdict, leading_verdict, parse_yes_no

_CLOSED = frozenset({"yes", "no", "noanswer"})
_VERDICTS = frozenset({"yes", "no"})
_BOOLEANS = frozenset({"true", "false"})  # verdicts only if yes or no is accepted as well
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ASCII_TOKEN = re.compile(r"[a-z0-9]+|[!-/:-@\[-`{-~]")
_ROUGE_TOKEN = re.compile(rf"[a-z0-9]+|[{CJK}]")
_LONG_WORD = re.compile(r"[^\W_]{4}")
_TRIGGER = re.compile(r"\banswer(?:\s*\([^()]*\))?\s*(?:is\b|:)|答案\s*(?:是|为|[:：])", re.IGNORECASE)


@dataclass(frozen=True)
class Definition:
    """The two points in which evaluators differ.

    Args:
        name: Written in brackets after the metric's name.
        yes_no_rule: Whether a side that is exactly yes, no or noanswer scores 0 against anything else, even if they
            share words.
        both_empty: F1, precision and recall if neither side has a token; exact match is 1 in all evaluators.
        source: URL of the script that defines it.
    """

    name: str
    yes_no_rule: bool
    both_empty: float
    source: str


HOTPOT = Definition("hotpot", True, 0.0, "https://github.com/hotpotqa/hotpot/blob/3635853/hotpot_evaluate_v1.py")
TWO_WIKI = Definition(
    "2wiki", True, 0.0, "https://github.com/Alab-NII/2wikimultihop/blob/13800e5/2wikimultihop_evaluate_v1.1.py"
)
SQUAD = Definition("squad", False, 0.0, "https://rajpurkar.github.io/SQuAD-explorer/ (evaluate-v1.1.py)")
# SQuAD 2.0 defines the same; its script differs from MuSiQue's only in excluding missing predictions from the mean.
MUSIQUE = Definition("musique", False, 1.0, "https://github.com/StonyBrookNLP/musique/blob/922ac98/metrics/answer.py")


class Overlap(NamedTuple):
    """Token overlap of a prediction with a gold answer, each in [0, 1]."""

    f1: float
    precision: float
    recall: float


_NOTHING = Overlap(0.0, 0.0, 0.0)


def _golds(golds: Sequence[str]) -> Sequence[str]:
    # Iterating a str would silently score its letters.
    if isinstance(golds, str):
        raise TypeError(f"Golds must be a list of answers, got the str {golds!r}. Write [{golds!r}].")
    return golds


def _best(score: Callable[[str], float], golds: Sequence[str]) -> float | None:
    return max((score(gold) for gold in _golds(golds)), default=None)


def exact_match(prediction: str, golds: Sequence[str]) -> float | None:
    """Return 1.0 if the prediction equals a gold after normalising, else 0.0; None without golds."""
    predicted = normalize_answer(prediction)
    return _best(lambda gold: float(predicted == normalize_answer(gold)), golds)


def _overlap(predicted: str, predicted_tokens: list[str], gold: str, definition: Definition) -> Overlap:
    """Return the overlap of a normalised prediction (as text and as tokens) with one gold."""
    expected = normalize_answer(gold)
    if definition.yes_no_rule and predicted != expected and (predicted in _CLOSED or expected in _CLOSED):
        return _NOTHING
    expected_tokens = expected.split()
    if not predicted_tokens and not expected_tokens:
        return Overlap(*[definition.both_empty] * 3)
    if not any(token in predicted_tokens for token in expected_tokens):  # true of most pairs
        return _NOTHING
    shared = sum((Counter(predicted_tokens) & Counter(expected_tokens)).values())
    precision, recall = shared / len(predicted_tokens), shared / len(expected_tokens)
    return Overlap(2 * precision * recall / (precision + recall), precision, recall)


def token_overlap(prediction: str, golds: Sequence[str], definition: Definition) -> Overlap | None:
    """Return F1, precision and recall of normalised tokens (a multiset), each the maximum over the golds.

    The scripts of SQuAD and MuSiQue print F1 only; precision and recall are the values it is computed from.

    Returns:
        The overlap; None without golds.
    """
    predicted = normalize_answer(prediction)
    predicted_tokens = predicted.split()
    overlaps = [_overlap(predicted, predicted_tokens, gold, definition) for gold in _golds(golds)]
    return Overlap(*map(max, zip(*overlaps, strict=True))) if overlaps else None


def mixed_match(prediction: str, golds: Sequence[str]) -> float | None:
    """Return 1.0 if the words of the prediction (`text_words`) are those of a gold, else 0.0; None without golds."""
    predicted = same_words(prediction)
    return _best(lambda gold: float(predicted == same_words(gold)), golds)


def mixed_f1(prediction: str, golds: Sequence[str]) -> float | None:
    """Return the F1 of the words (`text_words`) of prediction and gold, the best over the golds; None without golds."""
    predicted = Counter(text_words(prediction))

    def score(gold: str) -> float:
        expected = Counter(text_words(gold))
        return _f_score((predicted & expected).total(), predicted.total(), expected.total())

    return _best(score, golds)


def yes_or_no(text: str) -> Literal["yes", "no"] | None:
    """Return the first yes or no anywhere in a text; None if there is none.

    The rule of zero-shot CoT (Kojima et al., 2022), as `signatures.yes_no.first_verdict` reads it. A text that exact
    match takes for yes or no ("Y.e.s") is that.
    """
    verdict = first_verdict(text)
    if verdict is not None:
        return "yes" if verdict else "no"
    return _as_verdict(normalize_answer(text))


def _as_verdict(word: str) -> Literal["yes", "no"] | None:
    return "yes" if word == "yes" else "no" if word == "no" else None


def final_part(text: str) -> str:
    """Return the text after the last "the answer is", "answer:" or 答案是; the whole text if there is none."""
    triggers = list(_TRIGGER.finditer(text))
    return text[triggers[-1].end() :] if triggers else text


def _gold_verdict(gold: str) -> Literal["yes", "no"] | None:
    """Return "yes" or "no" if the gold is that word, in English or Chinese; "true" and "false" are neither here."""
    if len(gold) > 20 or _LONG_WORD.search(gold):  # true of most golds, and found out soon
        return None
    word = normalize_answer(gold)
    if word in _VERDICTS:
        return _as_verdict(word)
    verdict = None if word.isascii() else parse_yes_no(gold)
    return None if verdict is None else "yes" if verdict else "no"


def verdict_accuracy(prediction: str, golds: Sequence[str]) -> float | None:
    """Return 1.0 if the prediction's verdict is the gold's, else 0.0; None if no gold is yes or no.

    StrategyQA's accuracy: the first yes or no after the answer trigger decides, and a text without one
    (`yes_or_no(final_part(prediction))` is None) is wrong.
    """
    expected = {_gold_verdict(gold) for gold in _golds(golds)} - {None}
    return float(yes_or_no(final_part(prediction)) in expected) if expected else None


def findable(golds: Sequence[str]) -> list[str]:
    """Return the golds that can be searched for in a passage: no yes or no, and none that normalises to nothing.

    "True" and "false" are excluded if yes or no is also accepted.
    """
    open_golds = [gold for gold in _golds(golds) if _gold_verdict(gold) is None]
    closed = _BOOLEANS if len(open_golds) < len(golds) else frozenset()
    return [gold for gold in open_golds if (expected := normalize_answer(gold)) and expected not in closed]


def _covered(
    prediction: str,
    golds: Sequence[str],
    normalised: Callable[[str], str],
    form: Callable[[str], str] | None = None,
) -> float | None:
    """Return 1.0 if the form of a gold is part of the prediction's form, else 0.0; None without golds.

    Three guards: a gold that is empty, yes or no is compared otherwise, since every text contains the empty string, and
    many contain "no"; and an answer that equals a gold by exact match contains it, whatever the form keeps of
    articles, case and marks, because a cover-EM below exact match would mean nothing.

    Args:
        prediction: The text to score.
        golds: The accepted answers.
        normalised: Normalisation used to detect golds that are empty.
        form: Normalisation used for containment; `normalised` if None.
    """
    predicted = (form or normalised)(prediction)
    closed = any(map(_gold_verdict, _golds(golds)))

    def score(gold: str) -> float:
        if not (expected := normalised(gold)):
            return float(not normalised(prediction))
        if closed and (verdict := _gold_verdict(gold)):
            return float(yes_or_no(final_part(prediction)) == verdict)
        if closed and len(gold) < 10 and (word := normalize_answer(gold)) in _BOOLEANS:
            return float(leading_verdict(final_part(prediction)) is (word == "true"))
        return float((expected if form is None else form(gold)) in predicted)

    covered = _best(score, golds)
    if covered != 0.0 or (normalised is normalize_answer and not closed and form is None):
        return covered  # in the last case containment was tested in the form of exact match
    return exact_match(prediction, golds)


@functools.lru_cache(maxsize=4096)
def _kind(character: str) -> str:
    category = unicodedata.category(character)[0]
    return "word" if category in "LNM" else "blank" if category in "ZC" else "mark"


def _tokens(text: str) -> list[str]:
    """Return lower-case words and single marks, decomposed (NFD), as DPR tokenises them."""
    if text.isascii():
        return _ASCII_TOKEN.findall(text.lower())
    tokens: list[str] = []
    for kind, run in groupby(unicodedata.normalize("NFD", text), key=_kind):
        if kind == "word":
            tokens.append("".join(run).lower())
        elif kind == "mark":
            tokens.extend(run)
    return tokens


def _token_run(text: str) -> str:
    """Return the tokens of `text` joined by NUL, so that substrings between NULs are runs of whole tokens."""
    return "\0" + "\0".join(_tokens(text)) + "\0"


def cover_substring(prediction: str, golds: Sequence[str]) -> float | None:
    """Return 1.0 if a normalised gold is part of the normalised prediction, else 0.0; None without golds.

    Guards, which the published scripts lack: a gold that normalises to nothing is compared by exact match, a yes/no
    gold with the prediction's verdict as in `verdict_accuracy`, and an exact match always counts.
    """
    return _covered(prediction, golds, normalize_answer)


def _short_normalised(text: str) -> str:
    """Return `text` unchanged if it has four consecutive letters (so not empty, yes or no), else normalised."""
    return text if _LONG_WORD.search(text) else normalize_answer(text)


def cover_tokens(prediction: str, golds: Sequence[str]) -> float | None:
    """Return 1.0 if a gold's tokens occur consecutively in the prediction, else 0.0; None without golds.

    Articles and punctuation marks are tokens. The guards are those of `cover_substring`.
    """
    return _covered(prediction, golds, _short_normalised, _token_run)


def _labelled(text: str) -> str:
    return " ".join(text.lower().translate(_NO_PUNCTUATION).split())


def cover_labels(prediction: str, golds: Sequence[str]) -> float | None:
    """Return 1.0 if a gold is part of the prediction, up to case and ASCII punctuation, else 0.0; None without golds.

    Unlike in `cover_substring`, articles are kept (He et al., CoV-RAG, section 4.2). The guards are the same.
    """
    return _covered(prediction, golds, _labelled)


def cover_raw(prediction: str, golds: Sequence[str]) -> float | None:
    """Return 1.0 if a gold is a substring of the unnormalised prediction, else 0.0; None without golds.

    Case, punctuation and accents count (WebGLM). The guards are those of `cover_substring`.
    """
    return _covered(prediction, golds, lambda text: text.strip().lower(), lambda text: text)


_AS_YES_OR_NO = {"true": "yes", "false": "no"}


def _distinct(names: Iterable[Any]) -> list[str]:
    """Return names as texts in order, without blanks and repeats; booleans as yes or no."""
    texts = [_verdict(name) if isinstance(name, bool) else str(name) for name in names if name is not None]
    return list(dict.fromkeys(text for text in texts if text.strip()))


def _verdict(value: bool) -> str:
    return "yes" if value else "no"


def accepted(answers: Iterable[Any]) -> list[str]:
    """Return the golds of a question, the main one first, without blanks and repeats.

    If the only gold is "True" or "False" (Mintaka's yes/no questions), yes or no is accepted as well.
    """
    if isinstance(answers, str):
        raise TypeError(f"Golds must be a list of answers, got the str {answers!r}. Write [{answers!r}].")
    golds = _distinct(answers)
    verdict = _AS_YES_OR_NO.get(golds[0].lower()) if len(golds) == 1 else None
    return [verdict, *golds] if verdict else golds


class Rouge(NamedTuple):
    """F1 in [0, 1] of unigrams, of bigrams and of the longest common subsequence."""

    rouge1: float
    rouge2: float
    rouge_l: float


def rouge(first: str, second: str) -> Rouge:
    """Return the ROUGE F1 of two texts (symmetric); a text without tokens scores 0."""
    one, two = (_ROUGE_TOKEN.findall(text.lower()) for text in (first, second))
    pairs = [Counter(pairwise(words)) for words in (one, two)]
    return Rouge(
        _f_score((Counter(one) & Counter(two)).total(), len(one), len(two)),
        _f_score((pairs[0] & pairs[1]).total(), pairs[0].total(), pairs[1].total()),
        _f_score(_longest_common(one, two), len(one), len(two)),
    )


def _f_score(common: int, one: int, two: int) -> float:
    """Return the harmonic mean of `common / one` and `common / two`."""
    return 2 * common / (one + two) if common else 0.0


def _longest_common(one: Sequence[str], two: Sequence[str]) -> int:
    """Return the length of the longest common subsequence of two lists of words."""
    lengths = [0] * (len(two) + 1)
    for word in one:
        before = 0  # of the row above, one to the left
        for place, other in enumerate(two, start=1):
            above = lengths[place]
            lengths[place] = before + 1 if word == other else max(above, lengths[place - 1])
            before = above
    return lengths[-1]


def trajectory(hops: Sequence[Mapping[str, Any]]) -> str:
    """Return the hops of a row of a run as text, one line per hop: sub-question, answer and evidence."""
    parts = [[hop.get("question"), hop.get("answer"), hop.get("evidence")] for hop in hops]
    return "\n".join(" ".join(str(text) for text in hop if text) for hop in parts)


def mean_pairwise_rouge(texts: Sequence[str]) -> Rouge | None:
    """Return the mean ROUGE over all pairs of texts; None for fewer than two texts or if all are blank."""
    pairs = list(combinations(texts, 2))
    if not pairs or not any(text.strip() for text in texts):
        return None
    scores = [rouge(first, second) for first, second in pairs]
    return Rouge(*(sum(column) / len(pairs) for column in zip(*scores, strict=True)))
