"""`--rerank lm`: the connected LM ranks, in commands, services and Python, and its calls are calls like others."""

import json
import re
import uuid

import dspy
import pytest

import verihop as python
from experiments.pipeline.lm_ranking import ConnectedRanking
from experiments.runs.files import read_rows
from programs.lms.adapter import ChatForm, JsonForm
from programs.lms.calls.budget import Budget, BudgetExceeded
from programs.lms.calls.metered import metered_lm
from programs.lms.connect import Connection
from programs.lms.tracing.calls import observe_calls
from programs.parts.meter import metered
from signatures.common.errors import UserError
from signatures.ranking import RankPassages
from signatures.types import Passage
from tests.conftest import ScriptedEngine

PASSAGES = [Passage(id=name, title=name.upper(), text=f"text of {name}") for name in "abcd"]
pytestmark = pytest.mark.usefixtures("own_cache")


def backwards(system, prompt):
    """Rank the passages from the last to the first; answer Veld to everything else."""
    if "- ranking" not in system:
        return {"answer": "Veld"}
    numbers = re.findall(r"^\[(\d+)\]", prompt, flags=re.MULTILINE)
    return {"ranking": " > ".join(f"[{number}]" for number in reversed(numbers))}


def connected(reply=backwards, *, model=None, budget=None, cache=False, size=None, form=JsonForm, **more):
    engine = ScriptedEngine(reply)
    lm = metered_lm(model or f"scripted/{uuid.uuid4()}", engine=engine, budget=budget, cache=cache, **more)
    return Connection("scripted", lm, form(context_size=size), size, "samples")


def ranked(connection, world, name="lm", k=3):
    retrieve = python.open_index(world / "index", rerank=name, lm=connection)
    return [passage.id for passage in retrieve("Where is the river?", k)]


def plain(world, k):
    return [passage.id for passage in python.open_index(world / "index")("Where is the river?", k)]


def test_the_passages_are_in_the_order_of_the_lm(world):
    connection = connected()
    assert ranked(connection, world, "lm:8") == plain(world, 8)[:-4:-1]
    (prompt,) = connection.lm.engine.prompts
    assert prompt.count("\n[") == 8 + 1  # of the passages, and the header of the question
    assert "Where is the river?" in prompt


def test_its_calls_are_counted_limited_cached_and_heard(world):
    connection, heard = connected(cache=True), []
    with metered() as meter, observe_calls(heard.append), dspy.context(trace=[]):
        assert ranked(connection, world) == ranked(connection, world)
        assert dspy.settings.trace == []  # no step of the program that searches
    assert (meter.calls, meter.cached_calls, meter.rounds, meter.replies) == (2, 1, 2, 2)
    assert [call.predictor.signature for call in heard] == [RankPassages] * 2
    with pytest.raises(BudgetExceeded):
        ranked(connected(budget=Budget(calls=1)), world, "lm:50")


@pytest.mark.parametrize(
    ("reply", "failures"),
    [("", 1), ("no", 1), ('{"ranking": ', 0), ({"rank": "[1]"}, 1), ({"ranking": "[99] > [0] and no more"}, 0)],
)
def test_a_reply_that_cannot_be_used_leaves_the_order_as_it_was(reply, failures, world):
    with metered() as meter:
        assert ranked(connected(lambda *_: reply), world) == plain(world, 3)
    assert (meter.calls, meter.truncated) == (1, 0)
    assert meter.parse_failures == failures


def test_a_bare_order_is_read(world):
    assert ranked(connected(lambda *_: "[3] > [2] > [1]"), world, "lm:3") == plain(world, 3)[::-1]


def test_nothing_is_cut_from_a_prompt_for_a_small_context_until_it_has_shorter_passages(world):
    sizes = []
    for size in (None, 900, 700):
        connection = connected(size=size)
        with metered() as meter:
            assert len(ranked(connection, world, "lm:20", k=20)) == 20
        assert meter.truncated == 0
        lines = [re.findall(r"^\[\d+\] (.*)", prompt, re.MULTILINE) for prompt in connection.lm.engine.prompts]
        sizes.append((max(map(len, lines)), max(len(line) for each in lines for line in each)))
    assert sizes[0][0] == 20 > sizes[1][0]
    assert sizes[0][1] == sizes[1][1] > sizes[2][1]


def test_the_fingerprint_changes_with_the_lm_its_settings_its_context_and_the_form_of_the_prompt():
    same = {"model": "scripted/one", "temperature": 0.0}
    prints = [
        ConnectedRanking(connected(**{**same, **more})).fingerprint
        for more in ({}, {"model": "scripted/two"}, {"temperature": 0.5}, {"size": 900}, {"form": ChatForm})
    ]
    assert len(set(prints)) == 5
    assert ConnectedRanking(connected(**same)).fingerprint == prints[0]
    assert not any("]" in each for each in prints)


