"""Connect an LM on a server: detect its dialect, probe the model, and set limits, P(yes) and reply form accordingly."""

import hashlib
import warnings
from dataclasses import dataclass, replace
from typing import Any, Literal

from dspy.utils.exceptions import LMConfigurationError, LMInvalidRequestError

from programs.lms.calls.budget import Budget
from programs.lms.calls.control import controlled
from programs.lms.calls.metered import MeteredLM, metered_lm
from programs.lms.calls.transport import Transport
from programs.lms.servers.chat import ChatEngine, CompletionsEngine
from programs.lms.servers.detect import ServerDescription, describe, loaded_context, name_in_list, try_question
from programs.lms.servers.thinking import THINKING_TOKENS
from programs.lms.spec import ON_SERVER, Reasoning, Traits
from programs.parts.probability import ProbabilityMode
from programs.parts.threads import WIDTH
from signatures.common.errors import UserError, UserNotice, one_line
from signatures.common.http import checked_key

# Prefixes of an LM id that name a kind of server; the model's name on the server follows.
_KINDS = {
    "openai",
    "hosted_vllm",
    "vllm",
    "ollama",
    "ollama_chat",
    "lm_studio",
    "sglang",
    "llamacpp",
    "llama_cpp",
    "ovms",
}


def name_on_server(lm_id: str) -> str:
    """Return the model's name without the prefix that names the kind of server."""
    kind, _, rest = lm_id.partition("/")
    return rest if rest and kind in _KINDS else lm_id


def prefix_of(api_base: str, api_key_env: str | None) -> str:
    """Return the prefix of the model strings of a server.

    It contains a hash of the address, because DSPy's cache key omits the address, and two servers may serve different
    weights under one name; and of the name of the key, because what a server answers may depend on whose key it is.
    """
    return ON_SERVER + hashlib.sha256(f"{api_base} {api_key_env or ''}".encode()).hexdigest()[:8]


LEAST_PROMPT = 512  # tokens of the context that replies must leave


@dataclass(frozen=True, kw_only=True)
class ModelTraits(Traits):
    """Properties of a model that are otherwise detected.

    If neither the server nor DSPy's model list (part of the package; nothing is downloaded) states the context size,
    and for "text" servers, nothing is cut, and a prompt that is too long ends its question with the LM's error.

    Args:
        probability_mode: How P(yes) is computed; "auto" uses log-probabilities if the LM returns them (a server with an
            `api_base` is asked a yes/no question, outside the budget), else samples.

    Raises:
        UserError: A value is not allowed.
    """

    probability_mode: ProbabilityMode | Literal["auto"] = "auto"


@dataclass(frozen=True)
class ServerConnection:
    """An LM on a server.

    Args:
        lm: The LM.
        context_size: Tokens of prompt and reply together; None if unknown.
        mode: How P(yes) is computed.
        reasons: Whether its name is that of a reasoning model of OpenAI, which takes no short limit.
        found: What is known of the server; None for a completion-style model.
    """

    lm: MeteredLM
    context_size: int | None
    mode: ProbabilityMode
    reasons: bool = False
    found: ServerDescription | None = None


def connect_to_server(
    lm_id: str, api_base: str, api_key_env: str | None, settings: dict[str, Any], auto: set[str], overrides: ModelTraits
) -> ServerConnection:
    """Return an LM on a server.

    Args:
        lm_id: The model's name on the server, after an optional kind of server and a slash.
        api_base: Base URL.
        api_key_env: Name of the environment variable with the key.
        settings: Keyword arguments of the LM.
        auto: Names of the settings that were left to the LM.
        overrides: What is not to be detected.

    Raises:
        UserError: The key is missing, or replies leave no room for a prompt.
        BudgetExceeded: It does not answer within the seconds of the budget.
        LMUnavailable: The server does not answer.
    """
    key = checked_key(api_key_env)
    name = name_in_list(api_base, key, lm_id, name_on_server(lm_id))
    prefix, transport = prefix_of(api_base, api_key_env), settings["transport"]
    settings = {**settings, "address": api_base, **effort(overrides.reasoning)}
    mode: ProbabilityMode = "samples" if overrides.probability_mode == "auto" else overrides.probability_mode
    if settings["model_type"] == "text":
        text = CompletionsEngine(api_base, name, key, transport)
        lm = metered_lm(f"{prefix}/{name}", engine=text, **{**settings, "model_type": "chat"})
        return ServerConnection(lm, overrides.context_size, mode)
    found = describe(api_base, name, key, overrides.server)
    transport = within_slots(transport, found.slots)
    engine = ChatEngine(api_base, name, key, dialect=found.dialect, transport=transport)
    settings.update(engine=engine, transport=transport)
    lm, reasons = remote(f"{prefix}/{name}", auto, **settings)
    if reasons:  # by its name, as gpt-5 behind a gateway: it takes no limit, no temperature and no probe
        engine.max_tokens_field = "max_completion_tokens"
        return ServerConnection(lm, overrides.context_size or found.context_size, mode, True, found)
    found = _tried(lm.model, engine, found, overrides, settings["budget"])
    if overrides.probability_mode == "auto":
        mode = "samples" if found.no_logprobs else "logprobs"
    size = overrides.context_size or found.context_size or loaded_context(api_base, name, key, engine.dialect)
    found = replace(found, context_size=size)
    if found.thinks or overrides.thinking_tokens:
        found = replace(found, thinking_tokens=thinking_tokens(overrides.thinking_tokens, size))
        settings["max_tokens"] = settings["max_tokens"] and settings["max_tokens"] + found.thinking_tokens
    _check_room(settings["max_tokens"], found)
    if found.thinks and engine.thinks_in_text and overrides.reasoning != "off":
        engine.supports_response_schema, found = False, replace(found, structured=False)
    return ServerConnection(metered_lm(lm.model, **settings), size, mode, False, found)


