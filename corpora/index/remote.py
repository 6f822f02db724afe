"""Push an index into a folder or a repository of the model hub, and pull one from there or from a web server.

What is pushed into a folder can be pulled from wherever that folder is served as plain files.
"""

import contextlib
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, urlsplit, urlunsplit

from corpora.index.manifest import FILES_FILE, INFO_FILE, OWN, read_info
from corpora.index.replace import complete_index, state_of
from corpora.index.transfer import Lost, Received, SharedIndex, Source, read_shared, receive, shared_index
from signatures.common import secrets
from signatures.common.errors import UserError, UserNotice, needing, one_line
from signatures.common.files import atomic_write, expanded
from signatures.common.http import http_client, hub_answers

if TYPE_CHECKING:
    import httpx

HUB = "hf://"
_SECONDS = 60.0  # without a byte
_REPOSITORY = re.compile(r"hf://(?:(dataset|model)s/)?([\w.-]+/[\w.-]+)(?:@([\w./-]+))?/?", re.ASCII)


def pull_index(source: str, folder: Path | str, *, overwrite: bool = False, progress: bool = False) -> Received:
    """Copy a pushed index into `folder`; an interrupted call is finished by the same one.

    Args:
        source: `hf://owner/name[@revision]` (`hf://datasets/owner/name` for a data set), the address of a folder that
            begins with `https://` or `http://`, or a folder.
        folder: New, empty, or with `overwrite` an index, which opens until the new one is complete.
        overwrite: Replace another index.
        progress: Show size and progress on stderr.

    Raises:
        UserError: See `corpora.index.transfer.receive`; or no index was pushed there.
    """
    with _opened(source) as opened:
        return receive(opened, read_shared(opened), Path(folder), overwrite=overwrite, progress=progress)


def push_index(folder: Path | str, target: str, *, overwrite: bool = False, progress: bool = False) -> Received:
    """Copy the index in `folder` to where `pull_index` finds it.

    Args:
        folder: A complete index.
        target: A folder, which may be `folder` itself, or `hf://owner/name[@branch]`; a new repository is private.
        overwrite: Replace another index; other files of a repository stay.
        progress: Show progress on stderr.

    Raises:
        UserError: There is no complete index, or it changes meanwhile; the target has another index or other files;
            the hub refuses it.
    """
    folder = Path(folder)
    before = state_of(folder)
    chosen = complete_index(folder)
    info = read_info(chosen)
    if info.embedder and Path(info.embedder.id).is_dir():
        warnings.warn(
            UserNotice(
                f"The embedder of {folder} is a local folder, {info.embedder.id}: others can open the index "
                "only with the same model at that path, or with retriever bm25 if it is hybrid."
            ),
            stacklevel=2,
        )
    shared = shared_index(chosen, info, progress=progress)
    if target.startswith(HUB):
        repository = _repository(target)
        pushed = Received(info, repository.push(chosen, shared, overwrite=overwrite, progress=progress))
    elif "://" in target:
        place = secrets.without_secrets(target)
        raise UserError(f"{place} takes no index: push into a folder that a server serves, or to hf://owner/name.")
    else:
        into = expanded(target)
        pushed = receive(_in_folder(chosen), shared, into, overwrite=overwrite, progress=progress)
        with atomic_write(into / FILES_FILE, "wb") as file:
            file.write(shared.raw())
    if state_of(folder) != before:
        raise UserError(f"{folder} was changed while it was pushed: push it again with overwrite.")
    return pushed


@contextlib.contextmanager
def _opened(place: str) -> Iterator[Source]:
    """Open the place that is named; connections are closed at the end."""
    if place.startswith(HUB):
        repository = _repository(place)
        with repository.opened() as source:
            yield source
    elif place.startswith(("https://", "http://")):
        secrets.register_address(place)
        try:
            parts = urlsplit(place)
            if not parts.hostname:
                raise ValueError("it names no server")
        except ValueError as error:
            raise UserError(f"{secrets.without_secrets(place)} is not an address ({error}).") from None
        path = parts.path.rstrip("/")
        name = secrets.without_secrets(urlunsplit(parts._replace(path=path, query="", fragment="")))
        with http_client(_SECONDS) as client:
            yield _served(
                client, name, lambda file: urlunsplit(parts._replace(path=f"{path}/{quote(file)}", fragment=""))
            )
    elif "://" in place:
        raise UserError(f"{secrets.without_secrets(place)} cannot be pulled from: name hf://, https://, or a folder.")
    else:
        yield _in_folder(expanded(place))


def _nothing_pushed(place: object) -> UserError:
    return UserError(f"No {place}: no index was pushed there (`verihop index push`).")


