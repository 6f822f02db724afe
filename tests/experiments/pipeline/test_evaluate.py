import errno
import json
import os
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import dspy
import pytest

from experiments.runs.files import read_json, read_rows
from signatures.common.errors import UserError

METRICS = ["f1[hotpot]", "em", "passage_recall@2"]


def run(toy: ModuleType, folder: Path, engine: Any, n: int = 6, **options: Any) -> Any:
    options = {"threads": 2, "progress": False, "metrics": METRICS, **options}
    asked = options.pop("asked", toy.questions(n))
    return toy.run(options.pop("program", toy.Toy()), asked, connection=toy.link(engine), folder=folder, **options)


def failing_on(*words: str, error: type[BaseException] = RuntimeError) -> Any:
    def before(prompt: str) -> None:
        if any(f"\n{word}\n" in prompt for word in words):
            raise error(f"no answer to {words}")

    return before


def test_every_question_gets_a_row_with_prediction_scores_and_cost(toy, tmp_path):
    run(toy, tmp_path / "run", toy.Engine(), n=2, threads=1)
    row, other = read_rows(tmp_path / "run")
    assert (row["id"], row["answer"], row["response"], row["error"]) == ("id0", "even", "even [1]", None)
    assert row["scores"] == {"f1[hotpot]": 1.0, "em": 1.0, "passage_recall@2": 1.0}
    assert other["scores"]["em"] == 0.0
    assert row["hops"][0]["evidence"] == "quoted"
    assert (row["passage_ids"], row["citations"]) == (["p1", "p2"], ["p1"])
    assert row["cited_passages"] == [{"id": "p1", "title": "Title 1", "text": "Text <b>1</b>"}]
    assert (row["calls"], row["prompt_tokens"], row["completion_tokens"], row["rounds"]) == (1, 70, 5, 1)
    assert row["seconds"] >= 0


def test_the_summary_has_means_with_n_and_interval_and_is_on_disk(toy, tmp_path):
    summary = run(toy, tmp_path / "run", toy.Engine(), n=40, threads=8)
    em = summary.metrics["em"]
    assert (em.mean, em.n, em.undefined, summary.complete) == (0.5, 40, 0, True)
    assert em.low < 0.5 < em.high
    assert summary.costs["lm_calls"].mean == 1.0
    assert summary.notice.startswith("Closed book could explain f1[hotpot]")  # half of the answers are "even"
    assert summary.stopped is None
    assert read_json(tmp_path / "run" / "summary.json") == json.loads(json.dumps(summary.as_dict()))


def test_run_json_says_what_was_run(toy, tmp_path):
    run(toy, tmp_path / "run", toy.Engine(), program=toy.Toy(k=3))
    said = read_json(tmp_path / "run" / "run.json")
    assert said["program"]["name"] == "Toy"
    assert said["program"]["knobs"] == {"k": 3}
    assert said["lm"]["id"] == "scripted"
    assert said["lm"]["settings"] == {"temperature": 0.0, "max_tokens": 64}
    assert set(said["metrics"]) == set(METRICS)
    assert said["questions"]["n"] == 6
    assert said["versions"]["dspy"] == dspy.__version__


def test_an_error_scores_zero_and_is_counted_and_the_others_go_on(toy, tmp_path):
    summary = run(toy, tmp_path / "run", toy.Engine(failing_on("q2", "q4")))
    assert summary.errors == 2
    assert summary.abstentions == 0
    assert summary.metrics["em"].mean == pytest.approx(1 / 6)
    assert summary.metrics["passage_recall@2"].mean == pytest.approx(4 / 6)
    failed = [row for row in read_rows(tmp_path / "run") if row["error"]]
    assert {row["id"] for row in failed} == {"id2", "id4"}
    assert "no answer to" in failed[0]["error"]
    assert failed[0]["scores"]["em"] == 0.0


def test_a_question_without_gold_is_undefined_even_when_it_fails(toy, tmp_path):
    asked = [toy.Asked(id="a", question="qa"), toy.Asked(id="b", question="qb"), *toy.questions(1)]
    summary = toy.run(
        toy.Toy(),
        asked,
        connection=toy.link(toy.Engine(failing_on("qa"))),
        metrics=METRICS,
        folder=tmp_path / "run",
        progress=False,
    )
    assert (summary.metrics["em"].n, summary.metrics["em"].undefined) == (1, 2)


