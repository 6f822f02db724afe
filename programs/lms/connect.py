"""One call from an id to everything a program runs on: LM, adapter, context size and how P(yes) is read."""

import logging
import os
import threading
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # else the first look at a model fetches a price list

import dspy
from dspy.clients.backend_selection import select_backend
from dspy.clients.model_metadata import model_info
from dspy.utils.exceptions import LMConfigurationError, LMError

from programs.lms import server, smollm
from programs.lms.adapter import ChatForm, JsonForm
from programs.lms.budget import Budget
from programs.lms.caches import use_reply_cache
from programs.lms.completions import CompletionsEngine
from programs.lms.embedded import EmbeddedEngine
from programs.lms.gguf import CONTEXT_SIZE as GGUF_CONTEXT_SIZE
from programs.lms.gguf import GgufEngine, weights_hash
from programs.lms.metered import MeteredLM, metered_lm
from programs.parts.probability import ProbabilityMode
from signatures.common.errors import UserError

FORMS = (
    "embedded, embedded:exact, gguf:<path>, <provider>/<model> (as openai/gpt-4o-mini), or a model name with --api-base"
)
MAX_TOKENS = 256
LOCAL_MAX_TOKENS = 128  # a small model that has not ended by then is rambling


class UnknownLM(UserError):
    """The id has none of the known forms."""


@dataclass(frozen=True)
class Connection:
    """What a program runs on.

    Args:
        id: The id it was connected by.
        lm: Counts its calls and keeps to the budget.
        adapter: JSON replies where the LM enforces a schema, else marked fields.
        context_size: Tokens of prompt and reply together; None when unknown, then nothing is cut.
        probability_mode: How P(yes) is read.
        weights_hash: SHA-256 of the weights, where the file is here.
    """

    id: str
    lm: MeteredLM
    adapter: Any
    context_size: int | None
    probability_mode: ProbabilityMode
    weights_hash: str | None = None

    def use(self) -> AbstractContextManager[None]:
        """Return a context in which DSPy programs run on this LM, without keeping a history of every call."""
        return dspy.context(lm=self.lm, adapter=self.adapter, disable_history=True)

    def close(self) -> None:
        """Free a model held in this process; it loads again when used."""
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
    retries: int = 3,
    context_size: int | None = None,
    probability_mode: ProbabilityMode | Literal["auto"] = "auto",
) -> Connection:
    """Return a connection to an LM; weights load with the first call.

    Args:
        lm_id: `embedded`, `embedded:exact` (slower; replies independent of what runs beside them), `gguf:<path>`, or
            any DSPy id.
        api_base: Address of an OpenAI-compatible server; `lm_id` is then the model's name there.
        api_key_env: Name of the environment variable with the key; only that key is sent to `api_base`.
        model_type: "text" for completion-style models.
        temperature: 0 for the likeliest reply; "auto" is 0, or the LM's own where it thinks before it answers.
        max_tokens: Longest reply; "auto" is 256, 128 for the small models in this process, and no limit for an LM
            that thinks before it answers (OpenAI's reasoning models).
        cache: Keep replies, by model, weights and prompt.
        budget: Limits on calls, tokens, usd or seconds.
        retries: Repeats after a failure that may pass.
        context_size: Tokens the model holds. By default what the server or DSPy's list of models says (the list is
            part of the package, nothing is fetched); where neither knows, and for "text" servers, nothing is cut, and
            a prompt that is too long ends its question with the LM's own error.
        probability_mode: "auto" takes log-probabilities where the LM gives them (a server with `api_base` is asked
            for one token, outside the budget), else samples.

    Raises:
        UserError: The id has no known form, a file or key is missing.
        LMUnavailable: The server was asked for that one token and does not answer.
    """
    if cache:
        use_reply_cache()
    logging.getLogger("dspy.clients.lm").setLevel(logging.ERROR)  # cut replies are counted, not logged one by one
    local = api_base is None and (lm_id in ("embedded", "embedded:exact") or lm_id.startswith("gguf:"))
    left = {name for name, value in (("temperature", temperature), ("max_tokens", max_tokens)) if value == "auto"}
    common: dict[str, Any] = {
        "temperature": 0.0 if temperature == "auto" else temperature,
        "max_tokens": (LOCAL_MAX_TOKENS if local else MAX_TOKENS) if max_tokens == "auto" else max_tokens,
    }
    common.update(cache=cache, budget=budget, num_retries=retries, model_type=model_type)
    if api_base is not None:
        return _to_server(lm_id, api_base, api_key_env, common, left, context_size, probability_mode)
    if local:
        engine, weights, size = _local(lm_id)
        lm = metered_lm(engine.name, engine=engine, **common)
        mode: ProbabilityMode = "logprobs" if probability_mode == "auto" else probability_mode
        count = engine.count_tokens if isinstance(engine, EmbeddedEngine) else None
        return _connection(lm_id, lm, context_size or size, mode, weights, count)
    provider, _, model = lm_id.partition("/")
    if not provider or not model:
        raise UnknownLM(f"Unknown LM {lm_id!r}. Choose from: {FORMS}.")
    if key := server.checked_key(api_key_env):
        common["api_key"] = key
    return _to_provider(lm_id, common, left, context_size, probability_mode)


