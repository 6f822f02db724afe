"""Retrievers of LangChain (extra `langchain`), both ways: an index of ours for a chain, and theirs for our programs.

    chain = as_langchain(open_index("index"), k=5) | format_documents | prompt | model
    program = verihop.load(program="rag", index=from_langchain(store.as_retriever()))

The id of a passage is the id of its document; title, score and other metadata are the document's metadata.
"""

import asyncio
from typing import Any

from corpora.retrievers.engine import check_k
from corpora.retrievers.foreign import ForeignRetriever, K, check_found, described, metadata_of, passage_of
from signatures.common.errors import needing
from signatures.types import Passage, Retriever

with needing("langchain", "A retriever of LangChain"):
    from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.runnables import Runnable

_NUMBERS = ("k", "top_k", "similarity_top_k")  # fields by which retrievers name how many documents they return


class LangChainRetriever(BaseRetriever):
    """A retriever of ours as one of LangChain.

    Args:
        retriever: Such as `verihop.open_index` returns; it is called from several threads.
        k: Documents of a search, unless its call names another number: `invoke(query, k=3)`.
    """

    retriever: Any
    k: int = K

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        return self._found(query, k)

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        return await asyncio.to_thread(self._found, query, k)

    def _found(self, query: str, k: int | None) -> list[Document]:
        return [to_document(passage) for passage in self.retriever(query, self.k if k is None else k)]


def as_langchain(retriever: Retriever, *, k: int = K) -> LangChainRetriever:
    """Return a retriever of ours as one of LangChain, with `invoke`, `ainvoke`, `batch` and all of a runnable.

    Args:
        retriever: Such as `verihop.open_index` returns.
        k: Documents of a search, unless its call names another number: `invoke(query, k=3)`.

    Raises:
        UserError: `k` is below 1.
    """
    check_k(k)
    return LangChainRetriever(retriever=retriever, k=k)


def from_langchain(retriever: Runnable[str, list[Document]], *, fingerprint: str | None = None) -> ForeignRetriever:
    """Return a retriever of LangChain, or any runnable from a query to documents, as one of ours.

    It is asked for k documents by a copy of it in which the field `k`, `top_k` or `similarity_top_k`, or the k of
    `search_kwargs`, is replaced; one without such a field returns as many as it likes, of which k are taken.

    Args:
        retriever: It is called from several threads.
        fingerprint: Changes with what it searches in; runs and artifacts record it, so that they notice another corpus.
            By default its class and settings, which do not say what it searches in.
    """

    def search(queries: list[str], k: int) -> list[list[Passage]]:
        rankings = _asked_for(retriever, k).batch(queries)
        for found in rankings:
            check_found("LangChain", found, Document)
        return [[to_passage(document) for document in found] for found in rankings]

    return ForeignRetriever(search, fingerprint or described("langchain", retriever, _NUMBERS))


def to_document(passage: Passage) -> Document:
    """Return a passage as a document; title and score, where it has them, are metadata."""
    scored = {} if passage.score is None else {"score": passage.score}
    return Document(id=passage.id, page_content=passage.text, metadata={**metadata_of(passage), **scored})


def to_passage(document: Document) -> Passage:
    """Return a document as a passage; see `corpora.retrievers.foreign.passage_of`."""
    return passage_of(document.page_content, document.metadata, id=document.id)


def _asked_for(retriever: Any, k: int) -> Any:
    """Return a copy of a retriever that returns `k` documents, or the retriever itself if nothing can tell it."""
    fields = getattr(type(retriever), "model_fields", {})
    if "search_kwargs" in fields:
        return retriever.model_copy(update={"search_kwargs": {**retriever.search_kwargs, "k": k}})
    named = next((name for name in _NUMBERS if name in fields), None)
    return retriever if named is None else retriever.model_copy(update={named: k})
