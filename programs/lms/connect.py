"""Connect an LM id to what a program runs on: LM, adapter, context size and how P(yes) is computed."""

import logging
import os
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # else the first use of a model downloads a price list
os.environ.setdefault("LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS", "True")  # else the first call of Claude downloads a list
os.environ.setdefault("LITELLM_MODE", "PRODUCTION")  # else variables are read from any `.env` above the installation

import dspy
from dspy.clients.backend_selection import select_backend
from dspy.clients.engines.lm15_engine import LM15Engine
from dspy.clients.model_metadata import model_info
from dspy.lm15 import RouterConfig
from dspy.utils.exceptions import LMConfigurationError, LMError

from programs.lms.adapter import ChatForm, JsonForm
from programs.lms.calls.budget import Budget
from programs.lms.calls.metered import MeteredLM, metered_lm
from programs.lms.calls.reply_cache import use_reply_cache
from programs.lms.calls.transport import Transport
from programs.lms.embedded import EmbeddedEngine
from programs.lms.gguf import CONTEXT_SIZE as GGUF_CONTEXT_SIZE
from programs.lms.gguf import GgufEngine, weights_hash
from programs.lms.litellm_private import litellm_providers
from programs.lms.servers.chat import ChatEngine, CompletionsEngine
from programs.lms.servers.connection import ModelTraits as ModelTraits
from programs.lms.servers.connection import connect_to_server, effort, remote, thinking_tokens
from programs.lms.servers.detect import ServerDescription
from programs.lms.servers.thinking import ThinkingBudget, thinking_budget
from programs.lms.weights import choice
from programs.lms.weights.choice import parse
from programs.parts.probability import ProbabilityMode
from signatures.common.errors import UserError, one_line
from signatures.common.http import checked_base, checked_key

FORMS = (
    "embedded, embedded:base, embedded:<folder>, embedded:exact[:<folder>], gguf:<path>, <provider>/<model> "
    "(as openai/gpt-4o-mini), or a model name with api-base"
)
MAX_TOKENS = 256


class UnknownLM(UserError):
    """The id has none of the known forms."""


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
        server: What is known of the server; None for an LM in this process or of a provider.
    """

    id: str
    lm: MeteredLM
    adapter: Any
    context_size: int | None
    probability_mode: ProbabilityMode
    weights_hash: str | None = None
    server: ServerDescription | None = None

    def use(self) -> AbstractContextManager[None]:
        """Return a context in which DSPy programs run on this LM, without a history of every call."""
        return dspy.context(lm=self.lm, adapter=self.adapter, disable_history=True)

    def close(self) -> None:
        """Free a model loaded in this process, and connections to a server; the next call loads or opens them again."""
        if isinstance(self.lm.engine, EmbeddedEngine | GgufEngine | ChatEngine | CompletionsEngine):
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
        lm_id: `embedded`, `embedded:base` (untrained), `embedded:<folder>` (an adapter or merged weights),
            `embedded:base-8bit` (untrained, stored as an adapter is), `embedded:exact` and `embedded:exact:<folder>`
            (slower; replies do not depend on concurrent calls), `gguf:<path>`, or any DSPy id.
        api_base: Base URL of an OpenAI-compatible server; `lm_id` is then the model's name there.
        api_key_env: Name of the environment variable with the key; only that key is sent to `api_base`.
        model_type: "text" for completion-style models.
        temperature: 0 for the most likely reply; "auto" is 0, or the LM's default for a reasoning model.
        max_tokens: Longest reply; "auto" is 256, and no limit for a reasoning model.
        cache: Cache replies, by model, weights and prompt.
        budget: Limits on calls, tokens, usd or seconds.
        transport: Retries, timeout and concurrency limit of the calls.
        traits: Detected by default.

    Raises:
        UserError: The id has no known form, a file or key is missing.
        BudgetExceeded: A server that is asked a question to detect its traits hangs for the seconds of the budget.
        LMUnavailable: It does not answer.
    """
    if cache:
        use_reply_cache()
    logging.getLogger("dspy.clients.lm").setLevel(logging.ERROR)  # truncated replies are counted, not logged one by one
    local = api_base is None and (lm_id == "embedded" or lm_id.startswith(("embedded:", "gguf:")))
    settings: dict[str, Any] = {"temperature": temperature, "max_tokens": max_tokens}
    auto = {name for name, value in settings.items() if value == "auto"}
    defaults = {"temperature": 0.0, "max_tokens": MAX_TOKENS}
    settings.update({name: defaults[name] for name in auto})
    settings.update(cache=cache, budget=budget, transport=transport, model_type=model_type)
    if api_base is not None:
        served = connect_to_server(lm_id, checked_base(api_base), api_key_env, settings, auto, traits)
        return _connection(
            lm_id,
            served.lm,
            served.context_size,
            served.mode,
            reasons=served.reasons,
            found=served.found,
        )
    if traits.server is not None:
        raise UserError(f"{lm_id!r} is not on your server: set its URL (api_base), or omit server.")
    if local:
        if traits.reasoning != "auto" or traits.thinking_tokens is not None:
            raise UserError(
                "reasoning and thinking_tokens are for LMs on a server or of a provider, not for one in this process."
            )
        return _to_local(lm_id, settings, traits)
    provider, _, model = lm_id.partition("/")
    if not provider or not model:
        raise UnknownLM(f"Unknown LM {lm_id!r}. Choose from: {FORMS}.")
    if key := checked_key(api_key_env):
        settings["api_key"] = key
    return _to_provider(lm_id, settings, auto, traits)


