"""Selective answering: a program answers, and an answer that is not likely enough to be right is withheld.

Kamath et al., "Selective Question Answering under Domain Shift", ACL 2020, sections 2 and 4.2: a calibrator, trained on
answers that are known to be right or wrong, says from features of a run how likely its answer is right, and below a
threshold the program abstains. https://arxiv.org/abs/2006.09462

Departure: the calibrator is a logistic regression instead of a random forest, so that it is a line of text in the
artifact; its features are those of any run (`programs.parts.run_features`), the probability that the LM gave to the
answer among them.

Weights and threshold are fitted on questions with answers by `optimizers.selective`.
"""

from contextlib import nullcontext
from typing import Annotated, Any

import dspy

from programs.parts.gates import Gate, decide
from programs.parts.knobs import Range, set_knobs
from programs.parts.logistic import parse_weights, score
from programs.parts.prediction import completed, make_prediction, observe_hops, settled
from programs.parts.run_features import described, run_features
from programs.parts.stop_reasons import WITHHELD
from programs.parts.threads import sequential_calls
from signatures.types import Passage, Retriever

DEFAULT_WEIGHTS = "bias=-2 confidence=4 unscored=2"  # for `rag` before anything is fitted: as likely as the LM says


class Selective(dspy.Module):
    """Answer only where the answer is likely enough to be right.

    The prediction is that of the program, without answer, hops and citations where it is withheld. `details`:
    `confidence`, the probability in [0, 1] that the program's answer is right, as fitted; `withheld`, the answer that
    is not given, and `withheld_hops`, for traces alone; `features`; and `member_details`, the details of the program.
    Where the program abstains itself there is no confidence. Unless `least` is 0, hops settle at the end.

    Args:
        program: Answers every question.
        least: The least probability of being right with which an answer is given; 0 gives all.
        weights: Weight of each feature and `bias`, as "bias=-2 confidence=4"; features that are not named weigh 0.
    """

    PRESETS: dict[str, dict[str, Any]] = {"paper": {}}
    GATES = {
        "withhold": Gate(
            lambda values, knobs: score(values["features"], knobs["weights"]) < knobs["least"], ("least", "weights")
        )
    }

    def __init__(
        self, program: dspy.Module, *, least: Annotated[float, Range(0, 1)] = 0.5, weights: str = DEFAULT_WEIGHTS
    ):
        super().__init__()
        set_knobs(self, locals())
        parse_weights(weights)
        self.program = program

    @property
    def retrieve(self) -> Retriever | None:
        """The retriever of the program."""
        own: Retriever | None = getattr(self.program, "retrieve", None)
        return own

    def forward(self, question: str, passages: list[Passage] | None = None) -> dspy.Prediction:
        """Return the program's prediction, or none of its answer; fixed `passages` are given to the program."""
        with observe_hops(None) if self.least > 0 else nullcontext():  # they may state an answer that is withheld
            run = completed(self.program(question=question, passages=passages))
        details: dict[str, Any] = {"member_details": run.details}
        withheld = False
        if not run.abstained:
            features = self.features(question, run, passages)
            withheld = decide(self, "withhold", features=features)
            details = {"confidence": score(features, self.weights), "features": features, **details}
        if withheld:
            details |= {"withheld": run.answer, "withheld_hops": [hop.model_dump(mode="json") for hop in run.hops]}
        elif self.least > 0:
            for hop in run.hops:
                settled(hop)
        return make_prediction(
            "" if withheld else run.answer,
            stop_reason=WITHHELD if withheld else run.stop_reason,
            hops=[] if withheld else run.hops,
            passages=run.passages,
            citations=[] if withheld else run.citations,
            response="" if withheld else run.response,
            abstained=withheld or run.abstained,
            details=details,
        )

    def features(self, question: str, run: dspy.Prediction, passages: list[Passage] | None = None) -> dict[str, float]:
        """Return what the probability is computed of (`programs.parts.run_features.FEATURES`).

        Args:
            question: The question.
            run: What the program answered.
            passages: The fixed passages, if there are any.
        """
        return run_features(question, run, described(question, run, self.retrieve, fixed=passages))

    def max_calls(self) -> int:
        """Return the maximum number of LM calls for one question: those of the program."""
        return int(self.program.max_calls())

    def max_sequential_calls(self) -> int:
        """Return the most LM calls in sequence for one question: those of the program."""
        return sequential_calls(self.program)
