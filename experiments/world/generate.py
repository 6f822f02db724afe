"""The simulated world as a benchmark: a corpus and questions in the project's file formats."""

import json
import random
from collections.abc import Iterable
from pathlib import Path

from experiments.world.facts import make_world
from experiments.world.passage_text import PassageText, render_passage, render_rumour
from experiments.world.question_generator import Record, generate_questions
from signatures.common.errors import UserError
from signatures.common.files import atomic_write

MAX_QUESTIONS = 20_000  # well below the 260,000 or so of a world, so that new ones are found quickly
PASSAGES, QUESTIONS = "passages.jsonl", "questions.jsonl"


def records(
    questions: int = 400, seed: int = 0, dev_share: float = 0.5, *, rumours: float = 0.0
) -> tuple[list[Record], list[Record]]:
    """Return the passages and the questions of a seed's world as plain records; the same on every machine.

    Args:
        questions: Number of questions, all different.
        seed: Seed of the world; a simulated LM of the same seed remembers this world.
        dev_share: Share of the questions, in [0, 1], that go to the split "dev"; the rest is "train".
        rumours: Share of the passages, in [0, 1], for which a further passage is added that states one of the facts
            wrongly. Its title is "Rumours about" the subject; it is gold for no question. Nothing else changes.

    Raises:
        UserError: A number is out of range.
    """
    if not 1 <= questions <= MAX_QUESTIONS or not 0 <= dev_share <= 1 or not 0 <= rumours <= 1:
        raise UserError(
            f"questions={questions}, dev_share={dev_share}, rumours={rumours}: set questions from 1 to "
            f"{MAX_QUESTIONS:,} and shares from 0 to 1."
        )
    world = make_world(seed)
    texts = {head: render_passage(world, head) for head, entity in world.entities.items() if entity.kind != "river"}
    ids = {head: f"w{seed}-{number:04d}" for number, head in enumerate(texts)}
    passages = [_passage(ids[head], item.entity.name, item) for head, item in texts.items()]
    rumour_subjects = [head for head in texts if random.Random(f"doubt:{seed}:{head}").random() < rumours]
    for number, head in enumerate(rumour_subjects):
        item = render_rumour(world, head)
        passages.append(_passage(f"w{seed}-r{number:04d}", f"Rumours about {item.entity.name}", item))
    generated = list(generate_questions(world, texts, ids, questions, seed))
    dev = set(random.Random(f"split:{seed}").sample(range(questions), round(questions * dev_share)))
    questions_of_world = [
        {"id": f"w{seed}-q{number:05d}", **record, "split": "dev" if number in dev else "train"}
        for number, record in enumerate(generated)
    ]
    return passages, questions_of_world


def _passage(passage_id: str, title: str, item: PassageText) -> Record:
    return {"id": passage_id, "title": title, "text": " ".join(item.sentences), "sentences": list(item.sentences)}


def generate(
    out: Path | str, *, questions: int = 400, seed: int = 0, dev_share: float = 0.5, rumours: float = 0.0
) -> tuple[Path, Path]:
    """Write `passages.jsonl` and `questions.jsonl` of a seed's world into a folder and return both paths.

    Args and errors are those of `records`; OSError if the folder cannot be written.
    """
    passages, questions_of_world = records(questions, seed, dev_share, rumours=rumours)
    folder = Path(out)
    _write(folder / PASSAGES, passages)
    _write(folder / QUESTIONS, questions_of_world)
    return folder / PASSAGES, folder / QUESTIONS


def _write(path: Path, rows: Iterable[Record]) -> None:
    with atomic_write(path) as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
