"""All programs by name."""

from typing import Any

import dspy

from programs.agents.a_rag import ARAG
from programs.agents.corag import CoRAG
from programs.agents.react import ReAct
from programs.agents.search_o1 import SearchO1
from programs.agents.search_r1 import SearchR1
from programs.closed_book.answer_engine import AnswerEngine
from programs.closed_book.cot import CoT
from programs.closed_book.cot_sc import CoTSC
from programs.closed_book.genread import GenRead
from programs.closed_book.standard import Standard
from programs.cov_rag import CoVRAG
from programs.genground import GenGround
from programs.multi_step.flare import FLARE
from programs.multi_step.ircot import IRCoT
from programs.multi_step.iter_retgen import IterRetGen
from programs.multi_step.meta_rag import MetaRAG
from programs.multi_step.multihop import MultiHop
from programs.multi_step.self_ask import SelfAsk
from programs.parts.knobs import check_knobs, takes_similarity
from programs.retro_rag import RetroRAG
from programs.self_completion import SelfCompletion
from programs.single_step.grg import GRG
from programs.single_step.rag import RAG
from programs.single_step.rrr import RRR
from programs.single_step.self_rag import SelfRAG
from programs.single_step.verify_and_edit import VerifyAndEdit
from programs.single_step.webglm import WebGLM
from signatures.common.errors import unknown
from signatures.types import Retriever, Similarity

PROGRAMS: dict[str, type[dspy.Module]] = {
    "standard": Standard,
    "cot": CoT,
    "cot_sc": CoTSC,
    "genread": GenRead,
    "answer_engine": AnswerEngine,
    "rag": RAG,
    "grg": GRG,
    "rrr": RRR,
    "verify_and_edit": VerifyAndEdit,
    "webglm": WebGLM,
    "self_rag": SelfRAG,
    "multihop": MultiHop,
    "meta_rag": MetaRAG,
    "ircot": IRCoT,
    "iter_retgen": IterRetGen,
    "self_ask": SelfAsk,
    "flare": FLARE,
    "genground": GenGround,
    "cov_rag": CoVRAG,
    "self_completion": SelfCompletion,
    "retro_rag": RetroRAG,
    "react": ReAct,
    "search_r1": SearchR1,
    "search_o1": SearchO1,
    "corag": CoRAG,
    "a_rag": ARAG,
}


def build(
    name: str,
    retrieve: Retriever | None = None,
    *,
    preset: str = "paper",
    similarity: Similarity | None = None,
    **knobs: Any,
) -> dspy.Module:
    """Return a new program by name, with the knobs of a preset, overridden by `knobs`.

    Args:
        name: Of the program.
        retrieve: Ranks passages.
        preset: Of the program's presets.
        similarity: Compares texts, for programs that take one (`takes_similarity`).
        knobs: Values that differ from the preset's.

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
    collaborators: dict[str, Any] = {"similarity": similarity} if takes_similarity(cls) else {}
    return cls(retrieve, **collaborators, **{**presets[preset], **knobs})
