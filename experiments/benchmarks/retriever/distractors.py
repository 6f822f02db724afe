"""Passages that no question needs: first the real ones at hand, then recombined ones without end, hard by their words.

A recombined passage keeps what makes a real one likely to be found, its relations and its style, and is about somebody
who does not exist: two sentences of one passage and one of another, renamed to a mixture of both titles, with other
years. So it can answer no question, though it says what questions ask for of someone else.
"""

import itertools
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from corpora.datasets.convert import convert, pool
from corpora.passages import PassageRecord
from optimizers.distill.leakage import Evaluation
from signatures.text_words import same_words, without_brackets

MADE = "recombined/"  # begins the ids of recombined passages; no title makes an id with a slash
_LONGEST = 400  # characters of a sentence; longer ones are tables and lists
# Data set, file in one of the two folders. Files without titles are left out: nothing else here lacks them.
REAL = (
    ("nq_open", "nq_qed_train.jsonl.gz"),
    ("nq_open", "nq_open/qed_dev_1355.jsonl"),
    ("nq_open", "nq_open/nq_open_oracle_2655.jsonl.gz"),
    ("hotpotqa", "hotpotqa/hotpot_train_100.json"),
    ("hotpotqa", "hotpotqa/hotpot_dev_100.hf.jsonl"),
    ("hotpotqa", "hotpotqa_train.jsonl.gz"),
    ("squad", "squad_v1_train_44_articles.jsonl.gz"),
)
_SENTENCE = re.compile(r"(?<=[a-z0-9)][.!?])\s+(?=[A-Z])")  # good enough here, and hundreds of times as fast as a rule
_YEAR = re.compile(r"\b(?:1[0-9]|20)[0-9]{2}\b")


def real_passages(data: Path, more: Path, work: Path) -> Path:
    """Write the pooled real passages into `work`, unless they are there; return the file."""
    out = work / "real.jsonl"
    if not out.is_file():
        files = []
        for dataset, file in REAL:
            found = next(folder / file for folder in (data, more) if (folder / file).is_file())
            files.append(convert(dataset, found, work / "converted" / found.name, overwrite=True).passages_path)
        pool([file for file in files if file], out)
    return out


def distractors(
    own: Sequence[PassageRecord], real: Iterable[PassageRecord], needed: Evaluation
) -> Iterator[PassageRecord]:
    """Yield passages that are not in `own`, real ones first; the first n are always the same.

    Args:
        own: The corpus of the questions.
        real: Those that equal a gold passage, contain one, or have the title of one are left out: another edition of
            it would count as wrong.
        needed: What the questions need.
    """
    ids, texts = {record.id for record in own}, {same_words(record.text) for record in own}
    kept = []
    for record in real:
        gold = needed.needs_article(record.title) or needed.needs(record.text)
        if not gold and record.id not in ids and (key := same_words(record.text)) not in texts:
            ids.add(record.id)
            texts.add(key)
            kept.append(record)
            yield PassageRecord(id=record.id, title=record.title, text=record.text)
    free = [record for record in own if record.id not in needed.gold_ids and not needed.needs_article(record.title)]
    yield from recombined([*free, *kept], {same_words(without_brackets(each.title)) for each in (*own, *kept)})


def recombined(bases: Sequence[PassageRecord], titles: set[str]) -> Iterator[PassageRecord]:
    """Yield passages made of the bases, with ids that begin with `MADE` and none of these titles (`same_words`)."""
    parts = [each for record in bases if (each := _parts(record))]
    for number in itertools.count():
        draw = random.Random(f"recombined {number}")
        (name, first), (other, second) = draw.choice(parts), draw.choice(parts)
        words, others = without_brackets(name).split(), without_brackets(other).split()
        title = " ".join([*words[: max(1, len(words) // 2)], *others[len(others) // 2 :]])
        if same_words(title) in titles or name == other:
            continue
        taken = [_renamed(each, name, title) for each in first[:2]]
        taken.append(_renamed(draw.choice(second[1:] or second), other, title))
        text = _YEAR.sub(partial(_shifted, by=draw.choice((-7, -4, -2, 2, 3, 6))), " ".join(taken))
        yield PassageRecord(id=f"{MADE}{number:07d}", title=title + name[len(without_brackets(name)) :], text=text)


def _parts(record: PassageRecord) -> tuple[str, list[str]] | None:
    """Return title and sentences; None if it has no title or no sentence."""
    found = record.sentences or _SENTENCE.split(record.text)
    sentences = [each.strip() for each in found if 0 < len(each.strip()) <= _LONGEST]
    return (record.title, sentences) if same_words(without_brackets(record.title)) and sentences else None


def _shifted(year: re.Match[str], by: int) -> str:
    return str(int(year[0]) + by)


def _renamed(sentence: str, name: str, title: str) -> str:
    """Return a sentence about `title` instead of `name`, which is also known by its last word."""
    whole = without_brackets(name)
    sentence = sentence.replace(whole, title)
    last = whole.split()[-1]
    return sentence.replace(last, title.split()[-1]) if last[:1].isupper() and title not in sentence else sentence
