"""Ratings by people of runs of one name."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from experiments.annotation.review import results, review_folder
from experiments.papers.tables import kinds
from experiments.papers.tables.spec import read_table
from signatures.common.errors import UserError


@pytest.fixture
def rated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that gives the rows of credibility's table 2 of reviews: name -> the run's folder and scale."""

    class Unscored:
        def __init__(self, folder: Path):
            self.folder = folder

        def mean(self, name: str) -> None:
            return None

    monkeypatch.setattr(kinds, "Run", Unscored)

    def of(**reviews: tuple[str, str]) -> dict[str, Any]:
        def read(name: str) -> Any:
            source = SimpleNamespace(path=str(tmp_path / reviews[name][0]))
            return SimpleNamespace(folder=Path(name), description=SimpleNamespace(sources=[source]))

        def result(review: Any) -> Any:
            folder, scale = reviews[str(review.folder)]
            runs = [SimpleNamespace(run=Path(folder).name, mean=kinds.mean_of([1.0, 0.0]))]
            return SimpleNamespace(scale=scale, runs=runs, metrics=[])

        monkeypatch.setattr(review_folder, "read_review", read)
        monkeypatch.setattr(results, "review_results", result)
        table = read_table("credibility", "table2").model_copy(update={"rows": ()})
        made = kinds.KINDS["ratings"](table, [], SimpleNamespace(reviews=list(reviews)), None)
        ours = [[value.ours is not None for value in row.values] for row in made.rows]
        return {row.label: sum(own) for row, own in zip(made.rows, ours, strict=True) if "Pearson" not in row.label}

    return of


def test_runs_of_one_name_have_rows_of_their_own(rated: Any) -> None:
    """Before, they shared one, with ratings of both."""
    assert rated(first=("a/rag", "helpful"), second=("b/rag", "completeness")) == {"a/rag": 1, "b/rag": 1}
    assert rated(first=("a/rag", "helpful"), second=("a/rag", "completeness")) == {"rag": 2}


def test_a_run_that_two_reviews_rate_on_one_scale_is_refused(rated: Any) -> None:
    """Before, the ratings of the second one took the place of those of the first."""
    with pytest.raises(UserError, match="first and second rate .*rag on the same scale"):
        rated(first=("a/rag", "helpful"), second=("a/rag", "helpful"))
