"""What people are asked, and the grades they may give: the scales of the papers' human evaluations.

- "How Credible Is an Answer From Retrieval-Augmented LLMs?", section 3 (human filtering of key facts) and section 6.2
  (sentences helpful or not; completeness in five grades).
- Shi et al., "Generate-then-Ground in Retrieval-Augmented Generation for Multi-hop Question Answering", ACL 2024,
  appendix IV (stepwise correctness in three grades, two annotators, a third where they differ) and section 7.2
  (success, failure and error of the grounding). https://arxiv.org/abs/2406.14891
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from signatures.common.errors import UserError, unknown

EDIT = "edit"
_CREDIBLE = "How Credible Is an Answer From Retrieval-Augmented LLMs?"
_GENGROUND = "https://arxiv.org/abs/2406.14891"


@dataclass(frozen=True)
class Grade:
    """One grade of a scale.

    Args:
        value: What is stored.
        label: What people read.
        key: The key that gives it on the page and in the terminal.
        score: Its number in [0, 1] for means; None where grades are no numbers.
    """

    value: str
    label: str
    key: str
    score: float | None


@dataclass(frozen=True)
class Scale:
    """One question put to people about one unit.

    Args:
        name: How it is chosen on the command line.
        unit: What is judged.
        task: What people are asked, in a sentence or two.
        grades: From worst to best where they have an order.
        ordered: Whether neighbouring grades are nearer than others.
        raters: How many people judge a unit, unless the user says otherwise.
        settle: "majority": people must agree, and where they do not one more is asked; "mean": they are averaged.
        source: Where the scale comes from.
    """

    name: str
    unit: Literal["key fact", "sentence", "answer", "hop"]
    task: str
    grades: tuple[Grade, ...]
    ordered: bool
    raters: int
    settle: Literal["majority", "mean"]
    source: str

    @property
    def values(self) -> Sequence[str]:
        """The values of the grades, in order."""
        return [grade.value for grade in self.grades]

    def grade(self, value: str) -> Grade:
        """Return the grade of a value; numbers may be written in any way, such as ".5" for "0.5".

        Raises:
            UserError: The scale has no such grade.
        """
        for grade in self.grades:
            if grade.value == value.strip() or _same_number(grade.value, value):
                return grade
        raise UserError(f"{value!r} is no grade of {self.name!r}. Choose from: {', '.join(self.values)}.")


def _same_number(first: str, second: str) -> bool:
    try:
        return float(first) == float(second)
    except ValueError:
        return False


KEYFACTS = Scale(
    "keyfacts",
    "key fact",
    "Accept a fact that the references state, that the answer needs and that no other fact repeats. Edit one that is "
    "right but badly worded; reject the rest.",
    (
        Grade("accept", "Accept", "a", None),
        Grade(EDIT, "Edit", "e", None),
        Grade("reject", "Reject", "r", None),
    ),
    ordered=False,
    raters=1,
    settle="majority",
    source=f"{_CREDIBLE}, section 3",
)

HELPFUL = Scale(
    "helpful",
    "sentence",
    "Does this sentence help to answer the question?",
    (Grade("0", "Not helpful", "0", 0.0), Grade("1", "Helpful", "1", 1.0)),
    ordered=True,
    raters=1,
    settle="mean",
    source=f"{_CREDIBLE}, section 6.2",
)

COMPLETENESS = Scale(
    "completeness",
    "answer",
    "How completely does this answer the question?",
    (
        Grade("0", "Inadequate", "1", 0.0),
        Grade("0.25", "A quarter", "2", 0.25),
        Grade("0.5", "Half", "3", 0.5),
        Grade("0.75", "Nearly all", "4", 0.75),
        Grade("1", "Complete", "5", 1.0),
    ),
    ordered=True,
    raters=1,
    settle="mean",
    source=f"{_CREDIBLE}, section 6.2",
)

STEPWISE = Scale(
    "stepwise",
    "answer",
    "Follow the steps against the references: is the way to the answer correct, step by step?",
    (
        Grade("0", "Wrong", "1", 0.0),
        Grade("0.5", "Partly correct", "2", 0.5),
        Grade("1", "Correct", "3", 1.0),
    ),
    ordered=True,
    raters=2,
    settle="majority",
    source=f"{_GENGROUND}, appendix IV",
)

HOPS = Scale(
    "hops",
    "hop",
    "Success: the hop's answer is correct, at once or after checking. Failure: the first answer was wrong and stayed "
    "wrong. Error: a correct first answer was made wrong.",
    (
        Grade("success", "Success", "s", 1.0),
        Grade("failure", "Failure", "f", 0.0),
        Grade("error", "Error", "e", 0.0),
    ),
    ordered=False,
    raters=1,
    settle="majority",
    source=f"{_GENGROUND}, section 7.2",
)

ANSWER_SCALES = {scale.name: scale for scale in (HELPFUL, COMPLETENESS, STEPWISE, HOPS)}
SCALES = {KEYFACTS.name: KEYFACTS, **ANSWER_SCALES}


def answer_scale(name: str) -> Scale:
    """Return the scale of that name for rating answers.

    Raises:
        UserError: There is none.
    """
    if name not in ANSWER_SCALES:
        raise unknown("scale", name, ANSWER_SCALES)
    return ANSWER_SCALES[name]
