"""All programs by name."""

from typing import Any

import dspy

from programs.closed_book.cot import CoT
from programs.closed_book.standard import Standard
from programs.cov_rag import CoVRAG
from programs.genground import GenGround
from programs.multi_step.flare import FLARE
from programs.multi_step.ircot import IRCoT
from programs.multi_step.iter_retgen import IterRetGen
from programs.multi_step.multihop import MultiHop
from programs.multi_step.self_ask import SelfAsk
from programs.parts.knobs import check_knobs
from programs.retro_rag import RetroRAG
from programs.self_completion import SelfCompletion
from programs.single_step.rag import RAG
from signatures.common.errors import unknown
from signatures.types import Retriever

PROGRAMS: dict[str, type[dspy.Module]] = {
    "standard": Standard,
    "cot": CoT,
    "rag": RAG,
    "multihop": MultiHop,
    "ircot": IRCoT,
    "iter_retgen": IterRetGen,
    "self_ask": SelfAsk,
    "flare": FLARE,
    "genground": GenGround,
    "cov_rag": CoVRAG,
    "self_completion": SelfCompletion,
    "retro_rag": RetroRAG,
}


def build(name: str, retrieve: Retriever | None = None, *, preset: str = "paper", **knobs: Any) -> dspy.Module:
    """Return a new program by name, with the knobs of a preset, overridden by `knobs`.

    Raises:
        UserError: The program, the preset or a knob is unknown, or a knob's value is not allowed.
    """
    if name not in PROGRAMS:
        raise unknown("program", name, PROGRAMS)
    cls = PROGRAMS[name]
    presets: dict[str, dict[str, Any]] = cls.PRESETS
    if preset not in presets:
        raise unknown(f"preset of {name}", preset, presets)
    check_knobs(cls, knobs)
    return cls(retrieve, **{**presets[preset], **knobs})
