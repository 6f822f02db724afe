"""The shared signatures: reading a short answer, and citing it at length."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from optimizers.distill.gold.annotation import Annotation, GoldHop
from optimizers.distill.gold.calls import GoldCall, Material
from programs.parts.reasoning.comparing import compares_two, first_is_lower
from signatures.refusals import REFUSAL
from signatures.text_words import contains_words, same_words, without_brackets
from signatures.types import Hop, Passage


def read(gold: Annotation, material: Material) -> Iterator[GoldCall]:
    """Read the answer from all gold passages among distractors."""
    yield GoldCall("reading", material.reading(gold.asked, gold.gold), {"answer": gold.answer})


def read_hops(gold: Annotation, material: Material) -> Iterator[GoldCall]:
    """Read the answer of each sub-question, searched for by itself."""
    if len(gold.hops) > 1:
        for hop in gold.hops:
            yield GoldCall("reading", material.reading(hop.question, [hop.passage]), {"answer": hop.answer})


def read_hops_with_reasons(gold: Annotation, material: Material) -> Iterator[GoldCall]:
    """State the deciding sentence of each sub-question, searched for by itself, then answer."""
    for hop, call in zip(gold.hops, read_hops(gold, material), strict=False):
        outputs = {"reasoning": _without_brackets(hop.sentence, [hop.answer]), "answer": hop.answer}
        yield GoldCall("reading_with_reasons", call.inputs, outputs)


def read_response(gold: Annotation, material: Material) -> Iterator[GoldCall]:
    """Read the short answer from a long one, which is then the only passage."""
    response = cited_response(gold, list(gold.gold), marks=False)
    passage = Passage(id="response", text=response)
    yield GoldCall("short_answer", {"passages": [passage], "question": gold.asked}, {"answer": gold.answer})


def read_with_reasons(gold: Annotation, material: Material) -> Iterator[GoldCall]:
    """State what decides the answer, then answer."""
    outputs = {"reasoning": reasons_of(gold), "answer": gold.answer}
    yield GoldCall("reading_with_reasons", material.reading(gold.asked, gold.gold), outputs)


def cite(gold: Annotation, material: Material) -> Iterator[GoldCall]:
    """Answer in the deciding sentences with their marks, then state the answer."""
    inputs = material.reading(gold.asked, gold.gold)
    yield GoldCall("long_form", inputs, {"response": cited_response(gold, inputs["passages"])})


def sentences_of(gold: Annotation) -> list[str]:
    """Return the deciding sentences in the order of the hops, else of the gold passages, each once."""
    hops = [hop.sentence for hop in gold.hops]
    return list(dict.fromkeys(hops or [gold.sentences[passage.id] for passage in gold.gold]))


def reasons_of(gold: Annotation) -> str:
    """Return what decides the answer, in short.

    Of a comparison these are both values, each with what it belongs to: answers to one question about two subjects; of
    two years, which is before the other, which a small LM cannot tell in passing. Where no such values are stated they
    are the deciding sentences, and so are they of anything else, there without brackets but for those with an answer.
    """
    if gold.compares:
        compared = _compared(gold)
        values = "; ".join(f"{', '.join(filter(None, [each.name, each.owner]))}: {each.value}" for each in compared)
        order = _order([each.value for each in compared])
        return f"{values.rstrip('.')}.{order}" if values else " ".join(sentences_of(gold))
    answers = [gold.answer, *(hop.answer for hop in gold.hops)]
    return " ".join(_without_brackets(sentence, answers) for sentence in sentences_of(gold))


_YEAR = re.compile(r"(?<!\d)\d{3,4}(?!\d)")


def _order(values: Sequence[str]) -> str:
    """Return a sentence on the order of two values of one year each, which differ; of others, ""."""
    years = [_YEAR.findall(value) for value in values]
    if any(len(found) != 1 for found in years) or len({int(found[0]) for found in years}) < 2:
        return ""
    first, second = (found[0] for found in years)
    return f" {first} is {'before' if int(first) < int(second) else 'after'} {second}."


_BRACKETS = re.compile(r"\s*\([^()]*\)")


def _without_brackets(sentence: str, answers: Sequence[str]) -> str:
    return _BRACKETS.sub(
        lambda found: found[0] if any(contains_words(found[0], one) for one in answers) else "", sentence
    )


class _Compared(NamedTuple):
    """One side of a comparison: its title, whom the value belongs to if that is another, and the value."""

    name: str
    owner: str
    value: str


def _compared(gold: Annotation) -> list[_Compared]:
    """Return both sides of a comparison; nothing if it is of another form.

    Of four hops, the first two name those about whom the others ask.
    """
    hops = gold.hops
    pairs = [hops[start : start + 2] for start in range(0, len(hops), 2)]
    if len(hops) not in (2, 4) or any(len({_asked_of_any(hop) for hop in pair}) > 1 for pair in pairs):
        return []
    named = [hop.passage.title or f"the {place}" for hop, place in zip(pairs[0], ("first", "second"), strict=True)]
    if len(hops) == 2:
        return [_Compared(name, "", hop.answer) for name, hop in zip(named, hops, strict=True)]
    steps = list(zip(*pairs, strict=True))
    if not all(contains_words(value.question, way.answer) for way, value in steps):
        return []
    return [_Compared(name, way.answer, value.answer) for name, (way, value) in zip(named, steps, strict=True)]


def compare(gold: Annotation, material: Material) -> Iterator[GoldCall]:
    """State both values of a comparison, in the order in which the question names what they are of, then answer."""
    sides = _as_named(gold) if gold.compares and compares_two(gold.asked) else []
    if sides:
        yield GoldCall("comparison", material.reading(gold.asked, gold.gold), _comparison(gold, sides))


def _as_named(gold: Annotation) -> list[_Compared]:
    """Return both sides under the names that the question has for them, in its order; nothing if it lacks one.

    If the answer is the one to whom a value belongs, these are compared.
    """
    sides = _compared(gold)
    if any(same_words(gold.answer) == same_words(side.owner) for side in sides):
        return [_Compared(side.owner, "", side.value) for side in sides]
    question, found = gold.asked, []
    for side in sides:
        names = (side.name, without_brackets(side.name))
        name = next((name for name in names if name.casefold() in question.casefold()), None)
        if name is None:
            return []
        start = question.casefold().find(name.casefold())
        found.append((start, side._replace(name=question[start : start + len(name)])))
    return [side for _, side in sorted(found)]


def _comparison(gold: Annotation, sides: Sequence[_Compared]) -> dict[str, str]:
    """Return the outputs: an answer that is one of the two as the question names it."""
    first, second = sides
    answer = next((each.name for each in sides if same_words(each.name) == same_words(gold.answer)), gold.answer)
    return {
        "first": first.name,
        "first_value": f"{first.owner}: {first.value}" if first.owner else first.value,
        "second": second.name,
        "second_value": f"{second.owner}: {second.value}" if second.owner else second.value,
        "wanted": _wanted(gold, sides),
        "answer": answer,
    }


def _wanted(gold: Annotation, sides: Sequence[_Compared]) -> str:
    """Return which of the values the question asks for, as its answer shows."""
    first, second = (side.value for side in sides)
    question, answer, lower = gold.asked, same_words(gold.answer), first_is_lower(first, second)
    if gold.asks_yes_no and any(contains_words(question, word) for word in ("same", "share")):
        told = lower is None and (same_words(first) == same_words(second)) == (answer == "yes")
        return "same" if told else "other"
    is_first = answer in ("yes", same_words(sides[0].name))
    if lower is None or not (is_first or answer in ("no", same_words(sides[1].name))):
        return "other"
    return "lower" if lower == is_first else "higher"


def _asked_of_any(hop: GoldHop) -> str:
    """Return the question of a step without its subject, which is the title of its passage."""
    subject = same_words(hop.passage.title.partition(" (")[0])
    return f" {same_words(hop.question)} ".replace(f" {subject} ", " _ ") if subject else same_words(hop.question)


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


def query(gold: Annotation, material: Material) -> Iterator[GoldCall]:
    """Write the query of each hop from the passages found before it."""
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
        inputs = {"passages": passages, "question": gold.asked}
        yield GoldCall("queries", inputs, {"reasoning": reasoning, "query": wanted})


def write_queries(gold: Annotation, material: Material) -> Iterator[GoldCall]:
    """Write a query for each sub-question that can be asked before anything was read: no other answer occurs in it."""
    first = [
        hop.question
        for number, hop in enumerate(gold.hops)
        if not any(contains_words(hop.question, earlier.answer) for earlier in gold.hops[:number])
    ]
    query = gold.missing_query(frozenset())
    if queries := first or ([query] if query else []):
        needed = [hop.question for hop in gold.hops] or queries
        outputs = {"reasoning": f"It depends on this: {' '.join(needed)}", "queries": list(dict.fromkeys(queries))}
        yield GoldCall("queries", {"question": gold.asked}, outputs)


def write_query(gold: Annotation, material: Material) -> Iterator[GoldCall]:
    """Write the query of the first gold passage."""
    if query := gold.missing_query(frozenset()):
        yield GoldCall("queries", {"question": gold.asked}, {"query": query})


def answer_at_length(gold: Annotation, material: Material) -> Iterator[GoldCall]:
    """Answer in the deciding sentences, without marks."""
    inputs = material.reading(gold.asked, gold.gold)
    yield GoldCall("long_form", inputs, {"response": cited_response(gold, inputs["passages"], marks=False)})


def judge_sufficient(gold: Annotation, material: Material) -> Iterator[GoldCall]:
    """Judge all gold passages among distractors, and all but the last."""
    yield GoldCall("judgement", material.reading(gold.asked, gold.gold), {"sufficient": True})
    incomplete = material.mixed_without_rest(gold, gold.gold[:-1], max(material.size() - 1, 1))
    yield GoldCall("judgement", {"passages": incomplete, "question": gold.asked}, {"sufficient": False})


def search_missing(gold: Annotation, material: Material) -> Iterator[GoldCall]:
    """Write the query for the gold that the passages lack, beside a first answer, right or wrong."""
    question, rng = gold.asked, material.rng
    found = gold.gold[: rng.randrange(len(gold.gold))]
    wanted = gold.missing_query(frozenset(passage.id for passage in found))
    if wanted is not None:
        passages = material.mixed_without_rest(gold, found, max(material.size() - 1, 1))
        first = gold.answer if rng.random() < 0.2 else material.wrong_answer(question, gold.answer)
        yield GoldCall("queries", {"passages": passages, "question": question, "answer": first}, {"query": wanted})


def judge_passage(gold: Annotation, material: Material) -> Iterator[GoldCall]:
    """Judge one gold passage and one distractor."""
    for passage, verdict in material.gold_and_other(gold):
        yield GoldCall("judgement", {"question": gold.asked, "passages": [passage]}, {"relevant": verdict})


def judge_support(gold: Annotation, material: Material) -> Iterator[GoldCall]:
    """Judge the answer of each sub-question, and a wrong one, by the passage that states the answer."""
    for hop in gold.hops:
        if contains_words(hop.passage.text, hop.answer):  # a yes or no is not stated in so many words
            wrong = material.wrong_answer(hop.question, hop.answer)
            for answer, verdict in ((hop.answer, True), (wrong, False)):
                inputs = {"question": hop.question, "passages": [hop.passage], "answer": answer}
                yield GoldCall("judgement", inputs, {"supported": verdict})


_REFERENCES = 5  # the paper's default


def reflect(gold: Annotation, material: Material) -> Iterator[GoldCall]:
    """Answer from complete references, abstain on incomplete ones: one of each, as in section 6.4 of the paper."""
    complete = material.contexts.mixed(gold.asked, gold.gold, _REFERENCES, material.rng)
    outputs = {"missing": "", "sufficient": True, "response": cited_response(gold, complete)}
    yield GoldCall("abstention", {"passages": complete, "question": gold.asked}, outputs)
    incomplete = _incomplete(gold, material)
    wanted = gold.missing_query(frozenset(passage.id for passage in incomplete))
    if wanted is not None:
        outputs = {"missing": wanted, "sufficient": False, "response": f"{REFUSAL}."}
        yield GoldCall("abstention", {"passages": incomplete, "question": gold.asked}, outputs)


def search(gold: Annotation, material: Material) -> Iterator[GoldCall]:
    """Write the query for the gold that incomplete references lack."""
    incomplete = _incomplete(gold, material)
    wanted = gold.missing_query(frozenset(passage.id for passage in incomplete))
    if wanted is not None:
        yield GoldCall("queries", {"passages": incomplete, "question": gold.asked}, {"queries": [wanted]})


def _incomplete(gold: Annotation, material: Material) -> list[Passage]:
    """Return references without one or more gold passages and without the answer in the distractors."""
    kept = [passage for passage in gold.gold if material.rng.random() < 0.5]
    if len(kept) == len(gold.gold):
        kept.pop(material.rng.randrange(len(kept)))
    others = material.lacking(gold, gold.asked, gold.answer, _REFERENCES - len(kept))
    passages = [*kept, *others]
    material.rng.shuffle(passages)
    return passages


UNKNOWN_SHARE = 0.1  # of the prompts that offer "unknown": their passages lack the gold
_UNKNOWN = "unknown"  # what CoRAG's prompt asks for where the passages do not tell


def ask_or_finish(gold: Annotation, material: Material) -> Iterator[GoldCall]:
    """Ask each sub-question after those before it, without answering it, and finish with the answer after all."""
    if len(gold.hops) < 2:
        return
    settled = _settled(gold)
    for number, hop in enumerate(gold.hops):
        outputs = {"finished": False, "sub_question": hop.question, "answer": ""}
        yield GoldCall("deduction", {"hops": settled[:number], "question": gold.asked}, outputs)
    outputs = {"finished": True, "sub_question": "", "answer": gold.answer}
    yield GoldCall("deduction", {"hops": settled, "question": gold.asked}, outputs)


def ask_further(gold: Annotation, material: Material) -> Iterator[GoldCall]:
    """Ask each sub-question after those before it."""
    if len(gold.hops) < 2:
        return
    settled = _settled(gold)
    for number, hop in enumerate(gold.hops):
        inputs = {"question": gold.asked, "hops": settled[:number]}
        yield GoldCall("deduction", inputs, {"sub_question": hop.question})


def answer_or_unknown(gold: Annotation, material: Material) -> Iterator[GoldCall]:
    """Answer each sub-question from passages with the one that states it, of a tenth "unknown" from others."""
    for hop in gold.hops:
        others: list[Passage] = []
        if material.rng.random() < UNKNOWN_SHARE:
            others = material.lacking(gold, hop.question, hop.answer, material.size())
        if others:
            yield GoldCall("abstention", {"passages": others, "question": hop.question}, {"answer": _UNKNOWN})
        else:
            yield GoldCall("reading", material.reading(hop.question, [hop.passage]), {"answer": hop.answer})


def conclude(gold: Annotation, material: Material) -> Iterator[GoldCall]:
    """Answer from all sub-questions."""
    if len(gold.hops) > 1:
        yield GoldCall("conclusion", {"hops": _settled(gold), "question": gold.asked}, {"answer": gold.answer})


def conclude_with_passages(gold: Annotation, material: Material) -> Iterator[GoldCall]:
    """Answer from all sub-questions and from what a search for the question finds, as it may be."""
    for call in conclude(gold, material):
        found = material.contexts.ranked(gold.asked)[: material.size()]
        yield GoldCall(call.skill, {"passages": found, **call.inputs}, call.outputs)


def judge_chain(gold: Annotation, material: Material) -> Iterator[GoldCall]:
    """Judge all sub-questions, and all but the last."""
    if len(gold.hops) > 1:
        settled, question = _settled(gold), gold.asked
        for hops, verdict in ((settled, True), (settled[:-1], False)):
            yield GoldCall("judgement", {"question": question, "hops": hops}, {"sufficient": verdict})


def _settled(gold: Annotation) -> list[Hop]:
    """Return the hops as these programs settle them: without evidence."""
    return [Hop(question=hop.question, answer=hop.answer) for hop in gold.hops]
