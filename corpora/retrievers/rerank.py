"""Reranking: a retriever's first passages in a better order, also with passages that these lead to.

`own` scores words and titles (`rerank_features`) with weights fitted to the gold passages of multi-hop questions; it
needs no encoder and takes milliseconds. Any cross-encoder of sentence-transformers can rerank instead.
"""

import functools
import re
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from corpora.encoders.torch_encoder import hash_weights
from corpora.retrievers.engine import Leading
from corpora.retrievers.explain import BEFORE, Explained, explain, places_in
from corpora.retrievers.network import Network, read_rounds
from corpora.retrievers.over import Over, check_k
from corpora.retrievers.rerank_features import CONTEXTS, NAMES, VERSION, Pool, pool_features
from signatures.common.errors import UserError, needing
from signatures.common.http import hub_answers
from signatures.types import Passage, Retriever

WEIGHTS = Path(__file__).with_name("rerank_weights.json")
MULTIHOP_WEIGHTS = Path(__file__).with_name("rerank_multihop_weights.json")
_OF = "the reranker"
OWN, LIGHT, NONE = "own", "own-light", "none"
DEPTH = 20  # passages that are reranked
FOUND = 10  # passages that the text of another retrieves
_FINGERPRINT = re.compile(r"(?:rerank\d+|sentences\d+/\d+)\[[^\]]*\]\((.*)\)", re.DOTALL)


class Scorer(Protocol):
    """Scores the candidates of a query. Safe under threads."""

    @property
    def fingerprint(self) -> str:
        """Return a short string that changes with the model and its parameters."""

    def __call__(self, query: str, pool: Pool) -> Sequence[float]:
        """Return one score for each of `pool.candidates`, higher is better."""


class LinkScorer(Network):
    """A network with one hidden layer over the features of a pool.

    Args:
        weights: See `Network`.

    Raises:
        UserError: See `Network`.
    """

    def __init__(self, weights: dict[str, Any]):
        super().__init__(weights, NAMES, _OF)

    @property
    def fingerprint(self) -> str:
        """Return version of the features and hash of the weights."""
        return f"links{VERSION}:{self.digest}"

    def __call__(self, query: str, pool: Pool) -> Sequence[float]:
        """Return a score in [0, 1] for each candidate."""
        return self.of_features(pool_features(query, pool)).tolist()


