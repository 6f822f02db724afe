"""The graph: a passage is found by way of an entity or a triple, whatever words it has."""

import json
import sys

import numpy as np
import pytest

from corpora.index.build import build_index
from corpora.index.graph import step_graph
from corpora.index.info import GRAPH_LM, OPENED_AS, PARTS
from corpora.index.open import fingerprints, open_index
from corpora.index.update import update_index
from corpora.retrievers.engine import Leading
from corpora.retrievers.graph import Edges, Graph, GraphMultihopEngine, write_graph
from corpora.retrievers.multihop import MultihopEngine
from corpora.retrievers.rerank import open_reranker
from corpora.retrievers.store import PassageStore
from signatures.common.errors import UserError, UserNotice

TEXTS = {
    "Amber": "amber brook cedar, made by Delta Ember in Fjord",
    "Delta Ember": "harbor inlet of Grove",
    "Jetty": "knoll lagoon near Grove",
    "Meadow": "brook, and nothing else",
    "Otter": "cedar of nobody",
}
QUESTION = "amber brook"
TRIPLES = {
    "Amber": [["Amber", "made by", "Delta Ember"], ["amber", "made by", "delta ember"], ["", "is", "x"], ["a", "b"]],
    "Jetty": [["Jetty", "founded by", "Delta Ember"], ["Grove", "is", "knoll"]],
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    path = tmp_path_factory.mktemp("graph") / "passages.jsonl"
    lines = [{"id": title, "title": title, "text": text} for title, text in TEXTS.items()]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.fixture(scope="module")
def triples(corpus):
    path = corpus.with_name("triples.jsonl")
    lines = [{"id": name, "triples": found, "calls": 1} for name, found in TRIPLES.items()]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.fixture(scope="module")
def folder(corpus, fake_embedder):
    build_index(corpus, corpus.with_name("index"), retriever="graph", embedder=fake_embedder)
    return corpus.with_name("index")


@pytest.fixture(scope="module")
def of_triples(corpus, triples, fake_embedder):
    out = corpus.with_name("of_triples")
    build_index(corpus, out, retriever="graph", embedder=fake_embedder, triples=triples)
    return out


def opened(folder, fake_embedder, name="graph"):
    return open_index(folder, embedder=fake_embedder, retriever=name)


def ids(passages):
    return [passage.id for passage in passages]


def test_a_passage_is_found_by_way_of_an_entity(folder, fake_embedder):
    assert "Delta Ember" not in ids(opened(folder, fake_embedder, "bm25")(QUESTION, 2))
    assert ids(opened(folder, fake_embedder)(QUESTION, 2)) == ["Amber", "Delta Ember"]


def test_scores_fall_and_all_passages_can_be_asked_for(folder, fake_embedder):
    retrieve = opened(folder, fake_embedder)
    found = retrieve(QUESTION, 50)
    assert sorted(ids(found)) == sorted(TEXTS)
    assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)
    assert ids(retrieve(QUESTION, 2)) == ids(found)[:2]
    asked = [QUESTION, "", "knoll", "Where is Grove?"]
    assert [ids(each) for each in retrieve.many(asked, 3)] == [ids(retrieve(query, 3)) for query in asked]
    assert [each.passage.id for each in retrieve.explain(QUESTION, 3)] == ids(retrieve(QUESTION, 3))
    assert len(open_reranker(retrieve, "own")(QUESTION, 5)) == 5


def test_the_walk_shares_out_what_leaves_a_node(tmp_path):
    rows = np.array([0, 1, 1])
    edges = Edges(rows, np.array([3, 3, 4]), np.ones(3), np.array([3.0, 1.0, 1.0]))
    write_graph(tmp_path, 3, np.array([7, 9], dtype=np.uint64), edges)
    graph = Graph(tmp_path, 3)
    assert graph.nodes_of([9, 8, 7]).tolist() == [4, 3]
    assert (graph.has(9), graph.has(8), graph.named_by(3)) == (True, False, 2)
    # Column: from where; row: to where.
    reached = graph.walk(np.array([3]), np.array([2.0]))
    steps = np.array(
        [[0, 0, 0, 0.75, 0], [0, 0, 0, 0.25, 1], [0, 0, 0, 0, 0], [1, 0.5, 0, 0, 0], [0, 0.5, 0, 0, 0]], dtype=float
    )
    exact = 0.5 * np.linalg.solve(np.eye(5) - 0.5 * steps, np.array([0, 0, 0, 1.0, 0]))
    np.testing.assert_allclose(reached, exact[:3], atol=1e-3)


