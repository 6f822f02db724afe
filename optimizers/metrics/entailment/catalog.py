"""Opens entailment oracles by id."""

from pathlib import Path
from typing import TYPE_CHECKING

from optimizers.metrics.entailment.calibrated import FEATURES, WeightedOracle
from optimizers.metrics.entailment.cross_encoder import CrossEncoderOracle, Seq2SeqOracle
from optimizers.metrics.entailment.lm import LMOracle
from optimizers.metrics.entailment.oracle import CachedOracle, EntailmentOracle
from signatures.common.errors import UserError, unknown

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
