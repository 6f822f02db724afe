"""All programs by name, and those of the user (`module:Class`)."""

from collections.abc import Mapping
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
from programs.multi_step.adaptive_rag import AdaptiveRAG
from programs.multi_step.flare import FLARE
from programs.multi_step.ircot import IRCoT
from programs.multi_step.iter_retgen import IterRetGen
from programs.multi_step.meta_rag import MetaRAG
from programs.multi_step.multihop import MultiHop
from programs.multi_step.searchain import SearChain
from programs.multi_step.self_ask import SelfAsk
from programs.naming import imported_program, own_name, own_program, why_no_program
from programs.parts.knobs import check_knobs, takes_similarity
from programs.retro_rag import RetroRAG
from programs.self_completion import SelfCompletion
from programs.single_step.grg import GRG
from programs.single_step.rag import RAG
from programs.single_step.rrr import RRR
from programs.single_step.self_rag import SelfRAG
from programs.single_step.verify_and_edit import VerifyAndEdit
from programs.single_step.webglm import WebGLM
from signatures.common.errors import UserError, unknown
from signatures.common.own_code import is_own
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
    "searchain": SearChain,
    "adaptive_rag": AdaptiveRAG,
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


PAPER = "paper"  # preset


def typed_program(name: str) -> type[dspy.Module]:
    """Return the class of a name that the user typed; an own program (`module:Class`) is imported.

    Raises:
        UserError: The program is unknown; see `own_program`, too.
    """
    if is_own(name):
        return own_program(name)
    if name not in PROGRAMS:
        raise unknown("program", name, PROGRAMS)
    return PROGRAMS[name]


def known_program(name: str) -> type[dspy.Module]:
    """Return the class of a name that a file holds: of the catalog, or imported already. Nothing is imported.

    Raises:
        UserError: The program is unknown, or an own one that is not imported.
    """
    if not is_own(name):
        return typed_program(name)
    cls = imported_program(name)
    if cls is None:
        raise UserError(
            f"The program {name!r:.200} is not imported, and a file never decides which code runs: name the program "
            "yourself, too, or import its module before."
        )
    return cls


def name_of(cls: type[dspy.Module]) -> str | None:
    """Return the name of a program's class: that in the catalog, or `module:Class`; None if it is no program."""
    listed = next((name for name, each in PROGRAMS.items() if each is cls), None)
    return listed or (None if why_no_program(cls) else own_name(cls))


def presets_of(cls: type[dspy.Module]) -> dict[str, dict[str, Any]]:
    """Return the presets of a program by name, each with its knobs; "paper", which has none of its own, is implied."""
    return {PAPER: {}, **getattr(cls, "PRESETS", {})}


def build(
    name: str,
    retrieve: Retriever | None = None,
    *,
    preset: str = PAPER,
    similarity: Similarity | None = None,
    **knobs: Any,
) -> dspy.Module:
    """Return a new program by name, with the knobs of a preset, overridden by `knobs`.

    Args:
        name: Of the program, in the catalog or `module:Class`. It must come from the user: an own program is imported.
        retrieve: Ranks passages.
        preset: Of the program's presets.
        similarity: Compares texts, for programs that take one (`takes_similarity`).
        knobs: Values that differ from the preset's.

    Raises:
        UserError: The program, the preset or a knob is unknown, or a knob's value is not allowed.
    """
    cls, values = chosen_knobs(name, preset, knobs)
    return build_class(cls, retrieve, similarity=similarity, **values)


def chosen_knobs(name: str, preset: str, knobs: Mapping[str, Any]) -> tuple[type[dspy.Module], dict[str, Any]]:
    """Return the class of a program, and the knobs of a preset, overridden by `knobs`, which are not checked.

    Raises:
        UserError: The program or the preset is unknown.
    """
    cls = typed_program(name)
    presets = presets_of(cls)
    if preset not in presets:
        raise unknown(f"preset of {name}", preset, presets)
    return cls, {**presets[preset], **knobs}


def build_class(
    cls: type[dspy.Module], retrieve: Retriever | None = None, *, similarity: Similarity | None = None, **knobs: Any
) -> dspy.Module:
    """Return a new program of a class, with the knobs given and the defaults of the others.

    Raises:
        UserError: A knob is unknown, or its value is not allowed.
    """
    check_knobs(cls, knobs)
    collaborators: dict[str, Any] = {"similarity": similarity} if takes_similarity(cls) else {}
    return cls(retrieve, **collaborators, **knobs)
