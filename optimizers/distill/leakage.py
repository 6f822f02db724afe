"""Keep evaluation questions and their gold passages out of training data: the one guard that all training uses.

Questions are screened before they are asked (`without_leaks`). Examples are checked, too (`without_asked`): a teacher
may pose an evaluation question of one hop as a step of another question. Examples that are made already are screened by
their questions (`drop_leaked`) or, where those are missing, by what their prompts show (`without_shown`). Questions
for which a retriever finds an evaluation's gold passage may be left out as well (`without_retrieved`).
"""

import functools
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from corpora.questions import Question
from optimizers.distill.examples import Example
from signatures.common.errors import UserError
from signatures.text import split_sentences
from signatures.text_words import same_words, without_brackets
from signatures.types import Passage, Retriever

_RUN = 5  # words; a shorter text stands in many passages by chance
_LONGEST = 600  # characters of a line that may be a question; lines of passages are longer or contain more
_COLONS = 3  # in a title, at most
_NUMBER = re.compile(r"\s*\[\d+\]\s*")  # of a passage
SAME_QUESTION, SAME_SUB_QUESTION, SAME_GOLD = "same_question", "same_sub_question", "same_gold_passage"
SAME_ARTICLE = "same_gold_article"
RETRIEVED_GOLD, RETRIEVED = "evaluation_gold_is_retrieved", 10


@dataclass(frozen=True)
class Evaluation:
    """What an evaluation asks and needs; nothing of it may be trained on.

    Args:
        questions: The texts, as `same_words` writes them: case, punctuation and articles do not count.
        gold_ids: Ids of the gold passages.
        gold_texts: Their texts in the same way; corpora may name one passage differently.
        gold_titles: Their titles in the same way, without brackets: another edition of an article has other words.
    """

    questions: frozenset[str]
    gold_ids: frozenset[str]
    gold_texts: frozenset[str] = frozenset()
    gold_titles: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls,
        questions: Iterable[Question],
        passages: Mapping[str, Passage] | None = None,
        *,
        parts: bool = False,
    ) -> "Evaluation":
        """Return what the questions ask and need.

        Args:
            questions: Of the evaluation, in any order.
            passages: Passages by id; the texts and titles of gold passages among them are compared, too.
            parts: Whether sub-questions are asked, too.
        """
        asked = list(questions)
        texts = [each.question for one in asked for each in (one, *(one.sub_questions if parts else ()))]
        ids = {name for question in asked for name in gold_of(question)}
        gold = [passages[name] for name in ids if name in passages] if passages else []
        return cls(
            frozenset(map(same_words, texts)) - {""},
            frozenset(ids),
            frozenset(same_words(passage.text) for passage in gold) - {""},
            frozenset(_article(passage.title) for passage in gold) - {""},
        )

    def asks(self, text: str) -> bool:
        """Return whether a text is one of the questions."""
        return same_words(text) in self.questions

    def needs_article(self, title: str) -> bool:
        """Return whether a title is that of a gold passage, whatever follows either in brackets."""
        return _article(title) in self.gold_titles

    def needs(self, text: str) -> bool:
        """Return whether a text is a gold text, a part of one, or has one as a part, as a sentence and its passage.

        Parts of fewer than five words do not count.
        """
        return _needs(self, text)

    def shares_words(self, text: str) -> bool:
        """Return whether five words in a row of a text occur in a gold text, or a shorter gold text occurs in it.

        No part of any other text is needed, which is found much faster than by its sentences.
        """
        key, within = same_words(text), self.by_run[0]
        return any(run in within for run in _runs(key)) or any(f" {gold} " in f" {key} " for gold in self._short)

    @functools.cached_property
    def _short(self) -> list[str]:
        return [text for text in self.gold_texts if not _runs(text)]

    @functools.cached_property
    def by_run(self) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
        """The gold texts by each run of five words in them, and by their first one."""
        within: dict[str, list[str]] = {}
        first: dict[str, list[str]] = {}
        for text in self.gold_texts:
            runs = _runs(text)
            for run in dict.fromkeys(runs):
                within.setdefault(run, []).append(text)
            for run in runs[:1]:
                first.setdefault(run, []).append(text)
        return within, first

    def __or__(self, other: "Evaluation") -> "Evaluation":
        return Evaluation(
            self.questions | other.questions,
            self.gold_ids | other.gold_ids,
            self.gold_texts | other.gold_texts,
            self.gold_titles | other.gold_titles,
        )


