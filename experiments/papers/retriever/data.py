"""Training data of the multi-hop retriever: questions with the order of their hops, and a pool of passages.

    python -m experiments.papers.retriever.data --data ../shared/data --more ../shared/training_data --out FOLDER

No question is one of an evaluation, none of its gold is gold of one, and gold of an evaluation is not in the pool, not
even as a distractor (`optimizers.distill.leakage`, by id, text and article). QED's dev questions are an evaluation,
too: they measure single hops.
"""

import argparse
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from corpora.datasets.heldback import HELD_BACK
from corpora.index.build import build_index
from corpora.index.open import open_index
from corpora.kinds import COMPARISON, kind_of
from corpora.passages import PassageRecord, read_passages, write_passages
from corpora.questions import Question, drawn, read_questions, write_questions
from experiments.papers.embedded_lm.sources import (
    SOURCES,
    convert_source,
    evaluation_of,
    held_back_questions,
    passage_files,
)
from optimizers.distill.leakage import Evaluation, without_leaks
from signatures.common.files import atomic_write, sha256_file, sha256_text
from signatures.text import split_sentences
from signatures.text_words import contains_words, same_words, without_brackets

EVALUATED = "qed"
# Source -> at most so many questions, and the share held out to choose the checkpoint.
USED: dict[str, tuple[int, float]] = {
    "hotpotqa": (1000, 0.2),
    "hotpotqa-train": (5000, 0.2),
    "hotpotqa-gold": (5000, 0.0),
    "hotpotqa-evidence": (5000, 0.0),
    "2wikimultihopqa": (1000, 0.3),
    "musique": (1000, 0.4),
    "2wikimultihopqa-composed": (4000, 0.0),
    "hotpotqa-composed": (2500, 0.0),
    "world": (1200, 0.0),
    "nq_qed": (8000, 0.05),
    "nq_open": (3000, 0.0),
    "squad": (7000, 0.0),
}
# Corpus that the held-out questions are asked of when the reranker is fitted -> their sources.
HELD_OUT = {
    "hotpotqa-train": ("hotpotqa-train", "hotpotqa"),
    "2wikimultihopqa-dev": ("2wikimultihopqa",),
    "musique-dev": ("musique",),
    "qed-dev": ("nq_qed",),
}
OTHERS = 200  # questions of HotpotQA whose passages are distractors for the held-out ones
SILVER = 6000  # questions composed of two of one hop
CLOZE = 8000  # pairs of passages of which one names the other
SHORTEST_NAME = 5  # characters; shorter titles stand in any text by chance
LINKED = ("hotpotqa", "2wikimultihopqa", "musique")  # pools whose passages are about what their titles say
LONGEST_TEXT = 1800  # characters, more than the encoder reads
FOUND = 12  # passages that BM25 finds for a question, among them its distractors


@dataclass(frozen=True)
class Line:
    """A question of the training file.

    Args:
        id: Of the question.
        source: Key of `USED`, "parts" or "silver".
        question: The text.
        gold: Ids of its passages.
        links: (from, to) places in `gold` in the order of hops; both ways where neither comes first.
        first: Places in `gold` that the question alone should find.
        held_out: Whether it chooses the checkpoint.
    """

    id: str
    source: str
    question: str
    gold: tuple[str, ...]
    links: tuple[tuple[int, int], ...]
    first: tuple[int, ...]
    held_out: bool = False


