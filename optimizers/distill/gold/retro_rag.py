"""RetroRAG: answers from evidence, inferences, further queries, and the yes/no judgements on them."""

from collections.abc import Iterator

from optimizers.distill.gold.annotation import Annotation
from optimizers.distill.gold.calls import GoldCall, Material
from optimizers.distill.gold.reading import UNKNOWN_SHARE, reasons_of, sentences_of
from programs.parts.passages import titled_text
from programs.parts.reasoning.chain import agree
from signatures.text import split_sentences
from signatures.text_words import contains_words, count_words
from signatures.types import Passage

_SHORT = 8  # words of an answer
_REFUSALS = ("unknown", "It cannot be answered with what is given.", "The passages do not say.")


def answer(gold: Annotation, material: Material) -> Iterator[GoldCall]:
    """Answer from passages, inferences or both; of a tenth "unknown", where the gold is left out."""
    others: list[Passage] = []
    if material.rng.random() < UNKNOWN_SHARE:
        others = material.lacking(gold, gold.asked, gold.answer, material.size())
    if others:
        outputs = {"reasoning": "The evidence does not state it.", "answer": "unknown"}
        yield GoldCall("abstention", _evidence(others, [], gold.asked), outputs)
    else:
        yield from final_answer(gold, material)


def final_answer(gold: Annotation, material: Material) -> Iterator[GoldCall]:
    """Answer from passages or inferences."""
    inferred = [sentence for sentence in sentences_of(gold) if material.rng.random() < 0.5]
    inputs = {**material.reading(gold.asked, gold.gold), "inferences": inferred}
    yield GoldCall("reading_with_reasons", inputs, {"reasoning": reasons_of(gold), "answer": gold.answer})


def infer(gold: Annotation, material: Material) -> Iterator[GoldCall]:
    """State the deciding sentences of the gold passages among distractors."""
    inputs = {**material.reading(gold.asked, gold.gold), "entities": _entities(gold), "limit": 5}
    yield GoldCall("inference", inputs, {"inferences": sentences_of(gold)[:5]})


def infer_steps(gold: Annotation, material: Material) -> Iterator[GoldCall]:
    """State the conclusions that were drawn from the passages, step by step."""
    if gold.inferences:
        passages = list(gold.gold)
        material.rng.shuffle(passages)
        inputs = {"passages": passages, "entities": [], "question": gold.asked, "limit": 5}
        yield GoldCall("inference", inputs, {"inferences": list(gold.inferences[:5])})


def conclude_from_steps(gold: Annotation, material: Material) -> Iterator[GoldCall]:
    """Answer from the passages and all conclusions but the last, which is the reasoning."""
    if gold.inferences and count_words(gold.answer) <= _SHORT:
        passages = list(gold.gold)
        material.rng.shuffle(passages)
        inputs = _evidence(passages, list(gold.inferences[:-1]), gold.asked)
        yield GoldCall("reading_with_reasons", inputs, {"reasoning": gold.inferences[-1], "answer": gold.answer})


def judge_claim(gold: Annotation, material: Material) -> Iterator[GoldCall]:
    """Judge a claim by the passages that people judged it by."""
    verdict = gold.answer.lower() == "yes"
    yield GoldCall("judgement", {"passages": list(gold.gold), "claim": gold.asked}, {"stated": verdict})


def name_entities(gold: Annotation, material: Material) -> Iterator[GoldCall]:
    """Name the titles of gold passages that the question contains."""
    if entities := _entities(gold):
        yield GoldCall("entities", {"question": gold.asked}, {"entities": entities})


def weigh(gold: Annotation, material: Material) -> Iterator[GoldCall]:
    """Judge one gold passage and one distractor."""
    for passage, verdict in material.gold_and_other(gold):
        inputs = {"evidence": titled_text(passage), "question": gold.asked, "query": ""}
        yield GoldCall("judgement", inputs, {"contributes": verdict})