NOTHING = Evaluation(frozenset(), frozenset())


@functools.lru_cache(maxsize=1 << 16)  # many questions share a gold passage
def _needs(evaluation: Evaluation, text: str) -> bool:
    key = same_words(text)
    if key in evaluation.gold_texts:
        return True
    within, first = evaluation.by_run
    padded, runs = f" {key} ", _runs(key)
    return any(padded in f" {gold} " for run in runs[:1] for gold in within.get(run, ())) or any(
        f" {gold} " in padded for run in runs for gold in first.get(run, ())
    )


def _article(title: str) -> str:
    return same_words(without_brackets(title))


def _runs(key: str) -> list[str]:
    """Return all runs of five words of a text as `same_words` writes it."""
    words = key.split()
    return [" ".join(words[place : place + _RUN]) for place in range(len(words) - _RUN + 1)]


class Screened(NamedTuple):
    """Questions that may be trained on, and how many were refused for which reason."""

    questions: list[Question]
    refused: Counter[str]


def gold_of(question: Question) -> list[str]:
    """Return the ids of a question's gold passages, those of its sub-questions included."""
    return [*question.gold_ids, *(name for part in question.sub_questions for name in part.gold_ids)]


def leak_of(question: Question, evaluation: Evaluation, passages: Mapping[str, Passage] | None = None) -> str | None:
    """Return why a question may not be trained on; None if it may.

    It, or one of its sub-questions, is an evaluation question, or one of its gold passages is gold of one, a sentence
    of such a passage, a passage around it, or of an article of its title.

    Args:
        question: The question to train on.
        evaluation: What is held out.
        passages: Passages by id; the texts of gold passages among them are compared, too.
    """
    if evaluation.asks(question.question):
        return SAME_QUESTION
    if any(evaluation.asks(part.question) for part in question.sub_questions):
        return SAME_SUB_QUESTION
    gold = gold_of(question)
    if evaluation.gold_ids.intersection(gold):
        return SAME_GOLD
    found = [passages[name] for name in gold if name in passages] if passages else []
    if any(evaluation.needs(passage.text) for passage in found):
        return SAME_GOLD
    return SAME_ARTICLE if any(evaluation.needs_article(passage.title) for passage in found) else None


def without_leaks(
    questions: Iterable[Question], evaluation: Evaluation, passages: Mapping[str, Passage] | None = None
) -> Screened:
    """Return the questions that may be trained on, in their order, and why the others may not."""
    kept, refused = [], Counter[str]()
    for question in questions:
        why = leak_of(question, evaluation, passages)
        if why is None:
            kept.append(question)
        else:
            refused[why] += 1
    return Screened(kept, refused)


def without_retrieved(questions: Iterable[Question], evaluation: Evaluation, retrieve: Retriever) -> Screened:
    """Return the questions for which no gold passage of an evaluation is among the first `RETRIEVED` passages.

    Their prompts would show it as a distractor, or an LM that learns to read would learn it by heart.

    Args:
        questions: To train on, screened by `without_leaks`.
        evaluation: What is held out.
        retrieve: Over the corpus that the prompts are built from.
    """
    asked = list(questions)
    needed: dict[str, bool] = {}
    kept = []
    for question, passages in zip(asked, retrieve.many([each.question for each in asked], RETRIEVED), strict=True):
        for passage in passages:
            if passage.id not in needed:
                needed[passage.id] = passage.id in evaluation.gold_ids or evaluation.needs(passage.text)
        if not any(needed[passage.id] for passage in passages):
            kept.append(question)
    left_out = len(asked) - len(kept)
    return Screened(kept, Counter({RETRIEVED_GOLD: left_out} if left_out else {}))


