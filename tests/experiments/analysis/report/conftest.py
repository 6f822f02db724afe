from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import dspy
import pytest

from signatures.types import Hop, Passage

NASTY = "</script><script>document.title = 'x'</script><img src=x onerror=\"document.title = 'x'\">"


class Nasty(dspy.Module):
    """Whatever a model or a corpus may write ends up on the page."""

    def forward(self, question: str) -> dspy.Prediction:
        passage = Passage(id=NASTY, title=NASTY, text=NASTY)
        hop = Hop(question=NASTY, answer=NASTY, draft="no", evidence=NASTY, verdict=NASTY)
        return dspy.Prediction(
            answer=NASTY, response=f"long {NASTY} \ud83d", hops=[hop], passages=[passage], citations=[NASTY]
        )

    def max_calls(self) -> int:
        return 0


@pytest.fixture(scope="session")
def nasty() -> str:
    return NASTY


@pytest.fixture
def run(toy: ModuleType) -> Callable[..., Path]:
    """Return a function that makes a run of the toy, or of what writes hostile text."""

    def make(folder: Path, *, hostile: bool = False, n: int = 3, questions: Any = None, **options: Any) -> Path:
        options = {"metrics": ["f1[hotpot]", "em", "passage_recall@2"], **options}
        asked = toy.questions(n) if questions is None else questions
        program = Nasty() if hostile else toy.Toy()
        toy.run(program, asked, connection=toy.link(toy.Engine()), folder=folder, **options)
        return folder

    return make
