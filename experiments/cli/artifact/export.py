"""`verihop artifact export`: the prompts of a compiled program as plain chat messages."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from experiments.cli.shared import options
from experiments.cli.shared.console import emit, next_step, note, say
from experiments.cli.shared.next_commands import command, naming, used
from experiments.cli.shared.options import OwnPrograms, with_option_groups
from experiments.runs.specs import ProgramSpec
from programs.lms.spec import LMSpec
from signatures.common.errors import UserError, unknown
from signatures.common.files import atomic_write

if TYPE_CHECKING:
    import dspy

    from programs.artifact import Artifact
    from programs.artifacts.export import Prompt

_ADAPTERS = {"chat": "ChatForm", "json": "JsonForm"}


@with_option_groups
def export(
    folder: Annotated[Path, typer.Argument(metavar="ARTIFACT", help="Folder of the artifact.")],
    lm: LMSpec,
    limits: options.Limits,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Folder for prompts.md and prompts.json.", show_default=False),
    ] = None,
    question: Annotated[
        str | None,
        typer.Option(help="Ask this question, and export what is sent for it.", show_default=False),
    ] = None,
    index: Annotated[
        Path | None, typer.Option(help="Index for --question; by default the artifact's.", show_default=False)
    ] = None,
    adapter: Annotated[
        str | None,
        typer.Option(help="chat or json; by default the adapter that the artifact names.", show_default=False),
    ] = None,
    as_json: options.Json = False,
    own_programs: OwnPrograms = None,
) -> None:
    """Write the prompts as the plain chat messages that an LM receives, to use them without verihop.

    Without --question each predictor is exported once, with a placeholder such as {question} for each input in the last
    message; with it the artifact answers the question on its LM (or --lm), and every prompt is exported as it was sent.
    A prompt that exceeds the LM's context is cut when it is sent; placeholders never are.
    """
    from programs.artifacts.export import as_markdown

    if question is None:
        if index is not None or used(lm) or used(limits):
            raise UserError("An LM, an index and a budget are needed to answer a question only: add --question.")
        prompts, about = _templates(folder, adapter)
    else:
        if adapter is not None:
            raise UserError("The LM of --question decides the adapter: omit --adapter.")
        prompts, about = _sent(folder, question, lm, limits, index)
    record = {**about, "prompts": [prompt.as_dict() for prompt in prompts]}
    if out is not None:
        _write(out, as_markdown(_title(about), prompts), record)
        note(f"Wrote {out / 'prompts.md'} and {out / 'prompts.json'}")
    if as_json:
        emit(record)
    elif out is None:
        say(as_markdown(_title(about), prompts))
        next_step(command("verihop", "artifact", "export", folder, *naming(*own_programs or ()), "--out", "prompts"))


def _title(about: dict[str, Any]) -> str:
    question = f", asked {about['question']!r}" if "question" in about else ""
    return f"Prompts of {about['artifact']}, as {about['adapter']} sends them{question}"


def _templates(folder: Path, named: str | None) -> "tuple[list[Prompt], dict[str, Any]]":
    from programs.artifact import read_artifact
    from programs.artifacts.export import templates
    from programs.artifacts.loading import load_unbound
    from programs.lms.adapter import ChatForm, JsonForm

    program, record = load_unbound(folder), read_artifact(folder)
    adapter = _adapter_name(record, named)
    form = {"ChatForm": ChatForm, "JsonForm": JsonForm}[adapter]()
    _note_pool(program)
    mode: Any = record.lm.probability_mode if record.lm else None
    return templates(program, form, mode=mode), {"artifact": str(folder), "adapter": adapter}


def _adapter_name(record: "Artifact", named: str | None) -> str:
    """Return the adapter to format with: the named one, else that of the artifact."""
    if named is not None:
        if named not in _ADAPTERS:
            raise unknown("adapter", named, _ADAPTERS)
        return _ADAPTERS[named]
    recorded = record.lm.adapter if record.lm else None
    if recorded is None:
        note("The artifact names no adapter: exported as the adapter chat sends it (or use --adapter json).")
        return "ChatForm"
    if recorded not in _ADAPTERS.values():
        raise UserError(f"The artifact names the adapter {recorded!r}, which verihop lacks: name one (--adapter).")
    return recorded


def _note_pool(program: "dspy.Module") -> None:
    from programs.nearest_demos import NearestDemos

    if any(isinstance(each, NearestDemos) for _, each in program.named_sub_modules()):
        note("Demonstrations are chosen per question and not shown here: add --question to see them.")


def _sent(
    folder: Path, question: str, lm: LMSpec, limits: options.Limits, index: Path | None
) -> "tuple[list[Prompt], dict[str, Any]]":
    from programs.artifacts.export import sent
    from programs.lms.calls.control import controlled

    opened = options.answerer(ProgramSpec(artifact=folder, index=index), lm, limits).open()
    connection = opened.connection
    with connection.use(), controlled(note):
        prompts, prediction = sent(opened.program, question)
    about = {"artifact": str(folder), "adapter": type(connection.adapter).__name__}
    return prompts, {**about, "lm": connection.id, "question": question, "answer": prediction.answer}


def _write(out: Path, markdown: str, record: dict[str, Any]) -> None:
    with atomic_write(out / "prompts.md", "wb") as file:
        file.write(markdown.encode())
    with atomic_write(out / "prompts.json") as file:
        json.dump(record, file, ensure_ascii=False, indent=2)
        file.write("\n")
