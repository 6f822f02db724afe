"""Questions with labelled sentences, which the choice of sentences is fitted on.

A gold sentence is a supporting fact of HotpotQA or 2WikiMultihopQA. MuSiQue labels paragraphs alone: there it is each
sentence of a step's gold paragraph that contains the answer of the step.

No question is fitted on that an evaluation asks or whose gold is an evaluation's gold, nor one for which BM25 finds
such a passage (`experiments.papers.embedded_lm.sources`).
"""

import gzip
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ujson

from corpora.datasets.convert import convert
from corpora.index.build import build_index
from corpora.index.open import open_index
from corpora.passages import PassageRecord, read_passages
from corpora.questions import Question, drawn, read_questions
from experiments.papers.embedded_lm.sources import convert_source, evaluation_of, prepare, present
from optimizers.distill.leakage import Evaluation, without_leaks, without_retrieved
from signatures.common.files import atomic_write
from signatures.text import split_sentences
from signatures.text_words import contains_words
from signatures.types import Retriever

HOTPOTQA, TWO_WIKI, MUSIQUE = "hotpotqa", "2wikimultihopqa", "musique"
PASSAGES = "passages.jsonl"
TRAINING_FILE = "hotpotqa_train.jsonl.gz"
MOST_QUESTIONS = 600  # of HotpotQA's train questions, drawn by a hash: more take longer and fit the same few weights


@dataclass(frozen=True)
class LabelledSet:
    """Questions with gold sentences, over one pooled corpus.

    Args:
        name: Of the data set.
        questions: Each with at least one gold sentence.
        corpus: The passages by id.
        retrieve: Without a reranker: the hybrid, and BM25 for HotpotQA's train questions.
        dropped: Questions left out, by reason.
        evaluation: Whose gold passages are no distractors, either.
    """

    name: str
    questions: Sequence[Question]
    corpus: Mapping[str, PassageRecord]
    retrieve: Retriever
    dropped: Mapping[str, int]
    evaluation: Evaluation


def training_sets(data: Path, training: Path, work: Path) -> Iterator[LabelledSet]:
    """Yield the sets to fit on; what is converted and indexed under `work` is kept for the next time."""
    for source in present(data, None).values():
        convert_source(source, data, work)
    yield _hotpotqa(training / TRAINING_FILE, work / "hotpotqa-sentences", evaluation_of(data, work))
    for one in prepare(data, work, (TWO_WIKI, MUSIQUE)):
        yield _labelled(one.source.name, one.questions, one.corpus, one.retrieve, one.dropped, one.evaluation)


def gold_sentences(question: Question, corpus: Mapping[str, PassageRecord]) -> list[tuple[str, str]]:
    """Return passage id and text of each gold sentence; see the docstring of the module."""
    if question.gold_sentences:
        named = ((corpus[name].sentences or [], name, number) for name, number in question.gold_sentences)
        found = [(name, sentences[number]) for sentences, name, number in named if number < len(sentences)]
        return [(name, text) for name, text in found if text.strip()]
    pairs = [(name, step.answer) for step in question.sub_questions if step.answer for name in step.gold_ids]
    return list(
        dict.fromkeys(
            (name, sentence)
            for name, answer in pairs
            if name in corpus
            for sentence in split_sentences(corpus[name].text)
            if contains_words(sentence, answer)
        )
    )


def parts_of(gold: str, sentences: Sequence[str], text: str) -> list[int]:
    """Return the places of the sentences that hold a gold sentence; none if it is not in the text.

    Benchmarks and our splitter divide texts differently: a sentence counts if it and the gold one share at least half
    of the shorter one. White space does not count.
    """
    whole, wanted = "".join(text.split()), "".join(gold.split())
    start = whole.find(wanted) if wanted else -1
    if start < 0:
        return []
    found, begin = [], 0
    for place, sentence in enumerate(sentences):
        length = len("".join(sentence.split()))
        shared = min(begin + length, start + len(wanted)) - max(begin, start)
        if length and 2 * shared >= min(length, len(wanted)):
            found.append(place)
        begin += length
    return found


def _labelled(
    name: str,
    questions: Sequence[Question],
    corpus: Mapping[str, PassageRecord],
    retrieve: Retriever,
    dropped: Mapping[str, int],
    evaluation: Evaluation,
) -> LabelledSet:
    kept = [question for question in questions if gold_sentences(question, corpus)]
    reasons = Counter(dropped)
    reasons["no_gold_sentence"] += len(questions) - len(kept)
    return LabelledSet(name, kept, corpus, retrieve, dict(+reasons), evaluation)


def _hotpotqa(file: Path, folder: Path, evaluation: Evaluation) -> LabelledSet:
    """Return HotpotQA's train questions, without those whose labels are of whole paragraphs."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = list(_rows(file))
    fit = [row for row in rows if row["supporting_level"] == "sentence" and not row.get("gold_shared_with_dev")]
    dropped = Counter(
        labels_of_paragraphs=sum(row["supporting_level"] != "sentence" for row in rows),
        gold_shared_with_dev=sum(bool(row.get("gold_shared_with_dev")) for row in rows),
    )
    if not (folder / "questions.jsonl").is_file():
        with atomic_write(folder / "rows.jsonl") as kept:
            kept.writelines(ujson.dumps(row, ensure_ascii=False) + "\n" for row in fit)
        convert(HOTPOTQA, folder / "rows.jsonl", folder, split="train", overwrite=True)
    passages, index = folder / PASSAGES, folder / "index"
    if not (index / "index.json").is_file():
        # 12,000 passages for 1,100 questions: their vectors would take longer than all the rest.
        build_index(passages, index, retriever="bm25", resume=index.exists(), progress=True)
    corpus = {record.id: record for record in read_passages(passages)}
    retrieve = open_index(index, passages)
    questions, refused = without_leaks(read_questions(folder / "questions.jsonl"), evaluation, corpus)
    questions, unread = without_retrieved(questions, evaluation, retrieve)
    chosen = drawn(questions, MOST_QUESTIONS, lambda one: one.id)
    dropped["not_drawn"] = len(questions) - len(chosen)
    return _labelled(HOTPOTQA, chosen, corpus, retrieve, dropped + refused + unread, evaluation)


def _rows(file: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        yield from map(ujson.loads, lines)