LocalEngine = EmbeddedEngine | GgufEngine
_embedded_engines: dict[tuple[bool, str], EmbeddedEngine] = {}
_gguf_engines: dict[tuple[Path, str], GgufEngine] = {}
_engines_lock = threading.Lock()


def _to_local(lm_id: str, settings: dict[str, Any], traits: ModelTraits) -> Connection:
    """Connect a model in this process; connections to the same weights share its engine, and so its memory."""
    kind, _, argument = lm_id.partition(":")
    with _engines_lock:
        engine = _embedded(*parse(argument)) if kind == "embedded" else _gguf(argument)
    return local_connection(lm_id, engine, settings, traits)


def local_connection(lm_id: str, engine: LocalEngine, settings: dict[str, Any], traits: ModelTraits) -> Connection:
    """Return a connection to an engine in this process; `settings` are those of `metered_lm`."""
    if isinstance(engine, GgufEngine):
        weights, size, count_tokens = weights_hash(engine.path), GGUF_CONTEXT_SIZE, None
    else:
        weights, size, count_tokens = engine.weights.hash, engine.weights.context_size, engine.count_tokens
    lm = metered_lm(engine.name, engine=engine, **settings)
    mode: ProbabilityMode = "logprobs" if traits.probability_mode == "auto" else traits.probability_mode
    return _connection(lm_id, lm, traits.context_size or size, mode, weights=weights, count_tokens=count_tokens)


def _embedded(exact: bool, source: str) -> EmbeddedEngine:
    """Return the engine of these weights: a folder may have been trained on since the last connection."""
    if find_spec("openvino_genai") is None:  # an installation of the server alone
        raise UserError("An LM in this process needs OpenVINO: pip install openvino-genai. Or use another LM (--lm).")
    key = (exact, choice.weights(source).hash)
    if key not in _embedded_engines:
        engine = EmbeddedEngine(exact=exact, source=source)
        key = (exact, engine.weights.hash)
        _embedded_engines.setdefault(key, engine)
    return _embedded_engines[key]


def _gguf(path: str) -> GgufEngine:
    """Return the engine of this file: it may have been rewritten since an engine loaded it."""
    engine = GgufEngine(path)
    return _gguf_engines.setdefault((engine.path.resolve(), weights_hash(engine.path)), engine)


def _to_provider(lm_id: str, settings: dict[str, Any], auto: set[str], traits: ModelTraits) -> Connection:
    settings.update(effort(traits.reasoning))
    thinks = traits.reasoning not in ("auto", "off") or traits.thinking_tokens is not None
    if thinks and settings["max_tokens"] is not None:
        settings["max_tokens"] += thinking_tokens(traits.thinking_tokens, None)
    try:
        lm, reasons = remote(lm_id, auto, **settings)
        if not (select_backend(lm).native or lm_id.split("/")[0] in litellm_providers()):
            needs = "" if litellm_providers() else " Other providers need LiteLLM: pip install litellm."
            raise UnknownLM(f"Unknown LM {lm_id!r}. Choose from: {FORMS}.{needs}")
        supported = lm.supported_params
    except LMConfigurationError as error:
        raise UserError(f"LM {lm_id!r} refuses these settings: {one_line(error)}") from error
    except LMError as error:
        raise UnknownLM(f"Unknown LM {lm_id!r}: {one_line(error)}. Choose from: {FORMS}.") from error
    mode = traits.probability_mode
    if mode == "auto":
        mode = "logprobs" if "logprobs" in supported and not (reasons or thinks) else "samples"
    provider, _, model = lm_id.partition("/")
    size = traits.context_size or model_info(provider, model).get("max_input_tokens")
    return _connection(lm_id, lm, size, mode, reasons=reasons or thinks)


def lacking_key(lm: MeteredLM) -> str | None:
    """Return the environment variable that would have the key of a provider's LM; None if nothing is known to lack.

    What LiteLLM calls, or a provider that is logged in to otherwise, is known only when it is asked.
    """
    if not lm.remote or lm.kwargs.get("api_key"):
        return None
    selected = select_backend(lm)
    found: Any = selected.resolution
    if not selected.native or found is None or found.credential_policy != "key" or found.placeholder_key:
        return None
    here = LM15Engine(RouterConfig(env=os.environ), model_type=lm.model_type).resolve(lm.model).env_key
    return None if here is None or os.environ.get(here) else str(here)


def _connection(
    lm_id: str,
    lm: MeteredLM,
    size: int | None,
    mode: ProbabilityMode,
    *,
    weights: str | None = None,
    count_tokens: Callable[[str], int] | None = None,
    reasons: bool = False,
    found: ServerDescription | None = None,
) -> Connection:
    form = JsonForm if lm.supports_response_schema else ChatForm
    adapter = form(
        context_size=size,
        reply_tokens=lm.kwargs.get("max_tokens") or MAX_TOKENS,
        count_tokens=count_tokens,
        probability_mode=mode,
        short_replies=not reasons,
        thinking=thinking_budget(found) if found else ThinkingBudget(),
    )
    return Connection(lm_id, lm, adapter, size, mode, weights, found)
