"""The signature of ReAct (Yao et al., ICLR 2023, https://arxiv.org/abs/2210.03629).

Departure: the paper's step is free text after six demonstrations, "Thought", then "Action" with its argument in
brackets; here it has typed fields, and no demonstrations until it is compiled.
"""

from typing import Literal

import dspy

from signatures.agents.transcript import TRANSCRIPT


class TakeStep(dspy.Signature):
    """Find the answer to the question step by step: think about what the results tell, then take one action.

    Search finds passages about one person, place or thing. Lookup shows the next sentence, of the passages found last,
    that contains some words. Finish as soon as the results tell the answer.
    """

    question: str = dspy.InputField()
    transcript: list[str] = dspy.InputField(desc=TRANSCRIPT)
    thought: str = dspy.OutputField(desc="what is known by now and what to find next, in one or two sentences")
    action: Literal["search", "lookup", "finish"] = dspy.OutputField()
    argument: str = dspy.OutputField(
        desc="to search: a full name or a few words; to lookup: words to find in a sentence; to finish: the answer "
        "alone, as short as it can be, yes or no for a yes/no question"
    )
