"""What a review tells: kappa without the third judge, means of runs, metrics with people."""

import pytest
from rich.console import Console

from experiments.annotation.review.results import result_tables, review_results
from signatures.common.errors import UserError


def judge(session_of, review, reviewer: str, grades: dict[tuple[str, str], list[str]]) -> None:
    """Give grades by (run, question)."""
    session = session_of(review, reviewer)
    for card in review.cards:
        for item, grade in zip(card.items, grades.get((card.run, card.question_id), []), strict=False):
            session.decide(item.id, grade)


def test_ratings_go_with_metrics_over_answers_and_over_systems(make_run, make_row, rate, session_of):
    scores = {"a": [1.0, 1.0, 0.0], "b": [1.0, 0.0, 0.0], "c": [0.0, 0.0, 0.0]}
    grades = {"a": ["1", "0.75", "0.25"], "b": ["1", "0.25", "0"], "c": ["0.25", "0", "0"]}
    runs = [make_run(run, *(make_row(f"q{n}", "V.", em) for n, em in enumerate(own))) for run, own in scores.items()]
    review = rate(runs, "completeness")
    judge(session_of, review, "Ann", {(run, f"q{n}"): [g] for run, own in grades.items() for n, g in enumerate(own)})
    found = review_results(review)
    assert [(run.run, run.mean.mean, run.mean.n) for run in found.runs] == [
        ("a", pytest.approx(2 / 3), 3),
        ("b", pytest.approx(1.25 / 3), 3),
        ("c", pytest.approx(0.25 / 3), 3),
    ]
    (em,) = found.metrics
    assert em.answers["pearson"].n == 9
    # Computed by hand: sum of products of deviations 1.9167 over sqrt(2 * 1.4722).
    ratings = [float(grade) for own in grades.values() for grade in own]
    golds = [score for own in scores.values() for score in own]
    mean_r, mean_g = sum(ratings) / 9, sum(golds) / 9
    together = sum((r - mean_r) * (g - mean_g) for r, g in zip(ratings, golds, strict=True))
    alone = sum((r - mean_r) ** 2 for r in ratings) * sum((g - mean_g) ** 2 for g in golds)
    assert em.answers["pearson"].value == pytest.approx(together / alone**0.5)
    assert em.systems["kendall"].value == pytest.approx(1.0)
    assert em.systems["pearson"].n == 3


def test_undefined_scores_and_open_answers_are_left_out_and_counted(make_run, make_row, rate, session_of):
    rows = [make_row("q0", "One. Two.", 1.0), make_row("q1", "One.", None), make_row("q2", "One.", 0.0)]
    review = rate([make_run("a", *rows)], "helpful")
    judge(session_of, review, "Ann", {("a", "q0"): ["1"], ("a", "q1"): ["1"], ("a", "q2"): ["0"]})
    found = review_results(review)
    assert (found.runs[0].mean.n, found.runs[0].open) == (2, 1)  # q0's second sentence is open
    assert found.metrics[0].answers["pearson"].n == 1
    assert found.metrics[0].answers["pearson"].undefined == "needs at least 3 values, got 1"
    assert found.runs[0].shares == {"0": pytest.approx(1 / 3), "1": pytest.approx(2 / 3)}


def test_a_third_judge_settles_but_does_not_count_for_kappa(make_run, make_row, rate, session_of):
    rows = [make_row(f"q{n}", "V.", 1.0) for n in range(4)]
    review = rate([make_run("a", *rows)], "stepwise")
    judge(session_of, review, "Ann", {("a", f"q{n}"): [g] for n, g in enumerate(("1", "1", "0", "0.5"))})
    judge(session_of, review, "Bo", {("a", f"q{n}"): [g] for n, g in enumerate(("1", "0", "0", "0.5"))})
    before = review_results(review)
    assert (before.between.judged, before.runs[0].open) == (3, 1)
    judge(session_of, review, "Cy", {("a", "q1"): ["0.5"]})
    found = review_results(review)
    assert (found.between.judged, found.between.items) == (4, 4)
    assert found.runs[0].mean.mean == pytest.approx((1 + 0.5 + 0 + 0.5) / 4)
    assert [(pair.first, pair.second) for pair in found.between.pairs] == [("Ann", "Bo")]
    assert found.between.pairs == before.between.pairs
    assert found.between.pairs[0].weighted.value > 0
    assert (found.between.people, found.between.fleiss.n) == (2, 4)


