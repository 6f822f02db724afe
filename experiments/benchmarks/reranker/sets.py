"""The data sets of the reranker: what it is fitted on, and the questions that nobody trains on.

Each set has its own pooled corpus and index. Evaluation: HotpotQA dev 500 and the held-back questions of
2WikiMultihopQA and MuSiQue (`corpora.datasets.heldback`). Questions are compared by the guard of all training
(`optimizers.distill.leakage`). Its rule on gold is stricter here: no passage with the title of an evaluation's gold is
gold or a distractor in training, so that no question has to be left out for its gold.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from corpora.datasets.convert import convert, pool
from corpora.datasets.heldback import HELD_BACK, held_back
from corpora.index.build import build_index
from corpora.index.open import open_index
from corpora.passages import PassageRecord, read_passages
from corpora.questions import Question, read_questions
from corpora.retrievers.engine import IndexRetriever
from optimizers.distill.leakage import Evaluation
from signatures.common.files import sha256_file, sha256_text

MOST_SINGLE_HOP = 600  # questions of NQ; one set must not outweigh the others in time
SOURCES: dict[str, list[tuple[str, str]]] = {
    "hotpotqa dev": [("hotpotqa", "hotpotqa/hotpot_dev_500.ircot.jsonl")],
    "hotpotqa": [("hotpotqa", "hotpotqa/hotpot_train_100.json")],
    "2wikimultihopqa": [
        ("2wikimultihopqa", "2wikimultihopqa/2wiki_train.json"),
        ("plain", "2wikimultihopqa/corpus_6119.json"),
    ],
    "musique": [("musique", "musique/musique_ans_train_100.jsonl"), ("plain", "musique/corpus_1890.json")],
    "nq": [("nq_open", "nq_open/nq_open_oracle_2655.jsonl.gz"), ("nq_open", "nq_open/qed_dev_1355.jsonl")],
}


@dataclass(frozen=True)
class QuestionSet:
    """Questions and the retriever of their corpus.

    Args:
        name: Key of `SOURCES`.
        questions: Those with gold passages.
        retrieve: The hybrid over the pooled corpus.
        titles: Id -> title of every passage.
    """

    name: str
    questions: Sequence[Question]
    retrieve: IndexRetriever
    titles: dict[str, str]


def open_set(name: str, data: Path, work: Path) -> tuple[QuestionSet, dict[str, str]]:
    """Convert, pool and index one set in `work` (an index of the same corpus is kept); return it and file hashes."""
    folder = work / name.replace(" ", "_")
    questions: dict[str, Question] = {}
    passages: list[Path] = []
    for converter, file in SOURCES[name]:
        converted = convert(converter, data / file, folder / Path(file).name, overwrite=True)
        if converted.passages_path is not None:
            passages.append(converted.passages_path)
        if converted.questions_path is not None:
            for question in read_questions(converted.questions_path):
                questions.setdefault(question.id, question)
    corpus = folder / "passages.jsonl"
    pool(passages, corpus, overwrite=True)
    index = folder / "index"
    started = (index / "index.json").exists() or (index / "build.json").exists()
    build_index(corpus, index, resume=started, progress=True)
    records: list[PassageRecord] = list(read_passages(corpus))
    titles = {record.id: record.title for record in records}
    with_gold = [question for question in questions.values() if question.gold_ids]
    hashes = {file: sha256_file(data / file) for _, file in SOURCES[name]}
    return QuestionSet(name, with_gold, open_index(index, corpus), titles), hashes


def divide(sets: Sequence[QuestionSet]) -> tuple[list[QuestionSet], list[QuestionSet]]:
    """Return the sets to fit on and the sets to measure on; no question is in both."""
    training: list[QuestionSet] = []
    evaluation: list[QuestionSet] = []
    for each in sets:
        by_id = {question.id: question for question in each.questions}
        kept = held_back(by_id, HELD_BACK[each.name]) if each.name in HELD_BACK else set()
        if each.name.endswith(" dev"):
            kept = set(by_id)
        fitted = [question for question in each.questions if question.id not in kept]
        if each.name == "nq":
            fitted = sorted(fitted, key=lambda question: sha256_text(question.id))[:MOST_SINGLE_HOP]
        measured = [question for question in each.questions if question.id in kept]
        if fitted:
            training.append(QuestionSet(each.name, fitted, each.retrieve, each.titles))
        if measured:
            evaluation.append(QuestionSet(each.name, measured, each.retrieve, each.titles))
    held = Evaluation.of(question for each in evaluation for question in each.questions)
    return [
        QuestionSet(s.name, [q for q in s.questions if not held.asks(q.question)], s.retrieve, s.titles)
        for s in training
    ], evaluation


def normal(text: str) -> str:
    """Return a text in lower case without punctuation, for comparing titles of different files."""
    return " ".join("".join(letter if letter.isalnum() else " " for letter in text.lower()).split())


def gold_titles(evaluation: Sequence[QuestionSet]) -> set[str]:
    """Return the normalised titles of all gold passages of the evaluation."""
    return {
        normal(each.titles[name])
        for each in evaluation
        for question in each.questions
        for name in question.gold_ids
        if name in each.titles
    }


def labels(question: Question, ids: Sequence[str], titles: dict[str, str], hidden: set[str]) -> list[int | None]:
    """Return 1 for gold, 0 for a distractor and None for a passage that training leaves out, for each of `ids`.

    Left out are gold passages of the evaluation, and other passages with the title of a gold one: in NQ's pool they are
    often the same paragraph in another spelling.
    """
    gold = set(question.gold_ids)
    own = {normal(titles.get(name, "")) for name in gold}
    found: list[int | None] = []
    for name in ids:
        title = normal(titles.get(name, ""))
        if title in hidden or (name not in gold and title in own):
            found.append(None)
        else:
            found.append(int(name in gold))
    return found