def test_it_opens_as_what_it_contains_and_other_indexes_keep_their_fingerprints(
    folder, of_triples, corpus, fake_embedder
):
    out = corpus.with_name("hybrid")
    build_index(corpus, out, embedder=fake_embedder)
    served = [name for name, parts in PARTS.items() if parts <= PARTS["graph"] and "multihop" not in name]
    assert "graph" in served
    assert {*PARTS, GRAPH_LM} == OPENED_AS
    assert all(ids(opened(folder, fake_embedder, name)(QUESTION, 1)) == ["Amber"] for name in served)
    assert fingerprints(out) < fingerprints(folder)
    assert len(fingerprints(folder) ^ fingerprints(of_triples)) == 12  # two retrievers, in three precisions
    assert "triples" not in json.loads((folder / "index.json").read_text())
    with pytest.raises(UserError, match="cannot serve graph"):
        opened(out, fake_embedder)


def test_passages_are_found_by_way_of_the_triples_of_others(of_triples, fake_embedder):
    retrieve = opened(of_triples, fake_embedder)
    assert ids(retrieve("amber made", 3))[0] == "Amber"
    assert "Jetty" in ids(retrieve("amber made", 2))  # nothing but a triple links them


def indexed(lines, corpus, tmp_path, fake_embedder, name="index"):
    path = tmp_path / f"{name}.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    build_index(corpus, tmp_path / name, retriever="graph", embedder=fake_embedder, triples=path)
    return tmp_path / name


def test_work_grows_with_the_triples_and_not_with_their_square(corpus, tmp_path, fake_embedder):
    def lines_run(count):
        triples = [[f"amber{place}", "is", f"brook{place}"] for place in range(count)]
        path, out = tmp_path / "many.jsonl", tmp_path / str(count)
        path.write_text(json.dumps({"id": "Amber", "triples": triples}))
        out.mkdir()
        lines = 0

        def trace(*_):
            nonlocal lines
            lines += 1
            return trace

        former = sys.gettrace()
        sys.settrace(trace)
        try:
            step_graph(out, store, fake_embedder, path, shown=False)
        finally:
            sys.settrace(former)
        return lines

    build_index(corpus, tmp_path / "index", embedder=fake_embedder)
    store = PassageStore(tmp_path / "index")
    one, two, three = lines_run(1), lines_run(101), lines_run(201)
    assert three - two < 1.5 * (two - one)


def test_triples_of_passages_that_are_gone_are_left_out(corpus, tmp_path, fake_embedder):
    lines = [{"id": name, "triples": [[name, "made by", "Delta Ember"]]} for name in ("gone", "Amber", "gone too")]
    with pytest.warns(UserNotice, match=r"'gone', which the corpus lacks \(2 of 3\): they are left out"):
        out = indexed(lines, corpus, tmp_path, fake_embedder)
    texts = [json.loads(line) for line in (out / "graph" / "facts.jsonl").read_text().splitlines()]
    assert texts == [["Amber", "made by", "Delta Ember"]]


@pytest.mark.parametrize("odd", ["\u2028", "\u2029", "\x85", "\ud800"])
def test_texts_with_odd_characters_are_kept(odd, corpus, tmp_path, fake_embedder):
    line = {"id": "Amber", "triples": [["Amber", f"made{odd}x by", "Delta Ember"], [odd, odd, odd]]}
    asked = []
    engine = opened(indexed([line], corpus, tmp_path, fake_embedder), fake_embedder).engine
    engine.keeping(lambda _, triples: asked.extend(triples) or []).rank(["amber made"], 1)
    assert asked == [("Amber", f"made{odd}x by".replace("\ud800", "?"), "Delta Ember")]


