import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import dspy
import pytest

from signatures.types import Hop, Passage
from tests.conftest import load_module

BROWSER = Path(__file__).parents[2] / "annotation" / "review" / "browser.py"
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


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    browsing = load_module(BROWSER)
    program = browsing.chromium()
    if program is None:
        if os.environ.get("VERIHOP_CHROMIUM") == "required":  # as .ci/run sets it
            pytest.fail("No Chromium on this machine, and it is required: apt-get install chromium")
        pytest.skip("no Chromium on this machine: apt-get install chromium")
    page = browsing.Browser(program, tmp_path_factory.mktemp("profile"))
    yield page
    page.close()
