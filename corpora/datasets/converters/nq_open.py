"""NQ-open: the official JSON lines, QED's explained answers, and questions with passages in DPR's result format.

Lee et al., "Latent Retrieval for Weakly Supervised Open Domain Question Answering", ACL 2019, from Natural Questions
(Kwiatkowski et al., TACL 2019). https://github.com/google-research-datasets/natural-questions/tree/master/nq_open
QED: Lamm et al., TACL 2021. https://github.com/google-research-datasets/QED
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from corpora.datasets.converters.answers_only import FLASHRAG, QUESTION_ANSWER, QUESTION_ANSWERS
from corpora.datasets.schema import Item, Schema, text_id, texts, unique
from corpora.paragraphs import paragraph
from corpora.questions import Question


def read_qed(record: Mapping[str, Any], split: str | None) -> Item:
    """Convert one question with its paragraph; the selected sentence, if any, is gold.

    Every span of every annotator is an accepted answer, as in NQ-open's own files, even if an annotator meant several
    spans together.
    """
    text, starts = record["paragraph_text"], record["sentence_starts"]
    sentences = [text[start:end] for start, end in pairwise([*starts, len(text)])]
    if "".join(sentences) != text:
        raise ValueError("sentence_starts do not cover paragraph_text")
    passage = paragraph(record["title_text"], text).model_copy(update={"sentences": sentences})
    marks = record["annotation"]
    selected = marks.get("selected_sentence")
    spans = [span["string"] for answer in record["original_nq_answers"] for span in answer]
    explained = [answer["paragraph_reference"]["string"] for answer in marks.get("answer") or []]
    question = Question(
        id=str(record["example_id"]),
        question=record["question_text"],
        answers=texts([*spans, *explained]),
        gold_ids=[passage.id],
        gold_sentences=[(passage.id, starts.index(selected["start"]))] if selected else [],
        context_ids=[passage.id],
        type=marks["explanation_type"],
        split=split,
    )
    return Item(question, [passage])


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
    "qed": Schema(("example_id", "question_text", "paragraph_text", "sentence_starts", "annotation"), read_qed),
    "contexts": Schema(("question", "answers", "ctxs"), read_contexts),
    "answers": QUESTION_ANSWERS,
    "flashrag": FLASHRAG,
}
