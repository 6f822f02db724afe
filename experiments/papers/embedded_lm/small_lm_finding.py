"""Ways of finding the passage with a small LM, one by one, against reading three retrieved passages at once.

A program and an adapter are of this module, and in no catalog: nobody published them by themselves.
"""

import json
import re
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Annotated, Any

import dspy

from experiments.papers.embedded_lm.small_lm_runs import Variant, ask, difference, json_form
from experiments.papers.embedded_lm.small_lm_sub_questions import SubQuestionsFirst, gold_variants
from experiments.papers.embedded_lm.student_sets import Runs
from programs.genground import GenGround
from programs.lms.adapter import Inputs, JsonForm
from programs.multi_step.multihop import MultiHop
from programs.parts.fanout import fanout
from programs.parts.knobs import Choice, Range, set_knobs
from programs.parts.passages import titled_text
from programs.parts.predict import try_predict
from programs.parts.prediction import is_answer, make_prediction, retrieve_passages
from programs.parts.probability import calls_per_probability
from programs.parts.yes_no_scores import YesNoQuestion, YesNoScores
from programs.single_step.rag import RAG
from signatures.reading import ReadAnswer
from signatures.retro_rag import JudgeAttribution, WeighEvidence
from signatures.types import Passage, Retriever

CONTROL = "rag, k=3"
K = 3  # of the control
K_ONE = 5  # passages read one at a time
LONGEST_SPAN = 8  # words
# A word from its first to its last letter or digit; the signs between belong to it: "U.S", "Spider-Man", "O'Neil".
_WORD = re.compile(r"\w(?:\S*\w)?")
_SPECIAL = re.compile(r"[\\.^$*+?{}\[\]|()/]")


class OneAtATime(dspy.Module):
    """Answer from each passage by itself; P(yes) of a judgement chooses among the answers.

    `details` contains the judgement of each answer, in the order of the passages that gave one.

    Args:
        retrieve: Ranks passages for the question.
        k: Passages read, each in a prompt of its own.
        judgement: "evidence" asks whether the passage helps to answer, "stated" whether it states the answer.
    """

    def __init__(
        self,
        retrieve: Retriever | None = None,
        *,
        k: Annotated[int, Range(1, 20)] = 5,
        judgement: Annotated[str, Choice("evidence", "stated")] = "evidence",
    ):
        super().__init__()
        set_knobs(self, locals())
        self.retrieve = retrieve
        self.reading = dspy.Predict(ReadAnswer)
        self.judging = dspy.Predict(WeighEvidence if judgement == "evidence" else JudgeAttribution)

    def forward(self, question: str, passages: list[Passage] | None = None) -> dspy.Prediction:
        """Return the answer that is judged best; at equal scores, that of the passage ranked first."""
        found = retrieve_passages(self, question, self.k, fixed=passages)
        read = fanout([partial(try_predict, self.reading, question=question, passages=[item]) for item in found])
        answers = [
            (passage, reply.answer)
            for passage, reply in zip(found, read, strict=True)
            if reply is not None and is_answer(reply.answer)
        ]
        if not answers:
            return make_prediction("", passages=found)
        asked = {place: self._judge(question, *answer) for place, answer in enumerate(answers)}
        scores = YesNoScores().ask(asked)
        best = max(scores, key=lambda place: scores[place] or 0.0)
        passage, answer = answers[best]
        judged = [
            {"passage": item.id, "answer": text, "p_yes": scores[place]} for place, (item, text) in enumerate(answers)
        ]
        return make_prediction(answer, passages=found, citations=[passage.id], details={"judged": judged})

    def _judge(self, question: str, passage: Passage, answer: str) -> YesNoQuestion:
        if self.judgement == "evidence":
            return YesNoQuestion(self.judging, evidence=titled_text(passage), question=question, query="")
        return YesNoQuestion(self.judging, passages=[passage], claim=f"{question} {answer}")

    def max_calls(self) -> int:
        """Return the maximum number of LM calls for one question."""
        return int(self.k) * (1 + calls_per_probability())


class SpanForm(JsonForm):
    """Our form whose answer is, while it is decoded, restricted to a span of a passage shown, yes or no.

    The LM must enforce patterns in a schema, as the embedded one does.
    """

    def __call__(self, lm: Any, lm_kwargs: Inputs, signature: Any, demos: list[Inputs], inputs: Inputs) -> list[Inputs]:
        """Call the LM once, with a schema that allows nothing else."""
        if shown := inputs.get("passages"):
            schema = answer_schema(shown)
            format_ = {"type": "json_schema", "json_schema": {"name": "span", "schema": schema, "strict": True}}
            lm_kwargs["response_format"] = format_
        return super().__call__(lm, lm_kwargs, signature, demos, inputs)

    def _prepare_response_format(self, lm: Any, lm_kwargs: Inputs, signature: Any) -> None:
        if "response_format" not in lm_kwargs:
            super()._prepare_response_format(lm, lm_kwargs, signature)


