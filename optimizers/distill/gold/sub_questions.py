"""Self-Ask, CoRAG, GenRead and GRG: the next sub-question after those answered, their answers, and the conclusion."""

from collections.abc import Iterator

from optimizers.distill.gold.annotation import Annotation
from optimizers.distill.gold.calls import Call, Material
from signatures.types import Hop

_UNKNOWN = "unknown"  # what CoRAG's prompt asks for where the passages do not tell


def ask_or_finish(gold: Annotation, material: Material) -> Iterator[Call]:
    """Ask each sub-question after those before it, without answering it, and finish with the answer after all."""
    if len(gold.hops) < 2:
        return
    question, settled = gold.question.question, _settled(gold)
    for number, hop in enumerate(gold.hops):
        outputs = {"finished": False, "sub_question": hop.question, "answer": ""}
        yield Call("deduction", {"hops": settled[:number], "question": question}, outputs)
    outputs = {"finished": True, "sub_question": "", "answer": gold.answer}
    yield Call("deduction", {"hops": settled, "question": question}, outputs)


def ask_further(gold: Annotation, material: Material) -> Iterator[Call]:
    """Ask each sub-question after those before it."""
    if len(gold.hops) < 2:
        return
    settled = _settled(gold)
    for number, hop in enumerate(gold.hops):
        inputs = {"question": gold.question.question, "hops": settled[:number]}
        yield Call("deduction", inputs, {"sub_question": hop.question})


def answer_or_unknown(gold: Annotation, material: Material) -> Iterator[Call]:
    """Answer each sub-question from passages with the one that states it, and "unknown" from others."""
    for hop in gold.hops:
        passages = material.contexts.mixed(hop.question, [hop.passage], material.size(), material.rng)
        yield Call("reading", {"passages": passages, "question": hop.question}, {"answer": hop.answer})
        others = material.contexts.without(hop.question, gold.gold_ids, hop.answer, material.size(), material.rng)
        if others:
            yield Call("abstention", {"passages": others, "question": hop.question}, {"answer": _UNKNOWN})


def conclude(gold: Annotation, material: Material) -> Iterator[Call]:
    """Answer from all sub-questions."""
    if len(gold.hops) > 1:
        yield Call("conclusion", {"hops": _settled(gold), "question": gold.question.question}, {"answer": gold.answer})


def conclude_with_passages(gold: Annotation, material: Material) -> Iterator[Call]:
    """Answer from all sub-questions and from what a search for the question finds, as it may be."""
    for call in conclude(gold, material):
        found = material.contexts.ranked(gold.question.question)[: material.size()]
        yield Call(call.skill, {"passages": found, **call.inputs}, call.outputs)


def judge_chain(gold: Annotation, material: Material) -> Iterator[Call]:
    """Judge all sub-questions, and all but the last."""
    if len(gold.hops) > 1:
        settled, question = _settled(gold), gold.question.question
        for hops, verdict in ((settled, True), (settled[:-1], False)):
            yield Call("judgement", {"question": question, "hops": hops}, {"sufficient": verdict})


def _settled(gold: Annotation) -> list[Hop]:
    """Return the hops as these programs settle them: without evidence."""
    return [Hop(question=hop.question, answer=hop.answer) for hop in gold.hops]
