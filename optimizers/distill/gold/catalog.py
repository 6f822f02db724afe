"""Which makers give the gold replies of which predictor, and the examples of a question."""

import functools
import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from corpora.passages import PassageRecord
from corpora.questions import Question
from optimizers.distill.examples import Example, make_example
from optimizers.distill.gold import cov_rag, genground, reading, retro_rag
from optimizers.distill.gold.annotation import Annotation
from optimizers.distill.gold.calls import GoldCall, Maker, Material
from optimizers.distill.gold.contexts import Contexts
from optimizers.distill.gold.wrong_answers import WrongAnswers
from programs.catalog import build, known_program, presets_of
from signatures.common.errors import UserError, unknown
from signatures.text import split_sentences
from signatures.text_words import contains_words, same_words, text_words
from signatures.types import Passage

_READING: tuple[Maker, ...] = (reading.read, reading.read_hops)

_DECOMPOSED: dict[str, tuple[Maker, ...]] = {
    "reading": _READING,
    "asking": (reading.ask_or_finish,),
    "conclusion": (reading.conclude,),
}

# `../README.md` lists the predictors that have no makers, and why.
GOLD: dict[str, dict[str, tuple[Maker, ...]]] = {
    "rag": {"reading": _READING, "comparing": (reading.compare,)},
    "genread": _DECOMPOSED,
    "grg": _DECOMPOSED,
    "rrr": {
        "rewriting.predict": (reading.write_queries,),
        "querying": (reading.write_query,),
        "answering": (reading.answer_at_length,),
        "reading": _READING,
    },
    "webglm": {"answering": (reading.cite,), "reading": (reading.read_response,)},
    "self_rag": {
        "reading": _READING,
        "relevance": (reading.judge_passage,),
        "support": (reading.judge_support,),
    },
    "adaptive_rag": {"reading": (reading.read,)},
    "searchain": {
        "checking": _READING,
        "trusting": (reading.judge_support,),
        "reading": (reading.read,),
    },
    "meta_rag": {
        "answering.predict": (reading.read_with_reasons,),
        "monitoring": (reading.read,),
        "sufficing": (reading.judge_sufficient,),
        "searching": (reading.search_missing,),
    },
    "ircot": {"reading": (reading.read,)},
    "iter_retgen": {"reading": (reading.read,)},
    "flare": {"reading": (reading.read,)},
    "self_ask": _DECOMPOSED,
    "corag": {
        "asking": (reading.ask_further,),
        "answering": (reading.answer_or_unknown,),
        "judging": (reading.judge_chain,),
        "concluding": (reading.conclude_with_passages,),
    },
    "multihop": {
        "querying.predict": (reading.query,),
        "reading.predict": (reading.read_with_reasons, reading.read_hops_with_reasons),
    },
    "genground": {
        "deduction": (genground.deduce,),
        "grounding": (genground.ground,),
        "conclusion": (genground.conclude,),
        "truth": (genground.decide_truth,),
        "reading": _READING,
        "citing": (genground.cite_evidence,),
    },
    "cov_rag": {
        "answering": (reading.cite,),
        "verifying": (cov_rag.verify,),
        "revising": (cov_rag.revise,),
        "reading": (reading.read_response,),
    },
    "self_completion": {
        "reflecting": (reading.reflect,),
        "searching": (reading.search,),
        "answering": (reading.cite,),
        "reading": (reading.read_response,),
    },
    "retro_rag": {
        "naming": (retro_rag.name_entities,),
        "weighing": (retro_rag.weigh,),
        "answering.predict": (retro_rag.answer,),
        "concluding.predict": (retro_rag.final_answer, retro_rag.conclude_from_steps),
        "monitoring": (retro_rag.answer,),
        "agreement": (retro_rag.judge_agreement,),
        "assessing": (retro_rag.judge_answer,),
        "inferring": (retro_rag.infer, retro_rag.infer_steps),
        "relevance": (retro_rag.judge_relevance,),
        "attribution": (retro_rag.judge_attribution, retro_rag.judge_claim),
        "searching": (retro_rag.search,),
    },
}

CLAIM = "claim"  # type of a question that is a claim, answered by yes if its passage supports it
_OF_CLAIMS: tuple[Maker, ...] = (retro_rag.judge_claim,)
_CUT_SKILLS = ("reading", "reading_with_reasons", "comparison", "abstention", "grounding")

# Knobs with which a program has predictors that its default lacks.
_VARIANTS: dict[str, tuple[dict[str, Any], ...]] = {
    "rag": ({"compare": True},),
    "genground": ({"true_false": True}, {"ground": False}, {"early_stop": False}),
    "cov_rag": ({"chain": False},),
    "genread": ({"decompose": True},),
    "grg": ({"decompose": True},),
    "rrr": ({"rewrite": "one", "reader": "long"},),
    "corag": ({"chains": 2},),
}