def answer_schema(passages: Sequence[Passage], longest: int = LONGEST_SPAN) -> dict[str, Any]:
    """Return the JSON schema of a reply whose answer is yes, no, or a span of a title or text.

    Args:
        passages: Those shown.
        longest: Words of a span at most.
    """
    # No "type" beside "anyOf": the runtime of the embedded LM would cap the length of the text.
    span = {"type": "string", "pattern": f"^({span_pattern(passages, longest)})$"}
    answer = {"anyOf": [{"type": "string", "enum": ["yes", "no"]}, span]}
    return {"type": "object", "properties": {"answer": answer}, "required": ["answer"], "additionalProperties": False}


def span_pattern(passages: Sequence[Passage], longest: int) -> str:
    """Return a regular expression of all runs of up to `longest` words, without punctuation at their ends.

    It matches them as they stand in a JSON string: a quotation mark has a backslash.
    """
    found: dict[str, None] = {}
    for text in (part for passage in passages for part in (passage.title, passage.text)):
        words = [(match.start(), match.end()) for match in _WORD.finditer(text)]
        for first, (start, end) in enumerate(words):
            pattern = ""
            for (_, before), (_, last) in reversed(list(pairwise(words[first : first + longest]))):
                pattern = f"({_literal(text[before:last])}{pattern})?"
            found[_literal(text[start:end]) + pattern] = None
    return "|".join(found)


def _literal(text: str) -> str:
    """Return the regular expression of a text in a JSON string, on one line as in the prompt."""
    quoted = json.dumps(re.sub(r"\s+", " ", text), ensure_ascii=False)[1:-1]
    return _SPECIAL.sub(r"\\\g<0>", quoted)


def _with(cls: Callable[..., Any], **knobs: Any) -> Callable[[Any], Any]:
    return lambda retrieve: cls(retrieve, **knobs)


def ways() -> dict[str, Variant]:
    """Return the ways that every set has, the control first."""
    return {
        CONTROL: Variant("rag-3", _with(RAG, k=K)),
        "rag, k=1": Variant("rag-1", _with(RAG, k=1)),
        "rag, k=2": Variant("rag-2", _with(RAG, k=2)),
        "rag, k=5": Variant("rag-5", _with(RAG, k=5)),
        "rag, k=3, no reranker": Variant("rag-3-no-reranker", _with(RAG, k=K), rerank="none"),
        "one at a time, first evidence": Variant(
            "one-first-evidence", _with(GenGround, deduce=False, batch_size=1, k=K_ONE)
        ),
        "one at a time, P(it helps)": Variant("one-evidence", _with(OneAtATime, k=K_ONE, judgement="evidence")),
        "one at a time, P(answer stated)": Variant("one-stated", _with(OneAtATime, k=K_ONE, judgement="stated")),
        "multihop, 2 passages a hop": Variant("multihop-2", _with(MultiHop, k=2, max_hops=2)),
        "genground, 2 passages a hop": Variant("genground-2", _with(GenGround, k=2, batch_size=2, max_hops=4)),
        "spans of the passages, k=3": Variant("spans-3", _with(RAG, k=K), form=partial(json_form, SpanForm)),
        "own sub-questions first, k=3": Variant("own-sub-questions", _with(SubQuestionsFirst, k=K)),
    }


def finding(runs: Runs) -> dict[str, Any]:
    """Return every way with the trained LM, and the paired difference of each to the control."""
    variants = ways()
    notes = [
        "Retrieved from the pooled corpus with our reranker, unless the row says otherwise; the control of all "
        f"differences is {CONTROL}.",
        "first evidence: GenGround's batch grounding without deduction, the first citable passage decides. P(...): "
        "every passage is answered by itself, and the answer with the highest P(yes) is taken: that the passage helps "
        "(RetroRAG's WeighEvidence), or that it states the answer (JudgeAttribution).",
        f"spans: while decoding, only spans of up to {LONGEST_SPAN} words of the passages shown, yes and no are "
        "allowed as the answer.",
        "sub-questions first: passages are retrieved for the question alone; sub-questions are put before it in the "
        "prompt of the reader.",
    ]
    if gold := gold_variants(runs.of.questions, k=K):
        variants |= gold
        notes.append(
            "Gold sub-questions name the entities on the way: upper bounds, no results. One by one: each is answered "
            "from passages retrieved for it, and the answer is concluded from these (GenGround's ConcludeAnswer)."
        )
    return {
        "runs": {label: ask(runs, variant) for label, variant in variants.items()},
        "differences": {
            label: difference(runs, variants[CONTROL], variant)
            for label, variant in variants.items()
            if label != CONTROL
        },
        "notes": notes,
    }
