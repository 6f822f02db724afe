"""`verihop distill export`: a trained LM for other runtimes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import typer

from experiments.cli.shared import options
from experiments.cli.shared.console import emit, next_step, say
from experiments.cli.shared.next_commands import asking, command
from experiments.cli.shared.options import with_option_groups
from signatures.common.errors import UserError
from signatures.common.specs import Field

OF_OTHER = {"hf": "file_type", "gguf": "dtype"}  # form -> the option that the other one alone reads


@dataclass(frozen=True)
class Form:
    """What is written."""

    PANEL: ClassVar[str] = "Form"
    to: Annotated[
        Literal["hf", "gguf"],
        typer.Option(help="hf for transformers and vLLM; gguf for llama.cpp and Ollama, with a Modelfile."),
    ]
    out: Annotated[Path, Field("New folder.", "--out -o")]
    file_type: Annotated[
        Literal["q8_0", "f16"], typer.Option(help="Of gguf: 8 bits, or 16 with less rounding at twice the size.")
    ] = "q8_0"
    dtype: Annotated[
        Literal["float16", "bfloat16"], typer.Option(help="Of hf: float16 rounds less, bfloat16 has the larger range.")
    ] = "float16"
    as_json: options.Json = False


@with_option_groups
def export(
    context: typer.Context,
    weights: Annotated[
        str,
        typer.Argument(
            help="Folder of an adapter or of merged weights; embedded for the LM that is used by default, base for the "
            "untrained one."
        ),
    ],
    form: Form,
) -> None:
    """Write a trained LM, its adapter merged, for transformers and vLLM or for llama.cpp and Ollama."""
    from programs.lms.weights.export import export_gguf, export_transformers

    other, typed = OF_OTHER[form.to], options.typed_in(context)
    if other in typed:
        raise UserError(f"{typed[other]} does nothing with --to {form.to}: leave it out.")
    if form.to == "gguf":
        path = export_gguf(weights, form.out, file_type=form.file_type)
        commands = [
            asking("rag", lm=f"gguf:{path}"),
            command("ollama", "create", form.out.name, "-f", form.out / "Modelfile"),
        ]
    else:
        path = export_transformers(weights, form.out, dtype=form.dtype)
        commands = [command("vllm", "serve", path)]
    size = sum(file.stat().st_size for file in form.out.iterdir())
    if form.as_json:
        emit({"path": str(path), "bytes": size})
        return
    say(f"Wrote {path} ({size / 1e6:,.0f} MB).")
    next_step(*commands)
