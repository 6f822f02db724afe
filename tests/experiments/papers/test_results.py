import json
import re
import shlex
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from experiments.analysis.statistics import means_and_differences
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


def test_the_table_of_compiling_is_that_of_its_records():
    seeds = defaultdict(list)
    for line in (RESULTS / "compiling_rows.jsonl").read_text().splitlines():
        record = json.loads(line)
        seeds[record["lm"], record["program"], record["row"]].append(record["answers"]["f1[hotpot]"])
    for name, program in json.loads((RESULTS / "compiling.json").read_text())["programs"].items():
        rows, columns = program["rows"], []
        for row in rows:
            columns.append(np.mean(seeds.pop((program["lm_id"], name.split()[0], row)), axis=0).round(6).tolist())
        pairs = [(0, place) for place in range(1, len(rows))]
        means, differences = means_and_differences(columns, pairs)
        stated = [found["f1[hotpot]"] for found in rows.values()]
        assert [found["mean"] for found in stated] == pytest.approx([mean.mean for mean in means])
        assert [found["low"] for found in stated] == pytest.approx([mean.low for mean in means])
        gains = [rows[row]["against default"] for row in list(rows)[1:]]
        assert [gain["difference"] for gain in gains] == pytest.approx([found.difference for found in differences])
        assert [gain["high"] for gain in gains] == pytest.approx([found.high for found in differences])
    assert not seeds


def test_the_page_says_what_the_file_says_of_selective_answers():
    sets = json.loads((RESULTS / "selective.json").read_text())["sets"].values()
    page = (RESULTS.parent / "papers" / "README.md").read_text()
    section = page.split("## Answering only where the answer is likely to be right")[1].split("\n## ")[0]
    cells = [line.strip("| ").split(" | ")[1:] for line in section.splitlines() if line[:1] == "|"][2:]
    assert sorted(cells[: len(sets)]) == sorted(map(_calibration, sets))
    assert sorted(cells[-len(sets) :]) == sorted(map(_promised, sets))


def _calibration(of):
    before, after, whole = (of[name] for name in ("stated", "fitted, where stated", "fitted"))
    numbers = [f"{each[name]:.2f}" for name in ("ece", "auroc") for each in (before, after)]
    return [*numbers, f"{whole['ece']:.2f}", f"{100 * whole['@100']:.1f}", f"{100 * whole['@50']:.1f}"]


def _promised(of):
    percent = [
        [round(100 * each[name] or 0) for name in ("answered", "precision", "missed")] if each["found"] else []
        for each in of["promised"].values()
    ]
    found = [round(100 * each["found"]) for each in of["promised"].values()]
    return [f"{share}: {of[0]}, {of[1]} ({of[2]})" if of else "-" for share, of in zip(found, percent, strict=True)]
