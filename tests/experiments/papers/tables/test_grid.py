"""What a table says of runs, and how it is written, on runs made up for it."""

import csv
import io
import math
from pathlib import Path

import pytest

from experiments.analysis.statistics import mean_of
from experiments.papers.tables.found import Line
from experiments.papers.tables.grid import Grid, GridRow, Value, scores
from experiments.papers.tables.judging import _judged_orders
from experiments.papers.tables.spec import Table
from experiments.papers.tables.values import Run, needed
from experiments.papers.tables.write import as_csv, latex, markdown, write_all
from experiments.runs.fixed_contexts import COMPLETE


class MadeUp:
    """Stands in the place of a run."""

    complete, asked = True, "questions made up"

    def __init__(self, values: list[float | None], first: int = 0, knobs: str = ""):
        self.knobs, self.folder = knobs, object()
        self.ids = [f"q{number:03}" for number in range(first, first + len(values))]
        self._values = values
        self.made_with = {"lm": {"id": "lm"}}

    def values(self, name: str) -> list[float | None]:
        return self._values

    def mean(self, name: str):
        return mean_of(self._values)

    def outcomes(self) -> dict:
        return {}


def table(*labels: str, **more) -> Table:
    stated = more.pop("published", {})
    rows = [{"label": label, "program": "rag", "published": stated.get(label, [])} for label in labels]
    column = {"label": "Set", "data": "hotpotqa"}
    made = {"title": "A & B", "source": "a paper", "metrics": ["em"], "columns": [column], "rows": rows, **more}
    return Table.model_validate(made)


def grid(of: Table, *values: list[float | None]) -> Grid:
    lines = [Line(row, "lm", [MadeUp(own)]) for row, own in zip(of.rows, values, strict=True)]
    return scores(of, lines)


def test_a_table_says_which_knobs_are_not_those_of_the_paper(monkeypatch):
    program = {"name": "rag", "knobs": {"k": 3, "reader": "direct", "compare": True}}
    monkeypatch.setattr("experiments.papers.tables.values.read_run", lambda folder: {"program": program})
    knobs = Run(Path("made up")).knobs
    assert knobs == "k=3, compare=True"
    of = table("A", "B")
    lines = [Line(row, "lm", [MadeUp([1.0] * 40, knobs=own)]) for row, own in zip(of.rows, (knobs, ""), strict=True)]
    assert scores(of, lines).notes[-1] == "Knobs that differ from the preset of the paper: A k=3, compare=True."


def test_a_run_says_what_was_asked_and_what_answers_without_reading_score(monkeypatch):
    row = {"question": "Is Marl older?", "answers": ["no"]}
    monkeypatch.setattr("experiments.papers.tables.values.read_run", lambda folder: {"questions": {"n": 4}})
    run = Run(Path("made up"))
    run.questions = [[row], [row], [{"question": "Who?", "answers": ["Ann"]}], [{"question": "When?", "answers": [""]}]]
    assert run.asked == (
        "4 questions, without a search, the majority answer 'no' has 66.7 EM, "
        "chance between two choices (2 offer them) 33.3 EM; answers: 67 % no, 33 % span"
    )


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"questions": {"n": 4, "sha256": "0123456789abcdef" * 4}}, "4 questions (SHA-256 0123456789abcdef), "),
        ({"questions": {"n": 4, "sha256": "0" * 64}, "paths": {"questions": "a/musique/dev.jsonl"}}, "of musique, "),
    ],
)
def test_a_run_names_its_questions_by_their_file_or_else_by_their_hash(more, said, monkeypatch):
    monkeypatch.setattr("experiments.papers.tables.values.read_run", lambda folder: more)
    run = Run(Path("made up"))
    run.questions = [[{"question": "Who?", "answers": ["Ann"]}]]
    assert said in run.asked


def test_the_order_of_rows_is_compared_over_those_with_both_numbers():
    made = table("a", "b", "c", "d", published={"a": [10], "b": [20], "c": [30]})
    found = grid(made, [0.0, 0.1] * 20, [0.2, 0.3] * 20, [0.4, 0.5] * 20, [1.0] * 40)
    (order,) = found.orders
    assert (order.tau.value, order.tau.n, order.interval) == (1.0, 3, (1.0, 1.0))
    turned = table("a", "b", "c", published={"a": [10], "b": [20], "c": [30]}, complement=["em"])
    found = grid(turned, [0.0, 0.1] * 20, [0.2, 0.3] * 20, [0.4, 0.5] * 20)
    assert found.orders[0].tau.value == -1.0  # 1 minus the score is printed, and published
    assert found.rows[0].values[0].ours.mean == pytest.approx(0.95)


