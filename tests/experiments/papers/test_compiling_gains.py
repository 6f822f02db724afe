import json
import random
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from corpora.questions import Question
from experiments.papers.compiling import gains
from experiments.papers.compiling.gains import (
    FAULTS,
    FILE,
    METRIC,
    ROWS_FILE,
    SHARES,
    SIZES,
    SPLITS,
    ComparedRows,
    Key,
    Record,
    Records,
    app,
    as_text,
    divide,
    draw_rows,
    table,
    write_table,
)
from experiments.papers.compiling.rows import DEFAULT, NARROWED, PRESET, ROWS
from optimizers.tuning.space import knob_space
from programs.catalog import build
from programs.lms.connect import Connection
from signatures.common.errors import UserError

RESULTS = Path(__file__).parents[3] / "experiments" / "results"
F1 = {DEFAULT: [0.0, 0.5, 1.0, 0.0], "joint": [1.0, 1.0, 1.0, 0.0], "bootstrap": [0.0, 0.0, 1.0, 0.0]}


def recorded(row, seed=0, scores=None, **changed):
    scores = F1[row] if scores is None else scores
    answers = {
        METRIC: scores,
        "em": [float(score == 1) for score in scores],
        "passage_recall@5": [None] * len(scores),
        "calls": [1.0] * len(scores),
        "tokens": [100.0 + 50 * len(row)] * len(scores),
    }
    values = {
        **Key("embedded", "rag", row, seed)._asdict(),
        "made_with": {"calls": 10, "questions": {"test": {"n": len(scores)}}},
        "session": {"git_revision": "abc"},
        "spent": {"calls": 10.0, "tokens": 1000.0},
        "seconds": 1.0,
        "artifact": None,
        "answers": answers,
        "faults": dict.fromkeys(FAULTS, 0),
    }
    return Record(**{**values, **changed})


@pytest.fixture
def records(tmp_path):
    """Two seeds of the default, one of the others."""
    records = Records(tmp_path / "results" / ROWS_FILE)
    for row in F1:
        records.add(recorded(row))
    records.add(recorded(DEFAULT, seed=1))
    return records


def test_rows_are_compared_on_the_same_questions(records):
    rows = table(records.groups()["embedded", "rag"])
    assert list(rows) == [row for row in ROWS if row in F1]
    assert rows["joint"][METRIC]["mean"] == 0.75
    assert rows["joint"]["against default"]["difference"] == pytest.approx(0.375)
    assert rows["bootstrap"]["against joint"]["difference"] == pytest.approx(-0.5)
    assert "against default" not in rows[DEFAULT]
    assert list(rows[DEFAULT]["per_seed"]) == ["0", "1"]
    assert rows[DEFAULT]["passage_recall@5"] is None


def test_a_question_counts_with_the_mean_of_the_seeds(records):
    records.add(recorded("joint", seed=1, scores=[0.0, 1.0, 0.0, 0.0]))
    joint = table(records.groups()["embedded", "rag"])["joint"]
    assert joint[METRIC]["mean"] == pytest.approx((0.5 + 1 + 0.5 + 0) / 4)
    assert [seed[METRIC] for seed in joint["per_seed"].values()] == [0.75, 0.25]


def test_rows_that_answer_alike_differ_by_nothing(tmp_path):
    scores = [2 / 3, 0.2857, 0.1818, 0.4, 0.0952] * 20
    records = Records(tmp_path / ROWS_FILE)
    for seed in range(3):
        records.add(recorded(DEFAULT, seed, [round(score, 4) for score in scores]))
    records.add(recorded("joint", 0, [round(score, 4) for score in scores]))
    gained = table(records.groups()["embedded", "rag"])["joint"]["against default"]
    assert (gained["difference"], gained["low"], gained["high"]) == (0, 0, 0)


def test_the_table_states_scores_differences_costs_and_faults(records, tmp_path):
    records.add(recorded("bootstrap", seed=1, faults={**dict.fromkeys(FAULTS, 0), "parse_failures": 2}))
    lines = as_text("rag", write_table(records, tmp_path)["rag"]).splitlines()
    joint = next(line for line in lines if line.startswith("joint study"))
    assert joint.split()[2] == "75.0"
    assert "+37.5" in joint
    assert next(line for line in lines if line.startswith("default")).endswith("  37.5 37.5")
    assert next(line for line in lines if line.startswith("bootstrap")).endswith("  25.0 25.0, 2 parse failures")


def test_table_and_plot_are_made_from_the_records_alone(records, monkeypatch):
    folder = records.path.parent
    write_table(records, folder)
    before = (folder / FILE).read_text()
    assert (folder / FILE).with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    (folder / FILE).unlink()
    monkeypatch.setattr(gains, "_comparisons", lambda *_: pytest.fail("no questions and no LM are needed"))
    found = CliRunner().invoke(app, ["--only-table", "--results", str(folder)])
    assert found.exit_code == 0, found.output
    assert "joint study" in found.output
    assert (folder / FILE).read_text() == before


def test_without_the_default_nothing_is_drawn_as_no_gain(tmp_path):
    from matplotlib.figure import Figure

    axes, price = Figure().subplots(1, 2)
    rows = {row: [recorded(row)] for row in ("joint", "bootstrap")}
    draw_rows(axes, price, table({row: dict(enumerate(found)) for row, found in rows.items()}))
    assert axes.containers == price.containers == []
    assert axes.texts[0].get_text() == "default not measured yet"


