"""Signatures of rewrite-retrieve-read (Ma et al., EMNLP 2023, https://arxiv.org/abs/2305.14283), LangChain's form too.

WriteQueries is the rewriter of the paper, which reasons first; WriteBetterQuery and AnswerFromPassagesAlone are the two
steps of LangChain's form.

Departure: queries and texts are typed fields, where the paper splits a text at ";" and cuts it at "**".
"""

import dspy

from signatures.types import Passage


class WriteQueries(dspy.Signature):
    """Write the search engine queries that find the knowledge needed to answer the question.

    Think about which facts the answer depends on. Each query looks for one of them and can be understood on its own.
    """

    question: str = dspy.InputField()
    queries: list[str] = dspy.OutputField(desc="one query for each fact to look up; each names every entity in full")


class WriteBetterQuery(dspy.Signature):
    """Turn the question into one query with which a web search engine finds what answers it."""

    question: str = dspy.InputField()
    query: str = dspy.OutputField(desc="one search query, without remarks")


class AnswerFromPassagesAlone(dspy.Signature):
    """Answer the question in full sentences, and rest on nothing but the passages."""

    passages: list[Passage] = dspy.InputField()
    question: str = dspy.InputField()
    response: str = dspy.OutputField(desc="one or more full sentences")
