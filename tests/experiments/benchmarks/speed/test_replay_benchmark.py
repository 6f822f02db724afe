"""The replay benchmark: what it measures differs between settings, and a study runs from the record alone."""

import pytest

from corpora.index.build import build_index
from experiments.benchmarks.speed import replay
from experiments.world.generate import generate


@pytest.fixture
def world(tmp_path):
    folder = tmp_path / "world"
    passages, _ = generate(folder, questions=12, seed=0)
    build_index(passages, folder / "index", retriever="bm25")
    return folder


def test_completion_goes_on_for_several_turns_so_that_settings_differ(world, tmp_path):
    found = replay.measure("self_completion", world, tmp_path / "run", replay.Sizes(12, 40, 1, 8))
    assert found["branches"] > 12
    assert found["questions_that_differ"] > 0
    assert found["unseen_share"] == 0
    assert found["real"]["same"] == found["real"]["seen"] == 12


def test_a_whole_study_is_timed_without_an_lm(world, tmp_path):
    replay.measure(replay.STUDIED, world, tmp_path / "run", replay.Sizes(12, 3, 1, 4))
    found = replay.study(world, tmp_path / "run", "random", trials=3, out=tmp_path / "study")
    assert found["trials"] == {"complete": 3}
    assert (found["lm_calls"], len(found["load_average"])) == (0, 3)
    assert found["cpu_seconds"] > 0