@pytest.mark.slow
def test_the_committed_table_is_that_of_the_committed_records(tmp_path):
    write_table(Records(RESULTS / ROWS_FILE), tmp_path)
    made, committed = (
        json.loads((folder / FILE).read_text(), parse_float=lambda text: round(float(text), 12))
        for folder in (tmp_path, RESULTS)
    )
    assert made == committed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only-table"], "has no records of rows"),
        (["--seeds", "0,one"], "'0,one' are not seeds"),
        (["--seeds", "-1"], "'-1' are not seeds"),
    ],
)
def test_what_cannot_be_done_is_said(arguments, message, tmp_path):
    found = CliRunner().invoke(app, ["--results", str(tmp_path), "--data", str(tmp_path), *arguments])
    assert isinstance(found.exception, UserError)
    assert message in str(found.exception)
    assert list(tmp_path.iterdir()) == []


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
    records = Records(tmp_path / ROWS_FILE)
    return engine, ComparedRows("rag", build("rag", retriever), splits, connection, 30, records, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("row", [DEFAULT, "bootstrap", "random_search", "prompts_then_knobs", "joint", "random_knobs"])
def test_a_row_is_made_and_asked_once(comparison, row, tmp_path):
    engine, of = comparison
    record = of.measure(row, 0)
    assert [len(values) for values in record.answers.values()] == [3] * 5
    assert record.answers[METRIC] == [1.0] * 3
    assert (record.artifact is None) == (row == DEFAULT)
    assert record.spent["calls"] <= of.budget
    asked = len(engine.requests)
    elsewhere = replace(of, records=Records(of.records.path), folder=tmp_path / "elsewhere")
    assert elsewhere.measure(row, 0) == record
    assert len(engine.requests) == asked


@pytest.mark.slow
def test_a_study_says_why_it_ended_and_after_how_many_trials(comparison):
    _, of = comparison
    artifact = of.measure("random_knobs", 0).artifact
    assert artifact["trials"]["complete"] > 0
    assert artifact["stopped"] is None or "budget" in artifact["stopped"]
    assert artifact["demonstrations"] == {"reading": 0}


def test_rows_of_other_settings_are_refused_before_any_call(comparison):
    engine, of = comparison
    of.measure("bootstrap", 0)
    asked = len(engine.requests)
    with pytest.raises(UserError, match=r"was made with other settings \(calls was 30 and is now 31\)"):
        replace(of, budget=31).measure("joint", 0)
    fewer = {**of.splits, "dev": of.splits["dev"][:3]}
    with pytest.raises(UserError, match=r"was made with other settings \(questions\.dev"):
        replace(of, splits=fewer).measure("bootstrap", 0)
    assert len(engine.requests) == asked


def test_a_made_row_is_asked_later_and_refused_with_other_settings(comparison, monkeypatch):
    _, of = comparison

    def stopped(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ComparedRows, "_ask", stopped)
        with pytest.raises(KeyboardInterrupt):
            of.measure("bootstrap", 0)
    with pytest.raises(UserError, match=r"bootstrap/0 was made with other settings \(calls was 30 and is now 31\)"):
        replace(of, budget=31).measure("bootstrap", 0)
    monkeypatch.setattr(gains, "make", stopped)  # it is made
    assert of.measure("bootstrap", 0).answers[METRIC] == [1.0] * 3


def test_a_row_is_made_by_one_process(comparison):
    from signatures.common.files import exclusive_lock

    _, of = comparison
    with (
        exclusive_lock(of.folder / "bootstrap" / ".0.lock", "busy"),
        pytest.raises(UserError, match="Another process is making scripted, rag, bootstrap, seed 0"),
    ):
        of.measure("bootstrap", 0)


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
        patch.setattr(gains, "make", stopped)
        with pytest.raises(KeyboardInterrupt):
            of.measure("bootstrap", 0)
    of.measure("bootstrap", 0)
    assert not (of.folder / "bootstrap" / "0" / "half").exists()


def by_set(extra=5):
    return {
        name: [
            Question(id=f"{name}-{n}", question=f"What is {name} {n}?", split="dev")
            for n in range(sum(shares.values()) + extra)
        ]
        for name, shares in SHARES.items()
    }


def test_splits_have_their_shares_and_no_question_twice():
    splits = divide(by_set())
    assert {split: len(found) for split, found in splits.items()} == {
        split: sum(shares[split] for shares in SHARES.values()) for split in SPLITS
    }
    ids = [question.id for found in splits.values() for question in found]
    assert len(ids) == len(set(ids))
    assert all(question.split == split for split, found in splits.items() for question in found)


def test_splits_do_not_depend_on_the_order_of_the_files():
    given = by_set()
    shuffled = {name: random.Random(1).sample(questions, len(questions)) for name, questions in given.items()}
    assert divide(given) == divide(shuffled)


def test_questions_for_scoring_alone_are_tested_on_and_never_compiled_with():
    given = by_set()
    given["musique"] = [
        each.model_copy(update={"split": "train" if place < 30 else "dev"})
        for place, each in enumerate(given["musique"])
    ]
    held_back = {each.id for each in given["musique"][:30]}
    splits = divide(given)
    for split in ("train", "dev"):
        assert {each.id for each in splits[split] if each.id.startswith("musique")} <= held_back
    assert sum(each.id.startswith("musique") for each in splits["test"]) == SHARES["musique"]["test"]


def test_the_first_test_questions_are_of_all_sets():
    first = divide(by_set())["test"][:100]
    assert {question.id.rsplit("-", 1)[0] for question in first} == set(SHARES)


def test_a_set_that_is_too_small_is_refused():
    few = by_set()
    few["musique"] = few["musique"][:74]
    with pytest.raises(UserError, match="musique has 74 questions here; the comparison takes 75"):
        divide(few)