def order_of_hops(question: Question, gold: Sequence[PassageRecord]) -> tuple[list[tuple[int, int]], list[int]]:
    """Return the links between gold passages, and the places of those that come first.

    The decomposition says it where there is one with the passages of its hops; then the title that another passage
    names, then where the answer is. Comparisons, and what nothing is known of, have links both ways.
    """
    places = {passage.id: place for place, passage in enumerate(gold)}
    everything = list(range(len(gold)))
    if len(gold) < 2:
        return [], everything
    named = {(a, b) for a in everything for b in everything if a != b and _names(gold[a], gold[b])}
    one_way = [(a, b) for a, b in sorted(named) if (b, a) not in named]
    if kind_of(question.type) == COMPARISON and len(gold) == 2:
        return [(0, 1), (1, 0)], everything
    steps = [places[name] for part in question.sub_questions for name in part.gold_ids[:1] if name in places]
    distinct = list(dict.fromkeys(steps))
    if kind_of(question.type) != COMPARISON and set(distinct) == set(everything):
        return list(pairwise(distinct)), distinct[:1]
    if one_way:
        reached = {b for _, b in one_way}
        first = [place for place in everything if place not in reached] or everything
        linked = {place for pair in one_way for place in pair}
        rest = [(a, b) for a in everything for b in everything if a != b and not {a, b} <= linked]
        firsts = [(a, b) for a in first for b in first if a != b and (a, b) not in rest]
        return one_way + rest + firsts, first
    if len(gold) == 2 and question.answers and kind_of(question.type) != COMPARISON:
        having = [place for place in everything if contains_words(gold[place].text, question.answers[0])]
        if len(having) == 1:
            return [(1 - having[0], having[0])], [1 - having[0]]
    return [(a, b) for a in everything for b in everything if a != b], everything


def _names(passage: PassageRecord, other: PassageRecord) -> bool:
    title = without_brackets(other.title)
    return len(title) >= 4 and contains_words(passage.text, title)


_WH = re.compile(r"^(?:who|what|which|whom)\s+(?:(?:is|was|are|were)\s+(?:the\s+name\s+of\s+)?)?", re.IGNORECASE)


def silver(single: Sequence[Line], answers: Mapping[str, str], count: int) -> Iterator[Line]:
    """Yield questions in which a name is replaced by the question whose answer it is, as MuSiQue's are composed."""
    about: dict[str, list[Line]] = defaultdict(list)
    for line in single:
        key = same_words(answers.get(line.id, ""))
        if len(key) >= 5 and not any(letter.isdigit() for letter in key) and len(key.split()) <= 4:
            about[key].append(line)
    made: dict[str, int] = defaultdict(int)
    number = 0
    for line in sorted(single, key=lambda each: sha256_text(each.id)):
        words = same_words(line.question).split()
        spans = ((a, b) for size in (4, 3, 2, 1) for a in range(len(words) - size + 1) for b in [a + size])
        for a, b in spans:
            key = " ".join(words[a:b])
            if made[key] >= 4 or key not in about:
                continue
            if b - a == 1 and key not in {
                w.lower() for w in re.findall(r"\b[A-Z]\w+", answers_text(about, key, answers))
            }:
                continue
            for other in about[key]:
                if other.gold[0] == line.gold[0] or made[key] >= 4:
                    continue
                inner = _WH.sub("", other.question.strip().rstrip("?").strip())
                if inner == other.question.strip().rstrip("?").strip() or len(inner.split()) > 14:
                    continue
                text = " ".join([*words[:a], inner, *words[b:]]) + "?"
                made[key] += 1
                number += 1
                name = f"silver-{sha256_text(text)[:12]}"
                yield Line(name, "silver", text, (other.gold[0], line.gold[0]), ((0, 1),), (0,))
                if number >= count:
                    return
            break


def answers_text(about: Mapping[str, Sequence[Line]], key: str, answers: Mapping[str, str]) -> str:
    """Return the answers with this key as they are written."""
    return " ".join(answers[line.id] for line in about[key])


def cloze(pool: Mapping[str, tuple[PassageRecord, str]], count: int) -> Iterator[Line]:
    """Yield sentences without their title, beside the title of a passage that names it: what leads there is the name.

    So are questions of two hops: one of the two is named, the other described.
    """
    titled: dict[str, list[str]] = defaultdict(list)
    for record, family in pool.values():
        title = same_words(without_brackets(record.title))
        if len(title) >= SHORTEST_NAME and family in LINKED and not title.isdigit():
            titled[title].append(record.id)
    made = 0
    for name in sorted(pool, key=sha256_text):
        record, family = pool[name]
        if family not in LINKED or not record.title:
            continue
        own, words, found = same_words(without_brackets(record.title)), same_words(record.text[:1500]).split(), set()
        for size in (4, 3, 2):
            for start in range(len(words) - size + 1):
                key = " ".join(words[start : start + size])
                if key in titled and key != own and len(titled[key]) == 1 and titled[key][0] != name:
                    found.add(key)
        for key in sorted(found, key=lambda each: sha256_text(f"{name} {each}"))[:2]:
            other = pool[titled[key][0]][0]
            sentences = [each for each in split_sentences(other.text) if 6 <= len(each.split()) <= 40]
            if not sentences:
                continue
            chosen = min(sentences, key=lambda each: sha256_text(f"{name} {each}"))
            hidden = re.compile(r"\b" + r"\W+".join(map(re.escape, key.split())) + r"\b", re.IGNORECASE)
            described = " ".join(hidden.sub("", chosen).split()).strip(" .,;()")
            text = f"{described}, {without_brackets(record.title)}?"
            identifier = f"cloze-{sha256_text(text)[:12]}"
            yield Line(identifier, "cloze", text, (name, other.id), ((0, 1),), (0,))
            made += 1
            if made >= count:
                return


