"""Shards that were recorded on several machines are merged into a run that is replayed as one made in one piece."""

import shutil

import pytest

from experiments.pipeline.evaluate import evaluate
from experiments.pipeline.merging.merge import merge
from experiments.runs.config import RunConfig
from experiments.runs.shards import Shard
from optimizers.replay.memory import MemberLog, read_members
from optimizers.replay.record import BRANCHES, REPLIES, RecordLog, load_record
from optimizers.replay.replaying import count_unseen, replay
from programs.catalog import build
from signatures.common.errors import UserError

KNOBS = [{}, {"max_revisions": 3}, {"truthfulness_below": 0.3}]


@pytest.fixture
def record(world, tmp_path):
    """Return a function that records a run of six questions, or a shard of it."""
    from corpora.index.open import open_index
    from corpora.questions import read_questions
    from experiments.world.connect import connect_any

    def run(name, shard=None, *, branches=4, resume=False):
        program = build("cov_rag", open_index(world / "index"), gate="threshold")
        config = RunConfig(metrics=["em"], threads=2, branches=branches, shard=shard)
        connection = connect_any("simulated", cache=False)
        questions = list(read_questions(world / "questions.jsonl"))[:6]
        folder = tmp_path / name
        evaluate(program, questions, config, connection=connection, folder=folder, resume=resume, progress=False)
        return folder, connection.lm.budget.spent["calls"]

    return run


@pytest.fixture
def parts(record):
    return [record(f"s{index}", Shard(index, 2))[0] for index in (1, 2)]


def outcomes(folder, knobs):
    return {each.id: each for each in replay(load_record(folder), knobs, metric="em")}


@pytest.mark.slow
def test_the_merged_run_replays_as_one_made_in_one_piece(record, parts, tmp_path):
    one, paid = record("one")
    report = merge(parts, tmp_path / "whole")
    assert report.notices == []
    assert load_record(tmp_path / "whole").run == load_record(one).run
    for knobs in KNOBS:
        assert outcomes(tmp_path / "whole", knobs) == outcomes(one, knobs)
    assert count_unseen(list(outcomes(tmp_path / "whole", {}).values())) == 0
    with RecordLog(tmp_path / "whole") as whole, RecordLog(one) as single:
        for id in load_record(one).questions:
            assert len(whole.memory(id)) == len(single.memory(id)) > 0
    assert report.summary.spent["calls"] == paid
    assert report.summary.branches["calls"] > 0
    assert record("whole", resume=True)[1] == 0  # all is known


def test_a_copy_that_went_on_shares_what_it_was_copied_from(record, parts, tmp_path):
    merge(parts, tmp_path / "whole")
    shutil.copytree(tmp_path / "whole", tmp_path / "copy")
    record("copy", branches=6, resume=True)
    merge([tmp_path / "whole", tmp_path / "copy"], tmp_path / "again")
    for name in (BRANCHES, REPLIES):
        members = [list(read_members(tmp_path / each / name)) for each in ("copy", "again")]
        assert members[0] == members[1]


def test_a_part_without_a_record_is_named(record, parts, tmp_path):
    for name in (BRANCHES, REPLIES):
        (parts[1] / name).unlink()
    report = merge(parts, tmp_path / "whole")
    assert f"{parts[1]}: no branches were recorded" in report.notices[0]
    assert "resumed with branches recorded" in report.notices[0]
    assert len(load_record(tmp_path / "whole").questions) == 3
    record("whole", resume=True)
    assert len(load_record(tmp_path / "whole").questions) == 6


def rewrite(path, change):
    values = list(read_members(path))
    path.unlink()
    with MemberLog(path) as log:
        for value in values:
            log.append(change(value))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda run: {**run, "corpus": {"fingerprint": "other"}}, r"corpus\.\w+ was .* and is "),
        (lambda run: {**run, "seed": 7}, "seed was 0 and is 7"),
    ],
)
def test_records_of_different_runs_are_refused(parts, tmp_path, change, reason):
    rewrite(parts[1] / BRANCHES, lambda value: {**value, "run": change(value["run"])} if "run" in value else value)
    with pytest.raises(UserError, match=f"{parts[1]} is not of the run recorded in {parts[0]}: {reason}.*omit one"):
        merge(parts, tmp_path / "whole")
    assert not (tmp_path / "whole").exists()


def test_records_that_contradict_each_other_are_refused(parts, tmp_path):
    copy = shutil.copytree(parts[0], tmp_path / "copy")

    def other(value):
        leaves = [{**leaf, "answer": "another"} for leaf in value.get("leaves", [])]
        return {**value, "leaves": leaves} if leaves else value

    rewrite(copy / BRANCHES, other)
    with pytest.raises(UserError, match="records of the parts do not fit together: .*contradicts itself"):
        merge([*parts, copy], tmp_path / "whole")
    assert not (tmp_path / "whole").exists()