def _in_folder(folder: Path) -> Source:
    @contextlib.contextmanager
    def stream(name: str, start: int) -> Iterator[tuple[int, Iterator[bytes]]]:
        path = folder / name
        if not path.is_file():
            raise (
                _nothing_pushed(path) if name == FILES_FILE else UserError(f"{path} is missing: push the index again.")
            )
        with open(path, "rb") as file:
            file.seek(start)
            yield start, iter(lambda: file.read(1 << 20), b"")

    return Source(str(folder), stream)


def _served(client: "httpx.Client", name: str, address: Callable[[str], str]) -> Source:
    """Return what a web server serves.

    Args:
        client: Its redirects lead to the web alone, and from https not to http.
        name: Of the place, for messages.
        address: Returns that of a file.
    """
    import httpx

    allowed = ("https",) if address(FILES_FILE).startswith("https:") else ("https", "http")

    def check(request: httpx.Request) -> None:
        if request.url.scheme not in allowed:
            raise UserError(
                f"{name} redirects to {request.url.scheme}://, which is not followed: name another address."
            )

    client.event_hooks["request"].append(check)

    @contextlib.contextmanager
    def stream(file: str, start: int) -> Iterator[tuple[int, Iterator[bytes]]]:
        place = f"{name}/{file}"
        headers = {"Accept-Encoding": "identity", **({"Range": f"bytes={start}-"} if start else {})}
        try:
            with client.stream("GET", address(file), headers=headers) as reply:
                if reply.status_code == 404 and file == FILES_FILE:
                    raise _nothing_pushed(place)
                reply.raise_for_status()
                if reply.headers.get("Content-Encoding", "identity") != "identity":
                    raise UserError(f"{place} was sent compressed: have the server send it as it is.")
                rest = reply.headers.get("Content-Range", "").startswith(f"bytes {start}-")
                yield (start if reply.status_code == 206 and rest else 0), reply.iter_raw()
        except httpx.HTTPStatusError as error:
            status = f"{error.response.status_code} {error.response.reason_phrase}"
            raise UserError(f"{place} cannot be read ({status}): check the address and your permissions.") from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise Lost(
                f"{place} cannot be read ({one_line(error)}): check the network, then run the same command again."
            ) from error

    return Source(name, stream)


class _Repository(NamedTuple):
    """A repository of the model hub; the token is that of its client: the variable HF_TOKEN, or a login."""

    name: str
    of: dict[str, Any]  # id and type
    revision: str | None

    @contextlib.contextmanager
    def opened(self) -> Iterator[Source]:
        """Open it at the commit of this moment, whatever is pushed meanwhile."""
        from huggingface_hub import HfApi, get_token, hf_hub_url

        with self._explained():
            commit = HfApi().repo_info(**self.of, revision=self.revision).sha
        token = get_token()
        secrets.register(token)
        with http_client(_SECONDS, key=token) as client:  # which sends the token to no other host
            yield _served(client, self.name, lambda file: hf_hub_url(**self.of, filename=file, revision=commit))

    def push(self, folder: Path, shared: SharedIndex, *, overwrite: bool, progress: bool) -> bool:
        """Commit an index as a whole; return whether anything changed."""
        from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi
        from huggingface_hub.utils import disable_progress_bars

        if not progress:
            disable_progress_bars()
        api = HfApi()
        with self._explained():
            api.create_repo(**self.of, private=True, exist_ok=True)
            there = api.list_repo_files(**self.of, revision=self.revision)
            if FILES_FILE in there or INFO_FILE in there:
                with self.opened() as source, contextlib.suppress(UserError):  # what is damaged is another
                    if read_shared(source) == shared:
                        return False
                if not overwrite:
                    raise UserError(f"{self.name} already contains another index: replace it (--overwrite).")
            old = [name for name in there if name.split("/")[0] in OWN and name not in {*shared.files, FILES_FILE}]
            api.create_commit(
                **self.of,
                operations=[
                    *(CommitOperationDelete(name) for name in old),
                    *(CommitOperationAdd(name, folder / name) for name in shared.files),
                    CommitOperationAdd(FILES_FILE, shared.raw()),
                ],
                commit_message="Push an index of verihop",
                revision=self.revision,
            )
        return True

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        import httpx

        try:
            yield
        except UserError:
            raise
        except (httpx.HTTPError, OSError, ValueError, RuntimeError) as error:  # the last of an upload
            raise UserError(
                f"{self.name}: {one_line(error)}. Check the name and your access: `hf auth login`, or HF_TOKEN."
            ) from error


def _repository(name: str) -> _Repository:
    found = _REPOSITORY.fullmatch(name)
    if found is None:
        raise UserError(f"{name[:200]} is not a repository: write hf://owner/name, with @revision if you like.")
    with needing("hub", "A repository of the model hub"):
        import huggingface_hub  # noqa: F401
    if not hub_answers():
        raise UserError(f"The model hub does not answer: check the network (and HF_HUB_OFFLINE) to reach {name}.")
    return _Repository(name, {"repo_id": found[2], "repo_type": found[1] or "model"}, found[3])
