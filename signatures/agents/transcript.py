"""The signature that agents share: the answer from a transcript that has ended.

It is the last call of `dspy.ReAct` (https://github.com/stanfordnlp/dspy, `dspy/predict/react.py`), with which an answer
exists even where the steps ran out.
"""

import dspy

TRANSCRIPT = "thoughts, actions and results so far, oldest first"


class ExtractAnswer(dspy.Signature):
    """The search has ended. Answer the question with what its transcript tells, and with your best guess if it tells
    too little. Give the answer alone, as short as it can be.
    """

    question: str = dspy.InputField()
    transcript: list[str] = dspy.InputField(desc="thoughts, actions and results, oldest first")
    answer: str = dspy.OutputField(desc="a name, date, number or short phrase; yes or no for a yes/no question")