def test_resume_asks_only_what_is_missing_or_failed(toy, tmp_path):
    run(toy, tmp_path / "run", toy.Engine(failing_on("q1")))
    engine = toy.Engine()
    summary = run(toy, tmp_path / "run", engine, resume=True)
    assert engine.calls == 1
    assert (summary.errors, summary.answered, summary.complete) == (0, 6, True)
    assert len(read_json(tmp_path / "run" / "run.json")["resumed"]) == 1
    again = toy.Engine()
    assert run(toy, tmp_path / "run", again, resume=True).complete
    assert again.calls == 0


def test_a_folder_with_rows_is_not_overwritten_without_resume(toy, tmp_path):
    run(toy, tmp_path / "run", toy.Engine())
    with pytest.raises(UserError, match="already contains a run. Resume it"):
        run(toy, tmp_path / "run", toy.Engine())


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"program": 3}, "program.knobs.k was 2 and is now 3"),
        ({"n": 7}, "questions.n"),
        ({"metrics": ["em"]}, "metrics."),
    ],
)
def test_resuming_something_else_is_refused_with_the_field(toy, tmp_path, change, field):
    run(toy, tmp_path / "run", toy.Engine())
    if "program" in change:
        change = {"program": toy.Toy(k=change["program"])}
    with pytest.raises(UserError, match=field):
        run(toy, tmp_path / "run", toy.Engine(), resume=True, **change)


@pytest.mark.parametrize(
    ("place", "change", "said"),
    [
        (0, {"question": "q-0"}, "question of 'id0' was 'q0' and is now 'q-0'. Restore the file of the questions"),
        (0, {"answers": ["odd", "1"]}, r"answers of 'id0' was \['even'\] and is now \['odd', '1'\]"),
        (0, {"id": "other"}, "question 'id0' has an answer but is no longer asked"),
        (5, {"question": "q-5"}, "what differs is a question without an answer so far"),
    ],
)
def test_questions_that_changed_since_are_named_and_another_order_is_none(toy, tmp_path, place, change, said):
    run(toy, tmp_path / "run", toy.Engine(failing_on("q3", error=Spent)), threads=1)
    asked = toy.questions(6)
    asked[place] = asked[place].model_copy(update=change)
    with pytest.raises(UserError, match=said):
        run(toy, tmp_path / "run", toy.Engine(), resume=True, asked=asked)
    assert run(toy, tmp_path / "run", toy.Engine(), resume=True, asked=toy.questions(6)[::-1]).complete


class Spent(BaseException):
    """As a budget raises it."""


def test_a_spent_budget_stops_cleanly_and_keeps_what_is_done(toy, tmp_path):
    summary = run(toy, tmp_path / "run", toy.Engine(failing_on("q3", error=Spent)), threads=1)
    assert summary.answered == 3
    assert "Spent: no answer" in summary.stopped
    assert not summary.complete
    assert "3 of 6 questions are not answered yet" in summary.notice
    assert run(toy, tmp_path / "run", toy.Engine(), threads=1, resume=True).complete


