"""Runs that contradict themselves: a check refuses them, a page shows them as before."""

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from experiments.analysis.boards import check_comparable, read_boards
from experiments.runs.calls import packed_calls
from optimizers.metrics.catalog import get_metric
from signatures.common.errors import UserError

Text = dict[str, Any]
METRICS = ["em", "f1[hotpot]", "passage_recall[all]", "uncited", "passage_recall[annotator]@5"]


@pytest.fixture
def rag(toy: ModuleType, tmp_path: Path) -> Path:
    folder = tmp_path / "set" / "rag"
    toy.run(toy.Toy(), toy.questions(8), connection=toy.link(toy.Engine()), folder=folder, metrics=METRICS)
    _run(folder, corpus={"fingerprint": "toy"})
    _keep_calls(folder)
    return folder


def _run(folder: Path, **values: Any) -> None:
    description = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**description, **values}))


def _row(folder: Path, change: Callable[[Text], Any], id: str = "id3") -> None:
    rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    for row in rows:
        if row["id"] == id:
            change(row)
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def _keep_calls(folder: Path, *more: Text) -> None:
    """Keep the call that made the row of one question, and one of a judge."""
    call = {"id": "id3", "repeat": 1, "messages": [], "prompt_tokens": 70, "completion_tokens": 5, "error": None}
    found = [call, {**call, "metric": "acc[judge]"}, *({**call, **each} for each in more)]
    (folder / "calls.jsonl.zst").write_bytes(packed_calls(("id3", 1), found))


def _again(folder: Path) -> None:
    lines = (folder / "rows.jsonl").read_text().splitlines(keepends=True)
    (folder / "rows.jsonl").write_text("".join([*lines, lines[0]]))


def _accuracy(folder: Path, score: float) -> None:
    definition = get_metric("acc[substring]").definition
    _run(folder, metrics={"acc[substring]": definition})
    for id in map("id{}".format, range(8)):
        _row(folder, lambda row: row.update(scores={"acc[substring]": row["scores"]["em"]}), id)
    _row(folder, lambda row: row["scores"].update({"acc[substring]": score}))


