import errno
import json
import os
import subprocess
import sys
import threading

import pytest

from experiments.annotation.review.cards import HELPFUL, HOPS, KEYFACTS, STEPWISE
from experiments.annotation.review.review_folder import (
    DECISIONS,
    Decision,
    DecisionLog,
    Ratings,
    agreed_decision,
    item_score,
    needs_judgement,
    read_decisions,
)
from signatures.common.errors import UserError


def given(*grades: str | tuple[str, str]) -> list[Decision]:
    """Decisions of reviewers r1, r2, ... in that order; a pair is an edit with its words."""
    made = []
    for number, grade in enumerate(grades, start=1):
        value, text = grade if isinstance(grade, tuple) else (grade, None)
        made.append(Decision(item="i", value=value, text=text, reviewer=f"r{number}", time="", sequence=number))
    return made


def test_a_decision_is_on_the_disk_when_append_returns(tmp_path):
    with DecisionLog(tmp_path) as log:
        made = log.append("i", "accept", "Ann")
        assert read_decisions(tmp_path) == [made]
    assert json.loads((tmp_path / DECISIONS).read_text())["reviewer"] == "Ann"


def test_later_decisions_win_and_can_be_taken_back(tmp_path):
    with DecisionLog(tmp_path) as log:
        log.append("i", "accept", "Ann")
        log.append("i", "reject", "Bo")
        log.append("i", "edit", "Ann", "Better.")
    ratings = Ratings(read_decisions(tmp_path))
    assert [(one.reviewer, one.value, one.text) for one in ratings.of("i")] == [
        ("Ann", "edit", "Better."),
        ("Bo", "reject", None),
    ]
    with DecisionLog(tmp_path) as log:
        assert log.append("i", None, "Ann").sequence == 4
        assert log.ratings.by("i", "Ann") is None
        assert log.ratings.reviewers() == ["Bo"]
    assert Ratings(read_decisions(tmp_path)).by("i", "Ann") is None


def test_a_torn_last_line_is_passed_over_and_cut_off(tmp_path):
    with DecisionLog(tmp_path) as log:
        log.append("i", "accept", "Ann")
    with open(tmp_path / DECISIONS, "a") as file:
        file.write('{"item": "j", "value": "acc')
    assert len(read_decisions(tmp_path)) == 1
    with DecisionLog(tmp_path) as log:
        log.append("k", "reject", "Ann")
    assert [(one.item, one.sequence) for one in read_decisions(tmp_path)] == [("i", 1), ("k", 2)]


def test_a_broken_line_is_named(tmp_path):
    (tmp_path / DECISIONS).write_text('{"item": 3}\n')
    with pytest.raises(UserError, match=r"decisions.jsonl:1 is not a decision"):
        read_decisions(tmp_path)


def test_a_killed_process_loses_nothing_that_it_said_was_saved(tmp_path):
    script = (
        "import os, sys; from pathlib import Path\n"
        "from experiments.annotation.review.review_folder import DecisionLog\n"
        "with DecisionLog(Path(sys.argv[1])) as log:\n"
        "    for n in range(5):\n"
        "        log.append(f'i{n}', 'accept', 'Ann'); print(n, flush=True)\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == -9
    assert len(done.stdout.split()) == len(read_decisions(tmp_path)) == 5


def test_after_a_full_disk_the_next_decision_stands_on_a_line_of_its_own(tmp_path, monkeypatch):
    with DecisionLog(tmp_path) as log:
        log.append("i", "accept", "Ann")
        real = log._log._file

        class Full:
            """Takes the first half of a line and then nothing, as a disk does that fills up."""

            left = 9

            def write(self, line):
                taken = real.write(line[: self.left])
                self.left -= taken
                return taken

            def fileno(self):
                return real.fileno()

            def close(self):
                real.close()

        log._log._file = Full()
        with pytest.raises(UserError, match=os.strerror(errno.ENOSPC)):
            log.append("j", "accept", "Ann")
        log._log._file = real
        assert log.ratings.of("j") == []
        assert log.append("k", "reject", "Ann").sequence == 2
    assert [one.item for one in read_decisions(tmp_path)] == ["i", "k"]


def test_many_threads_write_whole_lines_with_sequences_of_their_own(tmp_path):
    with DecisionLog(tmp_path) as log:
        threads = [
            threading.Thread(target=lambda n=n: [log.append(f"{n}-{m}", "accept", "Ann") for m in range(10)])
            for n in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    decisions = read_decisions(tmp_path)
    assert [one.sequence for one in decisions] == list(range(1, 81))
    assert len({one.item for one in decisions}) == 80


def test_nothing_is_recorded_once_the_review_has_ended(tmp_path):
    with DecisionLog(tmp_path) as log:
        pass
    with pytest.raises(UserError, match="has ended"):
        log.append("i", "accept", "Ann")


@pytest.mark.parametrize(
    ("grades", "raters", "final", "asked"),
    [
        ([], 2, None, True),
        (["1"], 2, None, True),
        (["1", "1"], 2, "1", False),
        (["1", "0.5"], 2, None, True),  # a third is asked
        (["1", "0.5", "0.5"], 2, "0.5", False),
        (["1", "0.5", "1"], 2, "1", False),
        (["1", "0.5", "0"], 2, "0", False),  # all differ: the third decides
        (["1", "0", "1"], 3, "1", False),  # more than half agree
        (["1", "0", "0.5"], 3, None, True),
        (["0"], 1, "0", False),
        (["0", "1"], 1, "1", False),  # one rater: the last decision counts
    ],
)
def test_two_must_agree_and_a_third_settles(grades, raters, final, asked):
    found = agreed_decision(given(*grades), STEPWISE, raters)
    assert (found.value if found else None) == final
    assert needs_judgement(given(*grades), STEPWISE, raters) is asked


def test_edits_agree_only_in_their_words():
    assert agreed_decision(given(("edit", "A."), ("edit", "B.")), KEYFACTS, 2) is None
    assert agreed_decision(given(("edit", "A."), ("edit", "A.")), KEYFACTS, 2).text == "A."


def test_grades_on_a_scale_of_means_are_averaged():
    assert item_score(given("1", "0", "1"), HELPFUL, 1) == pytest.approx(2 / 3)
    assert item_score(given("1"), HELPFUL, 2) is None
    assert item_score([], HELPFUL, 1) is None
    assert not needs_judgement(given("1", "0"), HELPFUL, 2)
    with pytest.raises(ValueError, match="averaged"):
        agreed_decision(given("1"), HELPFUL, 1)


def test_a_settled_grade_is_the_score():
    assert item_score(given("1", "0.5", "0.5"), STEPWISE, 2) == 0.5
    assert item_score(given("1", "0.5"), STEPWISE, 2) is None
    assert item_score(given("error"), HOPS, 1) == 0.0


@pytest.mark.parametrize("text", ["0.5", ".5", " 0.50 ", "5e-1"])
def test_numbers_may_be_written_in_any_way(text):
    assert STEPWISE.grade(text).value == "0.5"


@pytest.mark.parametrize("text", ["0.4", "", "nan", "yes"])
def test_a_grade_that_is_none_is_refused_with_those_there_are(text):
    with pytest.raises(UserError, match=r"Choose from: 0, 0\.5, 1\."):
        STEPWISE.grade(text)