def test_ctrl_c_keeps_what_is_done_and_says_how_much(toy, tmp_path, capsys, monkeypatch):
    from experiments.runs.files import RowLog

    append, count = RowLog.append, iter(range(100))

    def interrupted(log: RowLog, row: dict[str, Any]) -> None:
        append(log, row)
        if next(count) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(RowLog, "append", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(toy, tmp_path / "run", toy.Engine(), n=50, progress=True)
    kept = read_rows(tmp_path / "run")
    assert 2 <= len(kept) < 50
    said = capsys.readouterr()
    assert f"{len(kept)} of 50 are kept" in said.err
    assert said.out == ""
    assert read_json(tmp_path / "run" / "summary.json")["stopped"] == "interrupted by Ctrl-C"


def test_an_lm_that_is_not_there_is_one_error_and_leaves_no_files(toy, tmp_path):
    def refuse(prompt: str) -> None:
        raise UserError("No server at http://127.0.0.1:1. Start it.")

    with pytest.raises(UserError, match="No server at"):
        run(toy, tmp_path / "run", toy.Engine(refuse))
    assert not (tmp_path / "run").exists()


def test_an_lm_that_goes_away_for_good_stops_the_run(toy, tmp_path):
    lock, asked = threading.Lock(), iter(range(1000))

    def leave(prompt: str) -> None:
        with lock:
            if next(asked) >= 3:
                raise UserError("The server went away.")

    engine = toy.Engine(leave)
    with pytest.raises(UserError, match="went away"):
        run(toy, tmp_path / "run", engine, n=50, threads=1)
    assert engine.calls < 10
    assert sum(row["error"] is None for row in read_rows(tmp_path / "run")) == 3


def test_progress_goes_to_stderr_with_estimate_and_running_score(toy, tmp_path, capsys):
    run(toy, tmp_path / "run", toy.Engine(), progress=True)
    said = capsys.readouterr()
    assert said.out == ""
    assert "6 questions: at most 6 LM calls" in said.err


@pytest.mark.parametrize(
    ("asked", "options", "message"),
    [
        (0, {}, "no questions"),
        (2, {"threads": 0}, "threads must be at least 1, got 0"),
        (2, {"metrics": ["f1"]}, "Unknown metric 'f1'"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_written(toy, tmp_path, asked, options, message):
    with pytest.raises(UserError, match=message):
        run(toy, tmp_path / "run", toy.Engine(), n=asked, **options)
    assert not (tmp_path / "run").exists()


def test_a_repeated_id_is_refused(toy, tmp_path):
    with pytest.raises(UserError, match="Two questions have the id 'id0'"):
        toy.run(
            toy.Toy(),
            toy.questions(1) * 2,
            connection=toy.link(toy.Engine()),
            metrics=["em"],
            folder=tmp_path / "run",
            progress=False,
        )


def test_eight_threads_give_the_same_rows_as_one(toy, tmp_path):
    summaries = [run(toy, tmp_path / str(threads), toy.Engine(), n=30, threads=threads) for threads in (1, 8)]
    assert summaries[0].metrics == summaries[1].metrics
    one, eight = (
        {row["id"]: {**row, "seconds": 0} for row in read_rows(tmp_path / str(threads))} for threads in (1, 8)
    )
    assert one == eight


def test_a_metric_that_cannot_score_is_our_fault_and_is_raised(toy, tmp_path):
    from optimizers.metrics.catalog import Metric

    def broken(example: Any, prediction: Any) -> float:
        raise ZeroDivisionError("no")

    with pytest.raises(ZeroDivisionError):
        run(toy, tmp_path / "run", toy.Engine(), metrics=[Metric("broken", "Broken.", broken, "https://x")])


def test_a_full_disk_is_one_line_and_the_rows_before_it_are_whole(toy, tmp_path, monkeypatch):
    fsync, count = os.fsync, iter(range(100))

    def full(descriptor: int) -> None:
        if next(count) == 4:  # the first is of run.json
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    monkeypatch.setattr("experiments.pipeline.evaluate.SYNC_SECONDS", 0.0)
    with pytest.raises(UserError, match=r"rows\.jsonl cannot be written \(No space left on device\)"):
        run(toy, tmp_path / "run", toy.Engine(), threads=1)
    assert len(read_rows(tmp_path / "run")) >= 3
    assert run(toy, tmp_path / "run", toy.Engine(), threads=1, resume=True).complete


def test_a_folder_that_cannot_be_made_is_one_line(toy, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UserError, match="cannot be written"):
        run(toy, tmp_path / "file" / "run", toy.Engine())


def test_a_run_that_is_being_written_is_closed_to_others(toy, tmp_path):
    from experiments.runs.files import run_lock

    run(toy, tmp_path / "run", toy.Engine(), n=2)
    with run_lock(tmp_path / "run"), pytest.raises(UserError, match="Another process is writing the run"):
        run(toy, tmp_path / "run", toy.Engine(), n=2, resume=True)
    assert run(toy, tmp_path / "run", toy.Engine(), n=2, resume=True).complete
    assert not (tmp_path / "run" / "run.lock").exists()


def test_another_model_behind_the_same_id_is_another_run(toy, tmp_path):
    def at(model: str) -> Any:
        lm = dspy.LM(model, engine=toy.Engine(), cache=False, temperature=0.0)
        return toy.Link(lm, dspy.ChatAdapter(use_json_adapter_fallback=False))

    settings: dict[str, Any] = {"metrics": ["em"], "folder": tmp_path / "run", "progress": False}
    toy.run(toy.Toy(), toy.questions(2), connection=at("server-a/m"), **settings)
    with pytest.raises(UserError, match="lm.model was 'server-a/m' and is now 'server-b/m'"):
        toy.run(toy.Toy(), toy.questions(2), connection=at("server-b/m"), resume=True, **settings)