def lines_of(
    name: str, questions: Iterable[Question], corpus: Mapping[str, PassageRecord], share: float
) -> Iterator[Line]:
    """Yield the lines of a source, and those of the parts of its questions."""
    for question in questions:
        gold = [corpus[each] for each in dict.fromkeys(question.gold_ids) if each in corpus]
        if not gold or len(gold) != len(set(question.gold_ids)):
            continue
        links, first = order_of_hops(question, gold)
        held = int(sha256_text(f"held out {question.id}")[:8], 16) / 16**8 < share
        ids = tuple(passage.id for passage in gold)
        yield Line(f"{name}:{question.id}", name, question.question, ids, tuple(links), tuple(first), held)
        if not held and not name.endswith("-composed") and name != "world":
            for number, part in enumerate(question.sub_questions):
                if len(part.gold_ids) == 1 and part.gold_ids[0] in corpus and len(part.question.split()) > 2:
                    gold_id = part.gold_ids[0]
                    yield Line(f"{name}:{question.id}:{number}", "parts", part.question, (gold_id,), (), (0,))


def gather(
    data: Path, more: Path, work: Path
) -> tuple[list[Line], dict[str, tuple[PassageRecord, str]], dict[str, Any]]:
    """Return the lines, the passages of the pool with their source's pool by id, and the counts."""
    for name in (*USED, EVALUATED):
        convert_source(SOURCES[name], data, work, more)
    evaluation = evaluation_of(data, work)
    measured = Evaluation.of(
        read_questions(work / EVALUATED / "questions.jsonl"),
        {record.id: record for record in read_passages(work / EVALUATED / "passages.jsonl")},
    )
    evaluation |= Evaluation(measured.questions, measured.gold_ids, measured.gold_texts)
    lines: list[Line] = []
    pool: dict[str, tuple[PassageRecord, str]] = {}
    refused: set[str] = set()
    texts: dict[str, str] = {}
    counts: dict[str, Any] = {}
    answers: dict[str, str] = {}
    for name, (most, share) in USED.items():
        source = SOURCES[name]
        corpus = {record.id: record for file in passage_files(source, work) for record in read_passages(file)}
        questions = read_questions(work / name / "questions.jsonl")
        held = {each.id for each in held_back_questions(work, name)} if name in HELD_BACK else set()
        kept, why = without_leaks((each for each in questions if each.id not in held), evaluation, corpus)
        kept = sorted(kept, key=lambda each: sha256_text(each.id))[:most]
        if name in ("hotpotqa-evidence", "hotpotqa-gold", "hotpotqa-train", "hotpotqa"):
            asked = {same_words(line.question) for line in lines}
            kept = [each for each in kept if same_words(each.question) not in asked]
        needed = {each for question in kept for each in question.gold_ids}
        whole = name not in ("squad", "world", "nq_qed", "nq_open")
        for record in corpus.values():
            if record.id in pool or record.id in refused or not (whole or record.id in needed):
                continue
            key = same_words(f"{record.title} {record.text}")
            if (
                record.id in evaluation.gold_ids
                or evaluation.needs_article(record.title)
                or evaluation.needs(record.text)
            ):
                refused.add(record.id)
            elif key not in texts or record.id in needed:
                texts[key] = record.id
                pool[record.id] = (record, source.pool)
        found = list(lines_of(name, kept, {i: record for i, (record, _) in pool.items()}, share))
        for question in kept:
            if question.answers:
                answers[f"{name}:{question.id}"] = question.answers[0]
        lines += found
        counts[name] = {
            "questions": len(questions), "held_back": len(held), **why, "used": len(found),
            "held_out": sum(line.held_out for line in found),
        }  # fmt: skip
        print(name, counts[name], len(pool), flush=True)
    single = [line for line in lines if line.source in ("nq_qed", "nq_open", "squad") and not line.held_out]
    more_lines = [line for line in silver(single, answers, SILVER) if not evaluation.asks(line.question)]
    counts["silver"] = len(more_lines)
    described = [line for line in cloze(pool, CLOZE) if not evaluation.asks(line.question)]
    counts["cloze"], more_lines = len(described), more_lines + described
    counts["passages"], counts["evaluation_passages_left_out"] = len(pool), len(refused)
    return lines + more_lines, pool, counts


