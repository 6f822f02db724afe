"""All programs by name, and those of the user (`module:Class`).

A name is imported only where the user typed it (`own_program`). A name that a file holds, such as an artifact, is
looked up among what is imported already (`imported_program`): a file never decides which code runs.
"""

import inspect
import sys
from collections.abc import Iterator, Mapping
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
from programs.parts.knobs import COLLABORATORS, check_knobs, knobs_of, takes_similarity
from programs.retro_rag import RetroRAG
from programs.self_completion import SelfCompletion
from programs.single_step.grg import GRG
from programs.single_step.rag import RAG
from programs.single_step.rrr import RRR
from programs.single_step.self_rag import SelfRAG
from programs.single_step.verify_and_edit import VerifyAndEdit
from programs.single_step.webglm import WebGLM
from signatures.common.errors import UserError, one_line, unknown
from signatures.common.own_code import code_digest, import_own, imported_value, is_own
from signatures.types import Retriever, Similarity

_GUIDE = "programs/own/README.md says what a program is"


def own_program(name: str) -> type[dspy.Module]:
    """Import and return the program `module:Class`.

    Args:
        name: As the user typed it; see `signatures.common.own_code.import_own`.

    Raises:
        UserError: The module or the class does not exist, the module raises, or the class is no program.
    """
    _, value = import_own(name, "program")
    if reason := why_no_program(value):
        raise UserError(f"Own program {name!r} {reason}: {_GUIDE}.")
    found: type[dspy.Module] = value
    return found


def imported_program(name: str) -> type[dspy.Module] | None:
    """Return the program `module:Class` if its module is imported and it is one; nothing is imported."""
    value = imported_value(name)
    return None if value is None or why_no_program(value) else value


def why_no_program(value: Any) -> str | None:
    """Return all that keeps a value from being the class of a program, as the end of a sentence; None if it is one."""
    if not isinstance(value, type) or not issubclass(value, dspy.Module):
        return f"is of type {type(value).__name__}, not a subclass of dspy.Module"
    return "; ".join(_faults_of(value)) or None


def _faults_of(cls: type[dspy.Module]) -> Iterator[str]:
    of_constructor = list(_faults_of_constructor(cls))
    yield from of_constructor
    if not of_constructor:
        try:
            knobs_of(cls)
        except Exception as error:  # noqa: BLE001 - a type that cannot be resolved may raise anything
            yield f"has a constructor whose types cannot be read ({one_line(error)})"
    if reason := _why_unasked(cls):
        yield reason
    if not callable(getattr(cls, "max_calls", None)):
        yield "has no method max_calls"
    presets = getattr(cls, "PRESETS", {})
    if not isinstance(presets, dict) or not all(isinstance(knobs, dict) for knobs in presets.values()):
        yield "has PRESETS that are not a dictionary of knobs for each name"


def _faults_of_constructor(cls: Any) -> Iterator[str]:
    _, *parameters = inspect.signature(cls.__init__).parameters.values()
    if not parameters or parameters[0].name != "retrieve" or parameters[0].default is not None:
        yield "has a constructor whose first argument is not retrieve=None"
    for parameter in parameters:
        if parameter.name == "retrieve":
            continue
        if parameter.kind is not parameter.KEYWORD_ONLY or parameter.default is parameter.empty:
            yield f"has a constructor whose argument {parameter.name} is not keyword-only with a default"
        if parameter.annotation is parameter.empty and parameter.name not in COLLABORATORS:
            yield f"has a constructor whose argument {parameter.name} has no type"


def _why_unasked(cls: type[dspy.Module]) -> str | None:
    """Return why a program cannot be asked as every command does, `program(question=...)`; None if it can."""
    forward = getattr(cls, "forward", None)
    if not callable(forward):
        return "has no method forward"
    if inspect.iscoroutinefunction(forward) or inspect.isasyncgenfunction(forward):
        return "has an asynchronous forward"
    try:
        inspect.signature(forward).bind(None, question="")
    except (TypeError, ValueError):
        return "has a forward that does not take the question as question"
    return None


def own_name(cls: type[dspy.Module]) -> str:
    """Return the name of an own program, `module:Class`."""
    return f"{cls.__module__}:{cls.__qualname__}"


def own_code(cls: type[dspy.Module]) -> str:
    """Return the digest of the file that an own program is written in."""
    return code_digest(sys.modules[cls.__module__])


def check_importable(cls: type[dspy.Module]) -> None:
    """Raise UserError if the name of an own program would not lead to it in another process."""
    if cls.__module__ == "__main__" or "." in cls.__qualname__:
        raise UserError(
            f"Program {own_name(cls)} cannot be loaded by its name in another process: write the class at the top "
            "level of a module of its own, and import it from there."
        )


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