OTHER = r"ids, texts or golds of the questions in rows\.jsonl have the SHA-256 \w{16}, those that were asked \w{16}"
UNKNOWN = {"fingerprint": None}
INDEXED = {"fingerprint": "rerank20[links1:ab/3x10](multihop-d3e1192334689138-1-15ba25677b4b)"}
CONTRADICTIONS: dict[str, tuple[Callable[[Path], Any], str]] = {
    "a better score": (
        lambda folder: _row(folder, lambda row: row["scores"].update(em=1.0)),
        r"rag: em of question 'id3' is 1, but its row \(answer 'even', golds \['odd'\], 2 passages read\) scores 0: ",
    ),
    "a wrong answer without a score": (
        lambda folder: _row(folder, lambda row: row["scores"].update({"f1[hotpot]": None})),
        r"f1\[hotpot\] of question 'id3' is undefined, but .* scores 0",
    ),
    "a score of an answer that failed": (
        lambda folder: _row(folder, lambda row: row.update(error="Broken: x"), "id2"),
        r"em of question 'id2' is 1, but .* scores 0",
    ),
    "a better retrieval": (
        lambda folder: _row(folder, lambda row: row.update(passage_ids=["p2"]), "id3"),
        r"passage_recall\[all\] of question 'id3' is 1, but .* 1 passages read\) scores 0",
    ),
    "a worse score of which less is better": (
        lambda folder: _row(folder, lambda row: row["scores"].update(uncited=1.0)),
        r"uncited of question 'id3' is 1, but .* scores 0",
    ),
    "a score of hops that are none": (
        lambda folder: _row(folder, lambda row: row["hops"][0].update(match=3)),
        r"rows\.jsonl: question 'id3' cannot be scored again",
    ),
    "details that no number can be": (
        lambda folder: (
            _run(folder, metrics={"form[cov]": get_metric("form[cov]").definition}),
            _row(folder, lambda row: row.update(details={"verifications": [], "verification_failures": 1e999})),
        ),
        r"rows\.jsonl: question 'id3' cannot be scored again \(cannot convert float infinity",
    ),
    "fewer LM calls": (
        lambda folder: _row(folder, lambda row: row.update(calls=0)),
        r"calls of question 'id3' is 0, but its LM calls in calls\.jsonl\.zst have 1: restore",
    ),
    "more tokens": (
        lambda folder: _row(folder, lambda row: row.update(prompt_tokens=1000)),
        r"prompt_tokens of question 'id3' is 1,000, but .* have 70",
    ),
    "LM calls that are none": (
        lambda folder: _keep_calls(folder, {"settings": 5}),
        r"calls\.jsonl\.zst has calls of question 'id3' that cannot be counted",
    ),
    "a better accuracy": (
        lambda folder: _accuracy(folder, 1.0),
        r"acc\[substring\] of question 'id3' is 1, but .* scores 0",
    ),
    "a better score of an unknown answer": (
        lambda folder: _row(folder, lambda row: row.update(unknown=["answer"], scores={**row["scores"], "em": 1.0})),
        r"em of question 'id3' is 1, but .* scores 0",
    ),
    "another text": (lambda folder: _row(folder, lambda row: row.update(question="?")), OTHER),
    "another id": (lambda folder: _row(folder, lambda row: row.update(id="x")), OTHER),
    "another gold": (lambda folder: _row(folder, lambda row: row["answers"].append("uneven")), OTHER),
    "another gold passage": (lambda folder: _row(folder, lambda row: row.update(gold_ids=["p2"])), OTHER),
    "a row twice": (_again, r"row 9 of rows\.jsonl answers question 'id\d' again, although .*: delete the row"),
    "no command": (lambda folder: _run(folder, command=None), r"command of run\.json is null: put"),
    "an empty command": (lambda folder: _run(folder, command=" "), r'command of run\.json is " ": put'),
    "no corpus": (
        lambda folder: _run(folder, corpus={"fingerprint": None}),
        r"corpus\.fingerprint of run\.json is null",
    ),
    "no index": (lambda folder: _run(folder, corpus=INDEXED), r"index of run\.json is null, although answers rest on"),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_a_check_refuses_a_run_that_contradicts_itself(name: str, rag: Path) -> None:
    """Before, each of these passed."""
    check_comparable(read_boards([rag]))
    spoil, said = CONTRADICTIONS[name]
    spoil(rag)
    boards = read_boards([rag])
    with pytest.raises(UserError, match=said):
        check_comparable(boards)


def test_a_check_names_what_nothing_bears_out(rag: Path) -> None:
    """Before, nothing said that these scores and costs were not computed again."""
    lacking = "passage_recall[annotator]@5"
    assert check_comparable(read_boards([rag])) == [f"rag: Not computed again: {lacking}, LM calls and tokens."]
    definition = get_metric(lacking).definition
    _run(rag, metrics={"em": get_metric("em").definition})
    for number in range(8):
        kept = {"calls": 0, "prompt_tokens": 0, "completion_tokens": 0} if number != 3 else {}
        _row(rag, lambda row, kept=kept: row.update(kept), f"id{number}")
    assert check_comparable(read_boards([rag])) == []
    calls = rag / "calls.jsonl.zst"
    kept_calls = calls.read_bytes()
    calls.unlink()
    _row(rag, lambda row: row.update(calls=0, prompt_tokens=0, completion_tokens=0))
    assert check_comparable(read_boards([rag])) == ["rag: Not computed again: LM calls and tokens."]  # passed before
    calls.write_bytes(kept_calls)
    _row(rag, lambda row: row.update(calls=1, prompt_tokens=70, completion_tokens=5))
    _run(rag, metrics={"em": "By another code.", lacking: definition})
    assert check_comparable(read_boards([rag])) == [f"rag: Not computed again: em, {lacking}."]


def test_a_call_that_failed_may_not_have_been_sent(rag: Path) -> None:
    for calls in (1, 4):
        _keep_calls(rag, {"error": "Broken: x", "settings": {"n": 3}, "prompt_tokens": 0, "completion_tokens": 0})
        _row(rag, lambda row, calls=calls: row.update(calls=calls))
        check_comparable(read_boards([rag]))


def test_what_a_run_may_say_is_not_refused(rag: Path) -> None:
    failed = json.loads((rag / "rows.jsonl").read_text().splitlines()[0])
    rows = json.dumps({**failed, "error": "Broken: x"}) + "\n" + (rag / "rows.jsonl").read_text()
    (rag / "rows.jsonl").write_text(rows)  # resumed: that question was asked again
    _run(
        rag,
        command=None,
        merged={"parts": [{"command": "verihop eval q"}]},
        given={"n": 5},
        corpus={"fingerprint": None},
    )
    check_comparable(read_boards([rag]))


@pytest.mark.parametrize("judged", ["acc[judge]", "revised_question[cov]"])
def test_an_answer_that_the_judge_could_not_decide_keeps_its_other_scores(judged: str, rag: Path) -> None:
    """Before, the check refused the run: its error was taken for one of the program, which scores 0."""
    _row(rag, lambda row: row.update(error="LMUnavailable: x", scores={**row["scores"], judged: None}), "id2")
    check_comparable(read_boards([rag]))


def test_scores_by_other_golds_or_definitions_are_not_computed_again(rag: Path) -> None:
    _row(rag, lambda row: row["scores"].update(em=1.0))
    metrics = json.loads((rag / "run.json").read_text())["metrics"]
    _run(rag, metrics={**metrics, "em": "By another code."})
    check_comparable(read_boards([rag]))
    _run(rag, metrics=metrics, scored=[{"replaced": {"em": "Earlier."}, "questions_file_sha256": "other"}])
    check_comparable(read_boards([rag]))
