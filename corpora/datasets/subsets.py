"""Named subsets of the sizes that papers report on, the same on every machine.

No paper lists the ids of its sample, so the seed is ours, and scores differ from published ones by sampling error, too.
WebGLM's 400 questions of NQ-open and of WebQuestions, and IRCoT's 500, are separate files: convert them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from corpora.questions import Question, select
from signatures.common.errors import UserError, unknown


@dataclass(frozen=True)
class Subset:
    """A subset of a dataset.

    Args:
        dataset: The key of DATASETS it is sampled from.
        why: Which paper reports on such a subset.
        size: Number of questions; None keeps all of this type and split.
        split: Keep the questions of this split; None keeps all.
        type: Keep the questions of this type; None keeps all.
        one_per: Keep the first question of each value of this key; None keeps all.
        seed: Of the sample.
    """

    dataset: str
    why: str
    size: int | None = None
    split: str | None = None
    type: str | None = None
    one_per: str | None = None
    seed: int = 0


_FIVE_HUNDRED = "500 random dev questions, as in MetaRAG and RetroRAG"
_GENGROUND = "1,400 random dev questions, as in GenGround"
_COVRAG = "random questions, as in CoV-RAG (its published scores are consistent with 400)"

SUBSETS: dict[str, Subset] = {
    "hotpotqa-500": Subset("hotpotqa", f"{_FIVE_HUNDRED}, and in the RaLLM credibility benchmark", 500, "dev"),
    "2wikimultihopqa-500": Subset("2wikimultihopqa", _FIVE_HUNDRED, 500, "dev"),
    "hotpotqa-1400": Subset("hotpotqa", _GENGROUND, 1400, "dev"),
    "2wikimultihopqa-1400": Subset("2wikimultihopqa", _GENGROUND, 1400, "dev"),
    "musique-1400": Subset("musique", _GENGROUND, 1400, "dev"),
    "triviaqa-400": Subset("triviaqa", f"400 {_COVRAG}", 400),
    "mintaka-400": Subset("mintaka", f"400 {_COVRAG}", 400),
    "halluqa-knowledge": Subset("halluqa", "the 206 questions of category Knowledge, as in RetroRAG", type="Knowledge"),
    "hover-3hop": Subset(
        "hover",
        "claims of three hops, one of each HotpotQA question, as in DSPy's tutorial",
        type="3hop",
        one_per="hpqa_id",
    ),
}


def take(name: str, questions: Sequence[Question]) -> list[Question]:
    """Return the named subset of a dataset's questions; a smaller one of the same seed is a prefix of a larger one.

    Raises:
        UserError: Unknown name, or too few questions of its split and type.
    """
    if name not in SUBSETS:
        raise unknown("subset", name, SUBSETS)
    subset = SUBSETS[name]
    candidates = [question for question in questions if subset.type in (None, question.type)]
    if not candidates:
        raise UserError(f"No question has the type {subset.type!r}: {name} is a sample of {subset.dataset}.")
    if subset.one_per is not None:
        firsts = {(each.model_extra or {}).get(subset.one_per, each.id): each for each in reversed(candidates)}
        candidates = list(reversed(firsts.values()))
    sample = select(candidates, split=subset.split, limit=subset.size, seed=subset.seed if subset.size else None)
    if subset.size is not None and len(sample) < subset.size:
        raise UserError(f"{name} takes {subset.size} questions, there are {len(sample)}: convert the complete file.")
    return sample
