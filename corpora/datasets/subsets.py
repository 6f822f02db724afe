"""Named subsets: the sizes that papers report on, drawn the same way on every machine.

No paper prints the ids it drew, so the seed is ours, and scores compare with a paper's only as those of two samples do.
WebGLM's 400 questions of NQ-open and of WebQuestions and IRCoT's 500 are files of their own: convert them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from corpora.questions import Question, select
from signatures.common.errors import UserError, unknown


@dataclass(frozen=True)
class Subset:
    """A part of a data set.

    Args:
        dataset: The key of DATASETS it is drawn from.
        why: Who reports on a part of this kind.
        size: Number of questions; None keeps all that `type` and `split` leave.
        split: Keep the questions of this split; None keeps all.
        type: Keep the questions of this type; None keeps all.
        seed: Of the draw.
    """

    dataset: str
    why: str
    size: int | None = None
    split: str | None = None
    type: str | None = None
    seed: int = 0


_FIVE_HUNDRED = "500 random dev questions, as MetaRAG and RetroRAG take"
_GENGROUND = "1,400 random dev questions, as GenGround takes"
_COVRAG = "random questions, as CoV-RAG takes (its printed scores fit 400)"

SUBSETS: dict[str, Subset] = {
    "hotpotqa-500": Subset("hotpotqa", f"{_FIVE_HUNDRED}; so does the RaLLM credibility benchmark", 500, "dev"),
    "2wikimultihopqa-500": Subset("2wikimultihopqa", _FIVE_HUNDRED, 500, "dev"),
    "hotpotqa-1400": Subset("hotpotqa", _GENGROUND, 1400, "dev"),
    "2wikimultihopqa-1400": Subset("2wikimultihopqa", _GENGROUND, 1400, "dev"),
    "musique-1400": Subset("musique", _GENGROUND, 1400, "dev"),
    "triviaqa-400": Subset("triviaqa", f"400 {_COVRAG}", 400),
    "mintaka-400": Subset("mintaka", f"400 {_COVRAG}", 400),
    "halluqa-knowledge": Subset("halluqa", "the 206 questions of knowledge, as RetroRAG takes", type="Knowledge"),
}


def take(name: str, questions: Sequence[Question]) -> list[Question]:
    """Return the named subset of a data set's questions; a smaller one of the same seed is a prefix of a larger one.

    Raises:
        UserError: Unknown name, or too few questions of its split and type.
    """
    if name not in SUBSETS:
        raise unknown("subset", name, SUBSETS)
    subset = SUBSETS[name]
    left = [question for question in questions if subset.type in (None, question.type)]
    if not left:
        raise UserError(f"No question has the type {subset.type!r}: {name} is drawn from {subset.dataset}.")
    drawn = select(left, split=subset.split, limit=subset.size, seed=subset.seed if subset.size else None)
    if subset.size is not None and len(drawn) < subset.size:
        raise UserError(f"{name} takes {subset.size} questions, there are {len(drawn)}: convert the whole file.")
    return drawn
