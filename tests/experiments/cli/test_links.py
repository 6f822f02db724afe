"""Nothing that a command continues is written through a link: the folder may have come from somebody else."""

import shutil

import pytest

ASKED = ("--program", "rag", "--lm", "simulated")


@pytest.mark.parametrize("name", ["rows.jsonl", "calls.jsonl.zst", "summary.json", "new.jsonl"])
def test_a_run_is_not_continued_through_a_link(name, verihop, world, tmp_path):
    run, other = tmp_path / "run", tmp_path / "other"
    words = ("eval", world / "questions.jsonl", *ASKED, "--index", world / "index", "--limit", 2, "--out", run)
    assert verihop(*words)[0] == 0
    rows = (run / "rows.jsonl").read_bytes().splitlines(keepends=True)
    (run / "rows.jsonl").write_bytes(rows[0])
    if (run / name).exists():
        shutil.copy(run / name, other)
        (run / name).unlink()
    before = other.read_bytes() if other.exists() else None
    (run / name).symlink_to(other)
    for resumed in ((*words, "--resume"), ("score", run, "--metrics", "em")):
        code, _, err = verihop(*resumed)
        assert (code, f"{run / name} is a link" in err) == (2, True), err
    assert (other.read_bytes() if other.exists() else None) == before


@pytest.mark.parametrize("name", ["study.db", ".results.lock", "artifact"])
def test_a_study_is_not_continued_through_a_link(name, verihop, world, tmp_path):
    study, other = tmp_path / "study", tmp_path / "other"
    words = ("tune", world / "questions.jsonl", *ASKED, "--index", world / "index", "--limit", 4, "--trials", 1)
    study.mkdir()
    (study / name).symlink_to(other)
    code, _, err = verihop(*words, "--resume", "--out", study)
    assert (code, f"{study / name} is a link" in err) == (2, True), err
    assert not other.exists()