def _tried(
    model: str, engine: ChatEngine, found: ServerDescription, overrides: ModelTraits, budget: Budget | None
) -> ServerDescription:
    """Return the description after a question, which is not asked if nothing depends on it.

    It costs nothing of the budget but time: a server that hangs is not waited for longer than the budget's seconds.
    """
    if overrides.probability_mode != "auto" and overrides.reasoning == "auto":
        return replace(found, yes_no_reasoning="off") if found.thinks else found
    seconds = Budget(seconds=budget.limits["seconds"]) if budget is not None else None
    lm = metered_lm(model, engine=engine, budget=seconds, address=engine.api_base, transport=engine.transport)
    tokens = thinking_tokens(overrides.thinking_tokens, overrides.context_size or found.context_size)
    logprobs = overrides.probability_mode == "auto"
    try:
        with controlled(_notice):
            found = try_question(lm, found, overrides.reasoning, tokens, logprobs=logprobs)
    except LMInvalidRequestError as error:
        raise UserError(
            f"{engine.model} at {engine.api_base} refuses a plain question: {one_line(error)}. "
            "Check the model and its settings."
        ) from error
    if found.no_logprobs:
        warnings.warn(UserNotice(f"P(yes) is computed from samples: {found.no_logprobs}."), stacklevel=4)
    return found


def _notice(text: str) -> None:
    warnings.warn(UserNotice(text), stacklevel=2)


def within_slots(transport: Transport, slots: int | None) -> Transport:
    """Return the transport with no more calls at a time than the server has slots; further ones wait before they start.

    A notice is issued if there are more threads than slots (a thread makes up to `programs.parts.threads.WIDTH` calls).
    """
    if slots is None or slots >= transport.connections:
        return transport
    if slots < transport.connections // WIDTH:
        message = f"The server answers {slots} calls at a time, so more threads than that only wait"
        warnings.warn(UserNotice(f"{message}: start it with more slots, or use fewer threads."), stacklevel=4)
    return replace(transport, connections=slots)


def thinking_tokens(given: int | None, size: int | None) -> int:
    """Return the tokens for thinking: those given, else the default or half of a smaller context."""
    return given or min(THINKING_TOKENS, (size or 2 * THINKING_TOKENS) // 2)


def _check_room(longest: int | None, found: ServerDescription) -> None:
    if longest and found.thinking_tokens and found.context_size and longest + LEAST_PROMPT > found.context_size:
        raise UserError(
            f"Replies of up to {longest} tokens ({found.thinking_tokens} for thinking) leave no room for a prompt in a "
            f"context of {found.context_size}: lower max_tokens or thinking_tokens, or enlarge the server's context."
        )


def effort(reasoning: Reasoning) -> dict[str, str]:
    """Return the LM's setting for a setting of reasoning; none for "auto"."""
    return {} if reasoning == "auto" else {"reasoning_effort": "none" if reasoning == "off" else reasoning}


def remote(model: str, auto: set[str], **settings: Any) -> tuple[MeteredLM, bool]:
    """Return the LM, and whether it is a reasoning model.

    DSPy refuses a temperature and short replies for a reasoning model, so its `auto` settings get the LM's defaults.
    """
    try:
        return metered_lm(model, **settings), False
    except LMConfigurationError:
        return metered_lm(model, **{**settings, **dict.fromkeys(auto)}), True
