"""The option groups of `verihop distill synthesize`."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, TypeVar

from experiments.cli.shared import options
from experiments.cli.shared.settings.known import OF_MODEL
from programs.lms.spec import UNNAMED, LMSpec
from signatures.common.errors import unknown
from signatures.common.specs import Field, Range

if TYPE_CHECKING:
    from optimizers.distill.cov_rag import VerificationSettings
    from optimizers.distill.genground import GroundingSettings

Chosen = TypeVar("Chosen", bound=str)


@dataclass(frozen=True)
class Teacher(LMSpec):
    """The LM that writes the trajectories, and how it is called."""

    PANEL: ClassVar[str] = "Teacher"
    NO_SETTINGS: ClassVar[frozenset[str]] = frozenset({"id", *OF_MODEL})  # those are of the LM that answers
    id: Annotated[
        str | None,
        Field(
            "LM that writes the replies: any id that --lm of other commands takes; by default that of "
            "--artifact. gold asks no LM and takes gold annotations.",
            "--teacher",
            decides=True,
        ),
    ] = None


@dataclass(frozen=True)
class Recipe:
    """What is made of a question."""

    PANEL: ClassVar[str] = "Recipe"
    recipe: Annotated[
        str,
        Field(
            "program: every predictor call of --program. genground: grounding of drafts in noisy passages. "
            "cov_rag: answers with citations, and verification of right and wrong ones."
        ),
    ] = "program"
    answers: Annotated[
        LMSpec,
        options.other_lm(
            "answers_",
            "LM whose answers are checked: GenGround's drafts, CoV-RAG's seed model; by default the teacher.",
            "the server of --answers-lm",
            "with the API key of --answers-api-base",
        ),
    ] = UNNAMED
    batch_passages: Annotated[
        int, Range(1, 20), Field("genground: passages in the student's prompt, the gold one included.")
    ] = 3
    empty_share: Annotated[
        float, Range(0, 1), Field("genground: share of questions with an example of noise alone, too (paper: none).")
    ] = 0.0
    answer_share: Annotated[
        float, Range(0, 1), Field("cov_rag: share of the questions that teach to answer (paper: half).")
    ] = 0.5
    negatives: Annotated[
        int, Range(0, 20), Field("cov_rag: wrong responses added per question that teaches to verify.")
    ] = 1
    means: Annotated[str, Field("cov_rag: how wrong responses are made, in turn, separated by commas.")] = (
        "repetition,citations,retrieval,query"
    )
    verdicts: Annotated[
        str,
        Field(
            "cov_rag: scores and judgements from gold, teacher, or both (gold, and the teacher's revised question "
            "where gold has none)."
        ),
    ] = "both"
    show_gold: Annotated[bool, Field("cov_rag: the teacher sees the gold answers when it verifies.", "--show-gold")] = (
        False
    )
    strict: Annotated[
        bool, Field("cov_rag: wrong citations and repetition make a right response false.", "--strict")
    ] = False
    n_references: Annotated[int, Range(1, 20), Field("cov_rag: references of each response (paper: 5).")] = 5

    def grounding(self) -> "GroundingSettings":
        """Return the settings of the recipe genground."""
        from optimizers.distill.genground import GroundingSettings

        return GroundingSettings(batch_size=self.batch_passages, empty_share=self.empty_share)

    def verification(self) -> "VerificationSettings":
        """Return the settings of the recipe cov_rag."""
        from optimizers.distill.cov_rag import LABELS, VerificationSettings
        from optimizers.distill.negatives import MEANS

        return VerificationSettings(
            answer_share=self.answer_share,
            negatives=self.negatives,
            means=[_one_of(MEANS, name, "means of making wrong responses") for name in names_in(self.means)],
            labels=_one_of(LABELS, self.verdicts, "verdicts"),
            show_gold=self.show_gold,
            strict=self.strict,
            k=self.n_references,
        )


def names_in(text: str) -> list[str]:
    """Return the names in a list separated by commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


def _one_of(choices: tuple[Chosen, ...], name: str, kind: str) -> Chosen:
    for choice in choices:
        if choice == name:
            return choice
    raise unknown(kind, name, choices)