def test_shares_of_hops_tell_right_at_once_from_corrected(make_run, make_row, rate, session_of):
    review = rate([make_run("a", *(make_row(f"q{n}", "V.", 1.0) for n in range(4)))], "hops")
    judge(
        session_of,
        review,
        "Ann",
        {("a", f"q{n}"): [g] for n, g in enumerate(("direct", "error", "failure", "corrected"))},
    )
    (run,) = review_results(review).runs
    assert run.shares == {"direct": 0.25, "corrected": 0.25, "failure": 0.25, "error": 0.25, "success": 0.0}
    assert run.mean.mean == 0.5


def test_key_facts_have_kappa_only(keyfacts, session_of):
    with pytest.raises(UserError, match="no judgement yet"):
        review_results(keyfacts)
    session_of(keyfacts, "Ann").decide(keyfacts.cards[0].items[0].id, "accept")
    found = review_results(keyfacts)
    assert (found.runs, found.metrics, found.between.fleiss) == ([], [], None)


def test_only_the_runs_that_were_rated_will_do(make_run, make_row, rate, session_of, tmp_path):
    run = make_run("a", make_row("q1", "Vadley.", 1.0))
    review = rate([run], "completeness")
    judge(session_of, review, "Ann", {("a", "q1"): ["1"]})
    moved = run.rename(tmp_path / "a")
    with pytest.raises(UserError, match="current folders"):
        review_results(review)
    assert review_results(review, [moved]).runs[0].mean.mean == 1.0
    with pytest.raises(UserError, match="the runs a, not b"):
        review_results(review, [make_run("b", make_row("q1", "Vadley.", 1.0))])
    with pytest.raises(UserError, match="another answer to 'q1' than the rated one"):
        review_results(review, [make_run("later/a", make_row("q1", "Orme.", 0.0))])


def tables(review) -> str:
    console = Console(width=120, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(result_tables(review_results(review)))
    return " ".join(console.export_text().split())


@pytest.mark.parametrize(
    ("raters", "cure"), [(1, "start a review with raters=2, or import ratings"), (2, "let a second reviewer resume")]
)
def test_an_agreement_of_one_reviewer_says_why_there_is_none(raters, cure, make_run, make_row, rate, session_of):
    review = rate([make_run("a", make_row("q0", "One.", 1.0))], "completeness", raters=raters)
    judge(session_of, review, "Ann", {("a", "q0"): ["1"]})
    assert f"There is no kappa: only Ann has judged. It needs two judgements of an item: {cure}" in tables(review)
    assert "only Ann has judged" in review_results(review).as_dict()["between"]["undefined"]


def test_reviewers_of_different_items_have_no_kappa(make_run, make_row, rate, session_of):
    review = rate([make_run("a", *(make_row(f"q{n}", "One.", 1.0) for n in range(2)))], "completeness")
    judge(session_of, review, "Ann", {("a", "q0"): ["1"]})
    judge(session_of, review, "Bo", {("a", "q1"): ["1"]})
    assert "There is no kappa: no two reviewers have judged the same item." in tables(review)


def test_two_reviewers_have_a_table(make_run, make_row, rate, session_of):
    review = rate([make_run("a", *(make_row(f"q{n}", "One.", 1.0) for n in range(2)))], "completeness", raters=2)
    for name in ("Ann", "Bo"):
        judge(session_of, review, name, {("a", "q0"): ["1"], ("a", "q1"): ["0"]})
    assert review_results(review).between.undefined is None
    assert "Ann, Bo" in tables(review)
