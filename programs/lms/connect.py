"""Connect an LM id to what a program runs on: LM, adapter, context size and how P(yes) is computed."""

import logging
import os
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # else the first use of a model downloads a price list

import dspy
from dspy.clients.backend_selection import select_backend
from dspy.clients.model_metadata import model_info
from dspy.utils.exceptions import LMConfigurationError, LMError

from programs.lms import smollm
from programs.lms.adapter import ChatForm, JsonForm
from programs.lms.caches import use_reply_cache
from programs.lms.calls.budget import Budget
from programs.lms.calls.metered import MeteredLM, metered_lm
from programs.lms.calls.transport import Transport
from programs.lms.embedded import EmbeddedEngine
from programs.lms.gguf import CONTEXT_SIZE as GGUF_CONTEXT_SIZE
from programs.lms.gguf import GgufEngine, weights_hash
from programs.lms.servers import server
from programs.lms.servers.completions import CompletionsEngine
from programs.parts.probability import ProbabilityMode
from signatures.common.errors import UserError

FORMS = (
    "embedded, embedded:exact, gguf:<path>, <provider>/<model> (as openai/gpt-4o-mini), or a model name with api-base"
)
MAX_TOKENS = 256
LOCAL_MAX_TOKENS = 128  # a small model whose reply is longer repeats itself


class UnknownLM(UserError):
    """The id has none of the known forms."""


@dataclass(frozen=True)
class ModelTraits:
    """Properties of a model that are otherwise detected.

    Args:
        context_size: Tokens of prompt and reply together. By default that stated by the server or by DSPy's model list
            (part of the package; nothing is downloaded). If neither states it, and for "text" servers, nothing is cut,
            and a prompt that is too long ends its question with the LM's error.
        probability_mode: How P(yes) is computed; "auto" uses log-probabilities if the LM returns them (a server with an
            `api_base` is asked for one token, outside the budget), else samples.
    """

    context_size: int | None = None
    probability_mode: ProbabilityMode | Literal["auto"] = "auto"


@dataclass(frozen=True)
class Connection:
    """What a program runs on.

    Args:
        id: The id it was connected by.
        lm: Counts its calls and enforces the budget.
        adapter: JSON replies if the LM enforces a schema, else marked fields.
        context_size: Tokens of prompt and reply together; None if unknown, then nothing is cut.
        probability_mode: How P(yes) is computed.
        weights_hash: SHA-256 of the weights; None if the file is not on this machine.
    """

    id: str
    lm: MeteredLM
    adapter: Any
    context_size: int | None
    probability_mode: ProbabilityMode
    weights_hash: str | None = None

    def use(self) -> AbstractContextManager[None]:
        """Return a context in which DSPy programs run on this LM, without a history of every call."""
        return dspy.context(lm=self.lm, adapter=self.adapter, disable_history=True)

    def close(self) -> None:
        """Free a model loaded in this process; the next call loads it again."""
        if isinstance(self.lm.engine, EmbeddedEngine | GgufEngine):
            self.lm.engine.close()


def connect(
    lm_id: str = "embedded",
    *,
    api_base: str | None = None,
    api_key_env: str | None = None,
    model_type: Literal["chat", "text"] = "chat",
    temperature: float | Literal["auto"] | None = "auto",
    max_tokens: int | Literal["auto"] | None = "auto",
    cache: bool = True,
    budget: Budget | None = None,
    transport: Transport = Transport(),
    traits: ModelTraits = ModelTraits(),
) -> Connection:
    """Return a connection to an LM; weights are loaded with the first call.

    Args:
        lm_id: `embedded`, `embedded:exact` (slower; replies do not depend on concurrent calls), `gguf:<path>`, or
            any DSPy id.
        api_base: Base URL of an OpenAI-compatible server; `lm_id` is then the model's name there.
        api_key_env: Name of the environment variable with the key; only that key is sent to `api_base`.
        model_type: "text" for completion-style models.
        temperature: 0 for the most likely reply; "auto" is 0, or the LM's default for a reasoning model.
        max_tokens: Longest reply; "auto" is 256, 128 for the small models in this process, and no limit for a
            reasoning model.
        cache: Cache replies, by model, weights and prompt.
        budget: Limits on calls, tokens, usd or seconds.
        transport: Retries, time limit and width of the calls.
        traits: Detected by default.

    Raises:
        UserError: The id has no known form, a file or key is missing.
        LMUnavailable: The server was asked for one token to detect its traits and does not answer.
    """
    if cache:
        use_reply_cache()
    logging.getLogger("dspy.clients.lm").setLevel(logging.ERROR)  # truncated replies are counted, not logged one by one
    local = api_base is None and (lm_id in ("embedded", "embedded:exact") or lm_id.startswith("gguf:"))
    settings: dict[str, Any] = {"temperature": temperature, "max_tokens": max_tokens}
    auto = {name for name, value in settings.items() if value == "auto"}
    defaults = {"temperature": 0.0, "max_tokens": LOCAL_MAX_TOKENS if local else MAX_TOKENS}
    settings.update({name: defaults[name] for name in auto})
    settings.update(cache=cache, budget=budget, transport=transport, model_type=model_type)
    if api_base is not None:
        return _to_server(lm_id, server.checked_base(api_base), api_key_env, settings, auto, traits)
    if local:
        return _to_local(lm_id, settings, traits)
    provider, _, model = lm_id.partition("/")
    if not provider or not model:
        raise UnknownLM(f"Unknown LM {lm_id!r}. Choose from: {FORMS}.")
    if key := server.checked_key(api_key_env):
        settings["api_key"] = key
    return _to_provider(lm_id, settings, auto, traits)


