"""RetroRAG: answers from evidence, inferences, further queries, and the yes/no judgements on them."""

from collections.abc import Iterator

from optimizers.distill.gold.annotation import Annotation
from optimizers.distill.gold.calls import GoldCall, Material
from optimizers.distill.gold.reading import sentences_of
from programs.parts.reasoning.chain import agree
from signatures.text import split_sentences
from signatures.text_words import contains_words
from signatures.types import Passage

_REFUSALS = ("unknown", "It cannot be answered with what is given.", "The passages do not say.")


def answer(gold: Annotation, material: Material) -> Iterator[GoldCall]:
    """Answer from passages, inferences or both; "unknown" where the gold is left out."""
    yield from final_answer(gold, material)
    question = gold.question.question
    if others := material.contexts.without(question, gold.gold_ids, gold.answer, material.size(), material.rng):
        outputs = {"reasoning": "The evidence does not state it.", "answer": "unknown"}
        yield GoldCall("abstention", _evidence(others, [], question), outputs)


def final_answer(gold: Annotation, material: Material) -> Iterator[GoldCall]:
    """Answer from passages or inferences."""
    question, rng = gold.question.question, material.rng
    inferred = [sentence for sentence in sentences_of(gold) if rng.random() < 0.5]
    passages = material.contexts.mixed(question, gold.gold, material.size(), rng)
    yield GoldCall("reading_with_reasons", _evidence(passages, inferred, question), _reply(gold))


def infer(gold: Annotation, material: Material) -> Iterator[GoldCall]:
    """State the deciding sentences of the gold passages among distractors."""
    question = gold.question.question
    passages = material.contexts.mixed(question, gold.gold, material.size(), material.rng)
    inputs = {"passages": passages, "entities": _entities(gold), "question": question, "limit": 5}
    yield GoldCall("inference", inputs, {"inferences": sentences_of(gold)[:5]})


def name_entities(gold: Annotation, material: Material) -> Iterator[GoldCall]:
    """Name the titles of gold passages that the question contains."""
    if entities := _entities(gold):
        yield GoldCall("entities", {"question": gold.question.question}, {"entities": entities})


def weigh(gold: Annotation, material: Material) -> Iterator[GoldCall]:
    """Judge one gold passage and one distractor."""
    question = gold.question.question
    others = material.contexts.without(question, gold.gold_ids, gold.answer, 3, material.rng)
    for passages, verdict in ((gold.gold, True), (others, False)):
        if passages:
            passage = material.rng.choice(list(passages))
            evidence = f"{passage.title}: {passage.text}" if passage.title else passage.text
            yield GoldCall(
                "judgement", {"evidence": evidence, "question": question, "query": ""}, {"contributes": verdict}
            )


def judge_relevance(gold: Annotation, material: Material) -> Iterator[GoldCall]:
    """Judge one deciding sentence and one sentence of a distractor."""
    others = material.contexts.without(gold.question.question, gold.gold_ids, gold.answer, 3, material.rng)
    noise = [sentence for passage in others for sentence in split_sentences(passage.text)[:2]]
    for claims, verdict in ((sentences_of(gold), True), (noise, False)):
        if claims:
            claim = material.rng.choice(claims)
            inputs = {"inferences": [], "claim": claim, "question": gold.question.question, "query": ""}
            yield GoldCall("judgement", inputs, {"relevant": verdict})


def judge_attribution(gold: Annotation, material: Material) -> Iterator[GoldCall]:
    """Judge a sentence of a passage shown, and the same with another answer in it or without its passage."""
    rng, question = material.rng, gold.question.question
    passage = rng.choice(gold.gold)
    claim = gold.sentences[passage.id]
    shown = material.contexts.mixed(question, [passage], material.size(), rng)
    yield GoldCall("judgement", {"passages": shown, "claim": claim}, {"stated": True})
    if contains_words(claim, gold.answer) and gold.answer in claim:
        changed = claim.replace(gold.answer, material.wrong_answer(question, gold.answer))
        yield GoldCall("judgement", {"passages": shown, "claim": changed}, {"stated": False})
    else:
        others = material.contexts.without(question, gold.gold_ids, gold.answer, material.size(), rng)
        yield GoldCall("judgement", {"passages": others, "claim": claim}, {"stated": False})


def judge_agreement(gold: Annotation, material: Material) -> Iterator[GoldCall]:
    """Judge the gold answer against an alias (itself without one) and against a wrong answer."""
    question, rng = gold.question.question, material.rng
    # Lists of answers also hold different ones; an alias shares its words with the answer.
    aliases = [text for text in gold.question.answers if agree(text, gold.answer)]
    alias = rng.choice(aliases or [gold.answer])
    inputs = {"question": question, "answer": gold.answer}
    yield GoldCall("judgement", {**inputs, "other_answer": alias}, {"agree": True})
    yield GoldCall(
        "judgement", {**inputs, "other_answer": material.wrong_answer(question, gold.answer)}, {"agree": False}
    )


def judge_answer(gold: Annotation, material: Material) -> Iterator[GoldCall]:
    """Judge an answer, right or wrong, and a refusal."""
    question, rng = gold.question.question, material.rng
    reply = gold.answer if rng.random() < 0.5 else material.wrong_answer(question, gold.answer)
    yield GoldCall("judgement", {"question": question, "reply": reply}, {"answered": True})
    yield GoldCall("judgement", {"question": question, "reply": rng.choice(_REFUSALS)}, {"answered": False})


def search(gold: Annotation, material: Material) -> Iterator[GoldCall]:
    """Write the query for the gold that the passages lack."""
    question, rng = gold.question.question, material.rng
    found = gold.gold[: rng.randrange(len(gold.gold))]
    wanted = gold.missing_query(frozenset(passage.id for passage in found))
    if wanted is not None:
        passages = material.mixed_without_rest(gold, found, max(material.size() - 1, 1))
        inputs = _evidence(passages, [gold.sentences[passage.id] for passage in found], question)
        yield GoldCall("queries", {**inputs, "reasoning": f"It is not known yet: {wanted}"}, {"query": wanted})


def _evidence(passages: list[Passage], inferences: list[str], question: str) -> dict[str, object]:
    return {"passages": passages, "inferences": inferences, "question": question}


def _reply(gold: Annotation) -> dict[str, str]:
    return {"reasoning": " ".join(sentences_of(gold)), "answer": gold.answer}


def _entities(gold: Annotation) -> list[str]:
    question = gold.question.question
    return [passage.title for passage in gold.gold if passage.title and contains_words(question, passage.title)]