class Reranker(Over):
    """A `Retriever` that reranks the first passages of another one.

    Args:
        retriever: Retrieves the candidates.
        first: Scores them.
        second: If set, the texts of the best passages retrieve further candidates, and it scores all of them.
        depth: Passages that are reranked, or `k` if that is more; at least 1.
        found: Passages that each of these texts retrieves.
        name: By which `open_reranker` opens it again; None if it cannot.

    Raises:
        UserError: `depth` or `found` is below 1.
    """

    def __init__(
        self,
        retriever: Retriever,
        first: Scorer,
        second: Scorer | None = None,
        *,
        depth: int = DEPTH,
        found: int = FOUND,
        name: str | None = None,
    ):
        if depth < 1 or found < 1:
            raise UserError(f"depth={depth}, found={found}: both must be at least 1.")
        super().__init__(retriever)
        self._first, self._second = first, second
        self.name = name
        self._depth, self._found = depth, found

    @property
    def fingerprint(self) -> str:
        """Identifies the retriever, the scorers and the numbers of candidates."""
        second = "" if self._second is None else f"+{self._second.fingerprint}/{CONTEXTS}x{self._found}"
        return f"rerank{self._depth}[{self._first.fingerprint}{second}]({self.retriever.fingerprint})"

    def load(self) -> None:
        """Load the models, which the first query would do.

        Scorers are asked themselves: a query may find nothing to score.
        """
        for part in (self.retriever, self._first, self._second):
            if callable(load := getattr(part, "load", None)):
                load()

    def many(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        """Return the same as one call per query, in the order of `queries`."""
        check_k(k)
        retrieved = self.retriever.many(queries, max(k, self._depth))
        _, rankings = self._reranked(queries, retrieved)
        return [ranking[:k] for ranking in rankings]

    def explain(self, query: str, k: int) -> list[Explained]:
        """Return what a call returns; the places are those of the retriever and the rank before.

        A passage that only the texts of the best passages retrieved has its places in their rankings.

        Raises:
            UserError: `k` is below 1.
        """
        check_k(k)
        before = explain(self.retriever, query, max(k, self._depth))
        retrieved = [each.passage for each in before]
        (pool,), (ranking,) = self._reranked([query], [retrieved])
        first, known = places_in(BEFORE, retrieved), {each.passage.id: each.places for each in before}
        by_text = [
            places_in(f"text of {passage.id}", found) for passage, found in zip(pool.ranked, pool.found, strict=False)
        ]
        return [
            Explained(
                passage,
                (*known[passage.id], first[passage.id])
                if passage.id in known
                else tuple(places[passage.id] for places in by_text if passage.id in places),
            )
            for passage in ranking[:k]
        ]

    def _reranked(
        self, queries: Sequence[str], retrieved: Sequence[Sequence[Passage]]
    ) -> tuple[list[Pool], list[list[Passage]]]:
        """Return the last pool of each query, and its candidates, best first."""
        pools = [Pool(ranking) for ranking in retrieved]
        rankings = [ordered(query, pool, self._first) for query, pool in zip(queries, pools, strict=True)]
        if self._second is not None:
            pools = widen(self.retriever, queries, rankings, self._found)
            rankings = [ordered(query, pool, self._second) for query, pool in zip(queries, pools, strict=True)]
        return pools, rankings


def ordered(query: str, pool: Pool, scorer: Scorer) -> list[Passage]:
    """Return the candidates of a pool by a scorer, best first, with its scores; ties are in the order of the pool."""
    candidates = pool.candidates
    if not candidates:
        return []
    scores = [float(score) for score in scorer(query, pool)]
    order = sorted(range(len(candidates)), key=lambda place: -scores[place])
    return [candidates[place].model_copy(update={"score": scores[place]}) for place in order]


def widen(
    retriever: Retriever, queries: Sequence[str], rankings: Sequence[Sequence[Passage]], found: int = FOUND
) -> list[Pool]:
    """Return for each query's ranking a pool with what its first passages lead to.

    That is what the retriever finds next, given the query and the passage, or what the text of the passage retrieves.
    """
    pairs = [(query, passage) for query, each in zip(queries, rankings, strict=True) for passage in each[:CONTEXTS]]
    follow = getattr(retriever, "follow", None)
    retrieved = follow(pairs, found) if follow is not None else None
    if retrieved is None:
        texts = [f"{passage.title} {passage.text}".strip() for _, passage in pairs]
        retrieved = retriever.many(texts, found) if texts else []
    retrieved = iter(retrieved)
    return [Pool(ranking, [next(retrieved) for _ in ranking[:CONTEXTS]]) for ranking in rankings]


def own_scorers(path: Path = WEIGHTS) -> tuple[LinkScorer, LinkScorer]:
    """Return the fitted scorers: of the retrieved passages, and of all after the second search.

    Raises:
        UserError: The file is missing, or its weights are incomplete.
    """
    rounds = read_rounds(path, list(NAMES), _OF)
    return LinkScorer(rounds[0]), LinkScorer(rounds[1])


def open_reranker(retriever: Retriever, name: str = OWN) -> Retriever:
    """Return the retriever with a reranker in front, or the retriever itself.

    Args:
        retriever: Retrieves the candidates.
        name: `own` (reranks the first passages and what their texts retrieve), `own-light` (the first passages alone),
            `none`, or a cross-encoder of sentence-transformers, by folder or name.

    Raises:
        UserError: The weights of `own` are missing or damaged, or the name is neither a folder nor one on the hub.
    """
    if name == NONE:
        return retriever
    if name in (OWN, LIGHT):
        scorers = own_scorers(MULTIHOP_WEIGHTS if _leads(retriever) else WEIGHTS)
        return Reranker(retriever, *scorers[: 2 if name == OWN else 1], name=name)

    model = named_model(name)
    return Reranker(retriever, CrossEncoderScorer(model), name=model)


def _leads(retriever: Retriever) -> bool:
    """Return whether a retriever goes on from passages, so that its first passages are others."""
    return isinstance(getattr(retriever, "engine", None), Leading)


def without_reranking(fingerprint: str) -> str:
    """Return the fingerprint of the retriever below, given that of what reranks or chooses; any other unchanged."""
    while match := _FINGERPRINT.fullmatch(fingerprint):
        fingerprint = match[1]
    return fingerprint


_ON_HUB = re.compile(r"\w[\w.-]*/\w[\w.-]*", re.ASCII)
_CURE = "give own, own-light, none, a model folder, or the name of a cross-encoder of sentence-transformers"


def named_model(name: str) -> str:
    """Return the absolute path of a model folder, or a name on the hub as it is; nothing is loaded or downloaded.

    Raises:
        UserError: It is neither: no such folder, and no organization and model separated by a slash.
    """
    folder = Path(name).expanduser()
    if name and folder.is_dir():
        return str(folder.absolute())
    if _ON_HUB.fullmatch(name):
        return name
    raise UserError(f"Reranker {name!r} cannot be loaded (there is no such folder): {_CURE} (organization/model).")


class CrossEncoderScorer:
    """Scores each candidate by the question and its title and text together. Thread-safe; texts are cut by the model.

    Args:
        model: A local folder or the name of a model on the hub, with one output; loaded at the first use.
        device: "cpu", "cuda" or another of torch's; None lets torch choose.
        batch_size: Pairs per forward pass.
    """

    def __init__(self, model: str, *, device: str | None = None, batch_size: int = 32):
        self._source, self._device, self._batch_size = model, device, batch_size
        self._model: Any = None
        self._lock = threading.RLock()

    @functools.cached_property
    def fingerprint(self) -> str:
        """Return a hash of the weights; loads the model."""
        return f"cross-encoder:{hash_weights(self.load())[:16]}"

    def __call__(self, query: str, pool: Pool) -> Sequence[float]:
        """Return the model's output for each candidate.

        Raises:
            UserError: The model cannot be loaded, or has more than one output.
        """
        pairs = [(query, f"{passage.title}: {passage.text}".removeprefix(": ")) for passage in pool.candidates]
        if not pairs:
            return []
        with self._lock:  # fast tokenizers change their padding in place and are not thread-safe
            scores = self.load().predict(pairs, batch_size=self._batch_size, show_progress_bar=False)
        return [float(score) for score in scores]

    def load(self) -> Any:
        """Return the model, which the first use loads.

        Raises:
            UserError: It cannot be loaded, or has more than one output.
        """
        with self._lock:
            if self._model is None:
                self._model = self._open()
            return self._model

    def _open(self) -> Any:
        with needing("torch", "A cross-encoder"):
            from sentence_transformers import CrossEncoder
            from transformers.utils import logging

        logging.disable_progress_bar()
        local = Path(self._source).is_dir() or not hub_answers()
        try:
            model = CrossEncoder(self._source, device=self._device, local_files_only=local)
        except UserError:
            raise
        except (OSError, ValueError) as error:
            raise UserError(
                f"Reranker {self._source!r} cannot be loaded ({str(error).splitlines()[0]}): {_CURE}."
            ) from error
        if model.config.num_labels != 1:
            raise UserError(
                f"Reranker {self._source!r} has {model.config.num_labels} outputs: choose a cross-encoder with one, "
                "the relevance."
            )
        return model