def made_of(monkeypatch, lm: str, scored: list[tuple[float, float, bool]]) -> Run:
    """Return a run of questions with precision, recall and abstention; every second one has all it needs."""
    metrics = {name: {} for name in ("keyfacts_precision", "keyfacts_recall")}
    described = {"metrics": metrics, "questions": {"n": len(scored)}, "lm": {"id": lm}, "program": {"name": "made up"}}
    monkeypatch.setattr("experiments.papers.tables.values.read_run", lambda folder: described)
    run = Run(Path(lm))
    run.questions = [
        [
            {
                "id": f"q{place}",
                "question": "Who?",
                "answers": ["Ann"],
                "abstained": abstained,
                "about": {COMPLETE: place % 2 == 0},
                "scores": {"keyfacts_precision": precision, "keyfacts_recall": recall},
            }
        ]
        for place, (precision, recall, abstained) in enumerate(scored)
    ]
    return run


def test_a_number_of_the_whole_run_has_an_interval_and_an_order(monkeypatch):
    metrics = ["keyfacts_f1[of means]", "reflection[f1]"]
    published = {"a": [10, 90], "b": [20, 50], "c": [30, 70]}
    made = table("a", "b", "c", metrics=metrics, published=published, outcomes=False)
    runs = [
        made_of(monkeypatch, lm, [each for n in range(20) for each in ((low, 0.5, False), (low, 0.5, n < right))])
        for lm, low, right in (("x", 0.1, 18), ("y", 0.5, 4), ("z", 0.9, 10))
    ]
    found = scores(made, [Line(row, "lm", [run]) for row, run in zip(made.rows, runs, strict=True)])
    f1, reflected = found.rows[1].values
    assert (f1.ours.mean, f1.ours.low, f1.ours.n) == (0.5, 0.5, 40)
    assert reflected.ours.mean == pytest.approx(2 * 4 / (2 * 4 + 16))
    assert reflected.ours.low < reflected.ours.mean < reflected.ours.high
    assert [(order.tau.value, order.interval is not None) for order in found.orders] == [(1.0, True), (1.0, True)]


def test_the_order_of_rows_by_a_judge_is_compared_by_what_is_shown():
    published = {"a": [1.1], "b": [1.9], "c": [2.5]}
    made = table("a", "b", "c", published=published, kind="judged", shown="rank", metrics=["correctness"])
    of = {f"run-{row.label}": row for row in made.rows}
    judged = [{"scores": {"correctness": dict(zip(of, given, strict=True))}} for given in [(0.9, 0.5, 0.1)] * 30]
    (order,) = _judged_orders(made, of, judged, "lm")
    assert (order.heading, order.tau.value, order.interval) == (("", "correctness"), 1.0, (1.0, 1.0))
    assert not _judged_orders(made, dict(list(of.items())[:2]), judged, "lm")
    without = [{"scores": {"correctness": {**each["scores"]["correctness"], "run-d": None}}} for each in judged]
    assert _judged_orders(made, {**of, "run-d": made.rows[0]}, without, "lm") == [order]  # it has nothing to judge


def test_a_row_that_differs_from_the_reference_is_marked_after_correction():
    made = table("reference", "better", "same", against="reference")
    found = grid(made, [0.0, 1.0] * 30, [1.0] * 60, [0.0, 1.0] * 30)
    p = {row.label: row.values[0].p for row in found.rows}
    assert p["reference"] is None
    assert p["better"] < 0.001
    assert p["same"] == 1.0
    text = markdown(found, "verihop")
    assert "| better | 100.0* " in text
    assert "| same | 50.0 [" in text


def test_tests_use_the_questions_that_both_answered():
    made = table("reference", "other", against="reference")
    lines = [
        Line(made.rows[0], "lm", [MadeUp([0.0] * 10 + [1.0] * 30)]),
        Line(made.rows[1], "lm", [MadeUp([1.0] * 30, 10)]),
    ]
    found = scores(made, lines)
    assert found.rows[1].values[0].p == 1.0  # equal on the shared thirty


