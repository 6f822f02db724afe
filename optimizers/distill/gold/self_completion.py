"""Self-reflection and self-completion: answer or abstain, and the queries for what is missing."""

from collections.abc import Iterator

from optimizers.distill.gold.annotation import Annotation
from optimizers.distill.gold.calls import Call, Material
from optimizers.distill.gold.reading import cited_response
from signatures.refusals import REFUSAL
from signatures.types import Passage

_REFERENCES = 5  # the paper's default


def reflect(gold: Annotation, material: Material) -> Iterator[Call]:
    """Answer from complete references, abstain on incomplete ones: one of each, as in section 6.4 of the paper."""
    question = gold.question.question
    complete = material.contexts.mixed(question, gold.gold, _REFERENCES, material.rng)
    yield Call(
        "abstention",
        {"passages": complete, "question": question},
        {"missing": "", "sufficient": True, "response": cited_response(gold, complete)},
    )
    incomplete = _incomplete(gold, material)
    wanted = gold.missing_query(frozenset(passage.id for passage in incomplete))
    if wanted is not None:
        yield Call(
            "abstention",
            {"passages": incomplete, "question": question},
            {"missing": wanted, "sufficient": False, "response": f"{REFUSAL}."},
        )


def search(gold: Annotation, material: Material) -> Iterator[Call]:
    """Write the query for the gold that incomplete references lack."""
    incomplete = _incomplete(gold, material)
    wanted = gold.missing_query(frozenset(passage.id for passage in incomplete))
    if wanted is not None:
        yield Call("queries", {"passages": incomplete, "question": gold.question.question}, {"queries": [wanted]})


def _incomplete(gold: Annotation, material: Material) -> list[Passage]:
    """Return references without one or more gold passages and without the answer in the distractors."""
    kept = [passage for passage in gold.gold if material.rng.random() < 0.5]
    if len(kept) == len(gold.gold):
        kept.pop(material.rng.randrange(len(kept)))
    query = gold.question.question
    others = material.contexts.without(query, gold.gold_ids, gold.answer, _REFERENCES - len(kept), material.rng)
    passages = [*kept, *others]
    material.rng.shuffle(passages)
    return passages
