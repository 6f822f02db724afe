"""The benchmark of follow-up questions: its forms, its shares, and the table that its page shows."""

import json
from pathlib import Path

import pytest

from corpora.passages import read_passages
from experiments.benchmarks.follow_ups import FIRST, dialogues, forms, measured
from experiments.pipeline.demo import DEMO_CORPUS
from programs.parts.conversation import recent, usable
from signatures.types import Passage, Turn

EXPERIMENTS = Path(__file__).parents[3] / "experiments"


class OneGold:
    """Finds the gold passage of the first dialogue in the second place, whatever is asked."""

    fingerprint = "one"

    def __call__(self, query: str, k: int) -> list[Passage]:
        return [Passage(id=name, text=name) for name in ("other", *dialogues()[0]["gold_ids"])][:k]

    def many(self, queries: list[str], k: int) -> list[list[Passage]]:
        return [self(query, k) for query in queries]


def test_the_dialogues_are_about_the_demo_corpus():
    texts = {passage.id: passage.text for passage in read_passages(DEMO_CORPUS / "passages.jsonl")}
    for dialogue in dialogues():
        gold = " ".join(texts[name] for name in dialogue["gold_ids"])
        assert any(answer in gold for answer in dialogue["answers"]), dialogue["id"]
    assert len({dialogue["id"] for dialogue in dialogues()}) == len(dialogues()) == 20


def test_all_forms_are_asked(scripted):
    scripted(lambda system, user: {"rewritten": "Where was Gustave Eiffel born?"})
    assert forms(dialogues()[0]) == {
        "follow-up alone": "Where was he born?",
        "with the last turn": "Where was he born? (Who designed the New Chandler Bridge? Edrin Tollavar)",
        "rewritten": "Where was Gustave Eiffel born?",
        "rewritten and checked": "Where was he born? (Who designed the New Chandler Bridge? Edrin Tollavar)",
        "by hand": "Where was Edrin Tollavar born?",
    }


def test_shares_are_of_all_dialogues():
    asked = [{"alone": dialogue["question"]} for dialogue in dialogues()]
    found = measured(asked, OneGold(), lambda question: "Quillbay")
    assert found == {"alone": {"gold among 1": 0.0, "gold among 3": 0.05, "gold among 5": 0.05, "exact match": 0.05}}


def test_the_page_shows_the_results():
    found = json.loads((EXPERIMENTS / "results" / "follow_ups.json").read_text())["forms"]
    page = (EXPERIMENTS / "benchmarks" / "README.md").read_text()
    for form, shares in found.items():
        names = [*(f"gold among {k}" for k in FIRST), "exact match"]
        assert f"| {form} | {' | '.join(f'{shares[name]:.2f}' for name in names)} |" in page


@pytest.mark.parametrize("dialogue", dialogues(), ids=lambda dialogue: dialogue["id"])
def test_rewritings_by_hand_are_used(dialogue):
    turns = recent([Turn(**turn) for turn in dialogue["turns"]])
    assert usable(dialogue["self_contained"], dialogue["question"], turns) == dialogue["self_contained"]
