"""`verihop ask` loads what the question needs: no index for a program that reads nothing, no LM for a cached reply."""

import json

import pytest

from corpora.retrievers.engine import IndexRetriever
from programs.lms.adapter import ChatForm
from programs.lms.calls.metered import metered_lm
from programs.lms.calls.reply_cache import use_reply_cache
from programs.lms.connect import Connection

QUESTION = "Who is the harbour master of Quillon?"


@pytest.fixture
def used_index(monkeypatch):
    """Return what an index was asked for: it was loaded, or queries were encoded ahead."""
    used = []
    for name in ("load", "prefetch", "many"):
        monkeypatch.setattr(IndexRetriever, name, lambda self, *_, name=name, **__: used.append(name))
    return used


@pytest.mark.parametrize("command", ["ask", "eval"])
def test_an_index_is_not_loaded_for_a_program_that_reads_nothing(
    command, verihop, world, scripted_lm, used_index, tmp_path
):
    scripted_lm(lambda system, user: "[[ ## answer ## ]]\nAnsa Merrow")
    rest = {"ask": [QUESTION], "eval": [world / "questions.jsonl", "--out", tmp_path / "run", "--limit", "2"]}[command]
    code, _, err = verihop(command, *rest, "--program", "standard", "--index", world / "index")
    assert (code, used_index) == (0, []), err


def test_an_lm_is_loaded_before_the_first_reply_that_is_not_cached(verihop, monkeypatch, scripted_lm):
    events = []
    engine = scripted_lm(lambda system, user: events.append("asked") or "[[ ## answer ## ]]\nAnsa Merrow")
    engine.load = lambda: events.append("loaded")

    def open_lm(config, budget=None):
        use_reply_cache()
        lm = metered_lm("local/scripted", engine=engine, budget=budget, cache=True, temperature=0.0)
        return Connection("scripted", lm, ChatForm(), None, "samples")

    monkeypatch.setattr("experiments.pipeline.setup.open_lm", open_lm)
    for cached in (0, 1):
        code, out, err = verihop("ask", QUESTION, "--program", "standard", "--json")
        assert code == 0, err
        assert (json.loads(out)["cost"]["cached_calls"], events) == (cached, ["loaded", "asked"])
