"""Development sets near the official mix of questions, as far as the files of a folder allow.

Slices of benchmarks are often sorted or chosen by type, so that their scores are not those of the benchmark. These sets
are thinned by a hash of the ids (`thin`) where their files suffice, of train files use only what is held out
(`heldback.py`), and are written in the order of that hash.
"""

import tempfile
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from corpora.datasets.convert import Converted, convert, pool
from corpora.datasets.heldback import HELD_BACK, held_back
from corpora.kinds import COMPARISON, COMPOSED, NO, YES, kind_of
from corpora.questions import Question, drawn, read_questions, write_questions
from signatures.common.errors import UserError, unknown
from signatures.common.files import sha256_text
from signatures.text import normalize_answer

VERDICT = ", yes/no"


@dataclass(frozen=True)
class Part:
    """Questions of one file.

    Args:
        file: In the folder of the official files.
        split: Written into its questions; those of a train file are held out from training.
        thinned: Whether it is thinned to the mix of the set.
    """

    file: str
    split: str
    thinned: bool = False


@dataclass(frozen=True)
class DevelopmentSet:
    """Questions to develop on, and their corpus: the passages of all its files.

    Args:
        dataset: Whose shapes its files have.
        what: Its questions, in words.
        parts: Of its questions.
        label_of: Label of a question in the mix.
        mix: Label -> official share.
        corpora: Files with further passages.
    """

    dataset: str
    what: str
    parts: tuple[Part, ...]
    label_of: Callable[[Question], str]
    mix: Mapping[str, float]
    corpora: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[str, ...]:
        """Return the names of all its files."""
        return (*(part.file for part in self.parts), *self.corpora)


def _label(name: str | None, question: Question) -> str:
    verdict = bool(question.answers) and normalize_answer(question.answers[0]) in (YES, NO)
    return f"{name}{VERDICT if verdict else ''}"


def _by_kind(question: Question) -> str:
    return _label(kind_of(question.type, (question.model_extra or {}).get("kind")), question)


def _by_type(question: Question) -> str:
    return _label(question.type, question)


DEVELOPMENT: dict[str, DevelopmentSet] = {
    "hotpotqa-dev": DevelopmentSet(
        "hotpotqa",
        "IRCoT's 500 dev questions, thinned to 20 % comparisons and 6 % yes/no",
        (Part("hotpotqa/hotpot_dev_500.ircot.jsonl", "dev", thinned=True),),
        _by_kind,
        {COMPOSED: 0.8, COMPARISON: 0.14, f"{COMPARISON}{VERDICT}": 0.06},
    ),
    "2wikimultihopqa-dev": DevelopmentSet(
        "2wikimultihopqa",
        "200 held-back train questions, thinned to the official mix (9 % yes/no), and 64 dev questions",
        (
            Part("2wikimultihopqa/2wiki_train.json", "train", thinned=True),
            Part("2wikimultihopqa/2wiki_dev_64.json", "dev"),
        ),
        _by_type,
        {
            "compositional": 0.42,
            "inference": 0.12,
            "comparison": 0.193,
            f"comparison{VERDICT}": 0.047,
            "bridge_comparison": 0.177,
            f"bridge_comparison{VERDICT}": 0.043,
        },
        ("2wikimultihopqa/corpus_6119.json",),
    ),
    "musique-dev": DevelopmentSet(
        "musique",
        "30 held-back train questions and 100 dev questions",
        (Part("musique/musique_ans_train_100.jsonl", "train"), Part("musique/musique_ans_dev_100.jsonl", "dev")),
        _by_type,
        {},
    ),
}