def write(
    out: Path,
    lines: Sequence[Line],
    pool: Mapping[str, tuple[PassageRecord, str]],
    counts: Mapping[str, Any],
    work: Path,
) -> None:
    """Write `passages.jsonl`, `questions.jsonl` (with places of passages instead of ids) and `counts.json`."""
    out.mkdir(parents=True, exist_ok=True)
    places = {name: place for place, name in enumerate(pool)}
    corpus, index = work / "pool.jsonl", work / "pool.bm25"
    write_passages(corpus, (record for record, _ in pool.values()))
    build_index(corpus, index, retriever="bm25", overwrite=index.exists())
    whole = ("cloze", "silver")  # of whose questions nothing is asked by words
    rankings = open_index(index).many([line.question for line in lines], FOUND)
    with atomic_write(out / "passages.jsonl") as file:
        for record, family in pool.values():
            file.write(json.dumps([record.title, record.text[:LONGEST_TEXT], family], ensure_ascii=False) + "\n")
    with atomic_write(out / "questions.jsonl") as file:
        for line, ranking in zip(lines, rankings, strict=True):
            written = {
                "id": line.id, "source": line.source, "question": line.question,
                "gold": [places[name] for name in line.gold], "links": line.links, "first": line.first,
                "held_out": line.held_out,
                "bm25": [] if line.source in whole else [places[passage.id] for passage in ranking],
            }  # fmt: skip
            file.write(json.dumps(written, ensure_ascii=False) + "\n")
    with atomic_write(out / "counts.json") as file:
        file.write(json.dumps(counts, indent=1) + "\n")
    for name in ("passages.jsonl", "questions.jsonl"):
        print(name, sha256_file(out / name))


def write_held_out(out: Path, lines: Sequence[Line], work: Path) -> None:
    """Write the held-out questions by the corpus they are asked of, and the corpus of HotpotQA's."""
    out.mkdir(parents=True, exist_ok=True)
    held = {line.id for line in lines if line.held_out}
    for corpus, sources in HELD_OUT.items():
        chosen = [
            each
            for source in sources
            for each in read_questions(work / source / "questions.jsonl")
            if f"{source}:{each.id}" in held
        ]
        write_questions(out / f"{corpus}.questions.jsonl", chosen)
    wanted: set[str] = set()
    records: dict[str, PassageRecord] = {}
    for place, source in enumerate(HELD_OUT["hotpotqa-train"]):
        questions = read_questions(work / source / "questions.jsonl")
        own = [each for each in questions if f"{source}:{each.id}" in held]
        rest = [each for each in questions if f"{source}:{each.id}" not in held]
        others = drawn(rest, OTHERS, lambda each: f"x{each.id}") if place == 0 else []
        wanted |= {name for each in [*own, *others] for name in (*each.context_ids, *each.gold_ids)}
        records |= {record.id: record for record in read_passages(work / source / "passages.jsonl")}
    write_passages(
        out / "hotpotqa-train.passages.jsonl", (record for name, record in records.items() if name in wanted)
    )


def main() -> None:
    """Write the training data with the paths of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with the official files")
    parser.add_argument("--more", type=Path, required=True, help="folder with further training data")
    parser.add_argument("--work", type=Path, default=Path("indexes/retriever"))
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    lines, pool, counts = gather(arguments.data, arguments.more, arguments.work)
    write(arguments.out, lines, pool, counts, arguments.work)
    write_held_out(arguments.out / "held_out", lines, arguments.work)


if __name__ == "__main__":
    main()
