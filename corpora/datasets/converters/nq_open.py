"""NQ-open: the official JSON lines, QED's explained answers, and questions with passages in DPR's result format.

Lee et al., "Latent Retrieval for Weakly Supervised Open Domain Question Answering", ACL 2019, from Natural Questions
(Kwiatkowski et al., TACL 2019). https://github.com/google-research-datasets/natural-questions/tree/master/nq_open
QED: Lamm et al., TACL 2021. https://github.com/google-research-datasets/QED
"""

import re
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

from corpora.datasets.converters.answers_only import FLASHRAG, QUESTION_ANSWER, QUESTION_ANSWERS
from corpora.datasets.schema import Item, Schema, text_id, texts, unique
from corpora.paragraphs import paragraph
from corpora.passages import PassageRecord
from corpora.questions import Question
from signatures.text_words import contains_words


def read_qed(record: Mapping[str, Any], split: str | None) -> Item:
    """Convert one question with its paragraph; the selected sentence, if any, is gold.

    Every span of every annotator is an accepted answer, as in NQ-open's own files, even if an annotator meant several
    spans together. The text is in tokens: spaces before punctuation are removed.
    """
    text, starts = record["paragraph_text"], record["sentence_starts"]
    sentences = [text[start:end] for start, end in pairwise([*starts, len(text)])]
    if "".join(sentences) != text:
        raise ValueError("sentence_starts do not cover paragraph_text")
    passage = _joined_paragraph(record["title_text"], sentences)
    marks = record["annotation"]
    selected = marks.get("selected_sentence")
    spans = [span["string"] for answer in record["original_nq_answers"] for span in answer]
    explained = [answer["paragraph_reference"]["string"] for answer in marks.get("answer") or []]
    question = Question(
        id=str(record["example_id"]),
        question=record["question_text"],
        answers=texts([joined_tokens(answer) for answer in (*spans, *explained)]),
        gold_ids=[passage.id],
        gold_sentences=[(passage.id, starts.index(selected["start"]))] if selected else [],
        context_ids=[passage.id],
        type=marks["explanation_type"],
        split=split,
    )
    return Item(question, [passage])


def read_qed_first(record: Mapping[str, Any], split: str | None) -> Item:
    """Convert one question of QED's first files, whose text is in tokens: spaces before punctuation are removed.

    The sentence of the first answer span is gold where it contains the answer.
    """
    text, starts = record["paragraph_text"], sorted({0, *record["sentence_starts"]})
    pieces = [text[start:end] for start, end in pairwise([*starts, len(text)])]
    passage = _joined_paragraph(record["title_text"], pieces)
    sentences = passage.sentences or []
    first = record["answer_spans"][0][0] if record["answer_spans"] else len(text)
    place = sum(end <= first for end in accumulate(map(len, pieces)))
    answers = texts([joined_tokens(answer) for answer in record["answer_text"]])
    # In the tokenised text some sentences are cut in the middle of an answer: none is gold then.
    single = bool(answers) and place < len(sentences) and contains_words(sentences[place], answers[0])
    question = Question(
        id=str(record["example_id"]),
        question=record["question_text"],
        answers=answers,
        gold_ids=[passage.id],
        gold_sentences=[(passage.id, place)] if single else [],
        context_ids=[passage.id],
        type=record["answer_type"],
        split=split,
    )
    return Item(question, [passage])


def _joined_paragraph(title: str, pieces: Sequence[str]) -> PassageRecord:
    """Return a paragraph of sentences in tokens as it is written, with its sentences."""
    written = [joined_tokens(piece) for piece in pieces]
    sentences = [*(f"{sentence} " for sentence in written[:-1]), written[-1]]
    return paragraph(title, "".join(sentences)).model_copy(update={"sentences": sentences})


def joined_tokens(text: str) -> str:
    """Return a text in tokens as it is written: punctuation joined to its word, quotes straight, dashes single."""
    for pattern, written in _JOINED:
        text = pattern.sub(written, text)
    return text.strip()


_JOINED = [
    (re.compile(pattern), written)
    for pattern, written in (
        (r"``\s*(.*?)\s*''", r'"\1"'),
        (r"``\s*|\s*''", '"'),
        (r"\s+--\s+", "\N{EN DASH}"),
        (r"\s+([,.;:?!%)\]}])", r"\1"),
        (r"([(\[{$£€])\s+", r"\1"),
        (r"\s+('(?:s|re|ve|ll|d|m|t)\b|n't\b)", r"\1"),
        (r"(?<=s)\s+'(?=\s)", "'"),
        (r"(?<=[A-Za-z])\s+-\s+(?=[A-Za-z])", "-"),
        (r"\s{2,}", " "),
    )
]


def read_contexts(record: Mapping[str, Any], split: str | None) -> Item:
    """Convert one question with `ctxs`; the passages marked `isgold` are gold."""
    contexts = record["ctxs"]
    passages = [paragraph(context["title"], context["text"]) for context in contexts]
    marked = [bool(context.get("isgold")) for context in contexts]
    question = Question(
        id=text_id(record["question"]),
        question=record["question"],
        answers=texts(record["answers"]),
        gold_ids=unique(passage.id for passage, gold in zip(passages, marked, strict=True) if gold),
        context_ids=unique(passage.id for passage in passages),
        split=split,
    )
    return Item(question, passages, has_id=False)


SCHEMAS = {
    "official": QUESTION_ANSWER,
    "qed-first": Schema(
        ("example_id", "question_text", "paragraph_text", "answer_text", "answer_spans"), read_qed_first
    ),
    "qed": Schema(("example_id", "question_text", "paragraph_text", "sentence_starts", "annotation"), read_qed),
    "contexts": Schema(("question", "answers", "ctxs"), read_contexts),
    "answers": QUESTION_ANSWERS,
    "flashrag": FLASHRAG,
}
