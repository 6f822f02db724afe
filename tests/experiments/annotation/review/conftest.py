"""Questions, passages, runs and reviews of an invented town, small enough to read."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from experiments.annotation.review.answer_cards import review_answers
from experiments.annotation.review.cards import ANSWER_SCALES
from experiments.annotation.review.keyfact_cards import review_keyfacts
from experiments.annotation.review.review_folder import DecisionLog, Review
from experiments.annotation.review.server import Session

BRIDGE = "The Ortel Bridge opened in 1907. It was drawn by Mira Pell. Swifts nest under it."
PELL = "Mira Pell grew up in Vadley. She kept bees."


def lines(path: Path, *values: dict) -> Path:
    path.write_text("".join(json.dumps(value) + "\n" for value in values), encoding="utf-8")
    return path


@pytest.fixture
def questions(tmp_path) -> Path:
    """Two questions with key facts and one without; beside them the passages."""
    lines(
        tmp_path / "passages.jsonl",
        {"id": "p1", "title": "Ortel Bridge", "text": BRIDGE, "sentences": BRIDGE.replace(". ", ".|").split("|")},
        {"id": "p2", "title": "Mira Pell", "text": PELL},
        {"id": "p3", "title": "Elsewhere", "text": "Nothing of note."},
    )
    return lines(
        tmp_path / "questions.jsonl",
        {
            "id": "q1",
            "question": "Where did the architect of the Ortel Bridge grow up?",
            "answers": ["Vadley"],
            "gold_ids": ["p1", "p2"],
            "gold_sentences": [["p1", 1]],
            "key_facts": ["Mira Pell drew the bridge.", "Pell grew up in Vadley.", "Swifts nest there."],
            "sub_questions": [{"question": "Who drew it?", "answer": "Mira Pell"}],
            "note": {"kept": True},
        },
        {"id": "q2", "question": "What did she keep?", "answers": ["bees"], "gold_ids": ["p2"], "key_facts": ["Bees."]},
        {"id": "q3", "question": "When did it open?", "answers": ["1907"]},
    )


@pytest.fixture
def keyfacts(questions, tmp_path) -> Review:
    return review_keyfacts(questions, questions.parent / "passages.jsonl", tmp_path / "review")


def row(name: str, response: str, score: float | None, **more) -> dict:
    hops = [
        {
            "question": "Who drew it?",
            "answer": "Pell",
            "draft": "Orme",
            "evidence": "drawn by Mira Pell",
            "passage_ids": [],
        }
    ]
    return {
        "id": name,
        "question": f"Question {name}?",
        "answers": ["Vadley"],
        "answer": response,
        "response": response,
        "hops": hops,
        "passage_ids": ["p3"],
        "citations": ["p3"],
        "cited_passages": [{"id": "p3", "title": "Elsewhere", "text": "Nothing of note."}],
        "scores": {"em": score},
        "error": None,
        **more,
    }


@pytest.fixture
def make_run(tmp_path) -> Callable[..., Path]:
    """Return a function that writes the rows of a run and returns its folder."""

    def make(name: str, *rows: dict) -> Path:
        folder = tmp_path / "runs" / name
        folder.mkdir(parents=True)
        lines(folder / "rows.jsonl", *rows)
        return folder

    return make


@pytest.fixture
def make_row() -> Callable[..., dict]:
    return row


@pytest.fixture
def rate(tmp_path) -> Callable[..., Review]:
    """Return a function that starts a review of runs on a scale."""

    def start(runs: list[Path], scale: str, **options) -> Review:
        return review_answers(runs, tmp_path / f"review-{scale}", ANSWER_SCALES[scale], **options)

    return start


@pytest.fixture
def session_of() -> Iterator[Callable[[Review, str], Session]]:
    """Return a function that opens a reviewer's session; the folder allows one at a time."""
    with ExitStack() as stack:

        def start(review: Review, reviewer: str) -> Session:
            stack.close()
            return Session(review, stack.enter_context(DecisionLog(review.folder)), reviewer)

        yield start
