"""CoV-RAG: verification of right and wrong responses on complete and incomplete references, revised questions.

He et al. 2024, section 2.3: the scores are labelled by an LM there. Here they follow from the gold by rule: whether the
response states the gold answer, which of its marks point to the passage with the sentence, and which gold passages are
among the references. The responses are made here, so their scores are known without reading them;
`optimizers.distill.verification_labels` scores any response, and differs for these: there a mark on a gold passage
counts although the answer is wrong, and half of the words of a gold answer are worth 0.5.
"""

from collections.abc import Iterator

from optimizers.distill.gold.annotation import Annotation
from optimizers.distill.gold.calls import Call, Material
from optimizers.distill.gold.reading import cited_response
from signatures.text_words import same_words
from signatures.types import Passage

_REFERENCES = 5  # the paper's k


def verify(gold: Annotation, material: Material) -> Iterator[Call]:
    """Verify one right and one wrong response, the second on incomplete references half of the time."""
    question = gold.question.question
    references = material.contexts.mixed(question, gold.gold, _REFERENCES, material.rng)
    response = cited_response(gold, references)
    yield Call(
        "verification",
        {"passages": references, "question": question, "response": response},
        _scores(1.0, 1.0, 1.0, bias=0.0, judgement="true", revised=""),
    )
    inputs, outputs = _wrong(gold, material)
    if outputs["revised_question"]:  # without a title or a step there is nothing else to search for
        yield Call("verification", inputs, outputs)


def revise(gold: Annotation, material: Material) -> Iterator[Call]:
    """Revise the question where the response is wrong; the ablation without scores."""
    inputs, outputs = _wrong(gold, material)
    if outputs["revised_question"]:
        yield Call("revision", inputs, {"revised_question": outputs["revised_question"]})


def _wrong(gold: Annotation, material: Material) -> tuple[dict[str, object], dict[str, object]]:
    """Return the inputs and outputs of verifying a wrong response."""
    question, rng = gold.question.question, material.rng
    kept = list(gold.gold) if rng.random() < 0.5 else _without_one(gold, material)
    references = material.contexts.mixed(question, kept, _REFERENCES, rng)
    shown = frozenset(passage.id for passage in references)
    references_with_gold = sum(passage.id in shown for passage in gold.gold) / len(gold.gold)
    wrong = material.wrong_answer(gold.answer)
    number = rng.randint(1, max(len(references), 1))
    response = f"The answer is {wrong} [{number}]."
    revised = as_question(_query(gold, shown))
    scores = _scores(references_with_gold, 0.0, 0.0, bias=1.0, judgement="false", revised=revised)
    return {"passages": references, "question": question, "response": response}, scores


def _query(gold: Annotation, shown: frozenset[str]) -> str:
    """Return a query other than the question: for the first missing passage, else the last hop or gold passage."""
    queries = [gold.missing_query(shown), *(hop.question for hop in gold.hops[::-1]), gold.gold[-1].title]
    asked = same_words(gold.question.question)
    return next((query for query in queries if query and same_words(query) != asked), "")


def _without_one(gold: Annotation, material: Material) -> list[Passage]:
    dropped = material.rng.randrange(len(gold.gold))
    return [passage for number, passage in enumerate(gold.gold) if number != dropped]


def as_question(text: str) -> str:
    """Return a query as a question; a title becomes a question about it."""
    text = text.strip()
    if not text or text.endswith("?"):
        return text
    return f"{text}?" if len(text.split()) > 5 else f"Who or what is {text}?"


def _scores(
    references: float, correctness: float, citations: float, *, bias: float, judgement: str, revised: str
) -> dict[str, object]:
    return {
        "reference_correctness": round(references, 2),
        "correctness": correctness,
        "citation_accuracy": citations,
        "truthfulness": 1.0,
        "bias": bias,
        "conciseness": 1.0,
        "judgement": judgement,
        "revised_question": revised,
    }
