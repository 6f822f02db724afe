"""How examples are mixed, and the settings of the papers' recipes: each field once, as `--help` shows it.

Nothing heavy is imported.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, ClassVar, Literal, get_args

from signatures.common.errors import UserError, unknown
from signatures.common.specs import Field, Range, check

_DECIDES = partial(Field, decides=True)


@dataclass(frozen=True, kw_only=True)
class Shares:
    """How much of what is in a mixture.

    Args:
        total: Needs weights.
        cap: None for no cap.
        validation: None keeps the splits that the examples have, but holds a question back everywhere if it is held
            back anywhere.
    """

    PANEL: ClassVar[str] = "Mixture"
    total: Annotated[int | None, Range(1), Field("With --weight, at most N examples.")] = None
    cap: Annotated[int | None, Range(1), Field("Maximum examples of one data set.")] = None
    balance: Annotated[
        bool,
        Field(
            "Finally leave out examples until each predictor has as many for yes, true or the first choice as for no, "
            "false or the second."
        ),
    ] = False
    made_share: Annotated[
        float, Range(0, 1), Field("Maximum share of a skill's examples from the generated world.")
    ] = 0.5
    validation: Annotated[
        float | None,
        Range(0, 0.9),
        Field("Share of the questions held out to measure the loss; by default those of the folders."),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Mixture(Shares):
    """How examples are mixed.

    Args:
        counts: Skill -> most examples; skills that are not named are kept whole.
        weights: Skill -> weight; as many examples as the scarcest skill allows, and of no skill that is not named.
            Neither counts nor weights keep everything.
        seed: Seed of every random choice.

    Raises:
        UserError: A number is out of range, or both counts and weights are given.
    """

    counts: Mapping[str, int] = field(default_factory=dict)
    weights: Mapping[str, float] = field(default_factory=dict)
    seed: int = 0

    def __post_init__(self) -> None:
        if self.counts and self.weights:
            raise UserError("A mixture has counts or weights of its skills, not both.")
        if self.total is not None and not self.weights:
            raise UserError("The total of a mixture needs weights of its skills.")
        if not 0 <= self.made_share <= 1 or not 0 <= (self.validation or 0) < 1:
            raise UserError(
                f"made_share={self.made_share} must be from 0 to 1, validation={self.validation} from 0 to below 1."
            )
        if any(count < 0 for count in self.counts.values()) or (self.cap or 0) < 0 or (self.total or 0) < 0:
            raise UserError("Counts, cap and total of a mixture must not be negative.")
        if any(not 0 < weight < math.inf for weight in self.weights.values()):
            raise UserError("Weights of a mixture must be numbers above 0: leave out unwanted skills.")


@dataclass(frozen=True, kw_only=True)
class GroundingSettings:
    """Settings of the recipe "genground", which reads batches of 3.

    Raises:
        UserError: A number is out of range.
    """

    PANEL: ClassVar[str] = "Recipe"
    batch_size: Annotated[
        int,
        Range(1, 20),
        _DECIDES("genground: passages in the student's prompt, the gold one included.", "--batch-passages"),
    ] = 3
    empty_share: Annotated[
        float, Range(0, 1), _DECIDES("genground: share of questions with an example of noise alone, too (paper: none).")
    ] = 0.0

    def __post_init__(self) -> None:
        check(self)


Means = Literal["repetition", "citations", "retrieval", "query"]
MEANS: tuple[Means, ...] = get_args(Means)


@dataclass(frozen=True, kw_only=True)
class VerificationSettings:
    """Settings of the recipe "cov_rag".

    Args:
        labels: Where scores, judgement and revised question come from.
        show_gold: The paper does not show them.
        strict: See `cov_rag.gold_verification`.

    Raises:
        UserError: A value is not allowed.
    """

    PANEL: ClassVar[str] = "Recipe"
    answer_share: Annotated[
        float, Range(0, 1), _DECIDES("cov_rag: share of the questions that teach to answer (paper: half).")
    ] = 0.5
    negatives: Annotated[
        int, Range(0, 20), _DECIDES("cov_rag: wrong responses added per question that teaches to verify.")
    ] = 1
    means: Annotated[
        tuple[str, ...], _DECIDES("cov_rag: how wrong responses are made, in turn, separated by commas.")
    ] = MEANS
    labels: Annotated[
        Literal["gold", "teacher", "both"],
        _DECIDES(
            "cov_rag: scores and judgements from gold, teacher, or both (gold, and the teacher's revised question "
            "where gold has none).",
            "--verdicts",
        ),
    ] = "both"
    show_gold: Annotated[
        bool, _DECIDES("cov_rag: the teacher sees the gold answers when it verifies.", "--show-gold")
    ] = False
    strict: Annotated[
        bool, _DECIDES("cov_rag: wrong citations and repetition make a right response false.", "--strict")
    ] = False
    k: Annotated[int, Range(1, 20), _DECIDES("cov_rag: references of each response (paper: 5).", "--n-references")] = 5

    def __post_init__(self) -> None:
        check(self)
        for name in self.means:
            if name not in MEANS:
                raise unknown("means of making wrong responses", name, MEANS)
        if self.negatives and not self.means:
            raise UserError("Wrong responses need a way to make them: choose one, or set negatives to 0.")
