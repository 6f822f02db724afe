"""`connect` for every LM id, including the simulated LM, which `programs` may not import."""

from dataclasses import dataclass, field
from typing import Any, Literal

from programs.lms.calls.budget import Budget
from programs.lms.calls.transport import Transport
from programs.lms.connect import MAX_TOKENS, Connection, ModelTraits, UnknownLM, connect
from signatures.common.errors import UserError
from signatures.common.files import sha256_text

SIMULATED = "simulated"
CONTEXT_SIZE = 8192  # tokens, as small instruct models have them


def connect_any(lm_id: str = "embedded", **settings: Any) -> Connection:
    """Return a connection to an LM.

    Args:
        lm_id: `simulated` (remembers the world of seed 0), `simulated:SEED`, or any id `connect` takes.
        **settings: Keyword arguments of `programs.lms.connect.connect`.

    Raises:
        UserError: The id is malformed, or the LM does not support a setting.
        TypeError: A setting is unknown.
    """
    name, _, seed = lm_id.partition(":")
    if name != SIMULATED:
        try:
            return connect(lm_id, **settings)
        except UnknownLM as error:
            raise UnknownLM(f"{error} Or: simulated, simulated:SEED.") from None
    if not (seed.isdecimal() or lm_id == SIMULATED):
        raise UserError(f"Unknown LM {lm_id!r}: use simulated, or simulated:SEED with a whole number from 0.")
    if settings.pop("api_base", None) is not None or settings.pop("api_key_env", None) is not None:
        raise UserError("The simulated LM runs in this process: omit its address and key (api_base, api_key_env).")
    return _simulated(lm_id, int(seed or 0), _Settings(**settings))


@dataclass(frozen=True)
class _Settings:
    """The settings of `programs.lms.connect.connect` that the simulated LM supports."""

    temperature: float | None = 0.0
    max_tokens: int | Literal["auto"] | None = "auto"
    cache: bool = True
    budget: Budget | None = None
    transport: Transport = field(default_factory=Transport)
    traits: ModelTraits = field(default_factory=ModelTraits)
    model_type: Literal["chat"] = "chat"


def _simulated(lm_id: str, seed: int, settings: _Settings) -> Connection:
    """Return a connection to the simulated LM; its name, under which replies are cached, contains its fingerprint."""
    from experiments.world.simulated import SimulatedEngine
    from programs.lms.adapter import ChatForm
    from programs.lms.calls.metered import metered_lm
    from programs.lms.calls.reply_cache import use_reply_cache

    if settings.cache:
        use_reply_cache()
    engine = SimulatedEngine(seed)
    max_tokens = MAX_TOKENS if settings.max_tokens == "auto" else settings.max_tokens
    lm = metered_lm(
        f"{SIMULATED}/{engine.fingerprint}",
        engine=engine,
        budget=settings.budget,
        temperature=settings.temperature,
        max_tokens=max_tokens,
        cache=settings.cache,
        transport=settings.transport,
        model_type=settings.model_type,
    )
    size = settings.traits.context_size or CONTEXT_SIZE
    mode = "logprobs" if settings.traits.probability_mode == "auto" else settings.traits.probability_mode
    adapter = ChatForm(context_size=size, reply_tokens=max_tokens or MAX_TOKENS, probability_mode=mode)
    return Connection(lm_id, lm, adapter, size, mode, sha256_text(engine.fingerprint))
