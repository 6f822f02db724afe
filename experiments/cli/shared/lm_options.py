"""The options of every command that asks an LM: which one, and how it is called."""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

if TYPE_CHECKING:
    from experiments.runs.config import LMConfig

Cache = Annotated[
    bool,
    typer.Option(
        "--cache/--no-cache",
        envvar="VERIHOP_CACHE",
        help="Read and write cached replies and judgements.",
        show_default=False,
    ),
]


@dataclass(frozen=True)
class LM:
    """Which LM, and how it is called."""

    PANEL: ClassVar[str] = "LM"
    lm: Annotated[
        str | None,
        typer.Option(
            envvar="VERIHOP_LM",
            help="embedded; embedded:FOLDER for an adapter or merged weights, embedded:base for the untrained model "
            "(base-8bit to compare a trained one with), embedded:exact or embedded:exact:FOLDER to compute in float32; "
            "simulated, simulated:SEED, gguf:PATH, a DSPy id such as openai/gpt-4o-mini, or a model on --api-base; by "
            "default the LM of --artifact if there is one, else embedded.",
            show_default=False,
        ),
    ] = None
    api_base: Annotated[
        str | None,
        typer.Option(
            envvar="VERIHOP_API_BASE",
            help="Base URL of an OpenAI-compatible server, e.g. http://localhost:8000/v1.",
            show_default=False,
        ),
    ] = None
    api_key_env: Annotated[
        str | None,
        typer.Option(
            envvar="VERIHOP_API_KEY_ENV",
            help="Environment variable that contains the server's API key.",
            show_default=False,
        ),
    ] = None
    model_type: Annotated[
        str,
        typer.Option(
            envvar="VERIHOP_MODEL_TYPE",
            help="chat, or text for a completion model (no chat template) served at --api-base.",
        ),
    ] = "chat"
    temperature: Annotated[
        float | None,
        typer.Option(
            envvar="VERIHOP_TEMPERATURE",
            min=0,
            max=2,
            help="Sampling temperature; by default 0, if the LM allows it.",
            show_default=False,
        ),
    ] = None
    max_tokens: Annotated[
        int | None,
        typer.Option(
            envvar="VERIHOP_MAX_TOKENS", min=1, help="Longest reply of the LM, in tokens.", show_default=False
        ),
    ] = None
    context_size: Annotated[
        int | None,
        typer.Option(
            envvar="VERIHOP_CONTEXT_SIZE",
            min=512,
            help="Context window of the LM, in tokens; longer prompts are cut. Detected if possible.",
            show_default=False,
        ),
    ] = None

    reasoning: Annotated[
        str,
        typer.Option(
            envvar="VERIHOP_REASONING",
            help="How much the LM thinks before it answers: off, low, medium, high, or auto (the LM's own default; "
            "yes/no questions without thinking where the server can turn it off).",
        ),
    ] = "auto"
    thinking_tokens: Annotated[
        int | None,
        typer.Option(
            envvar="VERIHOP_THINKING_TOKENS",
            min=1,
            help="Tokens for thinking in each reply of an LM that thinks, added to --max-tokens; by default 4096, or "
            "half of a smaller context.",
            show_default=False,
        ),
    ] = None
    server: Annotated[
        str | None,
        typer.Option(
            envvar="VERIHOP_SERVER",
            help="What runs at --api-base: vllm, sglang, llamacpp, ollama, lmstudio, ovms or openai (any other); by "
            "default the server is asked.",
            show_default=False,
        ),
    ] = None
    retries: Annotated[
        int,
        typer.Option(
            envvar="VERIHOP_RETRIES",
            min=0,
            help="How often a call is repeated after a transient failure, e.g. HTTP 500 or an unreadable reply.",
        ),
    ] = 3
    retry_timeout: Annotated[
        float,
        typer.Option(
            envvar="VERIHOP_RETRY_TIMEOUT",
            min=0,
            help="Seconds for which a call is repeated while the server limits the rate (429, 503) or is down; these "
            "repetitions do not count as --retries.",
        ),
    ] = 600.0
    timeout: Annotated[
        float, typer.Option(envvar="VERIHOP_TIMEOUT", min=0.1, help="Seconds that one call to a server may take.")
    ] = 120.0
    cache: Cache = True

    def config(self, threads: int = 1) -> "LMConfig":
        """Return the options as a configuration, for a command that processes `threads` questions in parallel."""
        from experiments.runs.config import LMConfig
        from programs.lms.calls.transport import connections_for

        same = {name: value for name, value in asdict(self).items() if name != "lm"}
        return LMConfig(self.lm, **same, connections=connections_for(threads))
