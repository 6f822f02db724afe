"""Retrievers of LlamaIndex (extra `llamaindex`), both ways: an index of ours for an engine, theirs for our programs.

    engine = RetrieverQueryEngine.from_args(as_llamaindex(open_index("index"), k=5))
    program = verihop.load(program="rag", index=from_llamaindex(index.as_retriever()))

The id of a passage is the id of its node, and its score that of the node; the title is metadata as the rest is.
"""

import asyncio
import copy
from typing import Any

from corpora.retrievers.engine import check_k
from corpora.retrievers.foreign import ForeignRetriever, K, check_found, described, metadata_of, passage_of
from signatures.common.errors import needing
from signatures.types import Passage, Retriever, plain_metadata

with needing("llamaindex", "A retriever of LlamaIndex"):
    from llama_index.core.base.base_retriever import BaseRetriever
    from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

_NUMBER = "similarity_top_k"  # attribute by which retrievers name how many nodes they return


class LlamaIndexRetriever(BaseRetriever):
    """A retriever of ours as one of LlamaIndex.

    Args:
        retriever: Such as `verihop.open_index` returns; it is called from several threads.
        similarity_top_k: Nodes of a search.
    """

    def __init__(self, retriever: Retriever, similarity_top_k: int = K, **settings: Any):
        super().__init__(**settings)
        self.retriever, self.similarity_top_k = retriever, similarity_top_k

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [to_node(passage) for passage in self.retriever(query_bundle.query_str, self.similarity_top_k)]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._retrieve, query_bundle)


def as_llamaindex(retriever: Retriever, *, k: int = K) -> LlamaIndexRetriever:
    """Return a retriever of ours as one of LlamaIndex, with `retrieve` and `aretrieve`.

    Args:
        retriever: Such as `verihop.open_index` returns.
        k: Nodes of a search.

    Raises:
        UserError: `k` is below 1.
    """
    check_k(k)
    return LlamaIndexRetriever(retriever, k)


def from_llamaindex(retriever: BaseRetriever, *, fingerprint: str | None = None) -> ForeignRetriever:
    """Return a retriever of LlamaIndex as one of ours.

    It is asked for k nodes by a copy of it whose `similarity_top_k` is replaced; one without returns as many as it
    likes, of which k are taken.

    Args:
        retriever: It is called from several threads.
        fingerprint: Changes with what it searches in; runs and artifacts record it, so that they notice another corpus.
            By default its class and settings, which do not say what it searches in.
    """

    def search(queries: list[str], k: int) -> list[list[Passage]]:
        asked = _asked_for(retriever, k)
        rankings = [asked.retrieve(query) for query in queries]
        for found in rankings:
            check_found("LlamaIndex", found, NodeWithScore)
        return [[to_passage(node) for node in found] for found in rankings]

    ignored = (_NUMBER, f"_{_NUMBER}")
    return ForeignRetriever(search, fingerprint or described("llamaindex", retriever, ignored))


def to_node(passage: Passage) -> NodeWithScore:
    """Return a passage as a node; prompts and embeddings of LlamaIndex contain its text and title alone, as ours do."""
    hidden = list(passage.metadata)
    metadata = {**metadata_of(passage), **plain_metadata(passage)}
    node = TextNode(
        id_=passage.id,
        text=passage.text,
        metadata=metadata,
        excluded_llm_metadata_keys=hidden,
        excluded_embed_metadata_keys=hidden,
    )
    return NodeWithScore(node=node, score=passage.score)


def to_passage(node: NodeWithScore) -> Passage:
    """Return a node as a passage; see `corpora.retrievers.foreign.passage_of`."""
    return passage_of(node.node.get_content(), node.node.metadata, id=node.node.node_id, score=node.score)


def _asked_for(retriever: BaseRetriever, k: int) -> BaseRetriever:
    """Return a copy of a retriever that returns `k` nodes, or the retriever itself if nothing can tell it."""
    if not hasattr(retriever, _NUMBER):
        return retriever
    asked = copy.copy(retriever)
    setattr(asked, _NUMBER, k)
    return asked