_engines: dict[str, EmbeddedEngine | GgufEngine] = {}
_engines_lock = threading.Lock()


def _to_local(lm_id: str, settings: dict[str, Any], traits: ModelTraits) -> Connection:
    """Connect a model in this process; connections of one id share its engine, and so its memory."""
    kind, _, argument = lm_id.partition(":")
    with _engines_lock:
        if lm_id not in _engines:
            _engines[lm_id] = EmbeddedEngine(exact=argument == "exact") if kind == "embedded" else GgufEngine(argument)
        engine = _engines[lm_id]
    if isinstance(engine, GgufEngine):
        weights, size, count_tokens = weights_hash(engine.path), GGUF_CONTEXT_SIZE, None
    else:
        weights, size, count_tokens = smollm.weights_hash(), smollm.CONTEXT_SIZE, engine.count_tokens
    lm = metered_lm(engine.name, engine=engine, **settings)
    mode: ProbabilityMode = "logprobs" if traits.probability_mode == "auto" else traits.probability_mode
    return _connection(lm_id, lm, traits.context_size or size, mode, weights=weights, count_tokens=count_tokens)


def _to_server(
    lm_id: str, api_base: str, api_key_env: str | None, settings: dict[str, Any], auto: set[str], traits: ModelTraits
) -> Connection:
    key, name, mode = server.checked_key(api_key_env), server.name_on_server(lm_id), traits.probability_mode
    prefix = server.register(api_base, api_key_env)
    if settings["model_type"] == "text":
        engine = CompletionsEngine(api_base, name, key)
        lm = metered_lm(f"{prefix}/{name}", engine=engine, address=api_base, **{**settings, "model_type": "chat"})
        return _connection(lm_id, lm, traits.context_size, "samples" if mode == "auto" else mode)
    lm, reasons = _remote(f"{prefix}/{name}", auto, address=api_base, **settings)
    if mode == "auto" and reasons:
        mode = "samples"
    if mode == "auto":
        probe = metered_lm(lm.model, address=api_base, transport=settings["transport"])
        mode = "logprobs" if server.gives_logprobs(probe) else "samples"
    size = traits.context_size or server.context_size(api_base, name, key)
    return _connection(lm_id, lm, size, mode, reasons=reasons)


def _remote(model: str, auto: set[str], **settings: Any) -> tuple[MeteredLM, bool]:
    """Return the LM, and whether it is a reasoning model.

    DSPy refuses a temperature and short replies for a reasoning model, so its `auto` settings get the LM's defaults.
    """
    try:
        return metered_lm(model, **settings), False
    except LMConfigurationError:
        return metered_lm(model, **{**settings, **dict.fromkeys(auto)}), True


def _to_provider(lm_id: str, settings: dict[str, Any], auto: set[str], traits: ModelTraits) -> Connection:
    try:
        lm, reasons = _remote(lm_id, auto, **settings)
        if not (select_backend(lm).native or lm_id.split("/")[0] in _litellm_providers()):
            raise UnknownLM(f"Unknown LM {lm_id!r}. Choose from: {FORMS}.")
        supported = lm.supported_params
    except LMConfigurationError as error:
        raise UserError(f"LM {lm_id!r} refuses these settings: {' '.join(str(error).split())[:300]}") from error
    except LMError as error:
        reason = " ".join(str(error).split())[:300]
        raise UnknownLM(f"Unknown LM {lm_id!r}: {reason}. Choose from: {FORMS}.") from error
    mode = traits.probability_mode
    if mode == "auto":
        mode = "logprobs" if "logprobs" in supported and not reasons else "samples"
    provider, _, model = lm_id.partition("/")
    size = traits.context_size or model_info(provider, model).get("max_input_tokens")
    return _connection(lm_id, lm, size, mode, reasons=reasons)


def _litellm_providers() -> set[str]:
    import litellm

    return {getattr(provider, "value", provider) for provider in litellm.provider_list}


def _connection(
    lm_id: str,
    lm: MeteredLM,
    size: int | None,
    mode: ProbabilityMode,
    *,
    weights: str | None = None,
    count_tokens: Callable[[str], int] | None = None,
    reasons: bool = False,
) -> Connection:
    form = JsonForm if lm.supports_response_schema else ChatForm
    adapter = form(
        context_size=size,
        reply_tokens=lm.kwargs.get("max_tokens") or MAX_TOKENS,
        count_tokens=count_tokens,
        probability_mode=mode,
        short_replies=not reasons,
    )
    return Connection(lm_id, lm, adapter, size, mode, weights)
