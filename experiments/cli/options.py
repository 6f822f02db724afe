"""The options that several commands share, each worded once."""

from pathlib import Path
from typing import Annotated

import typer

LM = Annotated[
    str,
    typer.Option(
        "--lm",
        help="embedded, simulated, simulated:SEED, gguf:PATH, or any DSPy id such as openai/gpt-4o-mini.",
        show_default=True,
    ),
]
FrozenLM = Annotated[
    str | None, typer.Option("--lm", help="LM id; by default the artifact's, else embedded.", show_default=False)
]
ApiBase = Annotated[str | None, typer.Option(help="Address of an OpenAI-compatible server (vLLM, Ollama, llama.cpp).")]
ApiKeyEnv = Annotated[str | None, typer.Option(help="Environment variable that holds the server's key.")]
ModelType = Annotated[
    str, typer.Option(help="chat, or text for a completion-style model without a chat template behind --api-base.")
]
Temperature = Annotated[
    float | None, typer.Option(min=0, help="0, unless the LM does not allow it.", show_default=False)
]
MaxTokens = Annotated[int | None, typer.Option(min=1, help="Longest reply of the LM.", show_default=False)]
ContextSize = Annotated[
    int | None,
    typer.Option(
        min=512, help="Tokens the LM holds; longer prompts are cut. Found out where it can be.", show_default=False
    ),
]
Index = Annotated[Path | None, typer.Option(help="Index folder made by `verihop index`.", show_default=False)]
Retriever = Annotated[
    str | None, typer.Option("--retriever", help="Use another retriever of the index than it was built for.")
]
Preset = Annotated[str, typer.Option(help="Named set of knobs; `verihop programs` lists those of each program.")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", help="A knob as name=value, repeatable, e.g. --set k=4. `verihop programs` lists them."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object for machines instead of text.")]
Threads = Annotated[int, typer.Option(min=1, max=256, help="Questions worked on side by side.")]
Seed = Annotated[int, typer.Option(help="Seed of every random choice.")]
Limit = Annotated[int | None, typer.Option(min=1, help="Use only the first N questions.", show_default=False)]
Split = Annotated[str | None, typer.Option(help="Use only questions of this split, e.g. dev.", show_default=False)]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with what an interrupted run left behind.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what stands there.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress on standard error.")]
BudgetCalls = Annotated[int | None, typer.Option(min=1, help="Stop after so many LM calls.", show_default=False)]
BudgetTokens = Annotated[int | None, typer.Option(min=1, help="Stop after so many tokens.", show_default=False)]
BudgetUsd = Annotated[float | None, typer.Option(min=0, help="Stop after so many US dollars.", show_default=False)]
BudgetSeconds = Annotated[float | None, typer.Option(min=0, help="Stop after so many seconds.", show_default=False)]
