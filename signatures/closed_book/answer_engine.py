"""The signature of a hosted answer engine, which searches by itself (He et al., Findings of EMNLP 2024, table 2).

https://arxiv.org/abs/2410.05801
"""

import dspy


class SearchAndAnswer(dspy.Signature):
    """Search the web for the question, and answer it in one to four full sentences. Mark after each sentence the
    sources that it rests on.
    """

    question: str = dspy.InputField()
    response: str = dspy.OutputField(desc="full sentences with your usual marks of sources, such as [1]")
