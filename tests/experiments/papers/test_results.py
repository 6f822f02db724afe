import re
import shlex
from pathlib import Path

import pytest

from experiments.runs.config import portable

RESULTS = Path(__file__).parents[3] / "experiments" / "results"


@pytest.mark.parametrize("path", sorted(RESULTS.rglob("*.json")), ids=lambda path: path.name)
def test_no_result_contains_an_absolute_path(path):
    assert not re.findall(r"(?<![\w:/.])/(?:tmp|home|root|work|Users|mnt|var)/[^\"]*", path.read_text())


def test_absolute_paths_are_reduced_to_their_last_part():
    record = {
        "command": "road world --out /a/b/world --data=/c/d ../shared/data",
        "lm": ["gguf:/models/x/y.gguf", "http://host:80/v1/x"],
        "n": 1,
    }
    assert portable(record) == {
        "command": "road world --out world --data=d ../shared/data",
        "lm": ["gguf:y.gguf", "http://host:80/v1/x"],
        "n": 1,
    }
    assert portable("/a/b") == "b"


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["verihop", "eval", "/home/bob/my data/q.jsonl", "-o", "/a/b"], "verihop eval 'q.jsonl' -o b"),
        (["--lm=gguf:/home/bob/my models/x.gguf"], "'--lm=gguf:x.gguf'"),
        (["/home/bob's/bob data/q.jsonl"], "'q.jsonl'"),
        (["file:///home/bob/q.jsonl", "file:///home/bob/my data/q.jsonl"], "q.jsonl 'q.jsonl'"),
        (['path="/home/bob/x"'], "'path=\"x\"'"),
        (["http://host/a b/c", "it's", "data/q.jsonl"], "'http://host/a b/c' 'it'\"'\"'s' data/q.jsonl"),
    ],
)
def test_paths_in_quotes_and_in_addresses_of_files_are_reduced(words, shown):
    assert portable(shlex.join(words)) == shown


def test_a_comparison_names_runs_by_their_labels(toy, tmp_path):
    import json

    from experiments.analysis.compare import compare_runs

    for name in ("one", "two"):
        toy.run(
            toy.Toy(),
            toy.questions(4),
            connection=toy.link(toy.Engine()),
            metrics=["em"],
            folder=tmp_path / name,
            progress=False,
        )
    assert str(tmp_path) not in json.dumps(compare_runs([tmp_path / "one", tmp_path / "two"]).as_dict())
