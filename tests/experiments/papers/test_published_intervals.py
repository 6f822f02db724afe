"""Every number with an interval in a table of a page stands in a file of results, as the page rounds it."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
NUMBER = r"[+-]?[\d,]*\.?\d+"
WITH_INTERVAL = re.compile(rf"({NUMBER})\*{{0,2}} \[({NUMBER}), ({NUMBER})\]")
VALUES = ("mean", "difference", "ours", "value")

README, PAPERS, BENCHMARKS = "README.md", "experiments/papers/README.md", "experiments/benchmarks/README.md"
COMPILING, EMBEDDED = "experiments/papers/compiling/README.md", "experiments/papers/embedded_lm/README.md"
TABLES = [
    (README, "A small LM of your own", "retrieval_reading.json tables/embedded-table1.json"),
    (PAPERS, "Sentences instead of passages", "sentences.json sentences_reading.json"),
    (PAPERS, "Cascades", "cascade_embedded.json"),
    (PAPERS, "Graph retrieval read by rag", "graph_reading.json"),
    (PAPERS, "Natural Questions that the LM was not trained on", "nq_unseen.json"),
    (PAPERS, "Leaderboard", "leaderboard_pooled.json"),
    (COMPILING, "With the embedded LM nothing is gained", "compiling.json"),
    (COMPILING, "On a data set that training left out", "strategyqa_standard.json strategyqa_cot.json"),
    (EMBEDDED, "What training is worth", "tables/embedded-table1.json"),
    (EMBEDDED, "One pass on a GPU", "gpu_training.json"),
    (EMBEDDED, "Its own wrong answers", "own_answers.json training_questions.json own_trajectories.json"),
    (
        EMBEDDED,
        "Targets and results",
        "tables/leaderboard-table2.json retrieval_reading.json tables/embedded-table1.json "
        "comparing.json reading_with_reasons.json",
    ),
    (BENCHMARKS, "Retrieval", "retrieval_recall.json"),
    (BENCHMARKS, "Reranker", "reranker.json"),
    (BENCHMARKS, "Multi-hop retriever", "multihop_retriever.json"),
    (BENCHMARKS, "Graph", "graph_retriever.json"),
    (BENCHMARKS, "Growing corpora", "retrieval_growth.json"),
    (BENCHMARKS, "Agreement of entailment oracles with human judgements", "entailment_agreement.json"),
]


@pytest.mark.parametrize(("page", "heading", "files"), TABLES, ids=lambda value: value.split("/")[-1])
def test_the_intervals_of_a_table_are_those_of_its_files(page: str, heading: str, files: str) -> None:
    section = re.split(rf"^#+ {re.escape(heading)}$", (ROOT / page).read_text(), flags=re.MULTILINE)[1]
    lines = [line.strip() for line in re.split(r"^#+ ", section, flags=re.MULTILINE)[0].splitlines()]
    stated = [found for line in lines if line[:1] == "|" for found in WITH_INTERVAL.findall(line)]
    measured = [found for file in files.split() for found in _intervals(_read(file))]
    missing = [each for each in stated if not any(_same(each, found) for found in measured)]
    assert stated
    assert not missing


def _read(file: str) -> Any:
    return json.loads((ROOT / "experiments" / "results" / file).read_text())


def _intervals(value: Any) -> Iterator[tuple[float, ...]]:
    """Yield (number, low, high) wherever a file has one with its interval."""
    if isinstance(value, dict):
        names = [name for name in VALUES if value.get(name) is not None]
        if names and value.get("low") is not None:
            yield (value[names[0]], value["low"], value["high"])
    for child in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _intervals(child)


def _same(stated: tuple[str, ...], found: tuple[float, ...]) -> bool:
    """Return whether the page rounds what the file has, as a share or in percent."""
    unit = 10.0 ** -len(stated[1].partition(".")[2])
    numbers = [float(text.replace(",", "")) for text in stated]
    return any(
        all(abs(number - scale * value) < 0.51 * unit for number, value in zip(numbers, found, strict=True))
        for scale in (1, 100)
    )