def gold_calls(
    program: str,
    predictor: str,
    question: Question,
    corpus: Mapping[str, PassageRecord],
    material: Material,
) -> Iterator[GoldCall]:
    """Yield the calls that the gold of one question gives for a predictor, with whole passages or cut ones.

    Args:
        program: Name in the catalog.
        predictor: Its name in the program.
        question: With its gold.
        corpus: The passages of its corpus by id, the gold among them.
        material: Contexts, randomness and wrong answers.

    Raises:
        UserError: The program or the predictor has no gold replies.
    """
    if program not in GOLD:
        raise unknown("program with gold replies", program, GOLD)
    if predictor not in GOLD[program]:
        raise unknown(f"predictor of {program} with gold replies", predictor, GOLD[program])
    gold = material.annotation(question, corpus)
    if gold is None:
        return
    for maker in GOLD[program][predictor]:
        if (maker in _OF_CLAIMS) == (question.type == CLAIM):
            yield from (_cut(call, gold, material) for call in maker(gold, material))


def _cut(call: GoldCall, gold: Annotation, material: Material) -> GoldCall:
    """Return a call, at a share of the calls with its passages cut to the gold sentences and some others.

    Replies that cite passages by number keep whole ones: a number must not change its passage.
    """
    passages = call.inputs.get("passages")
    if not passages or call.skill not in _CUT_SKILLS or material.rng.random() >= material.cut:
        return call
    needed = {*gold.sentences.values(), *(hop.sentence for hop in gold.hops), *gold.stated}
    asked = str(call.inputs.get("sub_question") or call.inputs["question"])
    return replace(call, inputs={**call.inputs, "passages": cut_passages(passages, needed, asked, material.rng)})


def gold_examples(
    program: str,
    question: Question,
    corpus: Mapping[str, PassageRecord],
    material: Material,
    adapter: Any,
    *,
    predictors: tuple[str, ...] | None = None,
    **about: str,
) -> Iterator[Example]:
    """Yield the examples that the gold of one question gives for the predictors of a program.

    Args:
        program: Name in the catalog.
        question: With its gold.
        corpus: The passages of its corpus by id, the gold among them.
        material: Contexts, randomness and wrong answers.
        adapter: Of the LM to train.
        predictors: Names; None for all that have gold replies.
        about: Fields of `Example`: source, licence, labels and split.

    Raises:
        UserError: The program or a predictor has no gold replies.
    """
    if program not in GOLD:
        raise unknown("program with gold replies", program, GOLD)
    for predictor in tuple(GOLD[program]) if predictors is None else predictors:
        for call in gold_calls(program, predictor, question, corpus, material):
            yield make_example(
                adapter,
                signature_of(program, predictor),
                call.inputs,
                call.outputs,
                program=program,
                predictor=predictor,
                skill=call.skill,
                question_id=question.id,
                **about,
            )


def signature_of(program: str, predictor: str) -> Any:
    """Return the signature of a predictor of a program with the preset `small`, else its default knobs, else a variant.

    Raises:
        UserError: No variant has it.
    """
    signatures = _signatures(program)
    if predictor not in signatures:
        raise UserError(f"{program} has no predictor {predictor!r}. Choose from: {', '.join(signatures)}.")
    return signatures[predictor]


@functools.cache
def _signatures(program: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    small: dict[str, Any] = presets_of(known_program(program)).get("small", {})  # the preset of those who are trained
    for knobs in (small, {}, *_VARIANTS.get(program, ())):
        for name, predictor in build(program, None, **knobs).named_predictors():
            found.setdefault(name, predictor.signature)
    return found


def material_for(
    retrieve: Any,
    questions: list[Question],
    seed: int,
    articles: Mapping[str, Sequence[Passage]] | None = None,
    longest: int | None = None,
) -> Material:
    """Return the material for the questions of one source.

    Args:
        retrieve: Over the corpus.
        questions: Their answers are the wrong ones of others.
        seed: Of every random choice.
        articles: See `Contexts`.
        longest: Words of the longest passage that distracts; None for any.
    """
    return Material(Contexts(retrieve, articles, longest), random.Random(seed), WrongAnswers.of(questions))


LEAST, MOST = 6, 10  # sentences of all passages together


def cut_passages(
    passages: Sequence[Passage], needed: Collection[str], question: str, rng: random.Random
) -> list[Passage]:
    """Return the passages with the needed sentences and some others, six to ten in all, in their order.

    The others are those that share most words with the question, as distracting as those that a selector keeps by
    mistake. A passage of which nothing is left is left out. More than ten needed sentences are all kept.

    Args:
        passages: Whole.
        needed: Sentences, or parts of sentences, that stay wherever they stand.
        question: What is asked.
        rng: Of their number.
    """
    split = [(place, sentence) for place, passage in enumerate(passages) for sentence in split_sentences(passage.text)]
    wanted = [text for text in map(same_words, needed) if text]
    kept = {
        number
        for number, (_, sentence) in enumerate(split)
        if any(contains_words(text, sentence) or contains_words(sentence, text) for text in wanted)
    }
    asked = set(text_words(question))
    others = [number for number in range(len(split)) if number not in kept]
    others.sort(key=lambda number: -len(asked & set(text_words(split[number][1]))))
    kept.update(others[: max(rng.randint(LEAST, MOST) - len(kept), 0)])
    texts = [
        " ".join(sentence for number, (at, sentence) in enumerate(split) if at == place and number in kept)
        for place in range(len(passages))
    ]
    return [passage.model_copy(update={"text": text}) for passage, text in zip(passages, texts, strict=True) if text]
