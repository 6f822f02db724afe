"""The shared signatures: reading a short answer, and citing it at length."""

from collections.abc import Iterator, Sequence

from optimizers.distill.gold.annotation import Annotation
from optimizers.distill.gold.calls import Call, Material
from signatures.types import Passage


def read(gold: Annotation, material: Material) -> Iterator[Call]:
    """Read the answer from all gold passages among distractors."""
    passages = material.contexts.mixed(gold.question.question, gold.gold, material.size(), material.rng)
    yield Call("reading", {"passages": passages, "question": gold.question.question}, {"answer": gold.answer})


def read_hops(gold: Annotation, material: Material) -> Iterator[Call]:
    """Read the answer of each sub-question, searched for by itself."""
    if len(gold.hops) > 1:
        for hop in gold.hops:
            passages = material.contexts.mixed(hop.question, [hop.passage], material.size(), material.rng)
            yield Call("reading", {"passages": passages, "question": hop.question}, {"answer": hop.answer})


def read_response(gold: Annotation, material: Material) -> Iterator[Call]:
    """Read the short answer from a long one, which is then the only passage."""
    response = cited_response(gold, list(gold.gold), marks=False)
    passage = Passage(id="response", text=response)
    yield Call("short_answer", {"passages": [passage], "question": gold.question.question}, {"answer": gold.answer})


def read_with_reasons(gold: Annotation, material: Material) -> Iterator[Call]:
    """Quote the deciding sentences, then answer."""
    passages = material.contexts.mixed(gold.question.question, gold.gold, material.size(), material.rng)
    yield Call(
        "reading_with_reasons",
        {"passages": passages, "question": gold.question.question},
        {"reasoning": " ".join(sentences_of(gold)), "answer": gold.answer},
    )


def cite(gold: Annotation, material: Material) -> Iterator[Call]:
    """Answer in the deciding sentences with their marks, then state the answer."""
    passages = material.contexts.mixed(gold.question.question, gold.gold, material.size(), material.rng)
    response = cited_response(gold, passages)
    yield Call("long_form", {"passages": passages, "question": gold.question.question}, {"response": response})


def sentences_of(gold: Annotation) -> list[str]:
    """Return the deciding sentences in the order of the hops, else of the gold passages, each once."""
    hops = [hop.sentence for hop in gold.hops]
    return list(dict.fromkeys(hops or [gold.sentences[passage.id] for passage in gold.gold]))


def cited_response(gold: Annotation, passages: list[Passage], *, marks: bool = True) -> str:
    """Return the deciding sentences and the answer, each with the numbers of its passages in `passages`."""
    return response_of(stated_by(gold), gold.answer, passages, marks=marks)


def stated_by(gold: Annotation) -> list[tuple[str, str]]:
    """Return the deciding sentences of the hops, else of the gold passages, each with its passage's id."""
    pairs = [(hop.passage, hop.sentence) for hop in gold.hops] or [(p, gold.sentences[p.id]) for p in gold.gold]
    return list(dict.fromkeys((passage.id, sentence) for passage, sentence in pairs))


def response_of(
    stated: Sequence[tuple[str, str]], answer: str, passages: Sequence[Passage], *, marks: bool = True
) -> str:
    """Return sentences (passage id, text) and an answer, each with the numbers of its passages in `passages`."""
    numbers = {passage.id: number for number, passage in enumerate(passages, start=1)}
    parts = [_marked(sentence, [numbers[name]] if marks else []) for name, sentence in stated]
    cited = sorted({numbers[name] for name, _ in stated}) if marks else []
    return " ".join([*parts, _marked(f"The answer is {answer}.", cited)])


def _marked(sentence: str, numbers: list[int]) -> str:
    """Put marks before the full stop of a sentence."""
    marks = "".join(f"[{number}]" for number in numbers)
    body = sentence.strip().rstrip(". ")
    return f"{body} {marks}." if marks else f"{body}."
