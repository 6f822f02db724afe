"""CoV-RAG: verification of right and wrong responses on complete and incomplete references, revised questions.

He et al. 2024, section 2.3: the scores are labelled by an LM there. Here they follow from the gold by the rules of
`optimizers.distill.verification_labels`; that a response is right or wrong is known, since it is made here. Right and
wrong ones have the same form (sentences, then the answer), so that only what they say tells them apart.
"""

import re
from collections.abc import Iterator

from optimizers.distill.gold.annotation import Annotation, as_question
from optimizers.distill.gold.calls import Call, Material
from optimizers.distill.gold.reading import cited_response, response_of, stated_by
from optimizers.distill.verification_labels import citation_accuracy, conciseness, reference_correctness
from signatures.text import split_sentences
from signatures.text_words import contains_words, same_words
from signatures.types import Passage

_REFERENCES = 5  # the paper's k
_NUMBER = re.compile(r"\b\d[\d,.]*\b")


def verify(gold: Annotation, material: Material) -> Iterator[Call]:
    """Verify one right and one wrong response, the second on incomplete references half of the time."""
    question = gold.question.question
    references = material.contexts.mixed(question, gold.gold, _REFERENCES, material.rng)
    response = cited_response(gold, references)
    inputs = {"passages": references, "question": question, "response": response}
    yield Call("verification", inputs, _scores(gold, references, response, right=True, revised=""))
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
    response = _wrong_response(gold, references, material)
    revised = as_question(_query(gold, frozenset(passage.id for passage in references)))
    scores = _scores(gold, references, response, right=False, revised=revised)
    return {"passages": references, "question": question, "response": response}, scores


def _wrong_response(gold: Annotation, references: list[Passage], material: Material) -> str:
    """Return a response that reads the wrong passage, or names another answer beside the sentences of the right ones.

    No sentence in it states the gold answer.
    """
    rng, shown = material.rng, {passage.id for passage in references}
    wrong = material.wrong_answer(gold.question.question, gold.answer)
    stated = [(name, text) for name, text in stated_by(gold) if name in shown and not contains_words(text, gold.answer)]
    others = [passage for passage in references if passage.id not in gold.gold_ids]
    first = {passage.id: next(iter(split_sentences(passage.text)), "").strip() for passage in others}
    misread = [
        passage for passage in others if first[passage.id] and not contains_words(first[passage.id], gold.answer)
    ]
    if misread and (not stated or rng.random() < 0.5):
        passage = rng.choice(misread)
        stated = [*stated[: rng.randint(0, 1)], (passage.id, first[passage.id])]
        wrong = _found_in(passage, first[passage.id], gold.answer) or wrong
    return response_of(stated, wrong, references)


def _found_in(passage: Passage, sentence: str, right: str) -> str:
    """Return what a careless reader takes from a sentence: its first number for a number, else its subject; or ""."""
    if same_words(right) in ("yes", "no"):
        return ""
    number = _NUMBER.search(sentence)
    found = (number[0] if number else "") if any(map(str.isdigit, right)) else passage.title
    return "" if same_words(found) == same_words(right) else found


def _query(gold: Annotation, shown: frozenset[str]) -> str:
    """Return a query other than the question: for the first missing passage, else the last hop or gold passage."""
    queries = [gold.missing_query(shown), *(hop.question for hop in gold.hops[::-1]), gold.gold[-1].title]
    # Who does not know the answer cannot ask for it by name.
    told = {same_words(gold.question.question), same_words(gold.answer)}
    return next((query for query in queries if query and same_words(query) not in told), "")


def _without_one(gold: Annotation, material: Material) -> list[Passage]:
    dropped = material.rng.randrange(len(gold.gold))
    return [passage for number, passage in enumerate(gold.gold) if number != dropped]


def _scores(
    gold: Annotation, references: list[Passage], response: str, *, right: bool, revised: str
) -> dict[str, object]:
    """Return the outputs of `VerifyAnswer` for a response that is known to be right or wrong."""
    return {
        "reference_correctness": reference_correctness(gold.question, references),
        "correctness": float(right),
        "citation_accuracy": citation_accuracy(gold.question, references, response),
        "truthfulness": 1.0,
        "bias": float(not right),
        "conciseness": conciseness(response),
        "judgement": "true" if right else "false",
        "revised_question": revised,
    }
