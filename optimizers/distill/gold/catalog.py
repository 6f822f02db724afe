"""Which makers give the gold replies of which predictor, and the examples of a question."""

import functools
import random
from collections.abc import Iterator, Mapping
from typing import Any

from corpora.passages import PassageRecord
from corpora.questions import Question
from optimizers.distill.examples import Example, make_example
from optimizers.distill.gold import cov_rag, genground, reading, retro_rag
from optimizers.distill.gold.calls import Maker, Material
from optimizers.distill.gold.contexts import Contexts
from optimizers.distill.gold.wrong_answers import WrongAnswers
from programs.catalog import build, known_program, presets_of
from signatures.common.errors import UserError, unknown

_READING: tuple[Maker, ...] = (reading.read, reading.read_hops)

_DECOMPOSED: dict[str, tuple[Maker, ...]] = {
    "reading": _READING,
    "asking": (reading.ask_or_finish,),
    "conclusion": (reading.conclude,),
}

# `../README.md` lists the predictors that have no makers, and why.
GOLD: dict[str, dict[str, tuple[Maker, ...]]] = {
    "rag": {"reading": _READING},
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
    "multihop": {"querying.predict": (reading.query,), "reading.predict": (reading.read_with_reasons,)},
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
        "concluding.predict": (retro_rag.final_answer,),
        "monitoring": (retro_rag.answer,),
        "agreement": (retro_rag.judge_agreement,),
        "assessing": (retro_rag.judge_answer,),
        "inferring": (retro_rag.infer,),
        "relevance": (retro_rag.judge_relevance,),
        "attribution": (retro_rag.judge_attribution,),
        "searching": (retro_rag.search,),
    },
}

# Knobs with which a program has predictors that its default lacks.
_VARIANTS: dict[str, tuple[dict[str, Any], ...]] = {
    "genground": ({"true_false": True}, {"ground": False}, {"early_stop": False}),
    "cov_rag": ({"chain": False},),
    "genread": ({"decompose": True},),
    "grg": ({"decompose": True},),
    "rrr": ({"rewrite": "one", "reader": "long"},),
    "corag": ({"chains": 2},),
}


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
    chosen = tuple(GOLD[program]) if predictors is None else predictors
    for predictor in chosen:
        if predictor not in GOLD[program]:
            raise unknown(f"predictor of {program} with gold replies", predictor, GOLD[program])
    gold = material.annotation(question, corpus)
    if gold is None:
        return
    for predictor in chosen:
        signature = signature_of(program, predictor)
        for maker in GOLD[program][predictor]:
            for call in maker(gold, material):
                yield make_example(
                    adapter,
                    signature,
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


def material_for(retrieve: Any, questions: list[Question], seed: int) -> Material:
    """Return the material for the questions of one source."""
    return Material(Contexts(retrieve), random.Random(seed), WrongAnswers.of(questions))