def test_rows_of_several_lms_name_them():
    made = table("a")
    found = scores(made, [Line(made.rows[0], lm, [MadeUp([1.0] * 40)]) for lm in ("small", "large")])
    assert [row.label for row in found.rows] == ["a (small)", "a (large)"]


def test_rows_that_are_lms_are_in_one_order():
    made = table("a", "b", "c", published={"a": [10], "b": [20], "c": [30]})
    rows = [row.model_copy(update={"lm": f"*{row.label}*"}) for row in made.rows]
    made = made.model_copy(update={"rows": rows})
    runs = ([0.0, 0.1] * 20, [0.2, 0.3] * 20, [0.4, 0.5] * 20)
    found = scores(made, [Line(row, f"lm-{row.label}", [MadeUp(run)]) for row, run in zip(rows, runs, strict=True)])
    assert [(order.tau.value, order.tau.n) for order in found.orders] == [(1.0, 3)]


NASTY = 'a|b `c` *d* <e> & 50% {f}_g #1 $x$ \\input "q"'


def test_what_is_written_is_escaped_in_every_form(tmp_path):
    made = table("x", published={"x": [12.5]})
    notes = ["searched in rerank20[a](multihop-1)"]  # it was a link
    of = Grid(made, [("Set", "em")], [GridRow(NASTY, [Value(mean_of([0.0, 1.0]), 12.5)])], notes=notes)
    text = markdown(of, "verihop")
    assert r"rerank20[a]\(multihop-1)" in text
    assert "a\\|b \\`c\\` \\*d\\* \\<e\\> & 50%" in text
    assert "*12.5*" in text
    tex = latex(of)
    assert r"\& 50\% \{f\}\_g \#1 \$x\$ \textbackslash{}input" in tex
    assert r"\caption{A \& B." in tex
    assert tex.count(r"\begin{tabular}{lr}") == 1
    (line,) = csv.DictReader(io.StringIO(as_csv(of)))
    assert line["row"] == NASTY
    assert (line["ours"], line["published"], line["n"]) == ("0.5", "12.5", "2")
    formula = Grid(made, [("Set", "em")], [GridRow("=1+1", [Value()])])
    assert next(csv.DictReader(io.StringIO(as_csv(formula))))["row"] == "'=1+1"
    paths = write_all(of, tmp_path / "new", "verihop")
    assert {path.suffix for path in paths} == {".md", ".csv", ".tex", ".json", ".png", ".svg"}
    assert all(path.stat().st_size for path in paths)
    assert not [path for path in (tmp_path / "new").iterdir() if path not in paths]


@pytest.mark.parametrize(("published_with", "said"), [("", "interval and n."), ("LM x", "*published* (other LM")])
def test_only_a_table_with_published_numbers_speaks_of_them(published_with, said):
    text = markdown(grid(table("x", published_with=published_with), [1.0, 0.0]), "verihop")
    assert (said in text, "published" in text) == (True, bool(published_with))


def test_latex_speaks_of_published_numbers_where_there_are_some():
    for stated, said in (({}, False), ({"x": [10.0]}, True)):
        assert ("as published" in latex(grid(table("x", published=stated), [1.0, 0.0]))) == said


def test_a_ranked_table_has_the_best_row_first_and_one_without_a_run_last():
    of = table("none", "low", "high", ranked=True)
    runs = [[None], [MadeUp([0.0] * 40)], [MadeUp([1.0] * 40)]]
    lines = [Line(row, "lm", own) for row, own in zip(of.rows, runs, strict=True)]
    assert [row.label for row in scores(of, lines).rows] == ["high", "low", "none"]
    assert [row.label for row in scores(of.model_copy(update={"ranked": False}), lines).rows] == ["none", "low", "high"]


def test_a_column_that_has_neither_our_numbers_nor_published_ones_is_left_out():
    columns = [{"label": label, "data": "hotpotqa"} for label in ("asked", "published", "neither")]
    of = table("x", "y", columns=columns, published={"x": [math.nan, 10.0, math.nan]})
    lines = [Line(row, "lm", [MadeUp([1.0, 0.0]), None, None]) for row in of.rows]
    found = scores(of, lines)
    assert [label for label, _ in found.headings] == ["asked", "published"]
    assert [len(row.values) for row in found.rows] == [2, 2]
    assert found.rows[0].values[1].stated == 10.0


