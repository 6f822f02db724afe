"""Search queries, and judgements of passages: for RRR, MetaRAG, Self-RAG and SearChain."""

from collections.abc import Iterator

from optimizers.distill.gold.annotation import Annotation
from optimizers.distill.gold.calls import Call, Material
from optimizers.distill.gold.reading import cited_response
from signatures.text_words import contains_words


def write_queries(gold: Annotation, material: Material) -> Iterator[Call]:
    """Write a query for each sub-question that can be asked before anything was read: no other answer stands in it."""
    first = [
        hop.question
        for number, hop in enumerate(gold.hops)
        if not any(contains_words(hop.question, earlier.answer) for earlier in gold.hops[:number])
    ]
    query = gold.missing_query(frozenset())
    if queries := first or ([query] if query else []):
        needed = [hop.question for hop in gold.hops] or queries
        outputs = {"reasoning": f"It depends on this: {' '.join(needed)}", "queries": list(dict.fromkeys(queries))}
        yield Call("queries", {"question": gold.question.question}, outputs)


def write_query(gold: Annotation, material: Material) -> Iterator[Call]:
    """Write the query of the first gold passage."""
    if query := gold.missing_query(frozenset()):
        yield Call("queries", {"question": gold.question.question}, {"query": query})


def answer_at_length(gold: Annotation, material: Material) -> Iterator[Call]:
    """Answer in the deciding sentences, without marks."""
    passages = material.contexts.mixed(gold.question.question, gold.gold, material.size(), material.rng)
    outputs = {"response": cited_response(gold, passages, marks=False)}
    yield Call("long_form", {"passages": passages, "question": gold.question.question}, outputs)


def judge_sufficient(gold: Annotation, material: Material) -> Iterator[Call]:
    """Judge all gold passages among distractors, and all but the last."""
    question = gold.question.question
    complete = material.contexts.mixed(question, gold.gold, material.size(), material.rng)
    yield Call("judgement", {"passages": complete, "question": question}, {"sufficient": True})
    incomplete = material.mixed_without_rest(gold, gold.gold[:-1], max(material.size() - 1, 1))
    yield Call("judgement", {"passages": incomplete, "question": question}, {"sufficient": False})


def search_missing(gold: Annotation, material: Material) -> Iterator[Call]:
    """Write the query for the gold that the passages lack, beside a first answer, right or wrong."""
    question, rng = gold.question.question, material.rng
    found = gold.gold[: rng.randrange(len(gold.gold))]
    wanted = gold.missing_query(frozenset(passage.id for passage in found))
    if wanted is not None:
        passages = material.mixed_without_rest(gold, found, max(material.size() - 1, 1))
        first = gold.answer if rng.random() < 0.2 else material.wrong_answer(question, gold.answer)
        yield Call("queries", {"passages": passages, "question": question, "answer": first}, {"query": wanted})


def judge_passage(gold: Annotation, material: Material) -> Iterator[Call]:
    """Judge one gold passage and one distractor."""
    question = gold.question.question
    others = material.contexts.without(question, gold.gold_ids, gold.answer, 3, material.rng)
    for passages, verdict in ((gold.gold, True), (others, False)):
        if passages:
            chosen = material.rng.choice(list(passages))
            yield Call("judgement", {"question": question, "passages": [chosen]}, {"relevant": verdict})


def judge_support(gold: Annotation, material: Material) -> Iterator[Call]:
    """Judge the answer of each sub-question, and a wrong one, by the passage that states the answer."""
    for hop in gold.hops:
        if contains_words(hop.passage.text, hop.answer):  # a yes or no is not stated in so many words
            wrong = material.wrong_answer(hop.question, hop.answer)
            for answer, verdict in ((hop.answer, True), (wrong, False)):
                inputs = {"question": hop.question, "passages": [hop.passage], "answer": answer}
                yield Call("judgement", inputs, {"supported": verdict})
