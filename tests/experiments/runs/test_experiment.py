"""Whether a run is the same experiment: what was scored later and old names of metrics do not count."""

import json

import pytest

from experiments.runs.files import as_asked, difference, read_rows

NOW = {"metrics": {"em": "EM.", "passage_recall@2": "R."}, "seed": 0}


def test_what_was_scored_later_is_taken_away():
    stored = {
        "metrics": {"em": "EM.", "recall@2": "R, again.", "hit@1": "H.", "acc[judge]": "J."},
        "judge": {"id": "judge"},
        "seed": 0,
        "scored": [
            {"added": ["hit@1"], "replaced": {"passage_recall@2": "R."}},
            {"added": ["acc[judge]"], "replaced": {"passage_recall@2": "R, once more."}, "judge": "judge"},
        ],
    }
    assert difference(as_asked(stored), NOW) is None
    assert difference(as_asked({**stored, "seed": 1}), NOW).field == "seed"
    assert difference(as_asked({**stored, "scored": []}), NOW) is not None


@pytest.mark.parametrize("scored", [None, 3, ["x"], [{}], [{"added": 3, "replaced": []}], {"added": ["em"]}])
def test_a_damaged_record_takes_nothing_away(scored):
    assert difference(as_asked({**NOW, "scored": scored}), NOW) is None
    assert as_asked({"metrics": 3}) == {"metrics": 3}


def test_a_run_with_old_names_is_resumed(toy, tmp_path):
    options = {"metrics": ["em", "passage_recall@2"], "threads": 1, "folder": tmp_path / "run"}
    toy.run(toy.Toy(), toy.questions(4), connection=toy.link(toy.Engine()), **options)
    for name in ("run.json", "rows.jsonl"):
        text = (tmp_path / "run" / name).read_text()
        (tmp_path / "run" / name).write_text(text.replace("passage_recall@2", "recall@2"))
    lines = (tmp_path / "run" / "rows.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "run" / "rows.jsonl").write_text("".join(lines[:2]))
    engine = toy.Engine()
    with pytest.warns(UserWarning, match="recall@2 is called passage_recall@2 now"):
        summary = toy.run(toy.Toy(), toy.questions(4), connection=toy.link(engine), resume=True, **options)
    assert engine.calls == 2
    assert summary.metrics["passage_recall@2"].n == 4
    assert {name for row in read_rows(tmp_path / "run") for name in row["scores"]} == {"em", "passage_recall@2"}
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["metrics"]["passage_recall@2"]["n"] == 4
