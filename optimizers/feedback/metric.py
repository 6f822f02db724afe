"""The metric in the form that GEPA expects: a score, and on demand what was wrong, in words.

GEPA (Agrawal et al., "GEPA: Reflective Prompt Evolution Can Outperform Reinforcement Learning",
https://arxiv.org/abs/2507.19457) shows the text to the LM that writes the next instruction: about the whole prediction
(`prediction.py`) and about each call of one predictor, what it saw and what it should have produced, if the gold knows
it. The names of the signature's fields say what a call is: `sub_question` poses a step, `answer` answers, `query`
searches, `evidence` quotes. A field that no function here knows gets no separate feedback.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import dspy

from optimizers.examples import OptimizerMetric, Score, graded_metric
from optimizers.feedback.gold import Gold, GoldStep, gold_of, matches, quoted
from optimizers.feedback.prediction import describe, on_short_answer
from optimizers.metrics.fields import question_of
from programs.parts.passages import find_quote
from signatures.citation_marks import citation_numbers, strip_citations
from signatures.refusals import refuses
from signatures.types import Hop, Passage
from signatures.yes_no import parse_yes_no


@dataclass(frozen=True)
class ObservedCall:
    """One call of a predictor.

    Args:
        question: The question that the program was asked.
        inputs: What the predictor saw, by field.
        outputs: What it produced, by field.
        gold: The gold of the question.
    """

    question: str
    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any]
    gold: Gold

    @property
    def passages(self) -> list[Passage]:
        """The passages that it saw."""
        return [passage for passage in self.inputs.get("passages") or [] if isinstance(passage, Passage)]

    @property
    def hops(self) -> list[Hop]:
        """The settled hops that it saw."""
        return [hop for hop in self.inputs.get("hops") or [] if isinstance(hop, Hop)]

    @property
    def asked(self) -> str:
        """What it was asked: a sub-question, or the question itself."""
        return str(self.inputs.get("sub_question") or self.inputs.get("question") or self.question)

    @property
    def step(self) -> GoldStep | None:
        """The gold step that it was asked for; None if that is the question itself, or unknown."""
        return None if self.asked == self.question else self.gold.step_of(self.asked)

    @property
    def golds(self) -> tuple[str, ...]:
        """Accepted answers of what it was asked: of the question, or of the gold step; empty if unknown."""
        if self.asked == self.question:
            return self.gold.golds
        return self.step.golds if self.step else ()

    @property
    def needed(self) -> tuple[str, ...]:
        """Ids of the gold passages of what it was asked; those of the whole question if the step is unknown."""
        return self.step.gold_ids if self.step and self.step.gold_ids else self.gold.gold_ids


def describe_call(call: ObservedCall) -> list[str]:
    """Return sentences on what a predictor saw and should have produced; empty if the gold does not decide."""
    known = [WRITERS[name] for name in call.outputs if name in WRITERS]
    if "sub_question" in call.outputs:  # its answer and its end belong to the step
        known = [_on_step]
    said = [sentence for write in dict.fromkeys(known) for sentence in write(call)]
    return [*_on_input(call), *said] if said else []


def _on_input(call: ObservedCall) -> list[str]:
    if "passages" not in call.inputs or not call.needed:
        return []
    seen = {passage.id for passage in call.passages}
    there = [id for id in call.needed if id in seen]
    absent = [id for id in call.needed if id not in seen]
    if not there:
        return ["None of the passages needed was among those it saw."]
    said = [f"It saw, of the passages needed: {call.gold.named(there)}."]
    return [*said, f"Not among those it saw: {call.gold.named(absent)}."] if absent else said


def _on_step(call: ObservedCall) -> list[str]:
    """Judge the next step of a decomposition against the first gold step that is still open."""
    if not call.gold.steps:
        return []
    done = call.gold.settled(call.hops)
    if done == len(call.gold.steps):
        said = ["All steps were settled, so it should have finished."]
        if parse_yes_no(str(call.outputs.get("finished"))) is False:
            return said
        return on_short_answer(str(call.outputs.get("answer") or ""), call.gold.golds)
    step = call.gold.steps[done]
    asked = str(call.outputs.get("sub_question") or "")
    said = [f"With {done} of {len(call.gold.steps)} steps settled, the next is {quoted(step.question)}."]
    if parse_yes_no(str(call.outputs.get("finished"))) and call.hops:
        return [*said, "It should not have finished."]
    if call.gold.step_of(asked) is not step:
        said.append(f"It asked {quoted(asked)} instead.")
        return [*said, f"The answer of that step is {quoted(step.golds[0])}."] if step.golds else said
    return [*said, *on_short_answer(str(call.outputs.get("answer") or ""), step.golds)]


def _on_answer(call: ObservedCall) -> list[str]:
    if isinstance(call.outputs["answer"], bool):
        expected = parse_yes_no(call.golds[0]) if call.golds else None
        return [] if expected is None else [f"Expected is {'yes' if expected else 'no'}."]
    return on_short_answer(str(call.outputs["answer"] or ""), call.golds)


def _on_evidence(call: ObservedCall) -> list[str]:
    """Judge a quote: it must stand in a passage, and that passage should be gold."""
    quote = str(call.outputs["evidence"] or "")
    gold = [passage for passage in call.passages if passage.id in call.needed]
    cited = find_quote(quote, call.passages).passage
    if quote.strip() and cited is None:
        return ["The evidence is in none of the passages: a sentence must be copied word for word."]
    if not call.needed:
        return []
    if cited is None:
        if not gold:
            return ["It rightly quoted nothing."]
        return [f"It should have quoted from {call.gold.named(passage.id for passage in gold)}."]
    if cited.id in call.needed:
        return [f"The evidence is from a passage needed, {call.gold.title(cited.id)}."]
    wrong = f"The evidence is from {quoted(cited.title or cited.id)}, which is not needed."
    return [wrong, "It should have been left empty."] if not gold else [wrong]


def _on_query(call: ObservedCall) -> list[str]:
    if not call.gold.gold_ids:
        return []
    seen = {passage.id for passage in call.passages}
    absent = [id for id in call.gold.gold_ids if id not in seen]
    if not absent:
        return ["All passages needed were there already, so no search was needed."]
    said = [f"The search should find {call.gold.named(absent)}."] if call.passages else []
    open_step = next((step for step in call.gold.steps if set(step.gold_ids) & set(absent)), None)
    return [*said, f"Still open is the step {quoted(open_step.question)}."] if open_step else said


def _on_revision(call: ObservedCall) -> list[str]:
    """Say whether a question was to be revised: not if the response contains the answer."""
    response = str(call.inputs.get("response") or "")
    if not response or not call.gold.golds:
        return _on_query(call)
    revised = str(call.outputs["revised_question"] or "").strip()
    if matches(response, call.gold.golds):
        right = f"The response contains the expected answer {quoted(call.gold.golds[0])}"
        return [
            f"{right}, so the question should not have been revised." if revised else f"{right}; no revision: right."
        ]
    said = [f"The response lacks the expected answer {quoted(call.gold.golds[0])}"]
    said[0] += "." if revised else ", so the question should have been revised."
    return [*said, *_on_query(call)]


def _on_response(call: ObservedCall) -> list[str]:
    """Judge a long response: its answer, and its marks as positions in the passages.

    Those of a chain's final content are numbers of its steps, and it is empty while one of them is unknown.
    """
    response = str(call.outputs["response"] or "")
    of_a_chain = "chain" in call.outputs
    if of_a_chain and not response.strip():
        return []
    if refuses(response):
        return _on_refusal(call)
    said = []
    if call.golds and not matches(strip_citations(response), call.golds):
        said.append(f"The response does not contain the expected answer {quoted(call.golds[0])}.")
    marks = [] if of_a_chain else citation_numbers(response)
    beyond = [number for number in marks if not 1 <= number <= len(call.passages)]
    cited = [call.passages[number - 1] for number in marks if number not in beyond]
    if call.passages and not marks:
        said.append("It cites no passage.")
    if beyond:
        said.append(f"It cites {beyond}, but there are only {len(call.passages)} passages.")
    if call.needed:
        wrong = [passage.id for passage in cited if passage.id not in call.needed]
        unused = [passage.id for passage in call.passages if passage.id in call.needed and passage not in cited]
        said += [f"Cited and not needed: {call.gold.named(wrong)}."] if wrong else []
        said += [f"Needed and not cited: {call.gold.named(unused)}."] if unused else []
    return said or (["The response contains the expected answer."] if call.golds else [])


def _on_refusal(call: ObservedCall) -> list[str]:
    if not call.needed:
        return []
    complete = set(call.needed) <= {passage.id for passage in call.passages}
    return ["It should have answered: all passages needed were there." if complete else "It was right to decline."]


def _on_sufficient(call: ObservedCall) -> list[str]:
    if not call.gold.gold_ids:
        return []
    complete = set(call.gold.gold_ids) <= {passage.id for passage in call.passages}
    return [f"The passages {'suffice' if complete else 'do not suffice'}: that is what it should say."]


def _on_judgement(call: ObservedCall) -> list[str]:
    response = str(call.inputs.get("response") or "")
    if not call.gold.golds:
        return []
    right = matches(strip_citations(response), call.gold.golds)
    return [f"The response {'contains' if right else 'lacks'} the expected answer {quoted(call.gold.golds[0])}."]


def _on_contribution(call: ObservedCall) -> list[str]:
    """Say whether a piece of evidence is, or quotes, a passage needed."""
    piece = str(call.inputs.get("evidence") or "")
    read = {id: text for id, text in call.gold.texts.items() if text and text in piece}
    if not read or not call.gold.gold_ids:
        return []
    needed = any(id in call.gold.gold_ids for id in read)
    return [
        f"This passage is {'needed' if needed else 'not needed'}: the expected reply is {'yes' if needed else 'no'}."
    ]


Writer = Callable[[ObservedCall], list[str]]
# Output field -> what is said about it.
WRITERS: dict[str, Writer] = {
    "answer": _on_answer,
    "evidence": _on_evidence,
    "query": _on_query,
    "queries": _on_query,
    "revised_question": _on_revision,
    "response": _on_response,
    "sufficient": _on_sufficient,
    "judgement": _on_judgement,
    "contributes": _on_contribution,
}


def feedback_metric(score: Score, *, titles: Mapping[str, str] | None = None) -> OptimizerMetric:
    """Return a metric whose result is a float, or, when a predictor is named, a `Prediction` of score and feedback.

    The text says only what the gold of the example says; it is meant for training questions.

    Args:
        score: The metric to optimise.
        titles: Passage id -> title of gold passages, so that those not retrieved can be named by title. By default the
            title is read from the ids of converted benchmarks, and other passages are named by id.

    Raises:
        UserError: Lower is better in `score`.
    """
    graded = graded_metric(score)

    def metric(
        example: Any, prediction: Any, trace: Any = None, pred_name: str | None = None, pred_trace: Any = None
    ) -> Any:
        value = graded(example, prediction)
        if pred_name is None:
            return value
        text = feedback(example, prediction, value, pred_name=pred_name, pred_trace=pred_trace, titles=titles)
        return dspy.Prediction(score=value, feedback=text)

    return metric


def feedback(
    example: Any,
    prediction: Any,
    score: float,
    *,
    pred_name: str | None = None,
    pred_trace: Any = None,
    titles: Mapping[str, str] | None = None,
) -> str:
    """Return what was right and wrong in a prediction, and in the calls of one predictor.

    Args:
        example: The question with its gold.
        prediction: What the program returned for it.
        score: The score of the prediction, in [0, 1].
        pred_name: Name of the predictor to say more about.
        pred_trace: Its calls: (predictor, inputs, outputs) each.
        titles: Passage id -> title of gold passages.
    """
    gold = gold_of(example, prediction, titles)
    lines = [f"The score of the whole program is {score:.2f}.", *describe(example, prediction, gold)]
    calls = [
        describe_call(ObservedCall(question_of(example), dict(inputs), dict(outputs), gold))
        for _, inputs, outputs in pred_trace or []
    ]
    about = [" ".join(sentences) for sentences in calls if sentences]
    return " ".join(lines) + "".join(f"\nThis call of {pred_name}: {text}" for text in about)