_engines: dict[str, EmbeddedEngine | GgufEngine] = {}
_engines_lock = threading.Lock()


def _local(lm_id: str) -> tuple[EmbeddedEngine | GgufEngine, str, int]:
    """Return the one engine of this process for an id (connections share the memory), its weights' hash, its size."""
    kind, _, argument = lm_id.partition(":")
    with _engines_lock:
        if lm_id not in _engines:
            _engines[lm_id] = EmbeddedEngine(exact=argument == "exact") if kind == "embedded" else GgufEngine(argument)
        engine = _engines[lm_id]
    if isinstance(engine, GgufEngine):
        return engine, weights_hash(engine.path), GGUF_CONTEXT_SIZE
    return engine, smollm.weights_hash(), smollm.CONTEXT_SIZE


def _to_server(
    lm_id: str,
    api_base: str,
    api_key_env: str | None,
    common: dict[str, Any],
    left: set[str],
    size: int | None,
    mode: ProbabilityMode | Literal["auto"],
) -> Connection:
    base, key, name = server.checked_base(api_base), server.checked_key(api_key_env), server.name_on_server(lm_id)
    prefix = server.register(base, api_key_env)
    if common["model_type"] == "text":
        engine = CompletionsEngine(base, name, key)
        lm = metered_lm(f"{prefix}/{name}", engine=engine, address=base, **{**common, "model_type": "chat"})
        return _connection(lm_id, lm, size, "samples" if mode == "auto" else mode)
    lm, thinks = _remote(f"{prefix}/{name}", left, address=base, **common)
    if mode == "auto" and thinks:
        mode = "samples"
    if mode == "auto":
        probe = metered_lm(lm.model, address=base, num_retries=common["num_retries"])
        mode = "logprobs" if server.gives_logprobs(probe) else "samples"
    return _connection(lm_id, lm, size or server.context_size(base, name, key), mode, thinks=thinks)


def _remote(model: str, left: set[str], **settings: Any) -> tuple[MeteredLM, bool]:
    """Return the LM, and whether it thinks before it answers.

    DSPy refuses a temperature and short replies for such an LM; the settings in `left` are then the LM's own.
    """
    try:
        return metered_lm(model, **settings), False
    except LMConfigurationError:
        return metered_lm(model, **{**settings, **dict.fromkeys(left)}), True


def _to_provider(
    lm_id: str, common: dict[str, Any], left: set[str], size: int | None, mode: ProbabilityMode | Literal["auto"]
) -> Connection:
    try:
        lm, thinks = _remote(lm_id, left, **common)
        if not (select_backend(lm).native or lm_id.split("/")[0] in _litellm_providers()):
            raise UnknownLM(f"Unknown LM {lm_id!r}. Choose from: {FORMS}.")
        known = lm.supported_params
    except LMConfigurationError as error:
        raise UserError(f"LM {lm_id!r} cannot be used so: {' '.join(str(error).split())[:300]}") from error
    except LMError as error:
        reason = " ".join(str(error).split())[:300]
        raise UnknownLM(f"Unknown LM {lm_id!r}: {reason}. Choose from: {FORMS}.") from error
    if mode == "auto":
        mode = "logprobs" if "logprobs" in known and not thinks else "samples"
    provider, _, model = lm_id.partition("/")
    return _connection(lm_id, lm, size or model_info(provider, model).get("max_input_tokens"), mode, thinks=thinks)


def _litellm_providers() -> set[str]:
    import litellm

    return {getattr(provider, "value", provider) for provider in litellm.provider_list}


def _connection(
    lm_id: str,
    lm: MeteredLM,
    size: int | None,
    mode: ProbabilityMode,
    weights: str | None = None,
    count_tokens: Any = None,
    *,
    thinks: bool = False,
) -> Connection:
    form = JsonForm if lm.supports_response_schema else ChatForm
    reply = lm.kwargs.get("max_tokens") or MAX_TOKENS
    adapter = form(
        context_size=size,
        reply_tokens=reply,
        count_tokens=count_tokens,
        probability_mode=mode,
        short_replies=not thinks,
    )
    return Connection(lm_id, lm, adapter, size, mode, weights)
