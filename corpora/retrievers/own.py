"""Retrievers of the user's own, named `module:name`: a search function, a retriever, or what makes one."""

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from corpora.retrievers.explain import Explained, places_in
from signatures.common.errors import UserError, one_line
from signatures.common.own_code import code_digest, import_own
from signatures.types import Passage

_FORMS = (
    "It must be a function (query, k), an object that can be called so, or a class or function that makes one from the "
    "index folder or from nothing"
)


def own_retriever(name: str, index: Path | None = None) -> "OwnRetriever":
    """Import the retriever `module:name` and return it, checked.

    Args:
        name: As the user typed it. The value is a function `(query, k)` that returns a list of at most `k`
            `signatures.types.Passage`, best first; an object that can be called so; or a class or function that returns
            such an object when it is called with the index folder, or with nothing. Several threads call it.
        index: Given to what makes a retriever from a folder.

    Raises:
        UserError: The module or the name does not exist, the module raises, the value is none of these, or it needs an
            index and none is named.
    """
    module, value = import_own(name, "retriever")
    return OwnRetriever(_made(value, name, index), name, module)


class OwnRetriever:
    """A retriever of the user's own, whose results are checked.

    Args:
        search: Called with a query and k; its `many` and `fingerprint` are used if it has them.
        name: For messages.
        module: Where it is written; its digest is part of the fingerprint.
    """

    def __init__(self, search: Callable[[str, int], Any], name: str, module: ModuleType):
        self.search = search
        self.name = name
        self.fingerprint = str(getattr(search, "fingerprint", None) or f"{name}@{code_digest(module)}")

    def __call__(self, query: str, k: int) -> list[Passage]:
        """Return at most `k` passages, best first.

        Raises:
            UserError: The search failed, or returned something else.
        """
        return self._ranking(self._called(self.search, query, k), k)

    def many(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        """Return the rankings of all queries in their order.

        Raises:
            UserError: See `__call__`.
        """
        many = getattr(self.search, "many", None)
        if many is None:
            return [self(query, k) for query in queries]
        rankings = self._called(many, list(queries), k)
        if not isinstance(rankings, Sequence) or len(rankings) != len(queries):
            raise self._error(f"its many returned {one_line(repr(rankings), 60)} for {len(queries)} queries")
        return [self._ranking(ranking, k) for ranking in rankings]

    def explain(self, query: str, k: int) -> list[Explained]:
        """Return what a call returns, each passage with its place in it.

        Raises:
            UserError: See `__call__`.
        """
        found = self(query, k)
        places = places_in(self.name, found)
        return [Explained(passage, (places[passage.id],)) for passage in found]

    def __deepcopy__(self, memo: dict[int, Any]) -> "OwnRetriever":
        return self

    def _called(self, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except UserError:
            raise
        except (Exception, SystemExit) as error:  # the user's code may raise anything
            raise self._error(f"it raised {type(error).__name__}: {one_line(error)}") from error

    def _ranking(self, found: Any, k: int) -> list[Passage]:
        if not isinstance(found, Sequence) or not all(isinstance(each, Passage) for each in found):
            raise self._error(
                f"it returned {one_line(repr(found), 60)}: return a list of verihop.signatures.types.Passage"
            )
        return list(found[:k])

    def _error(self, what: str) -> UserError:
        return UserError(f"Own retriever {self.name!r}: {what}.")


def _made(value: Any, name: str, index: Path | None) -> Callable[[str, int], Any]:
    if _takes(value, "query", 5) and not isinstance(value, type):
        found: Callable[[str, int], Any] = value
        return found
    if not callable(value):
        raise UserError(f"Own retriever {name!r} is of type {type(value).__name__}. {_FORMS}.")
    if not _takes(value) and index is None:
        raise UserError(f"Own retriever {name!r} is made from an index: name its folder (index), too.")
    arguments = () if _takes(value) else (index,)
    try:
        made = value(*arguments)
    except UserError:
        raise
    except (Exception, SystemExit) as error:  # the user's code may raise anything
        raise UserError(f"Own retriever {name!r}: it raised {type(error).__name__}: {one_line(error)}.") from error
    if not _takes(made, "query", 5):
        raise UserError(f"Own retriever {name!r} made a {type(made).__name__}. {_FORMS}.")
    result: Callable[[str, int], Any] = made
    return result


def _takes(value: Any, *arguments: Any) -> bool:
    if not callable(value):
        return False
    try:
        inspect.signature(value).bind(*arguments)
    except (TypeError, ValueError):
        return False
    return True
