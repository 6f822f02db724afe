"""`connect` for every LM id, including the simulated LM, which `programs` may not import."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from programs.lms.calls.budget import Budget
from programs.lms.calls.transport import Transport
from programs.lms.connect import MAX_TOKENS, Connection, ModelTraits, UnknownLM, connect
from programs.lms.spec import SIMULATED, kind_of
from signatures.common.errors import UserError
from signatures.common.files import sha256_text

if TYPE_CHECKING:
    from experiments.world.dials import Dials

CONTEXT_SIZE = 8192  # tokens, as small instruct models have them


class SimulatedId(NamedTuple):
    """What the id of a simulated LM says: the version of its dials, 1 or 2, and the seed of the world it remembers."""

    version: int
    seed: int


def simulated_id(lm_id: str) -> SimulatedId | None:
    """Return what an id says of a simulated LM; None if it is that of another LM.

    Raises:
        UserError: The id begins as one, but is malformed.
    """
    if kind_of(lm_id) != SIMULATED:
        return None
    version, seed = 1, lm_id.removeprefix(SIMULATED).removeprefix(":")
    if seed == "v2" or seed.startswith("v2:"):
        version, seed = 2, seed.removeprefix("v2").removeprefix(":")
    if lm_id.endswith(":") or not (seed.isdecimal() or seed == ""):
        raise UserError(
            f"Unknown LM {lm_id!r}: use simulated, simulated:SEED or simulated:v2:SEED with a whole number from 0."
        )
    return SimulatedId(version, int(seed or 0))


def connect_any(lm_id: str = "embedded", **settings: Any) -> Connection:
    """Return a connection to an LM.

    Args:
        lm_id: `simulated` (remembers the world of seed 0), `simulated:SEED`, the same with the dials of version 2 as
            `simulated:v2` or `simulated:v2:SEED`, or any id `connect` takes.
        **settings: Keyword arguments of `programs.lms.connect.connect`.

    Raises:
        UserError: The id is malformed, or the LM does not support a setting.
        TypeError: A setting is unknown.
    """
    simulated = simulated_id(lm_id)
    if simulated is None:
        try:
            return connect(lm_id, **settings)
        except UnknownLM as error:
            raise UnknownLM(f"{error} Or: simulated, simulated:SEED, simulated:v2:SEED.") from None
    if settings.pop("api_base", None) is not None or settings.pop("api_key_env", None) is not None:
        raise UserError("The simulated LM runs in this process: omit its address and key (api_base, api_key_env).")
    from experiments.world.dials import DIALS_FILE, DIALS_V2_FILE, read_dials

    return connect_dials(
        lm_id, simulated.seed, read_dials({1: DIALS_FILE, 2: DIALS_V2_FILE}[simulated.version]), **settings
    )


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


def connect_dials(lm_id: str, seed: int, dials: "Dials", **given: Any) -> Connection:
    """Return a connection to the simulated LM with any dials.

    Its name, under which replies are cached, contains its fingerprint.

    Args:
        lm_id: What the connection is called.
        seed: Of the world it remembers.
        dials: Its error rates.
        **given: As for `connect_any`.
    """
    from experiments.world.simulated import SimulatedEngine
    from programs.lms.adapter import ChatForm
    from programs.lms.calls.metered import metered_lm
    from programs.lms.calls.reply_cache import use_reply_cache

    settings = _Settings(**given)
    if settings.cache:
        use_reply_cache()
    engine = SimulatedEngine(seed, dials)
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
