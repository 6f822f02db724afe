"""What every retriever owes: checks that need no LM. `verihop search --check` runs them."""

import json
import re
import warnings
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from experiments.pipeline.setup import named_retriever
from experiments.runs.specs import Retrieval
from programs.own.contract import QUESTION, PointResult, check_points, demand
from programs.parts.threads import run_all
from signatures.common.errors import UserNotice
from signatures.types import Passage, Retriever

if TYPE_CHECKING:
    from programs.lms.connect import Connection

_QUERIES = (QUESTION, "tolmen", "伊尔泽·瓦罗出生的城镇旁边是哪条河？", "?", "a name, a place and a year " * 60)
_K = 5
_THREADS = 8
_ADDRESS = re.compile(r"0x[0-9a-f]{6,}", re.IGNORECASE)


class _Subject(NamedTuple):
    """The retriever under check, how another one is made, and the queries that it is asked."""

    retrieve: Retriever
    again: Callable[[], Retriever]
    queries: tuple[str, ...]

    @property
    def search(self) -> Callable[[str, int], list[Passage]]:
        """The user's own, without what lies over it, which cuts a ranking and drops what is there twice."""
        found: Callable[[str, int], list[Passage]] = getattr(self.retrieve, "search", self.retrieve)
        return found

    def rankings(self) -> list[list[Passage]]:
        return [self.retrieve(query, _K) for query in self.queries]


def _answers(subject: _Subject) -> None:
    for query in subject.queries:
        for k in (1, _K):
            found = subject.retrieve(query, k)
            demand(isinstance(found, list), f"it returned a {type(found).__name__}: return a list")
            demand(all(isinstance(each, Passage) for each in found), "it returned something other than passages")


def _at_most_k(subject: _Subject) -> None:
    for query in subject.queries:
        for k in (1, _K):
            found = len(subject.search(query, k))
            demand(found <= k, f"asked for {k} it returned {found} passages")


def _finds(subject: _Subject) -> None:
    demand(any(subject.rankings()), f"none of {len(subject.queries)} queries found a passage: add one of yours")


def _no_passage_twice(subject: _Subject) -> None:
    for query in subject.queries:
        found = subject.search(query, _K)
        ids = [passage.id for passage in found]
        demand(all(ids), "a passage has an empty id")
        twice = next((id for id in ids if ids.count(id) > 1), None)
        demand(twice is None, f"passage {twice!r:.60} is twice in one ranking")


def _best_first(subject: _Subject) -> None:
    for found in subject.rankings():
        scores = [passage.score for passage in found if passage.score is not None]
        demand(len(scores) in (0, len(found)), f"{len(scores)} of {len(found)} passages of a ranking have a score")
        demand(scores == sorted(scores, reverse=True), f"the scores rise in a ranking: {scores}")


def _json(subject: _Subject) -> None:
    for passage in (each for found in subject.rankings() for each in found):
        try:
            json.dumps(dict(passage.metadata))
        except (TypeError, ValueError) as error:
            demand(False, f"metadata of passage {passage.id!r:.60} cannot be written as JSON ({error})")


def _many(subject: _Subject) -> None:
    demand(
        subject.retrieve.many(subject.queries, _K) == subject.rankings(),
        "many returns other rankings than one call per query",
    )


def _again(subject: _Subject) -> None:
    demand(subject.rankings() == subject.rankings(), "the same queries had other rankings when they were asked again")


def _threads(subject: _Subject) -> None:
    alone = subject.rankings() * _THREADS
    tasks = [partial(subject.retrieve, query, _K) for query in subject.queries * _THREADS]
    together = [ended.result() for ended in run_all(tasks, width=_THREADS, name="contract")]
    differ = sum(one != other for one, other in zip(alone, together, strict=True))
    demand(not differ, f"{differ} of {len(tasks)} queries had another ranking in {_THREADS} threads")


def _fingerprint(subject: _Subject) -> None:
    told = subject.retrieve.fingerprint
    demand(isinstance(told, str) and bool(told), f"its fingerprint is {told!r:.60}: return a text")
    demand(not _ADDRESS.search(told), f"its fingerprint {told!r:.80} has an address in memory, which changes")
    other = subject.again().fingerprint
    demand(other == told, f"made again it has the fingerprint {other!r:.80}, not {told!r:.80}")


_POINTS: tuple[tuple[str, Callable[[_Subject], None]], ...] = (
    ("It returns a list of passages for queries of any language and length", _answers),
    ("It returns at most k of them", _at_most_k),
    ("It finds something", _finds),
    ("A ranking holds a passage once, and each has an id", _no_passage_twice),
    ("The best is first: scores, where there are any, do not rise", _best_first),
    ("What else a passage has can be written as JSON", _json),
    ("many returns what one call per query returns", _many),
    ("Asked again, it returns the same", _again),
    ("Eight threads get the rankings of one", _threads),
    ("Its fingerprint stays the same where nothing has changed", _fingerprint),
)
TOTAL = len(_POINTS)


def check_retriever(
    config: Retrieval, queries: tuple[str, ...] = (), connect: "Callable[[], Connection] | None" = None
) -> list[PointResult]:
    """Open a retriever and check it, all points of it unless it does not even answer.

    Args:
        config: Which one.
        queries: Asked beside those that all retrievers are asked.
        connect: See `open_retriever`.

    Raises:
        UserError: It cannot be opened.
    """
    again = partial(named_retriever, config, connect)
    subject = _Subject(again(), again, (*queries, *_QUERIES))
    with warnings.catch_warnings(action="ignore", category=UserNotice):  # each is a point of its own
        first = check_points(_POINTS[:1], subject)
        if first[0].broken is not None:  # each of the others would fail in the same way
            return [PointResult(first[0].point, f"{first[0].broken} The other points were not checked.")]
        return first + check_points(_POINTS[1:], subject)