def drop_leaked(
    examples: Iterable[Example],
    asked: Mapping[str, Question],
    evaluation: Evaluation,
    passages: Mapping[str, Passage] | None = None,
) -> tuple[list[Example], Counter[str]]:
    """Return the examples whose questions may be trained on, and why the others may not.

    Args:
        examples: Their `question_id` is looked up in `asked`.
        asked: Questions by id.
        evaluation: What is held out.
        passages: Passages by id; the texts of gold passages among them are compared, too.

    Raises:
        UserError: The question of an example is unknown, so that it cannot be checked.
    """
    kept, refused = [], Counter[str]()
    reasons: dict[str, str | None] = {}
    for example in examples:
        name = example.question_id
        if name not in asked:
            raise UserError(f"The question {name!r} of an example is unknown: name its question file.")
        if name not in reasons:
            reasons[name] = leak_of(asked[name], evaluation, passages)
        why = reasons[name]
        if why is None:
            kept.append(example)
        else:
            refused[why] += 1
    return kept, refused


def asks_any(example: Example, evaluation: Evaluation) -> bool:
    """Return whether a line of the prompt, or a text of the reply, is an evaluation question, with or without a label.

    Passages and hops share their lines with other words, so an evaluation question in one of them is no leak.
    """
    if not evaluation.questions:
        return False
    return any(
        evaluation.asks(part)
        for text in _texts_of(example)
        if len(text) <= _LONGEST
        for part in (text, text.partition(":")[2])
        if part.strip()
    )


def without_asked(examples: Iterable[Example], evaluation: Evaluation) -> tuple[list[Example], int]:
    """Return the examples that ask no evaluation question, and the number of the others."""
    given = list(examples)
    kept = [example for example in given if not asks_any(example, evaluation)]
    return kept, len(given) - len(kept)


def without_shown(examples: Iterable[Example], evaluation: Evaluation) -> tuple[list[Example], int]:
    """Return the examples whose prompts show no gold passage of an evaluation, and the number of the others.

    Without its question nothing says which passages of an example are its gold, so that one beside it counts, too.
    """
    given = list(examples)
    kept = [example for example in given if not _shows_any(example, evaluation)]
    return kept, len(given) - len(kept)


def _shows_any(example: Example, evaluation: Evaluation) -> bool:
    if not evaluation.gold_texts:
        return False
    prompts = [message.content for message in example.messages if message.role != "system"]
    shown = [line for prompt in prompts for line in prompt.splitlines()]
    if any(_needs_title(evaluation, line) for line in shown):
        return True
    lines = [_NUMBER.sub("", line) for line in shown]
    touched = [line for line in lines if _touched(evaluation, line)]
    return bool(touched) and (
        any(map(evaluation.needs, prompts)) or any(_needs_sentence(evaluation, line) for line in touched)
    )


@functools.lru_cache(maxsize=1 << 17)
def _needs_title(evaluation: Evaluation, line: str) -> bool:
    """Return whether a line may be a numbered passage of a gold title: what stands before one of its first colons."""
    found = _NUMBER.match(line)
    parts = line[found.end() :].split(": ") if found else []
    return any(evaluation.needs_article(": ".join(parts[:end])) for end in range(1, min(len(parts), _COLONS + 1)))


@functools.lru_cache(maxsize=1 << 17)  # many prompts show the same passages
def _touched(evaluation: Evaluation, line: str) -> bool:
    return evaluation.shares_words(line)


@functools.lru_cache(maxsize=1 << 14)
def _needs_sentence(evaluation: Evaluation, line: str) -> bool:
    """Return whether a sentence of a line is needed; the first one may stand behind the title of its passage."""
    sentences = [*split_sentences(line), *split_sentences(line.partition(": ")[2])[:1]]
    return any(map(evaluation.needs, sentences))


def _texts_of(example: Example) -> Iterator[str]:
    for message in example.messages:
        if message.role != "system":
            yield from message.content.splitlines()
    for reply in [
        *(message.content for message in example.messages if message.role == "assistant"),
        example.completion,
    ]:
        try:
            value = json.loads(reply)
        except ValueError:
            value = None
        if isinstance(value, dict):
            for part in value.values():
                yield from (text for text in (part if isinstance(part, list) else [part]) if isinstance(text, str))
        else:
            yield from reply.splitlines()
