"""A question with its gold, looked up once for all signatures: passages, deciding sentences, hops."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from corpora.kinds import COMPARISON, estimated_kind, kind_of
from corpora.passages import PassageRecord
from corpora.questions import Question, SubQuestion
from signatures.text import split_sentences
from signatures.text_words import contains_words, same_words
from signatures.types import Hop, Passage

_YES_NO = {"yes", "no"}
_RELATION = ">>"  # MuSiQue writes some steps as relations ("Lake Orn >> country"), which are no questions
_DISAMBIGUATION = re.compile(r"\s*\([^)]*\)$")  # as in "Get Low (song)"


@dataclass(frozen=True)
class GoldHop:
    """One step of the gold decomposition.

    Args:
        question: Self-contained.
        answer: Its short answer.
        passage: The passage that states it.
        sentence: The deciding sentence of that passage, verbatim.
    """

    question: str
    answer: str
    passage: Passage
    sentence: str

    def settled(self) -> Hop:
        """Return the hop as prompts show it."""
        return Hop(question=self.question, answer=self.answer, evidence=self.sentence)


@dataclass(frozen=True)
class Annotation:
    """A question whose gold passages are all available.

    Args:
        question: The question.
        answer: Its main answer.
        gold: The gold passages; of two hops without a decomposition, the one that names the other's title is first.
        sentences: The deciding sentence of each gold passage, by its id.
        hops: The decomposition; one hop for a question of one passage, empty if the benchmark states none.
        stated: All annotated gold sentences, of which `sentences` has one a passage.
    """

    question: Question
    answer: str
    gold: tuple[Passage, ...]
    sentences: Mapping[str, str]
    hops: tuple[GoldHop, ...]
    stated: tuple[str, ...] = ()

    @property
    def asked(self) -> str:
        """Return the text of the question."""
        return self.question.question

    @property
    def gold_ids(self) -> frozenset[str]:
        """Return the ids of the gold passages."""
        return frozenset(passage.id for passage in self.gold)

    @property
    def compares(self) -> bool:
        """Return whether the question compares two things, by its type, else by its wording."""
        kind = kind_of(self.question.type, (self.question.model_extra or {}).get("kind"))
        titles = [passage.title for passage in self.gold]
        estimated = kind or estimated_kind(self.asked, self.question.answers, titles)
        return estimated == COMPARISON and len(self.gold) > 1

    @property
    def inferences(self) -> tuple[str, ...]:
        """Return the conclusions that were drawn from the gold passages, in their order; none if none are stated."""
        return tuple((self.question.model_extra or {}).get("inferences") or ())

    @property
    def asks_yes_no(self) -> bool:
        """Return whether the answer is yes or no."""
        return same_words(self.answer) in _YES_NO

    def missing_query(self, shown: frozenset[str]) -> str | None:
        """Return a query for the first gold passage outside `shown` (passage ids); None if all are shown.

        It is the sub-question of that hop, else the passage's title where the question or a passage shown names it,
        else the question.
        """
        for hop in self.hops:
            if hop.passage.id not in shown:
                return hop.question
        seen = [self.asked, *(passage.text for passage in self.gold if passage.id in shown)]
        for passage in self.gold:
            if passage.id not in shown:
                name = _DISAMBIGUATION.sub("", passage.title)
                named = name and any(contains_words(text, name) for text in seen)
                return name if named else self.asked
        return None


def annotate(question: Question, corpus: Mapping[str, PassageRecord]) -> Annotation | None:
    """Return the question with its gold.

    None if its answer or one of its gold passages is not available, or if its only gold passage does not state it.
    """
    if not question.answers or not question.gold_ids or any(gold not in corpus for gold in question.gold_ids):
        return None
    records = [corpus[gold] for gold in dict.fromkeys(question.gold_ids)]
    stated = [text for text in question.answers if any(contains_words(record.text, text) for record in records)]
    answer = (stated or question.answers)[0].strip()
    if len(records) == 1 and not stated and same_words(answer) not in _YES_NO:
        return None
    sentences = {record.id: _deciding(record, question, answer) for record in records}
    hops = _hops(question, corpus, sentences)
    gold = _in_order([plain(record) for record in records])
    if hops and {hop.passage.id for hop in hops} == set(question.gold_ids):
        gold = tuple({hop.passage.id: hop.passage for hop in hops}.values())
    if not hops and len(gold) == 1:
        hops = (GoldHop(question.question, answer, gold[0], sentences[gold[0].id]),)
    by_id = {record.id: record.sentences or [] for record in records}
    annotated = [by_id[name][n].strip() for name, n in question.gold_sentences if n < len(by_id.get(name, ()))]
    return Annotation(question, answer, gold, sentences, hops, tuple(annotated))


def as_question(text: str) -> str:
    """Return a query as a question; a title becomes a question about it."""
    text = text.strip()
    if not text or text.endswith("?"):
        return text
    return f"{text}?" if len(text.split()) > 5 else f"Who or what is {text}?"


def plain(record: Passage) -> Passage:
    """Return a passage without what only files have."""
    return Passage(id=record.id, title=record.title, text=record.text)


def sentence_with(text: str, answer: str) -> str | None:
    """Return the first sentence of a text that contains the words of an answer."""
    return next((sentence.strip() for sentence in split_sentences(text) if contains_words(sentence, answer)), None)


def _deciding(record: PassageRecord, question: Question, answer: str) -> str:
    """Return the gold sentence, of several the one with the answer; without any, the first that contains it."""
    split = record.sentences or []
    named = [split[n].strip() for gold, n in question.gold_sentences if gold == record.id and n < len(split)]
    for sentence in named:
        if contains_words(sentence, answer):
            return sentence
    return (named[0] if named else None) or sentence_with(record.text, answer) or _first_sentence(record)


def _first_sentence(record: PassageRecord) -> str:
    return next((sentence.strip() for sentence in split_sentences(record.text)), record.text)


def _hops(question: Question, corpus: Mapping[str, PassageRecord], sentences: Mapping[str, str]) -> tuple[GoldHop, ...]:
    """Return the decomposition; empty unless every step has an answer and a passage available."""
    hops = [_hop(step, corpus, sentences) for step in question.sub_questions]
    complete = [hop for hop in hops if hop is not None]
    return tuple(complete) if len(complete) == len(hops) else ()


def _hop(step: SubQuestion, corpus: Mapping[str, PassageRecord], sentences: Mapping[str, str]) -> GoldHop | None:
    gold = next((name for name in step.gold_ids if name in corpus), None)
    if gold is None or not step.answer or _RELATION in step.question:
        return None
    record = corpus[gold]
    annotated = sentences.get(gold) or ""
    decides = contains_words(annotated, step.answer)
    sentence = annotated if decides else sentence_with(record.text, step.answer) or annotated or _first_sentence(record)
    return GoldHop(step.question.strip(), step.answer.strip(), plain(record), sentence)


def _in_order(gold: list[Passage]) -> tuple[Passage, ...]:
    """Put the passage that names the other's title first, where there are two."""
    if len(gold) == 2 and gold[0].title and gold[1].title:
        first, second = gold
        if contains_words(second.text, first.title) and not contains_words(first.text, second.title):
            return (second, first)
    return tuple(gold)
