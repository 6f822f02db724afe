"""Retrievers of LangChain, both ways."""

import asyncio
import copy

import pytest
from hypothesis import given

from corpora.paragraphs import passage_id
from signatures.common.errors import UserError
from signatures.types import Passage
from tests.corpora.retrievers.neighbours import PASSAGES, Listed, passages

pytest.importorskip("langchain_core", reason="needs the extra langchain")

from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.runnables import RunnableLambda
from langchain_core.vectorstores import InMemoryVectorStore

from corpora.retrievers.langchain import as_langchain, from_langchain, to_document, to_passage


@given(passages())
def test_ids_titles_scores_and_metadata_survive_both_ways(found):
    assert from_langchain(as_langchain(Listed(found)))("any", len(found) + 1) == found


def test_ours_is_asked_for_as_many_as_its_caller_says_in_every_way():
    ours = Listed()
    theirs = as_langchain(ours, k=3)
    assert [document.id for document in theirs.invoke("one")] == ["p0", "p1", "p2"]
    assert len(theirs.invoke("two", k=5)) == 5
    assert len(asyncio.run(theirs.ainvoke("three"))) == 3
    assert len(asyncio.run(theirs.ainvoke("four", k=2))) == 2
    assert [len(each) for each in theirs.batch(["five", "six"])] == [3, 3]
    assert [len(each) for each in asyncio.run(theirs.abatch(["seven"]))] == [3]
    assert sorted(ours.asked) == sorted(
        [("one", 3), ("two", 5), ("three", 3), ("four", 2), ("five", 3), ("six", 3), ("seven", 3)]
    )


def test_ours_is_a_part_of_a_chain():
    chain = as_langchain(Listed(), k=2) | RunnableLambda(lambda found: " ".join(each.page_content for each in found))
    assert chain.invoke("any") == "text 0 text 1"


def test_a_vector_store_is_asked_for_k_whatever_it_was_made_with():
    store = InMemoryVectorStore(DeterministicFakeEmbedding(size=8))
    store.add_documents([to_document(passage) for passage in PASSAGES])
    made = store.as_retriever(search_kwargs={"k": 2})
    ours = from_langchain(made)
    assert [len(ours("text 3", k)) for k in (1, 7)] == [1, 7]
    assert ours("text 3", 4)[0] == PASSAGES[3]
    assert [len(found) for found in ours.many(["text 1", "text 2"], 3)] == [3, 3]
    assert made.search_kwargs == {"k": 2}
    assert copy.deepcopy(ours) is ours


def test_one_that_cannot_be_told_is_cut():
    ours = from_langchain(RunnableLambda(lambda query: [Document(query), Document("b"), Document("c")]))
    assert [passage.text for passage in ours("a", 2)] == ["a", "b"]


def test_its_fingerprint_is_that_of_its_settings_unless_one_is_named():
    store = InMemoryVectorStore(DeterministicFakeEmbedding(size=8))
    plain, other = store.as_retriever(), store.as_retriever(search_type="mmr")
    assert from_langchain(plain).fingerprint == from_langchain(store.as_retriever()).fingerprint
    assert from_langchain(plain).fingerprint != from_langchain(other).fingerprint
    assert from_langchain(plain, fingerprint="faq, May").fingerprint == "faq, May"


def test_a_foreign_document_gets_an_id_and_keeps_what_a_passage_calls_otherwise():
    foreign = Document("The text.", metadata={"title": "T", "text": "inner", "score": "high", "source": "a.pdf"})
    passage = to_passage(foreign)
    assert (passage.id, passage.title, passage.score) == (passage_id("T", "The text."), "T", None)
    assert passage.metadata == {"document_text": "inner", "document_score": "high", "source": "a.pdf"}
    assert to_passage(Document("x", metadata={"id": "seven"})).id == "seven"
    assert to_passage(Document("x", id="one", metadata={"id": 7})).metadata == {"document_id": 7}


def test_what_is_no_document_and_a_wrong_k_are_one_line():
    with pytest.raises(UserError, match=r"LangChain retriever returned \['a'\], not a list of Document"):
        from_langchain(RunnableLambda(lambda query: ["a"]))("q", 1)
    with pytest.raises(UserError, match="k=0"):
        from_langchain(as_langchain(Listed()))("q", 0)
    with pytest.raises(UserError, match="k=0"):
        as_langchain(Listed(), k=0)


def test_a_passage_without_title_and_score_has_no_metadata():
    assert to_document(Passage(id="a", text="b")).metadata == {}
