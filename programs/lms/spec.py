"""`LMSpec`: which LM answers and how it is called, each setting declared once.

Options of commands, the settings file and its variables, the keywords of `verihop.connect` and all checks derive from
it. Nothing heavy is imported: `verihop --help` shows these fields.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, ClassVar, Literal, get_args

from programs.lms.calls.transport import Transport, connections_for
from signatures.common.errors import UserError
from signatures.common.specs import Field, Range, check, fields_of

EMBEDDED, SIMULATED, GGUF = "embedded", "simulated", "gguf"  # what ids of LMs in this process begin with
ON_SERVER = "server-"  # what the model strings of LMs on a server begin with
Reasoning = Literal["off", "low", "medium", "high", "auto"]
Server = Literal["vllm", "sglang", "llamacpp", "ollama", "lmstudio", "ovms", "openai"]  # see `servers.dialects`
_SERVERS: tuple[str, ...] = get_args(Server)


def kind_of(lm_id: str | None) -> str:
    """Return what an id begins with, before a colon; "embedded" for None."""
    return EMBEDDED if lm_id is None else lm_id.partition(":")[0]


def in_process(lm_id: str | None) -> bool:
    """Return whether an id without an address is that of an LM in this process."""
    return kind_of(lm_id) in (EMBEDDED, SIMULATED, GGUF)


_OF_MODEL = partial(Field, decides=True, trusted=False, of="model")
_OF_ADDRESS = partial(Field, decides=True, trusted=False, of="address")


@dataclass(frozen=True, kw_only=True)
class Model:
    """Which model, and how it replies; None leaves a setting to the connection's default."""

    id: Annotated[
        str | None,
        Field(
            "embedded; embedded:FOLDER for an adapter or merged weights, embedded:base for the untrained model "
            "(base-8bit to compare a trained one with), embedded:exact or embedded:exact:FOLDER to compute in float32; "
            "simulated, simulated:SEED, simulated:v2:SEED, gguf:PATH, a DSPy id such as openai/gpt-4o-mini, or a model "
            "on --api-base; by default the LM of --artifact if there is one, else embedded.",
            "--lm",
            decides=True,
            trusted=True,
        ),
    ] = None
    api_base: Annotated[
        str | None,
        Field(
            "Base URL of an OpenAI-compatible server, e.g. http://localhost:8000/v1.",
            decides=True,
            trusted=True,
            of="address",
        ),
    ] = None
    api_key_env: Annotated[
        str | None,
        Field("Environment variable that contains the server's API key.", decides=True, trusted=True, of="server"),
    ] = None
    model_type: Annotated[
        Literal["chat", "text"],
        _OF_ADDRESS("chat, or text for a completion model (no chat template) served at --api-base."),
    ] = "chat"
    temperature: Annotated[
        float | None, Range(0, 2), _OF_MODEL("Sampling temperature; by default 0, if the LM allows it.")
    ] = None
    max_tokens: Annotated[int | None, Range(1), _OF_MODEL("Longest reply of the LM, in tokens.")] = None


@dataclass(frozen=True, kw_only=True)
class Traits:
    """Properties of a model that are otherwise detected."""

    context_size: Annotated[
        int | None,
        Range(512),
        _OF_MODEL("Context window of the LM, in tokens; longer prompts are cut. Detected if possible."),
    ] = None
    reasoning: Annotated[
        Reasoning,
        _OF_ADDRESS(
            "How much the LM thinks before it answers: off, low, medium, high, or auto (the LM's own default; "
            "yes/no questions without thinking where the server can turn it off)."
        ),
    ] = "auto"
    thinking_tokens: Annotated[
        int | None,
        Range(1),
        _OF_ADDRESS(
            "Tokens for thinking in each reply of an LM that thinks, added to --max-tokens; by default 4096, or "
            "half of a smaller context."
        ),
    ] = None
    server: Annotated[
        Server | None,
        Field(
            f"What runs at --api-base: {', '.join(_SERVERS[:-1])} or {_SERVERS[-1]} (any other); by "
            "default the server is asked.",
            decides=True,
            trusted=False,
            of="server",
        ),
    ] = None

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, kw_only=True)
class LMSpec(Transport, Traits, Model):
    """Which LM answers, and how it is called; None leaves a setting to the connection's default.

    Raises:
        UserError: A value is out of range; or the model type is "text", or a server is named, without a URL.
    """

    PANEL: ClassVar[str] = "LM"  # of `--help`
    cache: Annotated[
        bool, Field("Read and write cached replies and judgements.", "--cache/--no-cache", trusted=False)
    ] = True

    def __post_init__(self) -> None:
        check(self)
        if self.model_type == "text" and self.api_base is None:
            raise UserError("The model type text is for a model on a server: name its URL (api_base).")
        if self.server is not None and self.api_base is None:
            raise UserError(f"The server {self.server!r} needs its URL: name it (api_base).")

    def for_threads(self, threads: int = 1) -> "LMSpec":
        """Return the spec with connections for a command that processes `threads` questions in parallel."""
        return replace(self, connections=connections_for(threads))

    def called_as(self, other: "LMSpec") -> "LMSpec":
        """Return the spec called like another LM: with its retries, timeouts, connections and cache."""
        calling = {name: getattr(other, name) for name, field in fields_of(LMSpec).items() if not field.field.decides}
        return replace(self, **calling)
