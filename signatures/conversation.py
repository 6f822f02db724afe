"""The signature that makes a follow-up question of a conversation self-contained."""

import dspy

from signatures.types import Turn


class RewriteFollowUp(dspy.Signature):
    """Rewrite the last question of a conversation so that it can be understood without the turns before.

    Replace each pronoun and each description by the name that it stands for, and add what was left out. Keep the rest
    of its words, and do not answer it. A question that needs nothing from the turns stays as it is.
    """

    turns: list[Turn] = dspy.InputField(desc="earlier questions and their answers, oldest first")
    question: str = dspy.InputField(desc="the last question")
    rewritten: str = dspy.OutputField(desc="one question that names everything it is about")