def test_a_number_of_a_kind_is_over_its_questions_alone(monkeypatch):
    asked = [("q1", "bridge", 1.0), ("q2", "comparison", 0.0), ("q3", "bridge", 0.5), ("q4", None, 0.0)]
    rows = [{"id": id, "question": id, "type": kind, "scores": {"em": score}} for id, kind, score in asked]
    monkeypatch.setattr("experiments.papers.tables.values.read_run", lambda folder: {"metrics": {"em": ""}})
    monkeypatch.setattr("experiments.papers.tables.values.read_rows", lambda folder, complete: rows)
    run = Run(Path("made up"))
    assert run.values("em of composed") == [1.0, None, 0.5, None]
    assert (run.mean("em of comparison").n, run.mean("em").n) == (1, 4)
    assert needed("em of composed") == ("em",)
    with pytest.raises(ValueError, match="kinds are composed, comparison"):
        table("x", metrics=["em of bridges"])


def test_a_kind_that_no_question_is_of_has_no_number():
    of = table("x", metrics=["em", "em of composed"])
    run = MadeUp([1.0, 0.0])
    run.mean = lambda name: mean_of([None, None] if "of" in name else [1.0, 0.0])
    found = scores(of, [Line(of.rows[0], "lm", [run])])
    assert [name for _, name in found.headings] == ["em"]
    assert [note for note in found.notes if "too small" in note] == [
        "n = 2 is too small: read intervals and p-values as rough."
    ]


def test_a_cost_of_a_kind_is_no_share():
    found = grid(table("x", metrics=["lm_calls of composed"]), [3.0, 5.0])
    assert "| 4.0 [3.0, 5.0] (2) |" in markdown(found, "command")


def test_wide_tables_of_few_rows_are_turned():
    made = table("x")
    headings = [(f"Set {number}", "em") for number in range(20)]
    of = Grid(made, headings, [GridRow("x", [Value(mean_of([1.0, 1.0]))] * 20)])
    text = markdown(of, "verihop")
    assert text.count("\n| Set ") == 20
    assert latex(of).count(r"\begin{tabular}{lr}") == 1


def test_a_text_cannot_end_its_block():
    of = Grid(table("x"), [], [], texts={"A case": "before\n```\n# after"})
    assert markdown(of, "verihop").count("```") == 2


SETS = [{"label": label, "data": "hotpotqa"} for label in ("A", "B")]
BOTH = {"label": "average", "columns": ["A", "B"]}


def test_an_average_is_the_mean_of_the_means_of_its_columns_with_its_own_interval():
    of = table("x", "y", columns=SETS, averages=[BOTH], published={"x": [10.0, 20.0, 15.0]})
    halves, ones = MadeUp([0.0, 1.0] * 50), MadeUp([1.0] * 20)
    found = scores(of, [Line(of.rows[0], "lm", [halves, ones]), Line(of.rows[1], "lm", [halves, None])])
    assert found.headings == [("A", "em"), ("B", "em"), ("average", "em")]
    average, missing = (row.values[2] for row in found.rows)
    assert (average.ours.mean, average.ours.n, average.stated) == (0.75, 120, 15.0)
    # The standard error is that of the first column, .05, over 2.
    assert (average.ours.low, average.ours.high) == pytest.approx((0.75 - 1.96 * 0.025, 0.75 + 1.96 * 0.025), abs=0.005)
    assert (missing.ours, missing.stated) == (None, None)
    assert "| 75.0 [70." in markdown(found, "verihop")
    assert list(csv.DictReader(io.StringIO(as_csv(found))))[2]["column"] == "average"
    assert "75.0 [70." in latex(found)


def test_columns_that_are_one_run_are_drawn_together():
    """Before, as with `--data world`, their average had the interval of independent columns."""
    run = MadeUp([0.0, 1.0] * 50)
    of = table("x", columns=SETS, averages=[BOTH])
    (row,) = scores(of, [Line(of.rows[0], "lm", [run, run])]).rows
    single, _, average = (value.ours for value in row.values)
    assert average.n == 100
    assert average.high - average.low == pytest.approx(single.high - single.low, abs=0.01)


