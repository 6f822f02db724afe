"""What a service answers from, and how it changes with its index and its artifact.

When one of them has changed, it is opened anew beside the one that answers, in a thread of its own, and replaces it. A
question takes the program once, when it begins, and a search the retriever, so that none sees two
indexes; the old one is freed with the last of those that read it. What cannot be opened changes nothing, and keeps the
other of both from nothing.
"""

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from corpora.index.info import IndexInfo
from corpora.index.manifest import read_info
from corpora.index.replace import complete_index, state_of
from experiments.pipeline.setup import searches_web
from experiments.service.answering import Limits
from programs.inference import Answerer, warm_up
from programs.parts.threads import daemon
from signatures.common.errors import UserError, one_line
from signatures.common.logs import event
from signatures.common.own_code import is_own

if TYPE_CHECKING:
    import dspy

    from experiments.pipeline.opened import OpenedProgram
    from experiments.service.app import Service

_SPARE = 16  # threads
_SECONDS = 1.0  # between two looks at an index
_LONGEST_PAUSE = 64  # looks, after many that failed


def answerer_of(opened: "OpenedProgram", limits: Limits) -> Answerer:
    """Return what answers with a program, as many questions at a time as the limits allow."""
    # More threads than places: one that hangs outside of an LM call must not keep a later question from beginning.
    return Answerer(opened.program, opened.connection, width=2 * limits.width + _SPARE)


