import csv

import pytest

from experiments.annotation.review.review_folder import exclusive_access, export_csv, import_csv
from signatures.common.errors import UserError


def write(path, *rows, header=("item", "reviewer", "value", "edited")):
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def read(path) -> list[dict]:
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_ratings_go_out_and_in_without_loss(keyfacts, questions, session_of, tmp_path):
    from experiments.annotation.review.keyfact_cards import review_keyfacts

    session = session_of(keyfacts, "Ann")
    first, second, *_ = keyfacts.items
    session.decide(first, "edit", 'Said "so", with commas.')
    session.decide(second, "reject")
    assert export_csv(keyfacts, tmp_path / "out.csv") == 2
    rows = read(tmp_path / "out.csv")
    assert len(rows) == 4  # every item has a line to fill in
    assert "runs" not in rows[0]
    other = review_keyfacts(questions, questions.parent / "passages.jsonl", tmp_path / "other")
    done = import_csv(other, tmp_path / "out.csv")
    assert (done.added, done.blank, done.problems) == (2, 2, [])
    assert other.ratings().by(first, "Ann").text == 'Said "so", with commas.'
    again = import_csv(other, tmp_path / "out.csv")
    assert (again.added, again.unchanged) == (0, 2)


def test_bad_lines_are_reported_with_file_and_line_and_the_others_taken(keyfacts, tmp_path):
    first, second, third, fourth = keyfacts.items
    path = write(
        tmp_path / "rated.csv",
        (first, "Ann", "accept", ""),
        ("nope", "Ann", "accept", ""),
        (second, "Ann", "splendid", ""),
        (third, "", "accept", ""),
        (fourth, "Ann", "edit", "  "),
        (first, "ANN", "reject", ""),
        (second, "Bo", "reject", ""),
        (third, "Bo"),
    )
    done = import_csv(keyfacts, path)
    assert done.added == 2
    assert [problem.split(": ")[0] for problem in done.problems] == [f"{path}, line {n}" for n in (3, 4, 5, 6, 7, 9)]
    assert "'splendid' is not a grade" in done.problems[1]
    assert done.problems[4].endswith(f"Ann judged {first} on line 2 already.")
    assert keyfacts.ratings().by(first, "Ann").value == "accept"


def test_lines_are_counted_over_texts_of_several_lines(keyfacts, tmp_path):
    first, second, *_ = keyfacts.items
    path = write(tmp_path / "rated.csv", (first, "Ann", "edit", "two\nlines"), (second, "Ann", "splendid", ""))
    done = import_csv(keyfacts, path)
    assert keyfacts.ratings().by(first, "Ann").text == "two lines"
    assert done.problems[0].startswith(f"{path}, line 4: ")


def test_what_is_no_table_is_refused(keyfacts, tmp_path):
    with pytest.raises(UserError, match="no column reviewer"):
        import_csv(keyfacts, write(tmp_path / "a.csv", header=("item", "value")))
    (tmp_path / "b.csv").write_bytes(b"item,reviewer,value\n\xff\xfe,Ann,accept\n")
    with pytest.raises(UserError, match="UTF-8"):
        import_csv(keyfacts, tmp_path / "b.csv")
    (tmp_path / "c.csv").write_text("")
    with pytest.raises(UserError, match="no column item, reviewer, value"):
        import_csv(keyfacts, tmp_path / "c.csv")


def test_nothing_is_overwritten_and_nobody_disturbed(keyfacts, tmp_path):
    path = write(tmp_path / "rated.csv", (next(iter(keyfacts.items)), "Ann", "accept", ""))
    with pytest.raises(UserError, match="Set overwrite"):
        export_csv(keyfacts, path)
    with exclusive_access(keyfacts.folder), pytest.raises(UserError, match="Another process"):
        import_csv(keyfacts, path)
    assert export_csv(keyfacts, path, overwrite=True) == 0


def test_a_spreadsheet_gets_no_formula(make_run, make_row, rate, tmp_path):
    review = rate([make_run("one", make_row("q1", '=HYPERLINK("http://x.example")', 1.0))], "completeness")
    export_csv(review, tmp_path / "out.csv")
    assert read(tmp_path / "out.csv")[0]["text"].startswith("'=HYPERLINK")
