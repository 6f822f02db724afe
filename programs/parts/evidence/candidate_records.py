"""Records of scored evidence: which candidates were kept, which were dropped, and why; and the gate of inferences."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import dspy

from programs.parts.gates import Gate
from programs.parts.longform import gives_answer
from programs.parts.passages import Key, passes, passing, titled_text, top
from programs.parts.prediction import drop_from_trace, try_predict
from programs.parts.probability import YesNoQuestion, YesNoScores, even_groups, listed_scores
from programs.parts.stop_reasons import CAP, FINISHED
from signatures.common.errors import UserError
from signatures.types import Candidate, Hop, Passage

_UNSCORED = "kept without a score"
Score = float | None  # None if unparseable


def passage_candidates(
    passages: Sequence[Passage], scores: Mapping[str, float | None], kept: Collection[str], size: int
) -> list[Candidate]:
    """Return the records of passages of which the best `size` were kept.

    Args:
        passages: The candidates, in the order they were scored.
        scores: P(yes) by passage id, None if unparseable; empty if all were kept without a score.
        kept: Ids of those kept.
        size: The number kept at most.
    """
    reasons = rank_reasons(scores, size)
    return [
        Candidate(
            text=titled_text(passage),
            passage_id=passage.id,
            score=scores.get(passage.id),
            kept=passage.id in kept,
            reason=reasons.get(passage.id, _UNSCORED),
        )
        for passage in passages
    ]


def inference_candidates(
    inferences: Sequence[str],
    scores: Mapping[str, float | None],
    kept: Collection[str],
    size: int,
    gates: Mapping[tuple[str, str], float | None],
    thresholds: Mapping[str, float],
) -> list[Candidate]:
    """Return the records of inferences that were gated and of which the best `size` were kept.

    Args:
        inferences: The candidates, in the order they were scored.
        scores: P(yes) by inference, None if unparseable; empty if all that passed were kept without a score.
        kept: Those kept.
        size: The number kept at most.
        gates: P(yes) of each gate that was applied, by inference and name of the gate; None if unparseable.
        thresholds: The bound of each gate, which its score must exceed.
    """
    gates_of = dict(zip(inferences, scores_of(inferences, gates), strict=True))
    failures = {text: gate_failures(gates_of[text], thresholds) for text in inferences}
    ranked = {text: score for text, score in scores.items() if not failures[text]}
    reasons = rank_reasons(ranked, size)
    return [
        Candidate(
            text=text,
            score=scores.get(text),
            kept=text in kept,
            reason=failures[text] or reasons.get(text, _UNSCORED),
            gates=gates_of[text],
        )
        for text in inferences
    ]


def scores_of(inferences: Sequence[str], gates: Mapping[tuple[str, str], Score]) -> list[dict[str, Score]]:
    """Return the scores of each inference by name of the gate, given them by inference and name."""
    return [{name: score for (gated, name), score in gates.items() if gated == text} for text in inferences]


def gate_values(
    inferences: Sequence[str],
    gates: Mapping[tuple[str, str], Score],
    scores: Mapping[str, Score],
    size: int,
) -> dict[str, Any]:
    """Return the values of the gate `EVIDENCE` for inferences, their gates and scores as for `inference_candidates`."""
    ranked = [scores[text] for text in inferences] if scores else None
    return {"gates": scores_of(inferences, gates), "scores": ranked, "size": size}


def best_inferences(values: Mapping[str, Any], knobs: Mapping[str, Any]) -> list[int]:
    """Return the positions of the inferences to keep, best first: those that pass their gates, by score.

    Args:
        values: `gates`, the scores of each inference by name of the gate; `scores`, by which they are ranked, or None
            to keep all that pass, in order; `size`, the number kept at most if they are ranked.
        knobs: `relevance_gate` and `attribution_gate`.
    """
    gates, scores = values["gates"], values["scores"]
    thresholds = {"relevance": knobs["relevance_gate"], "attribution": knobs["attribution_gate"]}
    by_key = {(place, name): score for place, found in enumerate(gates) for name, score in found.items()}
    passed = passing(range(len(gates)), by_key, thresholds)
    return passed if scores is None else top({place: scores[place] for place in passed}, values["size"])


EVIDENCE = Gate(best_inferences, ("relevance_gate", "attribution_gate"))


def untested_candidates(inferences: Sequence[str], size: int) -> list[Candidate]:
    """Return the records of inferences that were dropped untested, because only the first `size` are tested."""
    reason = f"beyond the first {size} of the round"
    return [Candidate(text=text, kept=False, reason=reason) for text in inferences]


def rank_reasons(scores: Mapping[Key, float | None], size: int) -> dict[Key, str]:
    """Return the score and rank of each key as text, with a note for ranks beyond `size`."""
    return {
        key: f"{_shown('score', scores[key])}, rank {rank} of {len(scores)}"
        + (f", beyond the best {size}" if rank > size else "")
        for rank, key in enumerate(top(scores, len(scores)), start=1)
    }


def gate_failures(scores: Mapping[str, float | None], thresholds: Mapping[str, float]) -> str:
    """Return the gates that were not passed, with score and threshold, as text; empty if all were passed."""
    failed = {name: score for name, score in scores.items() if not passes(score, thresholds[name])}
    return "; ".join(
        _shown(name, score) + ("" if score is None else f", not above {thresholds[name]:g}")
        for name, score in failed.items()
    )


def _shown(name: str, score: float | None) -> str:
    return f"{name} unparseable" if score is None else f"{name} {score:.2f}"


ACCEPTED, DISAGREED, NO_ANSWER, UNPARSEABLE, FINAL = "accepted", "disagreed", "no answer", "unparseable", "final"


class Answer(NamedTuple):
    """The two answers of a round and, once judged, the verdict on them."""

    replies: list[dspy.Prediction | None]  # with reasoning, then direct; None if unparseable
    text: str  # a; empty if unparseable
    reasoning: str  # r
    direct: str | None  # the monitoring answer a_sc; None if there is none
    answered: float | None = None  # P(yes) that a is an answer; None if not judged or unparseable
    agreement: float | None = None  # s_sc; None if not judged or unparseable
    verdict: str | None = None
    source: list[Passage] = []  # the E_s that it was drawn from

    @property
    def accepted(self) -> bool:
        """Whether both answers agree, so that the loop ends."""
        return self.verdict == ACCEPTED

    @property
    def stop_reason(self) -> str:
        """Why a loop whose last answer this is has ended."""
        return FINISHED if self.accepted else CAP


def refusal(answer: Answer) -> str | None:
    """Return the verdict on a reply that need not be judged (unparseable, empty, "unknown" or a refusal), or None."""
    if gives_answer(answer.text):
        return None
    return NO_ANSWER if answer.replies[0] else UNPARSEABLE


def verdict(answered: float | None, agreement: float | None, *, threshold: float) -> str:
    """Return the verdict for P(yes) that a reply is an answer and that the other agrees; None is unparseable.

    A reply is an answer above 0.5, the bound of the paper's gates; for this judgement it names none.
    """
    if answered is not None and not passes(answered, 0.5):
        return NO_ANSWER
    if answered is None or agreement is None:
        return UNPARSEABLE  # Departure: the loop continues.
    return ACCEPTED if passes(agreement, threshold) else DISAGREED


ACCEPTANCE = Gate(lambda values, knobs: verdict(**values, threshold=knobs["threshold"]), ("threshold",))


def final_answer(answers: list[Answer]) -> Answer | None:
    """Return the last answer, whatever was judged of it; None if no reply answers, in whichever words it declines.

    The last round's prompt does not offer "unknown". If its reply is unparseable, or declines nonetheless, the latest
    earlier answer is returned. Of these, answers that were judged to be none, or whose judgement was lost, come after
    the others, since a judgement may be wrong, and the paper's loop never abstains; those from memory, after all that
    were read.

    Departure: the paper does not say what its loop returns if no answer was accepted; that it is the last one follows
    from its ablation without answer evaluation.
    """
    given = [answer for answer in answers if gives_answer(answer.text)]
    if given and given[-1] is answers[-1]:
        return given[-1]
    read = [answer for answer in given if answer.source] or given
    trusted = [answer for answer in read if answer.verdict not in {NO_ANSWER, UNPARSEABLE}]
    return next(reversed(trusted or read), None)


def drop_unused(answers: list[Answer], final: Answer | None) -> None:
    """Remove the replies that did not lead to the final answer from the trace: they must not become demos."""
    for answer in answers:
        used = 0 if answer is not final else 2 if answer.accepted else 1  # of its replies
        drop_from_trace(*answer.replies[used:])


def answer_hop(search: str, added: list[str], answer: Answer, records: list[Candidate], *, final: bool) -> Hop:
    """Return the hop of a round.

    Args:
        search: The search query.
        added: Ids of the passages that the search added.
        answer: The answers of the round.
        records: All evidence scored.
        final: The answer is the output of the program, even if it was not accepted.
    """
    verdict = FINAL if final and not answer.accepted else answer.verdict
    result = {"answer": answer.text, "draft": answer.direct, "verdict": verdict}
    return Hop(question=search, passage_ids=added, candidates=records, **result)


class State(NamedTuple):
    """What a round starts from. Steps return a new state; only `scores`, a cache, is shared by all rounds."""

    question: str  # q
    scores: YesNoScores  # of all yes/no questions asked so far
    query: str = ""  # q_s; empty while it is q itself
    entities: list[str] | None = None  # k; None until named
    source: list[Passage] = []  # E_s, best first
    inferences: list[str] = []  # E_i, best first
    read: list[Passage] = []  # E_s of all rounds
    last: bool = False  # this is the last round


MOST_TOGETHER = 20  # pieces in one call


def check_size(name: str, size: int) -> None:
    """Raise UserError unless `size`, the value of a knob, is a number of pieces for one call."""
    if not 1 <= size <= MOST_TOGETHER:
        raise UserError(f"Knob {name} must be from 1 to {MOST_TOGETHER}, got {size}.")


class Weighing(NamedTuple):
    """Asks how far pieces of evidence contribute to answering a question.

    One at a time, the score of a piece is P(yes). Together, it is a number that the LM writes in a list: coarser, in
    view of the other pieces, and the same whatever the mode of P(yes). A list that is unparseable or has another length
    than the pieces is not used, and neither is a number outside its scale; such pieces are weighed one at a time.

    Args:
        single: Predicts `contributes` from `evidence`, `question` and `query`.
        together: Predicts `scores` from `question`, `query` and `pieces`; None if pieces are weighed one at a time.
        size: The most pieces of one call; 1 for one at a time.
    """

    single: dspy.Predict
    together: dspy.Predict | None = None
    size: int = 1

    def ask(
        self, scores: YesNoScores, pieces: Mapping[Key, str], *, question: str, query: str
    ) -> dict[Key, float | None]:
        """Return the score of each piece in [0, 1], None if the reply was unparseable; no piece is weighed twice."""
        of = {
            key: YesNoQuestion(self.single, evidence=text, question=question, query=query)
            for key, text in pieces.items()
        }
        return scores.ask(of) if self.together is None else scores.ask_together(of, self.size, self._scores)

    def max_calls(self, pieces: int, per_score: int) -> int:
        """Return the most LM calls that weighing takes: each list unusable.

        Args:
            pieces: Not weighed before.
            per_score: Calls per P(yes).
        """
        lists = 0 if self.together is None else sum(len(group) > 1 for group in even_groups(range(pieces), self.size))
        return lists + pieces * per_score

    def _scores(self, group: Sequence[YesNoQuestion]) -> list[float | None]:
        texts = [question.inputs["evidence"] for question in group]
        shown = {name: group[0].inputs[name] for name in ("question", "query")}
        pieces = [Passage(id=str(number), text=text) for number, text in enumerate(texts, start=1)]
        reply = try_predict(self.together, **shown, pieces=pieces) if self.together else None
        found = listed_scores(reply.scores if reply else [], len(texts))
        if None in found:
            drop_from_trace(reply)  # a list that was not used whole must not become a demo
        return found