def about(
    opened: "OpenedProgram", *, reload: bool, swaps: int = 0, same: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Return what `/v1/info` says of a program that has just been opened.

    Args:
        reload: It is opened anew when its index changes.
        swaps: How often it was.
        same: What it said of the index, which is not another one.
    """
    from programs.artifact import program_name

    index, program = _index_of(opened), opened.program
    corpus = {"passages": len(index)} if hasattr(index, "__len__") else None
    title = (type(program).__doc__ or "").strip().partition("\n")[0]
    named = {"program": program_name(program), "title": title, "lm": opened.connection.id, "corpus": corpus}
    if same is None and (folder := index_folder(opened)) is not None:
        same = _about_index(folder, index, reload=reload, swaps=swaps)
    return {**named, "artifact": _artifact_of(opened), "index": same, "max_calls": program.max_calls()}


def _about_index(folder: Path, index: Any, *, reload: bool, swaps: int) -> dict[str, Any]:
    return {
        "corpus_hash": _info(folder).corpus_hash,
        "fingerprint": index.fingerprint,
        "opened": datetime.now(UTC).isoformat(timespec="seconds"),
        "swaps": swaps,
        "reload": reload,
    }


def index_folder(opened: "OpenedProgram") -> Path | None:
    """Return the folder of the index that a program retrieves from; None for an own retriever, the web, or nothing."""
    config = opened.config
    own = config.retriever is not None and is_own(config.retriever)
    return None if own or searches_web(config) else config.index


def _artifact_of(opened: "OpenedProgram") -> str | None:
    """Return the SHA-256 of the `artifact.json` that a program was loaded from; None without one."""
    return None if opened.origin is None else opened.origin.sha256


def _index_of(opened: "OpenedProgram") -> Any:
    index: Any = opened.retrieve
    while hasattr(index, "retriever"):  # in front of it: a choice of sentences, a reranker
        index = index.retriever
    return index


def _info(folder: Path) -> IndexInfo:
    return read_info(complete_index(folder))


@dataclass
class _Watched:
    """An index or an artifact that may change.

    Attributes:
        seen: Its state that was taken over last; the first look compares with what was opened.
    """

    name: str
    folder: Path
    state: Callable[[], object]
    seen: object = None
    failures: int = 0
    pause: int = 0


class Reloading:
    """Looks at index and artifact of a service, and lets the service answer from the new ones when they have changed.

    Args:
        service: Whose `opened` has an index.
        say: Receives what happened, for people.
        watched: Is given a program before it answers.
    """

    def __init__(
        self,
        service: "Service",
        say: Callable[[str], None],
        watched: "Callable[[dspy.Module], object]" = lambda program: None,
    ):
        assert service.opened is not None
        folder, artifact = index_folder(service.opened), service.opened.config.artifact
        assert folder is not None
        self._service, self._folder, self._say, self._watched = service, folder, say, watched
        self._embedder = _embedder_in(folder)
        self._index = _Watched("index", folder, partial(state_of, folder))
        self._artifact = None if artifact is None else _Watched("artifact", artifact, partial(_record_of, artifact))

    def look(self) -> None:
        """Open anew what has changed; what cannot be opened is looked at again, ever less often."""
        for one in filter(None, (self._artifact, self._index)):
            self._look_at(one)

    def _look_at(self, one: _Watched) -> None:
        state, refused = one.state(), self._service.about["refused"]
        if state == one.seen:
            refused.pop(one.name, None)  # it is again what answers
            one.failures = one.pause = 0
            return
        if one.pause:
            one.pause -= 1
            return
        try:
            if self._renew(one, state):
                one.seen, one.failures = state, 0
                refused.pop(one.name, None)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with the new one, the old one answers
            if one.state() != state:
                return  # it was replaced while it was opened: the next look sees it whole
            one.failures += 1
            one.pause = min(2**one.failures, _LONGEST_PAUSE)  # its files may be on their way
            why = one_line(error, 300) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
            if why != refused.get(one.name):
                refused[one.name] = why
                event(f"{one.name}_refused", level=logging.WARNING, reason=why)
                self._say(f"The {one.name} {one.folder} has changed, but cannot be used; the one before stays. {why}")

    def _renew(self, one: _Watched, state: object) -> bool:
        """Open what is there and answer from it; return False if it changed meanwhile."""
        service = self._service
        old, index = service.opened, service.about["index"]
        assert old is not None
        if one is self._index:  # with the artifact that answers, if another lies in its folder
            self._check_embedder()
            new = old.reopened(artifact=self._artifact is None or self._artifact.state() == self._artifact.seen)
        else:
            new = old.reopened(index=False)
            if new.retrieve is not old.retrieve:
                self._check_embedder()
        changed = _index_of(new).fingerprint != _index_of(old).fingerprint
        recompiled = _artifact_of(new) != _artifact_of(old)
        if not changed and not recompiled:
            return True
        answerer = answerer_of(new, service.answering.limits)
        warm_up(new.program, new.connection, searched=True)  # models and files; no LM is called
        self._watched(new.program)
        same = None if changed else index
        told = {**service.about, **about(new, reload=True, swaps=index["swaps"] + changed, same=same)}
        if one.state() != state:
            return False
        service.answering.answerer, service.retrieve, service.opened, service.about = answerer, new.retrieve, new, told
        if recompiled:
            event("artifact_swapped", sha256=told["artifact"], program=told["program"])
            folder = new.config.artifact
            self._say(f"The artifact {folder} has changed: it answers new questions ({told['program']}).")
        if changed:
            index = told["index"]
            event("index_swapped", **{name: index[name] for name in ("corpus_hash", "fingerprint", "swaps")})
            count = f"{told['corpus']['passages']:,} passages"
            self._say(f"The index {self._folder} has changed: new questions are answered from it ({count}).")
        return True

    def _check_embedder(self) -> None:
        if _embedder_in(self._folder) != self._embedder:
            raise UserError("it was built with another embedder: restart the service to use it")


def _embedder_in(folder: Path) -> tuple[str, str] | None:
    """Return what embeds the queries of an index: the precision of its passages is not that of queries."""
    made = _info(folder).embedder
    return None if made is None else (made.id, made.weights_hash)


def _record_of(artifact: Path) -> bytes:
    """Return what `artifact.json` says; nothing if it is not there."""
    with contextlib.suppress(OSError):
        return (artifact / "artifact.json").read_bytes()
    return b""


@contextlib.contextmanager
def reloading(
    service: "Service", say: Callable[[str], None], watched: "Callable[[dspy.Module], object]" = lambda program: None
) -> Iterator[None]:
    """Look at what a service answers from while the block runs, if it is reopened; arguments as of `Reloading`."""
    if service.opened is None:
        yield
        return
    ended, renewing = threading.Event(), Reloading(service, say, watched)

    def look_again() -> None:
        while not ended.wait(_SECONDS):
            renewing.look()

    daemon(look_again, name="index")
    try:
        yield
    finally:
        ended.set()
