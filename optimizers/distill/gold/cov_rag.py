"""CoV-RAG: verification of right and wrong responses on complete and incomplete references, revised questions.

He et al. 2024, section 2.3: the scores are labelled by an LM there. Here all of them follow from the gold by the rules
of `optimizers.distill.verification_scores`; only correctness is known, since the responses are made here to be right or
wrong. Both kinds have the same form (sentences, then the answer), so that only what they say tells them apart.
"""

from collections.abc import Iterator

from optimizers.distill.gold.annotation import Annotation, as_question
from optimizers.distill.gold.calls import GoldCall, Material
from optimizers.distill.gold.reading import cited_response, response_of, stated_by
from optimizers.distill.verification_scores import scores_of
from signatures.text import split_sentences
from signatures.text_words import contains_words, same_words
from signatures.types import Passage

_REFERENCES = 5  # the paper's k


def verify(gold: Annotation, material: Material) -> Iterator[GoldCall]:
    """Verify one right and one wrong response, the second mostly on references that lack a gold passage."""
    question = gold.asked
    references = material.contexts.mixed(question, gold.gold, _REFERENCES, material.rng)
    response = cited_response(gold, references)
    inputs = {"passages": references, "question": question, "response": response}
    yield GoldCall("verification", inputs, _outputs(gold, references, response, right=True))
    wrong, outputs = _wrong(gold, material)
    if outputs["revised_question"]:  # without a title or a step there is nothing else to search for
        yield GoldCall("verification", wrong, outputs)


def revise(gold: Annotation, material: Material) -> Iterator[GoldCall]:
    """Revise the question where the response is wrong, and leave the revision empty where it is right."""
    inputs, outputs = _wrong(gold, material)
    if outputs["revised_question"]:
        yield GoldCall("revision", inputs, {"revised_question": outputs["revised_question"]})
        references = material.contexts.mixed(gold.asked, gold.gold, _REFERENCES, material.rng)
        right = {"passages": references, "question": gold.asked}
        yield GoldCall("revision", {**right, "response": cited_response(gold, references)}, {"revised_question": ""})


def _wrong(gold: Annotation, material: Material) -> tuple[dict[str, object], dict[str, object]]:
    """Return the inputs and outputs of verifying a wrong response; no revised question where gold gives none."""
    question, rng = gold.asked, material.rng
    complete = len(gold.gold) == 1 or rng.random() < 0.4
    shown = list(gold.gold) if complete else _without_one(gold, material)
    references = material.mixed_without_rest(gold, shown, _REFERENCES)
    stated = _stated_beside(gold, references, material)
    wrong = material.wrong_answer(question, gold.answer)
    response = response_of(stated, wrong, references)
    revised = as_question(_query(gold, frozenset(passage.id for passage in references)))
    outputs = _outputs(gold, references, response, right=False, revised=revised)
    return {"passages": references, "question": question, "response": response}, outputs


def _stated_beside(gold: Annotation, references: list[Passage], material: Material) -> list[tuple[str, str]]:
    """Return sentences of the references (passage id, text) that do not state the gold answer.

    They are those of the gold passages that are shown, or one of a passage that was read by mistake.
    """
    rng, shown = material.rng, {passage.id for passage in references}
    stated = [(name, text) for name, text in stated_by(gold) if name in shown and not contains_words(text, gold.answer)]
    others = [passage for passage in references if passage.id not in gold.gold_ids]
    first = [(passage.id, next(iter(split_sentences(passage.text)), "").strip()) for passage in others]
    misread = [(name, text) for name, text in first if text and not contains_words(text, gold.answer)]
    if misread and (not stated or rng.random() < 0.5):
        return [*stated[: rng.randint(0, len(stated))], rng.choice(misread)]
    return stated


def _query(gold: Annotation, shown: frozenset[str]) -> str:
    """Return a query for the first gold passage that is not shown, else the last sub-question; "" if there is neither.

    A title that only the gold passage itself names would be no revision of the question.
    """
    queries = [gold.missing_query(shown), *(hop.question for hop in gold.hops[::-1])]
    # Who does not know the answer cannot ask for it by name.
    told = {same_words(gold.asked), same_words(gold.answer)}
    return next((query for query in queries if query and same_words(query) not in told), "")


def _without_one(gold: Annotation, material: Material) -> list[Passage]:
    dropped = material.rng.randrange(len(gold.gold))
    return [passage for number, passage in enumerate(gold.gold) if number != dropped]


def _outputs(
    gold: Annotation, references: list[Passage], response: str, *, right: bool, revised: str = ""
) -> dict[str, object]:
    """Return the outputs of `VerifyAnswer` for a response that is known to be right or wrong."""
    scores = scores_of(gold.question, references, response, right=float(right))
    return {**scores, "judgement": "true" if right else "false", "revised_question": revised}
