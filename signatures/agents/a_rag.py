"""The signatures of A-RAG (Du et al., 2026, https://arxiv.org/abs/2602.03442).

Departure: the paper's LM calls tools by the interface of its server, which not every LM has: `UseTool` has typed fields
    for a turn. `CallTools` is for the tools of the interface.
"""

from typing import Literal

import dspy

from signatures.agents.transcript import TRANSCRIPT
from signatures.plain_text import PlainText


class UseTool(dspy.Signature):
    """Answer the question from a corpus of numbered passages. Each turn, think about what the results tell, and take
    one action; go on until what you have read answers the question.

    Keywords finds passages that contain exact names or terms. Search finds passages by meaning. Both show no more than
    a few sentences of each: read the passages that look useful as a whole before you rely on them. Finish with the
    answer.
    """

    question: str = dspy.InputField()
    transcript: list[str] = dspy.InputField(desc=TRANSCRIPT)
    thought: str = dspy.OutputField(desc="what is known by now and what is missing, in one or two sentences")
    action: Literal["keywords", "search", "read", "finish"] = dspy.OutputField()
    argument: str = dspy.OutputField(
        desc="to keywords: one to three names or terms, separated by commas; to search: what to look for, in a "
        "sentence; to read: the numbers of passages; to finish: the answer alone, as short as it can be, yes or no for "
        "a yes/no question"
    )


class CallTools(dspy.Signature):
    """Answer the question from a corpus of numbered passages, which you search and read with tools. Go on, with as many
    calls at a time as you like, until what you have read answers the question; searches show no more than a few
    sentences of a passage, so read those that look useful as a whole before you rely on them. Then reply with the
    answer instead of a call.
    """

    question: str = dspy.InputField()
    transcript: list[str] = dspy.InputField(desc="calls and results so far, oldest first")
    answer: PlainText = dspy.OutputField(desc="as short as it can be; yes or no for a yes/no question")