def judge_relevance(gold: Annotation, material: Material) -> Iterator[GoldCall]:
    """Judge one deciding sentence and one sentence of a distractor."""
    others = material.lacking(gold, gold.asked, gold.answer, 3)
    noise = [sentence for passage in others for sentence in split_sentences(passage.text)[:2]]
    for claims, verdict in ((sentences_of(gold), True), (noise, False)):
        if claims:
            claim = material.rng.choice(claims)
            inputs = {"inferences": [], "claim": claim, "question": gold.asked, "query": ""}
            yield GoldCall("judgement", inputs, {"relevant": verdict})


def judge_attribution(gold: Annotation, material: Material) -> Iterator[GoldCall]:
    """Judge a sentence of a passage shown, and the same with another answer in it or without its passage."""
    rng, question = material.rng, gold.asked
    passage = rng.choice(gold.gold)
    claim = gold.sentences[passage.id]
    shown = material.contexts.mixed(question, [passage], material.size(), rng)
    yield GoldCall("judgement", {"passages": shown, "claim": claim}, {"stated": True})
    if contains_words(claim, gold.answer) and gold.answer in claim:
        changed = claim.replace(gold.answer, material.wrong_answer(question, gold.answer))
        yield GoldCall("judgement", {"passages": shown, "claim": changed}, {"stated": False})
    else:
        others = material.lacking(gold, question, gold.answer, material.size())
        yield GoldCall("judgement", {"passages": others, "claim": claim}, {"stated": False})


def judge_agreement(gold: Annotation, material: Material) -> Iterator[GoldCall]:
    """Judge the gold answer against an alias (without one another spelling of it) and against a wrong answer."""
    question, rng = gold.asked, material.rng
    # Lists of answers also hold different ones; an alias shares its words with the answer.
    aliases = [text for text in gold.question.answers if text != gold.answer and agree(text, gold.answer)]
    alias = rng.choice(aliases or _spellings(gold.answer))
    inputs = {"question": question, "answer": gold.answer}
    yield GoldCall("judgement", {**inputs, "other_answer": alias}, {"agree": True})
    yield GoldCall(
        "judgement", {**inputs, "other_answer": material.wrong_answer(question, gold.answer)}, {"agree": False}
    )


def _spellings(answer: str) -> list[str]:
    """Return an answer in other spellings: equal texts would teach to compare letters."""
    forms = [answer.lower(), answer.upper(), f"{answer}.", f"It is {answer}.", answer.partition(",")[0]]
    return [form for form in forms if form and form != answer]


def judge_answer(gold: Annotation, material: Material) -> Iterator[GoldCall]:
    """Judge an answer, right or wrong, and a refusal."""
    question, rng = gold.asked, material.rng
    reply = gold.answer if rng.random() < 0.5 else material.wrong_answer(question, gold.answer)
    yield GoldCall("judgement", {"question": question, "reply": reply}, {"answered": True})
    yield GoldCall("judgement", {"question": question, "reply": rng.choice(_REFUSALS)}, {"answered": False})


def search(gold: Annotation, material: Material) -> Iterator[GoldCall]:
    """Write the query for the gold that the passages lack."""
    question, rng = gold.asked, material.rng
    found = gold.gold[: rng.randrange(len(gold.gold))]
    wanted = gold.missing_query(frozenset(passage.id for passage in found))
    if wanted is not None:
        passages = material.mixed_without_rest(gold, found, max(material.size() - 1, 1))
        inputs = _evidence(passages, [gold.sentences[passage.id] for passage in found], question)
        yield GoldCall("queries", {**inputs, "reasoning": f"It is not known yet: {wanted}"}, {"query": wanted})


def _evidence(passages: list[Passage], inferences: list[str], question: str) -> dict[str, object]:
    return {"passages": passages, "inferences": inferences, "question": question}


def _entities(gold: Annotation) -> list[str]:
    question = gold.asked
    return [passage.title for passage in gold.gold if passage.title and contains_words(question, passage.title)]
