"""Opens entailment oracles by id."""

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import dspy

from optimizers.metrics.entailment.calibrated import FEATURES, WeightedOracle
from optimizers.metrics.entailment.cross_encoder import CrossEncoderOracle, Seq2SeqOracle
from optimizers.metrics.entailment.oracle import CachedOracle, EntailmentOracle, Measured, Pair, over_distinct
from programs.parts.meter import metered, record
from programs.parts.probability import probability
from programs.parts.threads import fanout
from signatures.common.errors import UserError, unknown
from signatures.common.files import sha256_text
from signatures.entailment import JudgeEntailment

if TYPE_CHECKING:
    from programs.lms.connect import Connection

DEFAULT = "lexical"
FORMS = (*FEATURES, "lm", "lm:<LM id>", "seq2seq:<model>", "cross-encoder:<model>")
_CHEAP = "lexical"  # faster than a look-up in the cache


def open_oracle(
    oracle_id: str = DEFAULT, *, connection: "Connection | None" = None, cache: bool = True, path: Path | None = None
) -> EntailmentOracle:
    """Return the oracle with that id; its models are loaded at the first use.

    Args:
        oracle_id: `lexical` (the default), `semantic`, `calibrated`, `likelihood` (offline), `lm` (the embedded LM) or
            `lm:<LM id>`, `seq2seq:<model>` such as `seq2seq:google/t5_xxl_true_nli_mixture`, or
            `cross-encoder:<model>`; models are folders or names on the hub.
        connection: The LM of `lm`, instead of connecting to one.
        cache: Cache judgements, and the replies of an LM connected here, on disk.
        path: File of the cache; None for the default.

    Raises:
        UserError: The id has none of these forms.
    """
    oracle = _open(oracle_id, connection, cache=cache)
    # An LM's replies are cached already; cached as numbers, unparseable ones would be counted only the first time.
    kept = cache and oracle.name != _CHEAP and not isinstance(oracle, LMOracle)
    return CachedOracle(oracle, path) if kept else oracle


def _open(oracle_id: str, connection: "Connection | None", *, cache: bool) -> EntailmentOracle:
    kind, colon, of = oracle_id.partition(":")
    if not colon and kind in FEATURES:
        return WeightedOracle(kind)
    if kind == "lm" and bool(colon) == bool(of):
        if connection is None:
            from programs.lms.connect import connect

            connection = connect(of or "embedded", cache=cache)
        return LMOracle(connection)
    if kind in ("seq2seq", "cross-encoder"):
        if not of:
            raise UserError(f"{kind} needs a model: write {kind}:FOLDER or {kind}:NAME-ON-THE-HUB.")
        return Seq2SeqOracle(of) if kind == "seq2seq" else CrossEncoderOracle(of)
    raise unknown("entailment oracle", oracle_id, FORMS)


BATCH, WIDTH = 64, 8  # pairs per fan-out, and asked at a time


class LMOracle(Measured):
    """P(entailed) by an LM. Its calls do not count as calls of the question being scored; its parse failures do."""

    threshold = 0.5

    def __init__(self, connection: "Connection"):
        self.name = "lm" if connection.id == "embedded" else f"lm:{connection.id}"
        self._connection = connection
        self._predict = dspy.Predict(JudgeEntailment)
        self.unparsed = 0
        self.cut = 0

    @functools.cached_property
    def fingerprint(self) -> str:
        """Return the model with a hash of the prompt and of how P(yes) is computed."""
        fields = " ".join(f"{name} {field.json_schema_extra}" for name, field in JudgeEntailment.fields.items())
        prompt = f"{JudgeEntailment.instructions} {fields} {self._connection.probability_mode}"
        return f"lm:{self._connection.lm.model}:{sha256_text(prompt)[:16]}"

    def __call__(self, pairs: Sequence[Pair]) -> list[float]:
        """Return P(yes) of each (premise, hypothesis); an unparseable reply is 0 and counted in `unparsed`.

        Prompts that were cut to the LM's context are counted in `cut`.
        """
        return over_distinct(pairs, self._ask)

    def _ask(self, pairs: list[Pair]) -> list[float]:
        values: list[float | None] = []
        with self._connection.use(), dspy.context(trace=None), metered() as meter:
            for start in range(0, len(pairs), BATCH):
                tasks = [functools.partial(self._probability, pair) for pair in pairs[start : start + BATCH]]
                values += fanout(tasks, width=WIDTH)
        self.cut += int(meter.counts()["truncated"])
        unparsed = sum(value is None for value in values)
        self.unparsed += unparsed
        record(parse_failures=unparsed)  # unlike calls, these count for the question being scored
        return [0.0 if value is None else value for value in values]

    def _probability(self, pair: Pair) -> float | None:
        p_yes = probability(self._predict, premise=pair[0], statement=pair[1])
        return None if p_yes is None else p_yes.value
