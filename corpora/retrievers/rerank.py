"""Reranking: a retriever's first passages in a better order, also with passages that these lead to.

`own` scores words and titles (`rerank_features`) with weights fitted to the gold passages of multi-hop questions; it
needs no encoder and takes milliseconds. Models (`rerank_models`) and LMs (`rerank_listwise`) can rerank instead.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from corpora.retrievers.engine import Leading, check_k
from corpora.retrievers.explain import BEFORE, Explained, explain, places_in
from corpora.retrievers.network import Network, read_rounds
from corpora.retrievers.over import Over
from corpora.retrievers.rerank_features import CONTEXTS, NAMES, VERSION, Pool, pool_features
from corpora.retrievers.rerank_listwise import ListwiseScorer, RankingLM
from corpora.retrievers.rerank_models import ModelScorer, named_model
from signatures.common.errors import UserError
from signatures.types import Passage, Retriever

WEIGHTS = Path(__file__).with_name("rerank_weights.json")
MULTIHOP_WEIGHTS = Path(__file__).with_name("rerank_multihop_weights.json")
_OF = "the reranker"
OWN, LIGHT, LM, NONE = "own", "own-light", "lm", "none"
MOST_OF_LM = 100  # passages that an LM ranks unasked: nine calls, as in the paper
DEPTH = 20  # passages that are reranked, if neither name nor scorer says how many
FOUND = 10  # passages that the text of another retrieves
_DEPTH = re.compile(r"(.+):(\d{1,9})", re.ASCII | re.DOTALL)
_FINGERPRINT = re.compile(r"(?:rerank\d+|sentences\d+/\d+)\[[^\]]*\]\((.*)\)", re.DOTALL)
_CHOSEN = re.compile(r"(.*)-lm:[0-9a-f]{16}", re.DOTALL)  # an LM that chooses among triples


class Scorer(Protocol):
    """Scores the candidates of a query. Safe under threads."""

    @property
    def fingerprint(self) -> str:
        """Return a short string that changes with the model and its parameters."""

    def __call__(self, query: str, pool: Pool) -> Sequence[float]:
        """Return one score for each of `pool.candidates`, higher is better."""


class LinkScorer(Network):
    """A network with one hidden layer over the features of a pool.

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
        depth: Passages that are reranked, or `k` if that is more; at least 1. None takes the scorer's own depth.
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
        depth: int | None = None,
        found: int = FOUND,
        name: str | None = None,
    ):
        if (depth is not None and depth < 1) or found < 1:
            raise UserError(f"depth={depth}, found={found}: both must be at least 1.")
        super().__init__(retriever)
        self._first, self._second = first, second
        self.name = name
        self._given, self._found = depth, found

    @property
    def depth(self) -> int:
        """Passages that are reranked, if no more are asked for; what a model on the hub is, it is asked now."""
        return self._given or getattr(self._first, "depth", None) or DEPTH

    @property
    def fingerprint(self) -> str:
        """Identifies the retriever, the scorers and the numbers of candidates."""
        second = "" if self._second is None else f"+{self._second.fingerprint}/{CONTEXTS}x{self._found}"
        return f"rerank{self.depth}[{self._first.fingerprint}{second}]({self.retriever.fingerprint})"

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
        retrieved = self.retriever.many(queries, max(k, self.depth))
        _, rankings = self._reranked(queries, retrieved)
        return [ranking[:k] for ranking in rankings]

    def explain(self, query: str, k: int) -> list[Explained]:
        """Return what a call returns; the places are those of the retriever and the rank before.

        A passage that only the texts of the best passages retrieved has its places in their rankings.

        Raises:
            UserError: `k` is below 1.
        """
        check_k(k)
        before = explain(self.retriever, query, max(k, self.depth))
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


def open_reranker(retriever: Retriever, name: str = OWN, *, lm: RankingLM | None = None) -> Retriever:
    """Return the retriever with a reranker in front, or the retriever itself.

    Args:
        retriever: Retrieves the candidates.
        name: `own` (reranks the first passages and what their texts retrieve), `own-light` (the first passages alone),
            `none`, `lm` (an LM orders lists of passages), or a cross-encoder or late-interaction model, by folder or
            name. After the last two kinds `:N` says how many passages are reranked, as in `lm:100`.
        lm: For `lm`: the LM that is asked.

    Raises:
        UserError: The weights of `own` are missing or damaged, the name is neither a folder nor one on the hub, or
            there is no LM for `lm`.
    """
    if name == NONE:
        return retriever
    if name in (OWN, LIGHT):
        scorers = own_scorers(MULTIHOP_WEIGHTS if _leads(retriever) else WEIGHTS)
        return Reranker(retriever, *scorers[: 2 if name == OWN else 1], name=name)
    named, depth = _with_depth(name)
    if named == LM:
        if lm is None:
            raise UserError("The reranker lm needs an LM: name it (lm), or another reranker.")
        scorer = ListwiseScorer(lm) if depth is None else ListwiseScorer(lm, depth=depth)
        return Reranker(retriever, scorer, name=name)
    model = named_model(named)
    return Reranker(retriever, ModelScorer(model), depth=depth, name=model if depth is None else f"{model}:{depth}")


def _with_depth(name: str) -> tuple[str, int | None]:
    """Return a name and the depth after it; None without one, as in the name of a folder that ends like that."""
    found = _DEPTH.fullmatch(name)
    if found is None or Path(name).expanduser().is_dir():
        return name, None
    return found[1], int(found[2])


def asks_lm(name: str | None) -> bool:
    """Return whether a reranker with this name asks the LM."""
    return name is not None and _with_depth(name)[0] == LM


def depth_of(name: str) -> int | None:
    """Return how many passages a reranker with this name ranks, where the name says it."""
    return _with_depth(name)[1]


def _leads(retriever: Retriever) -> bool:
    """Return whether a retriever continues from passages, so that its first passages are others."""
    return isinstance(getattr(retriever, "engine", None), Leading)


def without_reranking(fingerprint: str) -> str:
    """Return the fingerprint of the retriever below, given that of what reranks or chooses; any other unchanged."""
    while match := _FINGERPRINT.fullmatch(fingerprint) or _CHOSEN.fullmatch(fingerprint):
        fingerprint = match[1]
    return fingerprint
