"""What the order of the fields of a prompt, and weighing several pieces of evidence at once, cost a small LM.

Orders that show first what calls share would save a server work (`experiments/benchmarks/speed`, "Prefix share").
The trained LM was trained on the order of the control.
"""

from functools import partial
from typing import Any

from experiments.papers.embedded_lm.small_lm_runs import Variant, ask, difference
from experiments.papers.embedded_lm.student_sets import Runs
from experiments.pipeline.defaults import SMALL
from programs.genground import GenGround
from programs.parts.predict import in_order
from programs.retro_rag import RetroRAG
from signatures.types import Retriever

GENGROUND, RETRO_RAG = "genground", "retro_rag, one piece a call"  # controls
GROUNDING = ("passages", "question", "sub_question", "draft")
DEDUCTION = ("hops", "question")
# Label -> the order of the prompts of GenGround that differ from the control.
ORDERS: dict[str, dict[str, tuple[str, ...]]] = {
    GENGROUND: {},
    "grounding: question first": {"grounding": ("question", "passages", "sub_question", "draft")},
    "grounding: passages last": {"grounding": ("question", "sub_question", "draft", "passages")},
    "deduction: question first": {"deduction": ("question", "hops")},
}
RETRO_KNOBS: dict[str, Any] = {
    "k": 3,
    "source_size": 3,
    "inferential_size": 2,
    "max_rounds": 2,
}  # of `evaluate_paper_programs`
TOGETHER = 6  # pieces: all of a round


def genground(orders: dict[str, tuple[str, ...]], retrieve: Retriever | None) -> GenGround:
    """Return GenGround with its preset for small LMs and the fields of some prompts in another order."""
    program = GenGround(retrieve, **GenGround.PRESETS[SMALL])
    for name, order in {"grounding": GROUNDING, "deduction": DEDUCTION, **orders}.items():
        predictor = getattr(program, name)
        predictor.signature = in_order(predictor.signature, order)
    return program


def retro_rag(size: int, retrieve: Retriever | None) -> RetroRAG:
    """Return RetroRAG with knobs for small LMs, weighing up to `size` pieces of evidence in one call."""
    return RetroRAG(retrieve, batch_weighing=size, **RETRO_KNOBS)


def orders(runs: Runs) -> dict[str, Any]:
    """Return GenGround with every order, with the paired difference of each to the control, the trained order."""
    return _compared(
        runs,
        {
            label: Variant(f"order-{number}", partial(genground, order))
            for number, (label, order) in enumerate(ORDERS.items())
        },
        "The control is the order that the LM was trained on.",
    )


def weighing(runs: Runs) -> dict[str, Any]:
    """Return RetroRAG that weighs one piece of evidence a call, the control, and several."""
    return _compared(
        runs,
        {
            RETRO_RAG: Variant("weighing-1", partial(retro_rag, 1)),
            f"{TOGETHER} pieces a call": Variant(f"weighing-{TOGETHER}", partial(retro_rag, TOGETHER)),
        },
        f"Knobs: {', '.join(f'{name}={value}' for name, value in RETRO_KNOBS.items())}.",
    )


def _compared(runs: Runs, variants: dict[str, Variant], note: str) -> dict[str, Any]:
    """Return runs of variants, and the paired difference of each to the first."""
    found = {label: ask(runs, variant) for label, variant in variants.items()}
    control, *others = variants
    differences = {label: difference(runs, variants[control], variants[label]) for label in others}
    return {"runs": found, "differences": differences, "notes": [note]}
