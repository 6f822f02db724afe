"""Retrievers of the user's own, named `module:name` or given: a search function, a retriever, or what makes one.

One of LangChain or LlamaIndex is a retriever, too.
"""

import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from corpora.retrievers.explain import Explained, places_in
from corpora.retrievers.foreign import ForeignRetriever
from signatures.common.errors import UserError, UserNotice, one_line, seen
from signatures.common.files import sha256_file
from signatures.common.own_code import code_digest, digest_of_code, import_own, takes
from signatures.common.per_process import Uncopied
from signatures.types import Passage, Retriever, deduplicate

_FORMS = (
    "It must be a function (query, k), an object that can be called so, a retriever of LangChain or LlamaIndex, or a "
    "class or function that makes one from the index folder or from nothing"
)
Search = Callable[[str, int], Any]


def own_retriever(name: str, index: Path | None = None) -> Retriever:
    """Import the retriever `module:name` and return it, checked.

    Args:
        name: As the user typed it. The value is a function `(query, k)` that returns a list of at most `k`
            `signatures.types.Passage`, best first; an object that can be called so; a retriever of LangChain or
            LlamaIndex; or a class or function that returns one of these when it is called with the index folder, or
            with nothing. Several threads call it.
        index: Given to what makes a retriever from a folder; its state is then part of the fingerprint.

    Raises:
        UserError: The module or the name does not exist, the module raises, the value is none of these, or it needs an
            index and none is named.
    """
    module, value = import_own(name, "retriever")
    return _made(value, name, index, f"{name}@{code_digest(module)}")


def given_retriever(value: Any, name: str | None = None, code: str | None = None) -> Retriever | None:
    """Return what the user gave as a retriever; None if it is not a retriever.

    Args:
        value: A retriever; a function `(query, k)`, or an object that can be called so; or a retriever of LangChain or
            LlamaIndex.
        name: By which it was imported, so that a retriever is checked, too; one that was given is returned as it is.
        code: A fingerprint of what is written in its module, if that made it.
    """
    if isinstance(value, type):
        return None
    if name is None and isinstance(value, Retriever):
        return value
    kind = value if hasattr(value, "__qualname__") else type(value)
    name = name or f"{kind.__module__}:{kind.__qualname__}"
    if takes(value, "query", 5):
        return OwnRetriever(value, name, code or f"{name}@{digest_of_code(kind)}")
    foreign = _adopted(value)
    if foreign is None:
        return None
    if code is not None:  # what it searches in is written there
        foreign.fingerprint = f"{foreign.fingerprint} {code}"
    return OwnRetriever(foreign, name, foreign.fingerprint)


def _adopted(value: Any) -> ForeignRetriever | None:
    """Return a retriever of LangChain or LlamaIndex as one of ours; None if it is neither. Neither is imported."""
    if _is_a(value, "langchain_core.runnables.base", "Runnable"):
        from corpora.retrievers.langchain import from_langchain

        return from_langchain(value)
    if _is_a(value, "llama_index.core.base.base_retriever", "BaseRetriever"):
        from corpora.retrievers.llamaindex import from_llamaindex

        return from_llamaindex(value)
    return None


def _is_a(value: Any, module: str, name: str) -> bool:
    kind = getattr(sys.modules.get(module), name, None)  # what has made the value has imported it
    return kind is not None and isinstance(value, kind)


class OwnRetriever(Uncopied):
    """A retriever of the user's own, whose results are checked.

    Of passages with one id in a ranking, the first stays, as in what programs read; the first time, a notice says so.

    Args:
        search: Called with a query and k; its `many` and `fingerprint` are used if it has them.
        name: For messages.
        fingerprint: Changes with its code; unless the search has one itself.
    """

    def __init__(self, search: Search, name: str, fingerprint: str):
        self.search = search
        self.name = name
        self.fingerprint = str(getattr(search, "fingerprint", None) or fingerprint)
        self._noticed = False

    def __call__(self, query: str, k: int) -> list[Passage]:
        """Return at most `k` passages, best first.

        Raises:
            UserError: The search failed, or returned something else.
        """
        return self._ranking(_called(self.name, self.search, query, k), k)

    def many(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        """Return the rankings of all queries in their order.

        Raises:
            UserError: See `__call__`.
        """
        many = getattr(self.search, "many", None)
        if many is None:
            return [self(query, k) for query in queries]
        rankings = _called(self.name, many, list(queries), k)
        if not isinstance(rankings, Sequence) or len(rankings) != len(queries):
            raise _error(self.name, f"its many returned {seen(rankings)} for {len(queries)} queries")
        return [self._ranking(ranking, k) for ranking in rankings]

    def explain(self, query: str, k: int) -> list[Explained]:
        """Return what a call returns, each passage with its place in it.

        Raises:
            UserError: See `__call__`.
        """
        found = self(query, k)
        places = places_in(self.name, found)
        return [Explained(passage, (places[passage.id],)) for passage in found]

    def _ranking(self, found: Any, k: int) -> list[Passage]:
        if not isinstance(found, Sequence) or not all(isinstance(each, Passage) for each in found):
            raise _error(self.name, f"it returned {seen(found)}: return a list of verihop.signatures.types.Passage")
        first = deduplicate(found)
        if len(first) < len(found) and not self._noticed:
            self._noticed = True
            ids = [each.id for each in found]
            twice = next(id for id in ids if ids.count(id) > 1)
            text = f"it returned passage {twice!r:.60} more than once for a query: only the first is read"
            warnings.warn(UserNotice(f"{_error(self.name, text)} Give each passage its own id."), stacklevel=2)
        return first[:k]


def _error(name: str, what: str) -> UserError:
    return UserError(f"Own retriever {name!r}: {what}.")


def _called(name: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Return what the user's code returns; its errors name the retriever."""
    try:
        return function(*arguments)
    except UserError:
        raise
    except (Exception, SystemExit) as error:  # the user's code may raise anything
        raise _error(name, f"it raised {type(error).__name__}: {one_line(error)}") from error


def _made(value: Any, name: str, index: Path | None, code: str) -> Retriever:
    """Return the retriever that a value is or makes; `code` is a fingerprint of what is written in its module."""
    if (found := given_retriever(value, name, code)) is not None:
        return found
    if not callable(value):
        raise UserError(f"Own retriever {name!r} is of type {type(value).__name__}. {_FORMS}.")
    if not takes(value) and index is None:
        raise UserError(f"Own retriever {name!r} is made from an index: name its folder (index), too.")
    arguments = () if takes(value) else (index,)
    made = _called(name, value, *arguments)
    found = given_retriever(made, name, code + (_state_of(index) if arguments else ""))
    if found is None:
        raise UserError(f"Own retriever {name!r} made a {type(made).__name__}. {_FORMS}.")
    return found


def _state_of(index: Path | None) -> str:
    """Return what changes with the index in a folder; nothing if there is none of ours."""
    described = None if index is None else index / "index.json"
    return f"-{sha256_file(described)[:12]}" if described is not None and described.is_file() else ""