def test_rows_of_a_run_have_its_calls_and_its_artifacts_open_it_again(world, tmp_path, capsys):
    rag = python.load(program="rag", index=world / "index", rerank="lm", lm=connected(), knobs={"k": 2})
    python.evaluate(rag, world / "questions.jsonl", tmp_path / "run", split="dev", limit=4, threads=3)
    rows = list(read_rows(tmp_path / "run"))
    assert {(row["calls"], row["rounds"], row["parse_failures"]) for row in rows} == {(2, 2, 0)}
    assert "reranker lm" in capsys.readouterr().err
    run = json.loads((tmp_path / "run" / "run.json").read_text())
    assert "listwise20/10/300:lm:" in run["corpus"]["fingerprint"]
    assert rag.provenance() == {"rerank": "lm"}
    again = rag.reopened()
    assert again.retrieve.fingerprint == rag.retrieve.fingerprint
    assert again.program.retrieve is again.retrieve


def test_threads_share_it(world):
    rag = python.load(program="rag", index=world / "index", rerank="lm:30", lm=connected(), knobs={"k": 2})
    first = rag("Where is the river?")
    answered = rag.batch(["Where is the river?"] * 16, threads=8)
    assert {tuple(p.id for p in each.prediction.passages) for each in answered} == {
        tuple(passage.id for passage in first.passages)
    }
    assert {each.costs["calls"] for each in answered} == {3}


def test_the_simulated_lm_cannot_rank_and_an_lm_must_be_one(world):
    with pytest.raises(UserError, match="simulated LM cannot rank passages"):
        python.open_index(world / "index", rerank="lm", lm="simulated")
    with pytest.raises(UserError, match="lm"):
        python.open_index(world / "index", rerank="lm", lm=5)
    assert len(python.open_index(world / "index", lm=5)("river", 2)) == 2  # it is not asked for


@pytest.fixture
def scripted_lm(monkeypatch):
    """Make every LM id that of a scripted LM."""
    engine = ScriptedEngine(backwards)

    def open_lm(config, budget=None):
        lm = metered_lm("local/scripted", engine=engine, budget=budget, cache=False, temperature=0.0)
        return Connection("scripted", lm, JsonForm(), None, "samples")

    monkeypatch.setattr("experiments.pipeline.setup.open_lm", open_lm)
    return engine


def test_commands_search_and_ask_with_the_lm_they_name(scripted_lm, world, verihop):
    words = ("Where is the river?", "--index", world / "index", "--rerank", "lm:6", "--lm", "any/one")
    code, out, err = verihop("search", *words, "-k", 2, "--json")
    assert (code, len(scripted_lm.requests)) == (0, 1), err
    hits = json.loads(out)["results"][0]["hits"]
    assert [hit["passage"]["id"] for hit in hits] == plain(world, 6)[:-3:-1]
    assert [hit["places"][-1]["by"] for hit in hits] == ["before reranking"] * 2
    _, _, err = verihop("search", *words)
    assert "--rerank lm:6 --lm any/one" in err
    code, out, err = verihop("ask", *words, "--program", "rag", "--json")
    assert (code, json.loads(out)["cost"]["calls"]) == (0, 2), err
    code, out, err = verihop("search", *words, "--budget", "calls=0")
    assert code != 0
    assert "budget" in err.lower()
    assert "Traceback" not in err


def test_search_without_it_connects_no_lm(world, verihop, monkeypatch):
    monkeypatch.setattr("experiments.pipeline.setup.open_lm", lambda *_: pytest.fail("an LM was connected"))
    assert verihop("search", "river", "--index", world / "index")[0] == 0


@pytest.mark.usefixtures("no_model_opened")
def test_processes_of_a_run_have_the_lm_as_well(scripted_lm, world, verihop, tmp_path):
    words = ("--split", "dev", "--limit", 6, "--index", world / "index", "--rerank", "lm", "--lm", "any/one")
    more = ("--program", "rag", "--processes", 2, "--threads", 2, "--out", tmp_path / "run")
    code, _, err = verihop("eval", world / "questions.jsonl", *words, *more)
    assert code == 0, err
    assert [row["calls"] for row in read_rows(tmp_path / "run")] == [2] * 6


@pytest.mark.parametrize("name", ["lm", "lm:5"])
def test_demonstrations_are_not_made_of_its_calls_and_the_artifact_is_loaded_with_it(name, world, tmp_path):
    lm = connected(lambda system, _: {"ranking": "[1]"} if "- ranking" in system else {"answer": "Veld"})
    rag = python.load(program="rag", index=world / "index", rerank=name, lm=lm, knobs={"k": 10})
    settings = {"split": "train", "metric": "passage_recall@10", "max_demos": 2, "progress": False}
    python.compile(rag, world / "questions.jsonl", tmp_path / "made", **settings)
    state = (tmp_path / "made" / "program.json").read_text()
    assert ('"demos": []' not in state, "ranking" in state) == (True, False)
    again = python.load(tmp_path / "made", lm=lm)
    assert (again.config.rerank, again.retrieve.fingerprint) == (name, rag.retrieve.fingerprint)


def test_sentences_are_chosen_behind_it(world):
    retrieve = python.open_index(world / "index", rerank="lm", sentences=2, lm=connected())
    assert retrieve.name == "lm"
    assert len(retrieve("Where is the river?", 3)) <= 2
