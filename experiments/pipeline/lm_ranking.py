"""The connected LM as what retrieval asks: it ranks passages (`rerank_listwise`), and chooses triples (`graph`)."""

import functools
import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import dspy
from dspy.utils.exceptions import AdapterParseError

from corpora.retrievers.triples import Triple
from experiments.runs.config import describe_lm
from signatures.common.files import sha256_text
from signatures.ranking import RankPassages
from signatures.triples import KeepTriples
from signatures.types import Passage

if TYPE_CHECKING:
    from programs.lms.connect import Connection

_NUMBER = re.compile(r"\d{1,9}")


class _Connected:
    """Asks an LM in a search; the calls are counted, limited, cached and traced as those of the program that searches.

    They are no steps of the program: optimizers do not see them.
    """

    signature: ClassVar[type[dspy.Signature]]

    def __init__(self, connection: "Connection"):
        self._connection = connection
        self._predict = dspy.Predict(self.signature)

    @functools.cached_property
    def fingerprint(self) -> str:
        """Return a hash of the LM, its settings, its context size and the prompt."""
        lm = self._connection
        prompt = [lm.adapter.format_system_message(self.signature), lm.context_size]
        return f"lm:{sha256_text(json.dumps([describe_lm(lm), prompt], sort_keys=True))[:16]}"


class ConnectedRanking(_Connected):
    """Ranks passages by an LM; see `_Connected`."""

    signature = RankPassages

    def __call__(self, query: str, passages: Sequence[Passage]) -> str:
        """Return the reply; all of it where it has no field of that name, since a bare order can be read, too."""
        with self._connection.use(), dspy.context(trace=None):
            try:
                return str(self._predict(question=query, passages=list(passages)).ranking)
            except AdapterParseError as error:
                return error.lm_response or ""

    def fits(self, query: str, passages: Sequence[Passage]) -> bool:
        """Return whether prompt and reply fit the context of the LM."""
        inputs = {"question": query, "passages": list(passages)}
        return bool(self._connection.adapter.fits(RankPassages, inputs))


class ConnectedChoice(_Connected):
    """Chooses by an LM the triples that help with a question: the paper's recognition memory; see `_Connected`.

    A reply that cannot be read keeps all.
    """

    signature = KeepTriples

    def __call__(self, question: str, triples: Sequence[Triple]) -> Sequence[int]:
        """Return the places of the triples that help."""
        facts = [f"[{number}] {' | '.join(triple)}" for number, triple in enumerate(triples, start=1)]
        with self._connection.use(), dspy.context(trace=None):
            try:
                reply = str(self._predict(question=question, facts=facts).kept)
            except AdapterParseError:
                return range(len(triples))
        return [int(number) - 1 for number in _NUMBER.findall(reply)]
