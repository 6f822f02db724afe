"""Retrievers of LlamaIndex, both ways."""

import asyncio
import copy
import threading

import pytest
from hypothesis import given

from signatures.common.errors import UserError
from signatures.types import make_passage
from tests.corpora.retrievers.neighbours import PASSAGES, Listed, passages

pytest.importorskip("llama_index.core", reason="needs the extra llamaindex")

from llama_index.core import MockEmbedding, VectorStoreIndex
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import MetadataMode, NodeWithScore, TextNode

from corpora.retrievers.llamaindex import as_llamaindex, from_llamaindex, to_node, to_passage


@given(passages())
def test_ids_titles_scores_and_metadata_survive_both_ways(found):
    assert from_llamaindex(as_llamaindex(Listed(found)))("any", len(found) + 1) == found


def test_ours_is_asked_for_its_number_of_nodes_and_does_not_block_a_loop():
    ours = Listed()
    theirs = as_llamaindex(ours, k=3)
    assert [node.node_id for node in theirs.retrieve("one")] == ["p0", "p1", "p2"]
    threads = []
    ours.many = lambda queries, k: []
    theirs.retriever = lambda query, k: threads.append(threading.current_thread()) or ours(query, k)
    assert len(asyncio.run(theirs.aretrieve("two"))) == 3
    assert threads != [threading.current_thread()]
    assert ours.asked == [("one", 3), ("two", 3)]


def test_ours_serves_a_query_engine_of_theirs():
    engine = RetrieverQueryEngine.from_args(as_llamaindex(Listed(), k=2), llm=MockLLM())
    answer = engine.query("any")
    assert [node.node_id for node in answer.source_nodes] == ["p0", "p1"]
    assert "title: Title 0\n\ntext 0" in answer.response


def test_a_prompt_of_theirs_has_title_and_text_alone():
    shown = to_node(make_passage({"id": "a", "title": "Ossa", "text": "A river.", "url": "http://x"})).node
    assert shown.get_content(MetadataMode.LLM) == "title: Ossa\n\nA river."
    assert shown.get_content(MetadataMode.EMBED) == "title: Ossa\n\nA river."


def test_a_vector_index_is_asked_for_k_whatever_it_was_made_with():
    index = VectorStoreIndex(
        nodes=[to_node(passage).node for passage in PASSAGES], embed_model=MockEmbedding(embed_dim=4)
    )
    made = index.as_retriever(similarity_top_k=2)
    ours = from_llamaindex(made)
    assert [len(ours("any", k)) for k in (1, 7)] == [1, 7]
    assert [len(found) for found in ours.many(["a", "b"], 3)] == [3, 3]
    assert {passage.id for passage in ours("any", 12)} == {passage.id for passage in PASSAGES}
    assert made.similarity_top_k == 2
    assert ours.fingerprint == from_llamaindex(index.as_retriever(similarity_top_k=9)).fingerprint
    assert copy.deepcopy(ours) is ours


class Fixed(BaseRetriever):
    def __init__(self, nodes):
        super().__init__()
        self.nodes = nodes

    def _retrieve(self, query_bundle):
        return self.nodes


def test_one_that_cannot_be_told_is_cut_and_scores_are_those_of_the_nodes():
    nodes = [NodeWithScore(node=TextNode(id_=str(n), text="t", metadata={"score": 9}), score=1 - n / 9) for n in (0, 1)]
    (only,) = from_llamaindex(Fixed(nodes))("q", 1)
    assert (only.id, only.score) == ("0", 1.0)
    assert to_passage(NodeWithScore(node=TextNode(text="t", metadata={"score": 9}))).score == 9


def test_what_is_no_node_is_one_line(monkeypatch):
    monkeypatch.setattr(Fixed, "retrieve", lambda self, query: "text")
    with pytest.raises(UserError, match="LlamaIndex retriever returned 'text', not a list of NodeWithScore"):
        from_llamaindex(Fixed([]))("q", 1)
