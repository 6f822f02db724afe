"""Triples by the connected LM: extracted with a budget and resumed, and chosen among when a question is asked."""

import functools
import json
import uuid

import pytest

import corpora.index.open as opening
from corpora.index.build import build_index
from corpora.retrievers.embedder import Embedder
from corpora.retrievers.triples import read_triples
from experiments.pipeline.lm_ranking import ConnectedChoice
from experiments.pipeline.setup import open_retriever
from experiments.pipeline.triples import ROWS, extract_triples
from experiments.runs.specs import Retrieval
from programs.lms.adapter import JsonForm
from programs.lms.calls.budget import Budget, BudgetExceeded
from programs.lms.calls.metered import metered_lm
from programs.lms.connect import Connection
from signatures.common.errors import UserError
from tests.conftest import ScriptedEngine
from tests.corpora.conftest import hashed_words

TEXTS = {"Amber": "amber is brook", "Cedar": "cedar of delta", "Ember": "nothing"}
LINES = {"Amber": ["Amber | is | brook", "amber, brook", " | is | x"], "Cedar": ["Cedar | belongs to | Amber"]}
pytestmark = pytest.mark.usefixtures("own_cache")


def extracting(system, prompt):
    if "- facts" in system or "facts" in prompt.split("question")[0]:
        return {"kept": "2, and 1"}
    title = next(title for title in TEXTS if f"{title}: {TEXTS[title]}" in prompt)
    return {"entities": [title], "triples": LINES[title]} if title in LINES else "no triples at all"


def connected(reply=extracting, budget=None):
    lm = metered_lm(f"scripted/{uuid.uuid4()}", engine=ScriptedEngine(reply), budget=budget, cache=False)
    return Connection("scripted", lm, JsonForm(context_size=None), None, "samples")


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "passages.jsonl"
    lines = [{"id": title.lower(), "title": title, "text": text} for title, text in TEXTS.items()]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def extract(corpus, connection, **options):
    return extract_triples(
        corpus, connection=connection, out=corpus.parent / "triples", threads=1, progress=False, **options
    )


def test_an_extraction_stops_at_its_budget_and_goes_on(corpus):
    with pytest.raises(BudgetExceeded):
        extract(corpus, connected(budget=Budget(calls=1)))
    rows = corpus.parent / "triples" / ROWS
    assert [json.loads(line)["id"] for line in rows.read_text().splitlines()] == ["amber"]
    again = connected()
    again.lm.model = json.loads((rows.parent / "run.json").read_text())["lm"]["model"]
    found = extract(corpus, again, resume=True)
    assert len(again.lm.engine.prompts) == 2
    assert (found.passages, found.triples, found.ill_formed, found.without, found.parse_failures) == (3, 2, 2, 1, 1)
    first = json.loads(rows.read_text().splitlines()[0])
    assert (first["triples"], first["calls"]) == ([["Amber", "is", "brook"]], 1)


def test_a_changed_corpus_asks_for_what_changed(corpus):
    first = connected()
    extract(corpus, first)
    changed = {"Amber": ("amber", TEXTS["Amber"]), "Cedar": ("cedar", "other"), "Fjord": ("fjord", "new")}
    lines = [{"id": name, "title": title, "text": text} for title, (name, text) in changed.items()]
    corpus.write_text("".join(json.dumps(line) + "\n" for line in lines))
    again = connected(lambda *_: {"entities": [], "triples": ["a | b | c", "d | e | f"]})
    again.lm.model = first.lm.model
    found = extract(corpus, again, resume=True)
    assert [sum(text in prompt for prompt in again.lm.engine.prompts) for text in ("Cedar: other", "Fjord: new")] == [
        1,
        1,
    ]
    assert len(again.lm.engine.prompts) == 2
    assert (found.passages, found.triples) == (3, 5)
    assert [len(triples) for triples in dict(read_triples(corpus.parent / "triples" / ROWS)).values()] == [1, 2, 0, 2]


def test_the_lm_chooses_among_the_triples_of_an_index(corpus, monkeypatch):
    extract(corpus, connected())
    embedder = Embedder("fake", encode=hashed_words)
    rows = corpus.parent / "triples" / ROWS
    build_index(corpus, corpus.parent / "index", retriever="graph", embedder=embedder, triples=rows)
    build_index(corpus, corpus.parent / "plain", retriever="graph", embedder=embedder)
    monkeypatch.setattr(opening, "open_index", functools.partial(opening.open_index, embedder=embedder))
    lm = connected(lambda *_: {"kept": "1"})

    def opened(folder, name, connect=lambda: lm):
        return open_retriever(Retrieval(index=corpus.parent / folder, retriever=name), connect)

    chosen, all_of_them = opened("index", "graph-lm"), opened("index", "graph")
    assert chosen.fingerprint.startswith(f"{all_of_them.fingerprint}-lm:")
    assert chosen("cedar delta", 1)[0].id == "cedar"
    (prompt,) = lm.lm.engine.prompts
    assert "[1] Cedar | belongs to | Amber" in prompt
    assert "[2] Amber | is | brook" in prompt
    with pytest.raises(UserError, match="has no triples"):
        opened("plain", "graph-lm")
    with pytest.raises(UserError, match="needs an LM"):
        opened("index", "graph-lm", None)


@pytest.mark.parametrize(
    ("reply", "kept"), [({"kept": "2, 1"}, [1, 0]), ({"kept": "none"}, []), ("none of it", [0, 1])]
)
def test_numbers_are_read_and_what_cannot_be_read_keeps_all(reply, kept):
    triples = [("a", "b", "c"), ("d", "e", "f")]
    assert list(ConnectedChoice(connected(lambda *_: reply))("Which?", triples)) == kept
