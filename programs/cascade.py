"""Cascade: a cheap program answers, and what its run shows decides whether an expensive one is asked.

Our own. The idea of asking a more expensive model only where a score of the cheap answer is low is from Chen et al.,
"FrugalGPT", 2023, section 3 (LLM cascade, https://arxiv.org/abs/2305.05176); that features of one retrieval-augmented
run suffice, without a further LM call, from RASER, 2026 (https://arxiv.org/abs/2606.02488).

1. The cheap program answers.
2. Its run is described by features: scores of the retriever, how far the passages cover the question and state the
   answer, the form of the answer, and what the cheap program itself reports: CoV-RAG's scores, RetroRAG's P(yes), the
   agreement of an ensemble's members.
3. A weighted sum of the features, as a logistic score from 0 to 1, is compared with a threshold: above it, the
   expensive program is asked, and its answer is returned unless it abstains.

With `before=True` the features are those of the question and of a search for it, and one program alone is asked: the
information of the cheap answer is lost, and its cost is saved. Measured, that is better where the expensive program is
the better one on average (`experiments/papers/README.md`, "Cascades").

Weights and threshold are fitted on training questions by `optimizers.cascade`.
"""

from collections.abc import Mapping
from typing import Annotated, Any

import dspy

from programs.parts.gates import Gate, decide
from programs.parts.knobs import Range, set_knobs
from programs.parts.logistic import parse_weights, score
from programs.parts.prediction import completed, make_prediction
from programs.parts.run_features import described, question_features, run_features
from programs.parts.threads import sequential_calls
from signatures.common.errors import UserError
from signatures.types import Passage, Retriever

DEFAULT_WEIGHTS = "bias=-1 refused=4 stated=-2"  # asks where there is no answer, or where no passage states it


class Cascade(dspy.Module):
    """Ask a cheap program, and an expensive one where the cheap run looks doubtful.

    The prediction is that of the program whose answer is returned; `hops` are those of the cheap program, followed by
    those of the expensive one if it was asked. `details`: `asked` (whether the expensive program was), `score` (the
    expensive one is asked above the threshold), `features`, `cheap_answer`, and `answered_by` ("cheap" or "dear") with
    `member_details`, the details of that program.

    Args:
        cheap: Answers every question.
        dear: The expensive program, which answers where the score is above the threshold.
        k: Passages searched for the features if the cheap program reads none; a search makes no LM call.
        threshold: 1 never asks the expensive program.
        weights: Weight of each feature and `bias`, as "bias=-1 stated=-2.5"; features that are not named weigh 0.
        fallback: Whether the cheap answer is returned if the expensive program abstains; not with `before`.
        before: Whether to decide before the cheap program is asked.
    """

    PRESETS: dict[str, dict[str, Any]] = {"paper": {}}
    GATES = {"ask": Gate(lambda values, knobs: asks(values["features"], knobs), ("threshold", "weights"))}

    def __init__(
        self,
        cheap: dspy.Module,
        dear: dspy.Module,
        *,
        k: Annotated[int, Range(1, 20)] = 3,
        threshold: Annotated[float, Range(0, 1)] = 0.5,
        weights: str = DEFAULT_WEIGHTS,
        fallback: bool = True,
        before: bool = False,
    ):
        super().__init__()
        set_knobs(self, locals())
        parse_weights(weights)
        if cheap is dear:
            raise UserError("A cascade needs two programs: the expensive one is the cheap one.")
        self.cheap, self.dear = cheap, dear

    @property
    def retrieve(self) -> Retriever | None:
        """The retriever of the cheap program, or of the expensive one if the cheap one has none."""
        own: Retriever | None = getattr(self.cheap, "retrieve", None)
        return own if own is not None else getattr(self.dear, "retrieve", None)

    def forward(self, question: str, passages: list[Passage] | None = None) -> dspy.Prediction:
        """Return the cheap prediction, or the expensive one; fixed `passages` are given to both programs."""
        asked: dict[str, Any] = {"question": question, "passages": passages}
        cheap = None if self.before else completed(self.cheap(**asked))
        features = self.features(question, cheap, passages)
        expensive = completed(self.dear(**asked)) if decide(self, "ask", features=features) else None
        if cheap is None and expensive is None:
            cheap = completed(self.cheap(**asked))
        return combined(cheap, expensive, features, score(features, self.weights), fallback=self.fallback)

    def features(
        self, question: str, cheap: dspy.Prediction | None, passages: list[Passage] | None = None
    ) -> dict[str, float]:
        """Return what the decision knows of a question.

        Args:
            question: The question.
            cheap: What the cheap program answered; it does not matter with `before`.
            passages: The fixed passages, if there are any.
        """
        run = make_prediction("") if self.before or cheap is None else cheap
        found = described(question, run, self.retrieve, self.k, fixed=passages)
        return question_features(question, found) if run is not cheap else run_features(question, run, found)

    def max_calls(self) -> int:
        """Return the maximum number of LM calls for one question: those of both programs, or of the one with more."""
        both = [self.cheap.max_calls(), self.dear.max_calls()]
        return int(max(both) if self.before else sum(both))

    def max_sequential_calls(self) -> int:
        """Return the most LM calls in sequence for one question, of both programs or of the one with more."""
        both = [sequential_calls(self.cheap), sequential_calls(self.dear)]
        return max(both) if self.before else sum(both)


def combined(
    cheap: dspy.Prediction | None,
    expensive: dspy.Prediction | None,
    features: Mapping[str, float],
    total: float,
    *,
    fallback: bool = True,
) -> dspy.Prediction:
    """Return the prediction of a cascade whose programs gave these; one that was not asked is None."""
    kept = cheap is not None and (expensive is None or (fallback and expensive.abstained and not cheap.abstained))
    chosen: Any = cheap if kept else expensive
    return make_prediction(
        chosen.answer,
        stop_reason=chosen.stop_reason,
        hops=[hop for run in (cheap, expensive) if run is not None for hop in run.hops],
        passages=chosen.passages,
        citations=chosen.citations,
        response=chosen.response,
        abstained=chosen.abstained,
        details={
            "asked": expensive is not None,
            "score": total,
            "features": dict(features),
            "cheap_answer": cheap.answer if cheap is not None else "",
            "answered_by": "cheap" if kept else "dear",
            "member_details": chosen.details,
        },
    )


def asks(features: Mapping[str, float], knobs: Mapping[str, Any]) -> bool:
    """Return whether to ask the expensive program: whether the score for these `weights` is above the `threshold`."""
    return score(features, knobs["weights"]) > knobs["threshold"]
