"""Demonstrations of GenGround's deduction (section 3.1), for its knob `few_shot`.

The paper's own are in a figure that its text lacks. These are invented, as are all their names: a question that chains
two facts, and one that compares two. Each deduction of both is a demonstration, so that together they show one hop per
step, a hop that builds on the evidence before it, and how to finish.
"""

from collections.abc import Sequence

import dspy

from signatures.types import Hop


def _deductions(question: str, hops: Sequence[Hop], answer: str) -> list[dspy.Example]:
    """Return one demonstration for each deduction of a question: one for each hop, one that finishes."""
    steps = [
        dspy.Example(
            question=question, hops=list(hops[:settled]), finished=False, sub_question=hop.question, answer=hop.answer
        )
        for settled, hop in enumerate(hops)
    ]
    end = dspy.Example(question=question, hops=list(hops), finished=True, sub_question=question, answer=answer)
    return [*steps, end]


DEDUCTIONS = (
    *_deductions(
        "In which river does the island lie on which the composer of the opera The Glass Orchard was born?",
        [
            Hop(
                question="Who composed the opera The Glass Orchard?",
                answer="Ismene Varrault",
                evidence="The Glass Orchard is an opera in three acts by Ismene Varrault, first given in 1911.",
            ),
            Hop(
                question="On which island was the composer Ismene Varrault born?",
                answer="Tollen",
                evidence="Ismene Varrault was born on Tollen, the daughter of a ferryman.",
            ),
            Hop(
                question="In which river does the island of Tollen lie?",
                answer="the Sarne",
                evidence="Tollen is the largest island in the Sarne.",
            ),
        ],
        "the Sarne",
    ),
    *_deductions(
        "Was the Brannoch Viaduct opened before the Lisk Tunnel?",
        [
            Hop(
                question="In which year was the Brannoch Viaduct opened?",
                answer="1874",
                evidence="Trains have crossed the Brannoch Viaduct since it was opened in May 1874.",
            ),
            Hop(
                question="In which year was the Lisk Tunnel opened?",
                answer="1869",
                evidence="The Lisk Tunnel was opened in 1869 and widened in 1902.",
            ),
        ],
        "no",
    ),
)
