"""GenGround: deduction from settled hops, grounding of drafts in batches, conclusions.

The student of the paper (Shi et al. 2024, section 4) learns to ground alone, from trajectories of a teacher; here gold
annotations give all steps, and batches without gold teach that nothing is citable, which the paper filters out.
"""

from collections.abc import Iterator
from dataclasses import replace

from optimizers.distill.gold.annotation import Annotation, GoldHop
from optimizers.distill.gold.calls import GoldCall, Material
from signatures.types import Hop, Passage

# Low shares, since both teach to keep the draft: with a third each, a student of 135M parameters kept most wrong ones.
_RIGHT_DRAFTS = 0.2  # share of drafts that are right
_NO_EVIDENCE = 0.2  # share of batches without gold
_BATCHES = (1, 1, 2, 3)  # passages in a batch
_KEPT = 0.15  # share of settled hops without evidence, as the program settles a draft that nothing confirms


def deduce(gold: Annotation, material: Material) -> Iterator[GoldCall]:
    """Ask the next sub-question from each prefix of the hops, and finish from all of them."""
    if len(gold.hops) < 2:
        return
    question, settled = gold.asked, _settled(gold, material)
    for number, hop in enumerate(gold.hops):
        outputs = {"finished": False, "sub_question": hop.question, "answer": hop.answer}
        yield GoldCall("deduction", {"hops": settled[:number], "question": question}, outputs)
    outputs = {"finished": True, "sub_question": question, "answer": gold.answer}
    yield GoldCall("deduction", {"hops": settled, "question": question}, outputs)


def ground(gold: Annotation, material: Material) -> Iterator[GoldCall]:
    """Ground the draft of each hop in one batch, with the hop's passage or without."""
    for hop in gold.hops:
        draft, passages, cited = _batch(gold, hop, material)
        inputs = {"passages": passages, "question": gold.asked, "sub_question": hop.question}
        outputs = {"evidence": hop.sentence if cited else "", "answer": hop.answer if cited else draft}
        yield GoldCall("grounding", {**inputs, "draft": draft}, outputs)


def cite_evidence(gold: Annotation, material: Material) -> Iterator[GoldCall]:
    """Quote the deciding sentence of a batch, or nothing."""
    for call in ground(gold, material):
        yield replace(call, outputs={"evidence": call.outputs["evidence"]})


def conclude(gold: Annotation, material: Material) -> Iterator[GoldCall]:
    """Answer from all hops."""
    if len(gold.hops) > 1:
        hops = _settled(gold, material)
        yield GoldCall("conclusion", {"hops": hops, "question": gold.asked}, {"answer": gold.answer})


def decide_truth(gold: Annotation, material: Material) -> Iterator[GoldCall]:
    """Answer a yes/no question from all hops."""
    if len(gold.hops) > 1 and gold.asks_yes_no:
        hops = _settled(gold, material)
        answer = gold.answer.lower() == "yes"
        yield GoldCall("conclusion", {"hops": hops, "question": gold.asked}, {"answer": answer})


def _settled(gold: Annotation, material: Material) -> list[Hop]:
    """Return the hops as prompts show them, some without evidence."""
    hops = [hop.settled() for hop in gold.hops]
    return [hop.model_copy(update={"evidence": None}) if material.rng.random() < _KEPT else hop for hop in hops]


def _batch(gold: Annotation, hop: GoldHop, material: Material) -> tuple[str, list[Passage], bool]:
    """Return a draft, the passages of a batch, and whether the hop's passage is among them."""
    rng, size = material.rng, material.rng.choice(_BATCHES)
    draft = hop.answer if rng.random() < _RIGHT_DRAFTS else material.wrong_answer(hop.question, hop.answer)
    if rng.random() < _NO_EVIDENCE:
        passages = material.lacking(gold, hop.question, hop.answer, size)
        if passages:
            return draft, passages, False
    return draft, material.contexts.mixed(hop.question, [hop.passage], size, rng), True
