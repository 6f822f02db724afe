"""Whether a run is the same experiment: what was scored later does not count."""

import pytest

from experiments.runs.files import as_asked, difference

NOW = {"metrics": {"em": "EM.", "passage_recall@2": "R."}, "seed": 0}


def test_what_was_scored_later_is_taken_away():
    stored = {
        "metrics": {"em": "EM.", "passage_recall@2": "R, again.", "hit@1": "H.", "acc[judge]": "J."},
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
