"""Signatures of CoV-RAG (He et al., EMNLP Findings 2024, https://arxiv.org/abs/2410.05801).

`VerifyAnswer` has the criteria and the order of outputs of the paper's verification prompt (appendices A and E), with
bias as defined there: the distance to the examiner's own answer, not to the references.

Departure: its wording is shorter, it says what 0, 0.5 and 1 mean, and its outputs are typed fields instead of JSON. Of
the criterion for the references it asks how much of the needed information they have, not how related they are, and
does not say that this score affects the response's. The paper also asks to put the interrogative pronoun of a revised
question at its end, which its own examples do not follow.
`ReviseQuestion` and `RewriteQuestion` serve ablations for which the paper prints no prompt.
"""

from typing import Literal

import dspy

from signatures.types import Passage

Judgement = Literal["true", "false", "unclear"]

# The criteria, shared with the LM judge (`signatures/dimensions.py`); `{text}` is what the prompt calls the answer.
CORRECTNESS = "is the question answered rightly? 0: no, 0.5: in part, 1: fully"
CITATION_ACCURACY = (
    "do the {text}'s passage numbers point to passages that say the same? 0: none do, or it has none, 0.5: half, 1: all"
)
TRUTHFULNESS = (
    "is the {text} in itself free of contradictions and errors of logic or common sense? "
    "0: full of them, 0.5: one, 1: none"
)
BIAS = (
    "how far does the {text} depart from the one that you would give yourself, without relying on any passages? "
    "0: no difference, 0.5: some, 1: a big difference"
)
CONCISENESS = "does the {text} come to the point, without padding? 0: mostly padding, 0.5: half, 1: no padding"


class VerifyAnswer(dspy.Signature):
    """Examine the response to the question: score the passages, score the response, judge it, then revise the question.

    Scores run from 0 to 1. The judgement follows from the scores, above all from the bias. Unless the judgement is
    true, revise the question so that a web search finds what the passages lack, or, if they suffice, so that it is
    easier to answer: keep its meaning, name what is known in full, end with a question mark. If the judgement is true,
    leave the revision empty.
    """

    passages: list[Passage] = dspy.InputField()
    question: str = dspy.InputField()
    response: str = dspy.InputField(
        desc="the response to examine, with its passage numbers in square brackets; empty if there was none"
    )
    reference_correctness: float = dspy.OutputField(
        desc="how much of the information that the question needs is in the passages? 0: none, 0.5: half, 1: all"
    )
    correctness: float = dspy.OutputField(desc=CORRECTNESS)
    citation_accuracy: float = dspy.OutputField(desc=CITATION_ACCURACY.format(text="response"))
    truthfulness: float = dspy.OutputField(desc=TRUTHFULNESS.format(text="response"))
    bias: float = dspy.OutputField(desc=BIAS.format(text="response"))
    conciseness: float = dspy.OutputField(desc=CONCISENESS.format(text="response"))
    judgement: Judgement = dspy.OutputField(desc="is the response accurate, factual and clear?")
    revised_question: str = dspy.OutputField(desc="a question that ends with ?; empty if the judgement is true")


class ReviseQuestion(dspy.Signature):
    """When the response does not answer the question rightly, revise the question so that a search finds what it lacks.

    Keep its meaning, name what is known in full, end with a question mark. Leave the revision empty when the response
    is right.
    """

    passages: list[Passage] = dspy.InputField()
    question: str = dspy.InputField()
    response: str = dspy.InputField(
        desc="the answer to examine, with its passage numbers in square brackets; empty if there was none"
    )
    revised_question: str = dspy.OutputField(desc="a question that ends with ?; empty if the response is right")


class RewriteQuestion(dspy.Signature):
    """Rewrite the question so that a search engine finds passages that answer it.

    Keep its meaning, and end with a question mark.
    """

    question: str = dspy.InputField()
    revised_question: str = dspy.OutputField(desc="one question that is easy to search for and ends with ?")
