"""MultiHop: queries for what is missing, and reading with reasons."""

from collections.abc import Iterator

from optimizers.distill.gold.annotation import Annotation
from optimizers.distill.gold.calls import Call, Material


def query(gold: Annotation, material: Material) -> Iterator[Call]:
    """Write the query of each hop from the passages found before it."""
    question = gold.question.question
    if len(gold.gold) < 2:
        return
    for shown in range(len(gold.gold)):
        found = gold.gold[:shown]
        wanted = gold.missing_query(frozenset(passage.id for passage in found))
        if wanted is None:
            return
        size = material.rng.randint(shown, 2 * shown)
        passages = material.mixed_without_rest(gold, found, size) if found else []
        known = " ".join(gold.sentences[passage.id] for passage in found)
        reasoning = f"{known} Still missing: {wanted}".strip()
        yield Call("queries", {"passages": passages, "question": question}, {"reasoning": reasoning, "query": wanted})