def test_a_drop_is_of_the_questions_that_both_rows_answered_and_the_reference_has_none():
    of = table("ours", "other", columns=SETS, averages=[{**BOTH, "drop": True}], against="ours")
    ours, other = [MadeUp([1.0] * 40), MadeUp([0.5] * 40)], [MadeUp([0.0, 1.0] * 20, 10), MadeUp([0.25] * 40)]
    reference, row = scores(of, [Line(of.rows[0], "lm", ours), Line(of.rows[1], "lm", other)]).rows
    assert reference.values[2].ours is None
    assert row.values[2].ours.mean == pytest.approx((0.5 + 0.25) / 2)
    assert row.values[2].ours.n == 30 + 40
    assert row.values[2].ours.low > 0


def test_rows_of_an_lm_are_compared_with_its_student():
    """Before, a row was compared with one of the same LM alone, and a trained student is another."""
    of = table("trained", "prompted", against="trained")
    of = of.model_copy(update={"rows": (of.rows[0].model_copy(update={"role": "student"}), of.rows[1])})
    runs = [("student", [1.0] * 60), ("lm", [0.0, 1.0] * 30)]
    lines = [Line(row, lm, [MadeUp(own)]) for row, (lm, own) in zip(of.rows, runs, strict=True)]
    assert [row.values[0].p is None for row in scores(of, lines).rows] == [True, False]


def test_what_only_the_paper_has_is_printed_without_a_number_of_ours():
    assert needed("published[marks]") == ()
    stated = {label: [number, number] for label, number in (("a", 10.0), ("b", 20.0), ("c", 30.0))}
    of, run = table("a", "b", "c", metrics=["em", "published[marks]"], published=stated), MadeUp([1.0, 0.0])
    run.mean = lambda name: mean_of([None, None] if name.startswith("published") else [1.0, 0.0])
    found = scores(of, [Line(row, "lm", [run]) for row in of.rows])
    assert [(value.ours is None, value.stated) for value in found.rows[0].values] == [(False, 10.0), (True, 10.0)]
    assert [order.heading for order in found.orders] == [("Set", "em")]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"averages": [{**BOTH, "columns": ["A", "C"]}]}, "same metrics"),
        ({"columns": [SETS[0], {**SETS[1], "metrics": ["f1[hotpot]"]}]}, "same metrics"),
        ({"averages": [{**BOTH, "drop": True}]}, "needs 'against'"),
        ({"plot": "lines"}, "drawn as dots"),
    ],
)
def test_averages_that_cannot_be_are_refused(more, said):
    with pytest.raises(ValueError, match=said):
        table("x", **{"columns": SETS, "averages": [BOTH], **more})


def test_lines_are_drawn_where_a_data_set_has_no_numbers(tmp_path):
    """Before, the picture ended in an error: columns without numbers were left out of the rows, not of the panels."""
    vary = {"vary": {"k": [1, 2]}}
    columns = [{"label": "Missing", "data": "musique", **vary}, {"label": "Set", "data": "hotpotqa", **vary}]
    of = table("a", columns=columns, plot="lines")
    made = scores(of, [Line(of.rows[0], "lm", [None, None, MadeUp([1.0] * 40), MadeUp([0.0] * 40)])])
    assert len(made.headings) == 2
    assert (tmp_path / "-.png") in write_all(made, tmp_path, "verihop")


def test_a_drop_below_a_run_that_is_not_complete_is_marked():
    """Before, only the run of the row itself was looked at."""
    columns = [{"label": label, "data": "hotpotqa"} for label in "xy"]
    drop = {"label": "drop", "columns": ["x", "y"], "drop": True}
    of = table("a", "b", columns=columns, against="a", averages=[drop])
    half = MadeUp([1.0] * 40)
    half.complete = False
    whole = [MadeUp([0.0] * 40) for _ in "xyx"]
    made = scores(of, [Line(row, "lm", runs) for row, runs in zip(of.rows, ([half, whole[0]], whole[1:]), strict=True)])
    assert [value.complete for value in made.rows[1].values] == [True, True, False]
