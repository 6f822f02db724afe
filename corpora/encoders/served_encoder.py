"""Embeddings of an OpenAI-compatible server: POST /embeddings, in batches, a few at a time, repeated while it is busy.

https://platform.openai.com/docs/api-reference/embeddings/create

The embedder is named NAME@URL, and so in an index. Texts and the key (`VERIHOP_EMBED_API_KEY`) are sent only where the
user says, in `--embed-api-base` or `VERIHOP_EMBED_API_BASE`, because an index may be a stranger's.
"""

import json
import os
import re
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, NoReturn
from urllib.parse import urlsplit, urlunsplit

import numpy as np
from numpy.typing import NDArray

from signatures.common.errors import UserError, one_line
from signatures.common.http import checked_base, checked_key, content_of, http_client, retry_after
from signatures.common.per_process import PerProcess, Uncopied
from signatures.common.secrets import without_secrets

if TYPE_CHECKING:
    import httpx

BASE, KEY = "VERIHOP_EMBED_API_BASE", "VERIHOP_EMBED_API_KEY"
BATCH, AT_A_TIME = 64, 4  # texts of a request, requests in flight
_PAUSES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, None)  # seconds before a request is repeated
_LONGEST = 120.0  # seconds that a server may ask to wait
_SECONDS = 60.0
_NAMED = re.compile(r"(?P<name>.+)@(?P<base>https?://[^@\s]+)")

Vectors = NDArray[np.float32]


def served_name(name: str, api_base: str) -> str:
    """Return the name of an embedder on a server, with `***` for a key in the path, and without a user and password.

    Raises:
        UserError: It is not an address of a server, or it cannot be told apart from the name.
    """
    served = f"{name}@{_public(checked_base(api_base))}"
    if _NAMED.fullmatch(served) is None:
        raise UserError(
            f"{without_secrets(api_base)!r} has an @ or a space in its path, or the embedder {name[:60]!r} a line "
            f"break: write them as %40 and %20; a key belongs in {KEY}, not into the address."
        )
    return served


def served_encoder(embedder: str, api_base: str | None = None) -> "ServedEncoder | None":
    """Return what encodes by an embedder with such a name; None if its name is another.

    Args:
        embedder: NAME@URL.
        api_base: The address that the user trusts; None for that of `VERIHOP_EMBED_API_BASE`, looked up when asked.
    """
    named = _NAMED.fullmatch(embedder)
    return named and ServedEncoder(named["name"], named["base"], api_base)


def _public(base: str) -> str:
    parts = urlsplit(base)
    bare = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    return bare if "@" in bare else without_secrets(bare)  # an @ of the path is refused


class ServedEncoder(Uncopied):
    """Vectors of texts from a server. Safe under threads and after a fork; see `served_encoder`."""

    def __init__(self, name: str, base: str, api_base: str | None = None):
        self.name, self.base, self._stated = name, base, api_base
        self._client = PerProcess(self._open)
        self._answered = False

    def __call__(self, texts: Sequence[str]) -> Vectors:
        """Return an array of shape (len(texts), d).

        Raises:
            UserError: The server is not trusted, cannot be reached, refuses, or replies something else than vectors.
        """
        stop = threading.Event()
        batches = [list(texts[start : start + BATCH]) for start in range(0, len(texts), BATCH)]
        with ThreadPoolExecutor(AT_A_TIME) as pool:
            try:
                blocks = list(pool.map(partial(self._ask, stop=stop), batches))
            finally:
                stop.set()
                pool.shutdown(wait=False, cancel_futures=True)
        if len({block.shape[1] for block in blocks}) > 1:
            raise self._failed("vectors of different lengths", "use another model")
        return np.concatenate(blocks) if blocks else np.zeros((0, 0), dtype=np.float32)

    def _open(self) -> "tuple[httpx.Client, str]":
        stated = self._stated or os.environ.get(BASE)
        address = checked_base(stated) if stated else ""
        if _public(address) != self.base:
            raise UserError(
                f"The embedder {self.name!r} is on the server {self.base}, to which queries and passages would be "
                f"sent: if you trust it, export {BASE}={self.base}, and {KEY} if it needs a key."
            )
        return http_client(_SECONDS, key=checked_key(KEY if os.environ.get(KEY) else None), redirects=False), address

    def _ask(self, texts: list[str], stop: threading.Event) -> Vectors:
        import httpx

        client, address = self._client()
        for pause in _PAUSES:
            try:
                body = {"model": self.name, "input": texts}
                with client.stream("POST", f"{address}/embeddings", json=body) as reply:
                    status, content, hint = reply.status_code, content_of(reply), retry_after(reply.headers)
            except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
                # A server that never answered has probably another address.
                if pause is None or not self._answered or not isinstance(error, httpx.TransportError):
                    raise self._failed(one_line(error, 150), "check that it runs, and its address") from error
                status, hint = 0, None
            if status == httpx.codes.OK:
                self._answered = True
                return self._vectors(content, len(texts))
            if status and status != httpx.codes.TOO_MANY_REQUESTS and status < 500:
                break
            if pause is None or stop.wait(min(max(pause, hint or 0.0), _LONGEST)):
                break
        said = one_line(content[:2000].decode("utf-8", "replace"), 200) if status else "no reply"
        cures = {401: f"set {KEY}", 403: f"set {KEY}", 404: "check the name of the embedder and the address"}
        cures |= dict.fromkeys(range(300, 400), "redirects are not followed, so name the address they lead to")
        other = "try again later" if status >= 500 or status == 429 else "cut passages that its model cannot read"
        raise self._failed(f"status {status}: {said}", cures.get(status, other)).quoting(said)

    def _vectors(self, content: bytes, count: int) -> Vectors:
        try:
            data = sorted(json.loads(content)["data"], key=lambda item: item["index"])
            with np.errstate(over="ignore"):
                vectors = np.array([item["embedding"] for item in data], dtype=np.float32)
            if [item["index"] for item in data] != list(range(count)) or vectors.ndim != 2 or not vectors.size:
                raise ValueError(f"{len(data)} vectors for {count} texts")
            if not np.isfinite(vectors).all():
                raise ValueError("a number is not finite")
        except (ValueError, LookupError, TypeError, RecursionError, OverflowError) as error:
            raise self._failed(f"no vectors: {one_line(error, 100)}", "use an OpenAI-compatible server") from error
        return vectors

    def _failed(self, what: str, cure: str) -> UserError:
        return UserError(
            f"The embeddings of {self.name!r} failed at {self.base} ({what}): {cure}. Finished vectors are kept: "
            "resume the build."
        )

    def __reduce__(self) -> NoReturn:
        raise UserError(f"The embedder {self.name!r} runs on a server: omit the cluster.")