def test_a_filter_chooses_among_the_triples(of_triples, folder, fake_embedder):
    engine, asked = opened(of_triples, fake_embedder).engine, []

    def none(question, triples):
        asked.append((question, triples))
        return []

    kept = engine.keeping(none)
    (found,) = kept.rank(["amber made"], 2)
    (hybrid,) = opened(of_triples, fake_embedder, "hybrid").engine.rank(["amber made"], 1)
    assert found.rows[0] == hybrid.rows[0]
    ((question, triples),) = asked
    assert (question, triples[0].relation, len(triples)) == ("amber made", "made by", 3)  # equal triples are one
    assert engine.keeping(lambda *_: [0, 0, -1, 99]).rank(["amber made"], 2)
    assert opened(folder, fake_embedder).engine.keeping(none) is None


def test_an_index_is_changed_with_its_entities_but_not_with_triples(folder, of_triples, tmp_path, fake_embedder):
    more = tmp_path / "more.jsonl"
    more.write_text(json.dumps({"id": "new", "title": "Fjord", "text": "unlike all"}) + "\n")
    with pytest.raises(UserError, match="graph of triples"):
        update_index(of_triples, add=[more], embedder=fake_embedder)
    assert opened(of_triples, fake_embedder)(QUESTION, 1)
    copy = tmp_path / "copy"
    build_index(folder.with_name("passages.jsonl"), copy, retriever="graph", embedder=fake_embedder)
    update_index(copy, add=[more], embedder=fake_embedder)
    assert "new" in ids(opened(copy, fake_embedder)(QUESTION, 4))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"id": "nobody", "triples": [["a", "b", "c"]]}', "'nobody'.*the corpus lacks"),
        ('{"id": "Amber", "triples": [["?", "b", ""]]}', "no triple of three texts"),
        ('{"triples": []}', "line 1: no id"),
        ('{"id": "Amber", "triples": "a b c"}', "line 1"),
    ],
)
def test_triples_that_cannot_be_used_are_refused(line, words, corpus, tmp_path, fake_embedder):
    path = tmp_path / "triples.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(UserError, match=words):
        build_index(corpus, tmp_path / "index", retriever="graph", embedder=fake_embedder, triples=path)
    with pytest.raises(UserError, match="No file"):
        build_index(
            corpus, tmp_path / "index", retriever="graph", embedder=fake_embedder, triples=tmp_path / "none.jsonl"
        )
    with pytest.raises(UserError, match="for the retriever graph, not hybrid"):
        build_index(corpus, tmp_path / "index", embedder=fake_embedder, triples=path)


def test_files_that_lead_nowhere_are_refused(tmp_path):
    edges = Edges(np.array([0]), np.array([1]), np.ones(1), np.ones(1))
    write_graph(tmp_path, 1, np.array([7], dtype=np.uint64), edges)
    np.save(tmp_path / "targets.npy", np.array([[9], [0]], dtype=np.int32))
    with pytest.raises(UserError, match="leads nowhere"):
        Graph(tmp_path, 1)
    np.save(tmp_path / "targets.npy", np.array([[9]], dtype=np.int32))
    with pytest.raises(UserError, match="does not fit"):
        Graph(tmp_path, 1)


def test_over_multihop_the_walk_starts_at_its_passages(folder, fake_embedder):
    engine = opened(folder, fake_embedder).engine
    multihop = MultihopEngine(engine.hybrid, PassageStore(folder), fake_embedder, beams=(1,))
    over = GraphMultihopEngine(multihop, engine.graph)
    assert isinstance(over, Leading)
    assert not isinstance(engine, Leading)
    (found,) = over.rank([QUESTION], 2)
    assert found.rows.tolist() == [0, 1]
    assert over.parts(QUESTION, 2).keys() == {"bm25", "dense", "hops"}
    asked = [(QUESTION, {"title": "Amber", "text": TEXTS["Amber"]})]
    assert over.follow(asked, 2)[0].rows.tolist() == multihop.follow(asked, 2)[0].rows.tolist()