def convert_development(
    name: str, data: Path | str, out_dir: Path | str, *, packed: str = "", overwrite: bool = False
) -> Converted:
    """Write `questions.jsonl` and `passages.jsonl` of a development set into `out_dir`.

    Args:
        name: A key of DEVELOPMENT.
        data: Folder with the official files.
        out_dir: Created if missing.
        packed: "gz" or "zst" compresses the passages.
        overwrite: Replace the files of an earlier conversion.

    Raises:
        UserError: Unknown name, a missing or broken file, or an earlier conversion without `overwrite`.
    """
    if name not in DEVELOPMENT:
        raise unknown("development set", name, DEVELOPMENT)
    of, out = DEVELOPMENT[name], Path(out_dir)
    questions_path = out / "questions.jsonl"
    passages_path = out / f"passages.jsonl{f'.{packed}' if packed else ''}"
    for path in (questions_path, passages_path):
        if path.exists() and not overwrite:
            raise UserError(f"{path} exists already: choose another folder, or set overwrite to replace it.")
    with tempfile.TemporaryDirectory() as folder:
        sources: list[tuple[str, str, str | None]] = [(of.dataset, part.file, part.split) for part in of.parts]
        sources += [("plain", file, None) for file in of.corpora]
        made = [
            convert(dataset, Path(data) / file, Path(folder) / str(number), split=split)
            for number, (dataset, file, split) in enumerate(sources)
        ]
        questions = [
            question
            for part, converted in zip(of.parts, made, strict=False)
            if converted.questions_path is not None
            for question in _chosen(of, part, read_questions(converted.questions_path))
        ]
        out.mkdir(parents=True, exist_ok=True)
        counts = pool([one.passages_path for one in made if one.passages_path], passages_path, overwrite=overwrite)
    write_questions(questions_path, sorted(questions, key=lambda question: sha256_text(question.id)))
    counts = {"questions": len(questions), "passages": counts["written"], "paragraphs": counts["read"]}
    return Converted(questions_path, passages_path, counts)


def _chosen(of: DevelopmentSet, part: Part, questions: list[Question]) -> list[Question]:
    """Return the questions of a part: of a train file those that are held out, thinned where it says so."""
    if part.split == "train":
        ids = held_back((question.id for question in questions), HELD_BACK[of.dataset])
        questions = [question for question in questions if question.id in ids]
    return thin(questions, of.mix, of.label_of, lambda question: question.id) if part.thinned else questions


Item = TypeVar("Item")
Label = TypeVar("Label", bound=Hashable)


def thin(
    items: Iterable[Item],
    shares: Mapping[Label, float],
    label_of: Callable[[Item], Label],
    id_of: Callable[[Item], str],
) -> list[Item]:
    """Return the largest subset with these shares, in the order given; of each label the lowest hashes are chosen.

    Args:
        items: To choose from; those with a label without a share are left out.
        shares: Label -> its share, which together are 1; rounded to whole items.
        label_of: Returns the label of an item.
        id_of: Returns the id of an item.

    Raises:
        UserError: The shares are not 1 in all, one is not above 0, or so few items of a label are there that the subset
            is empty.
    """
    if not shares or min(shares.values()) <= 0 or abs(sum(shares.values()) - 1) > 1e-6:
        raise UserError(f"The shares must be above 0 and 1 in all, got {dict(shares)}.")
    given = list(items)
    labels = [label_of(item) for item in given]
    wanted = _numbers(Counter(labels), shares)
    if not any(wanted.values()):
        scarce = min(shares, key=lambda label: labels.count(label) / shares[label])
        raise UserError(
            f"There are {labels.count(scarce)} items {scarce!r} for a share of {shares[scarce]:g}: add some."
        )
    kept: set[int] = set()
    for label, count in wanted.items():
        places = [place for place, own in enumerate(labels) if own == label]
        # By another hash than that of `--limit`, which would else draw a scarce label's items before all others.
        kept.update(drawn(places, count, lambda place: f"thinned:{id_of(given[place])}") if count else ())
    return [item for place, item in enumerate(given) if place in kept]


def _numbers(available: Mapping[Label, int], shares: Mapping[Label, float]) -> dict[Label, int]:
    """Return the number of each label in the largest subset."""
    for size in range(sum(available.values()), 0, -1):
        wanted = {label: round(share * size) for label, share in shares.items()}
        if all(count <= available.get(label, 0) for label, count in wanted.items()):
            return wanted
    return dict.fromkeys(shares, 0)
