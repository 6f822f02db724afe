"""The majority of runs: answers, scores and costs are those of the ensemble of their programs."""

import json
import shutil

import pytest

from experiments.analysis.boards import read_boards
from experiments.pipeline.merging.vote import vote
from experiments.runs.files import read_rows, read_run
from programs.catalog import build
from programs.ensemble import Ensemble
from programs.lms.adapter import JsonForm
from programs.lms.calls.metered import metered_lm
from programs.lms.connect import Connection
from signatures.common.errors import UserError
from signatures.types import Passage
from tests.conftest import ListRetriever, ScriptedEngine
from tests.experiments import toy

METRICS = ("em", "f1[hotpot]")
PASSAGES = [Passage(id=f"p{place}", text=f"The answer is odd {place}.") for place in range(3)]
COSTS = ("calls", "prompt_tokens", "completion_tokens", "parse_failures", "rounds")


def link():
    """Return an LM whose answers depend on the prompt, and which abstains now and then."""

    def reply(system, user):
        number = sum(map(ord, user))
        return {"reasoning": "so", "query": f"harbour {number % 5}", "answer": ["odd", "even", "", "odd"][number % 4]}

    return Connection(
        "scripted", metered_lm("scripted/vote", engine=ScriptedEngine(reply), cache=False), JsonForm(), None, "samples"
    )


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Runs of three programs and of their ensemble, by name."""
    folder, retrieve = tmp_path_factory.mktemp("runs"), ListRetriever(PASSAGES)
    programs = {
        "cot": build("cot"),
        "rag": build("rag", retrieve, k=2),
        "multihop": build("multihop", retrieve, k=2),
    }
    made = {**programs, "live": Ensemble(list(programs.values()))}
    for name, program in made.items():
        toy.run(program, toy.questions(30), connection=link(), folder=folder / name, metrics=METRICS)
        if name != "live":
            run = json.loads((folder / name / "run.json").read_text())
            run["program"]["name"] = name
            (folder / name / "run.json").write_text(json.dumps(run))
    return folder


def rows_of(folder):
    return {row["id"]: row for row in read_rows(folder)}


def test_runs_vote_as_the_ensemble_of_their_programs_does(runs, tmp_path):
    summary = vote([runs / name for name in ("cot", "rag", "multihop")], tmp_path / "voted")
    voted, live = rows_of(tmp_path / "voted"), rows_of(runs / "live")
    assert len({row["details"]["member"] for row in voted.values()}) > 1
    assert any(not row["abstained"] for row in live.values())
    for id, row in live.items():
        own = voted[id]
        assert (own["answer"], own["abstained"], own["scores"]) == (row["answer"], row["abstained"], row["scores"])
        assert own["passage_ids"] == row["passage_ids"]
        assert {name: own[name] for name in COSTS} == {name: row[name] for name in COSTS}
        assert own["details"]["answers"] == row["details"]["answers"]
        assert own["details"]["agreement"] == row["details"]["agreement"]
    assert summary.answered == len(live)
    assert read_run(tmp_path / "voted")["program"]["knobs"] == {"members": "cot, rag, multihop"}


def test_of_equal_votes_the_earliest_run_is_taken(runs, tmp_path):
    for first, second in (("cot", "rag"), ("rag", "cot")):
        vote([runs / first, runs / second], out := tmp_path / first)
        own, others = rows_of(runs / first), rows_of(runs / second)
        for id, row in rows_of(out).items():
            kept = second if own[id]["abstained"] and not others[id]["abstained"] else first
            assert row["details"]["member"] == kept


def test_fixed_contexts_and_unreadable_replies_are_those_of_the_runs(runs, tmp_path):
    given = {"knowledge": "complete", "n": 2, "seed": 0, "sha256": "0" * 64}
    for name in ("cot", "rag"):
        (tmp_path / name).mkdir()
        run = json.loads((runs / name / "run.json").read_text()) | {"given": given}
        (tmp_path / name / "run.json").write_text(json.dumps(run))
        rows = read_rows(runs / name)
        rows[0]["unreadable"] = "what cannot be read" if name == "rag" else None
        (tmp_path / name / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    vote([tmp_path / "cot", tmp_path / "rag"], tmp_path / "voted")
    assert read_run(tmp_path / "voted")["given"] == given
    assert rows_of(tmp_path / "voted")[rows[0]["id"]]["unreadable"] == "what cannot be read"


def test_a_vote_keeps_the_notes_of_its_runs_and_what_scored_them_and_names_no_artifact(runs, tmp_path):
    scored = [{"added": ["em"], "questions_file_sha256": "0" * 64}]
    for name in ("cot", "rag"):
        (tmp_path / name).mkdir()
        run = json.loads((runs / name / "run.json").read_text()) | {"scored": scored}
        run["paths"]["artifact"] = f"artifacts/{name}"
        run |= {"notes": ["4 of 30 questions are in its demonstrations."]} if name == "rag" else {}
        (tmp_path / name / "run.json").write_text(json.dumps(run))
        (tmp_path / name / "rows.jsonl").write_bytes((runs / name / "rows.jsonl").read_bytes())
    vote([tmp_path / "cot", tmp_path / "rag"], tmp_path / "voted")
    found = read_run(tmp_path / "voted")
    assert found["notes"] == ["rag: 4 of 30 questions are in its demonstrations."]
    assert (found["scored"], found["paths"]["artifact"]) == (scored, None)
    assert not read_boards([tmp_path / "cot", tmp_path / "voted"])[0].differences


def test_an_error_of_one_run_is_an_error_of_the_vote(runs, tmp_path):
    folder = tmp_path / "broken"
    folder.mkdir()
    (folder / "run.json").write_bytes((runs / "cot" / "run.json").read_bytes())
    broken = read_rows(runs / "cot")
    broken[0] |= {"error": "LMUnavailable: gone", "answer": "", "scores": dict.fromkeys(METRICS, 0.0)}
    del broken[0]["details"]  # as where predictions of another system lack a question
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in broken))
    summary = vote([runs / "rag", folder], tmp_path / "voted")
    assert summary.errors == 1
    assert rows_of(tmp_path / "voted")[broken[0]["id"]]["error"] == "LMUnavailable: gone"


@pytest.mark.parametrize(
    ("change", "cure"),
    [
        (lambda run: run["questions"].update(sha256="0" * 64), "same"),
        (lambda run: run["lm"].update(weights_hash="another"), "not comparable"),
        (lambda run: run["questions"].update(n=31), "finish it"),
    ],
)
def test_runs_that_cannot_vote_are_refused(runs, tmp_path, change, cure):
    other = tmp_path / "other"
    other.mkdir()
    description = json.loads((runs / "rag" / "run.json").read_text())
    change(description)
    (other / "run.json").write_text(json.dumps(description))
    (other / "rows.jsonl").write_bytes((runs / "rag" / "rows.jsonl").read_bytes())
    with pytest.raises(UserError, match=cure):
        vote([runs / "cot", other], tmp_path / "voted")
    assert not (tmp_path / "voted").exists()


def test_the_folder_and_the_number_of_runs_are_checked_first(runs, tmp_path):
    with pytest.raises(UserError, match="2 to 16 runs, got 1"):
        vote([runs / "cot"], tmp_path / "voted")
    with pytest.raises(UserError, match="exists already"):
        vote([runs / "cot", runs / "rag"], runs / "cot")
    with pytest.raises(UserError, match="named twice"):
        vote([runs / "cot", runs / "cot"], tmp_path / "voted")


def test_a_folder_with_runs_below_it_is_refused_since_their_order_decides_ties(runs, tmp_path):
    below = tmp_path / "below"
    shutil.copytree(runs / "rag", below / "rag")
    with pytest.raises(UserError, match="below is a folder of runs: name each run"):
        vote([below, runs / "cot"], tmp_path / "voted")
