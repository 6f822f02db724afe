"""What the form of the prompt costs a small LM: the same questions and gold passages, asked in several forms."""

import functools
import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import dspy
from dspy.adapters import ChatAdapter
from dspy.utils.exceptions import AdapterParseError

from corpora.retrievers.rerank import OWN, open_reranker
from experiments.papers.embedded_lm.small_lm_runs import Variant, ask, difference, json_form
from experiments.papers.embedded_lm.student_sets import EvaluationSet, Runs, gold_contexts
from experiments.runs.fixed_contexts import FixedContexts
from programs.lms.adapter import JsonForm
from programs.lms.parsing import counting_replies
from programs.lms.rendering import escape, render_passages
from programs.single_step.rag import RAG
from signatures.reading import ReadAnswer
from signatures.text_words import contains_words
from signatures.types import Passage, Retriever

if TYPE_CHECKING:
    from corpora.questions import Question

CONTROL = "adapter's form"
LMS = ("trained", "untrained")
PASSAGES = (1, 2, 3, 5)
SHORT = "Answer the question from the passages in a few words."
_DEPTH = 10  # passages retrieved for a question; enough for 5 beside its gold
_SEED = 0

QuestionFirst = ReadAnswer.delete("question").prepend("question", dspy.InputField(), str)
ShortInstruction = ReadAnswer.with_instructions(SHORT)


class _Counted:
    """Counts the replies and those that cannot be parsed, as our adapters do; mixed in before a DSPy adapter."""

    def __call__(self, *args: Any, **kwargs: Any) -> list[dict[str, Any]]:
        """Call the LM once."""
        with counting_replies():
            found: list[dict[str, Any]] = super().__call__(*args, **kwargs)  # type: ignore[misc]
            return found


class FieldForm(_Counted, ChatAdapter):
    """DSPy's own form: fields with types under headers, passages as JSON; no second call in another form."""

    def __init__(self) -> None:
        super().__init__(use_json_adapter_fallback=False)


class PlainForm(_Counted, ChatAdapter):
    """One message of the user: instruction, passages, question. The first line of the reply is the answer.

    SmolLM2's chat template puts its own system message in front.
    """

    def __init__(self) -> None:
        super().__init__(use_json_adapter_fallback=False)

    def format(self, signature: Any, demos: list[dict[str, Any]], inputs: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the message; there are no demos."""
        parts = (signature.instructions.strip(), render_passages(inputs["passages"]), escape(inputs["question"]))
        return [{"role": "user", "content": "\n\n".join(parts)}]

    def parse(self, signature: Any, completion: str) -> dict[str, Any]:
        """Return the first line with text as the answer.

        Raises:
            AdapterParseError: There is none.
        """
        lines = [line.strip() for line in completion.splitlines() if line.strip()]
        if not lines:
            raise AdapterParseError(
                adapter_name=type(self).__name__, signature=signature, lm_response=completion, message="no text"
            )
        return {"answer": lines[0]}


class ShortForm(JsonForm):
    """Our form without the lists of fields: the system message is the instruction alone."""

    def format_system_message(self, signature: Any) -> str:
        """Return the instruction."""
        return str(signature.instructions).strip()


def reader(signature: Any, retrieve: Retriever | None) -> dspy.Module:
    """Return `rag` with another signature of its reader."""
    program = RAG(retrieve)
    program.reading = dspy.Predict(signature)
    return program


_OURS = functools.partial(reader, ReadAnswer)


def form_variants(lm: str, given: "tuple[Sequence[Question], FixedContexts]") -> dict[str, Variant]:
    """Return the forms that show all gold passages, the control first."""
    ours = Variant("control", _OURS, lm, given=given)
    return {
        CONTROL: ours,
        "DSPy's field form": Variant("dspy-fields", _OURS, lm, lambda adapter: FieldForm(), given=given),
        "plain chat": Variant("plain", _OURS, lm, lambda adapter: PlainForm(), given=given),
        "question first": Variant("question-first", functools.partial(reader, QuestionFirst), lm, given=given),
        "short instruction": Variant(
            "short",
            functools.partial(reader, ShortInstruction),
            lm,
            functools.partial(json_form, ShortForm),
            given=given,
        ),
    }


def shown_contexts(of: EvaluationSet, questions: "Sequence[Question]", n: int) -> FixedContexts:
    """Return contexts of n passages: gold first, those that state the answer in front, then the best-ranked others.

    The order shown is random, and the same in every run.
    """
    retrieve = open_reranker(of.retrieve, OWN)
    corpus = {passage.id: passage for passage in of.passages}
    contexts = {}
    rankings = retrieve.many([question.question for question in questions], _DEPTH)
    for question, ranking in zip(questions, rankings, strict=True):
        gold = [corpus[id] for id in dict.fromkeys(question.gold_ids)]
        gold.sort(key=lambda passage: not _states_answer(passage, question))
        others = [passage for passage in ranking if passage.id not in question.gold_ids]
        shown = [_plain(passage) for passage in [*gold, *others][:n]]
        random.Random(f"{_SEED} {n} {question.id}").shuffle(shown)
        contexts[question.id] = tuple(shown)
    return FixedContexts("complete" if n > 1 else "partial", n, _SEED, contexts)


def _states_answer(passage: Passage, question: "Question") -> bool:
    return any(contains_words(f"{passage.title} {passage.text}", answer) for answer in question.answers)


def _plain(passage: Passage) -> Passage:
    """Return a passage without the fields of a corpus or the score of a ranking, which DSPy's form would print."""
    return Passage(id=passage.id, title=passage.title, text=passage.text)


def forms(runs: Runs) -> dict[str, Any]:
    """Return every form and number of passages for both LMs, with the paired difference of each to the control."""
    questions, gold = gold_contexts(runs.of)
    plain = {id: tuple(map(_plain, passages)) for id, passages in gold.passages.items()}
    given = (questions, FixedContexts(gold.knowledge, gold.n, gold.seed, plain))
    shown = {n: (questions, shown_contexts(runs.of, questions, n)) for n in PASSAGES}
    found: dict[str, Any] = {}
    differences: dict[str, Any] = {}
    for lm in LMS:
        variants = form_variants(lm, given)
        for n in PASSAGES:
            variants[f"{n} passage{'s' if n > 1 else ''}"] = Variant(f"passages-{n}", _OURS, lm, given=shown[n])
        for label, variant in variants.items():
            found[f"{label}, {lm}"] = ask(runs, variant)
            if label != CONTROL:
                differences[f"{label}, {lm}"] = difference(runs, variants[CONTROL], variant)
    return {
        "runs": found,
        "differences": differences,
        "notes": [
            f"Every form has the gold passages alone, except those that name a number of passages. {CONTROL} is the "
            "control of all differences, and the form that the trained LM was trained on.",
            "1 passage: a gold one that states the answer, if there is one. 2, 3 and 5: the gold passages and the "
            "best-ranked others, in random order.",
            "unparsed: share of the questions with a reply that could not be parsed.",
        ],
    }
