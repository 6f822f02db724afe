from dataclasses import replace

import pytest

from experiments.papers.compiling import runs
from experiments.papers.compiling.gains import PRESET, SIZES
from experiments.papers.compiling.gains_table import as_text, draw, table
from experiments.papers.compiling.rows import DEFAULT, NARROWED, ROWS
from experiments.papers.compiling.runs import METRIC, Comparison, per_question
from optimizers.tuning.space import knob_space
from programs.catalog import build
from programs.lms.connect import Connection
from signatures.common.errors import UserError

F1 = {DEFAULT: [0.0, 0.5, 1.0, 0.0], "joint": [1.0, 1.0, 1.0, 0.0], "bootstrap": [0.0, 0.0, 1.0, 0.0]}


def answered(score, tokens):
    counts = {"calls": 1, "prompt_tokens": tokens, "completion_tokens": 0, "cached_tokens": 0, "truncated": 0}
    return {"scores": {METRIC: score, "em": float(score == 1)}, "error": None, **counts}


class Finished:
    """Rows that are there: two seeds of the default, one of the others."""

    def finished(self, row, seed):
        return row in F1 and seed < (2 if row == DEFAULT else 1)

    def rows(self, row, seed):
        return [answered(score, 100 + 50 * len(row)) for score in F1[row]]

    def made(self, row, seed):
        return {"artifact": None, "spent": {"calls": 10}}


@pytest.fixture
def record():
    return {"questions": {"test": 4}, "rows": table(Finished(), seeds=3)}


def test_rows_are_compared_on_the_same_questions(record):
    rows = record["rows"]
    assert list(rows) == [row for row in ROWS if row in F1]
    assert rows["joint"][METRIC]["mean"] == 0.75
    assert rows["joint"]["against default"]["difference"] == pytest.approx(0.375)
    assert rows["bootstrap"]["against joint"]["difference"] == pytest.approx(-0.5)
    assert "against default" not in rows[DEFAULT]
    assert list(rows[DEFAULT]["seeds"]) == ["0", "1"]


def test_the_table_states_scores_differences_and_costs(record):
    lines = as_text("rag", record).splitlines()
    joint = next(line for line in lines if line.startswith("joint study"))
    assert joint.split()[2] == "75.0"
    assert "+37.5" in joint
    assert len({len(line) for line in lines[2:]}) == 1


def test_the_plot_is_a_picture(record, tmp_path):
    path = draw({"rag": record, "cov_rag": record}, tmp_path / "gains.png")
    assert path.read_bytes().startswith(b"\x89PNG")


def test_a_value_per_question_is_the_mean_of_the_seeds():
    rows = [[answered(1.0, 1), answered(None, 1)], [answered(0.0, 1), answered(None, 1)]]
    assert per_question(rows, lambda row: row["scores"][METRIC]) == [0.5, None]


@pytest.fixture
def comparison(scripted, retriever, tmp_path):
    import dspy

    from corpora.questions import Question

    def questions(split, number):
        named = [(f"{split}{n}", f"What is {split} number {n}?") for n in range(number)]
        return [Question(id=id, question=text, answers=["fog"], gold_ids=["p1"], split=split) for id, text in named]

    engine = scripted(lambda system, user: {"answer": "fog"}, cache=True)
    connection = Connection("scripted", dspy.settings.lm, dspy.settings.adapter, None, "samples")
    splits = {"train": questions("train", 4), "dev": questions("dev", 4), "test": questions("test", 3)}
    student = build("rag", retriever)
    return engine, Comparison("rag", student, splits, splits["test"], connection, 30, tmp_path)


@pytest.mark.parametrize("row", [DEFAULT, "bootstrap", "random_search", "prompts_then_knobs", "joint", "random_knobs"])
def test_a_row_is_made_and_asked_once(comparison, row):
    engine, of = comparison
    rows = of.rows(row, 0)
    assert [answered["id"] for answered in rows] == ["test0", "test1", "test2"]
    assert of.finished(row, 0)
    record, asked = of.made(row, 0), len(engine.requests)
    assert (record["artifact"] is None) == (row == DEFAULT)
    assert record["spent"]["calls"] <= of.budget
    assert of.rows(row, 0) == rows
    assert len(engine.requests) == asked


def test_a_row_that_was_made_with_other_settings_is_refused(comparison):
    _, of = comparison
    of.made("bootstrap", 0)
    with pytest.raises(UserError, match="was made with other settings: delete it"):
        replace(of, budget=31).made("bootstrap", 0)
    fewer = {**of.splits, "dev": of.splits["dev"][:3]}
    with pytest.raises(UserError, match="was made with other settings"):
        replace(of, splits=fewer).rows("bootstrap", 0)


@pytest.mark.parametrize("program", list(SIZES))
def test_a_program_starts_within_the_values_that_are_searched(program, retriever):
    student = build(program, retriever, preset=PRESET)
    space = knob_space(student, searched=None, narrowed=NARROWED[program])
    assert {dimension.name for dimension in space.dimensions} >= set(NARROWED[program])


def test_a_row_that_was_stopped_is_made_anew(comparison, monkeypatch):
    _, of = comparison

    def stopped(row, work):
        (work.folder / "half").mkdir()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(runs, "make", stopped)
        with pytest.raises(KeyboardInterrupt):
            of.made("bootstrap", 0)
    assert not of.finished("bootstrap", 0)
    of.made("bootstrap", 0)
    assert not (of.folder / "bootstrap" / "0" / "half").exists()
