"""Signatures of GenRead (Yu et al., ICLR 2023, https://arxiv.org/abs/2209.10063), and of its use on sub-questions.

`WriteDocument` and `AskNext` serve GRG (https://arxiv.org/abs/2307.11278), too. `AskNext` is the decomposition that Shi
et al. (ACL 2024, https://arxiv.org/abs/2406.14891, section 5.2) put in front of both.
"""

import dspy

from signatures.types import Hop


class WriteDocument(dspy.Signature):
    """Write, from what you know, a background document that answers the question, in the manner of an encyclopedia.

    State the facts about everyone and everything that the question names, and the fact that it asks for.
    """

    question: str = dspy.InputField()
    document: str = dspy.OutputField(desc="one paragraph of full sentences, at most 200 words")


class AskNext(dspy.Signature):
    """Take the next step toward answering the question: pose one simpler question about a single fact.

    Ask what the settled hops leave open, never what one of them already asked; do not answer it. When the settled hops
    already decide the question, set finished, leave the sub-question empty, and give the answer to the question.
    """

    hops: list[Hop] = dspy.InputField(desc="settled so far, oldest first")
    question: str = dspy.InputField()
    finished: bool = dspy.OutputField(desc="do the settled hops decide the question?")
    sub_question: str = dspy.OutputField(
        desc="asks for one fact; names every entity in full, no pronouns; empty if finished"
    )
    answer: str = dspy.OutputField(
        desc="empty unless finished; a name, date, number or short phrase; yes or no for a yes/no question"
    )
