"""Push to and pull from a repository of the model hub, whose HTTP interface a server on this machine stands in for."""

import base64
import contextlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from corpora.index.build import build_index
from corpora.index.remote import pull_index, push_index
from signatures.common.errors import UserError
from tests.loopback import JsonHandler, Loopback

TOKEN = "hf_abcdefghij1234567890"


class Hub(JsonHandler):
    """A hub with one namespace, `ann`; commits are numbered, and have all files."""

    repositories: dict[str, list[dict[str, bytes]]]
    private: dict[str, bool]
    tokens: list[str | None]
    elsewhere = ""  # where files are redirected to
    elsewhere_holds: dict[str, bytes] = {}

    def _parts(self) -> tuple[str, str, str]:
        path = self.path.partition("?")[0].removeprefix("/api").lstrip("/").removeprefix("models/")
        kind = "datasets/" if path.startswith("datasets/") else ""
        owner, name, *rest = path.removeprefix("datasets/").split("/", 2)
        return f"{kind}{owner}/{name}", *(rest[0] if rest else "").partition("/")[::2]

    def get(self) -> None:
        self.tokens.append(self.headers.get("Authorization"))
        name, what, rest = self._parts()
        commits = self.repositories.get(name)
        if commits is None or self.tokens[-1] != f"Bearer {TOKEN}":
            self.send_response(404)
            self.send_header("X-Error-Code", "RepoNotFound")
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif what in ("", "revision"):
            self.reply(200, {"id": name, "sha": f"{int(rest or len(commits)):040d}", "siblings": []})
        elif what == "tree":
            files = commits[-1].items()
            self.reply(200, [{"type": "file", "path": path, "size": len(raw), "oid": "0" * 40} for path, raw in files])
        elif what == "resolve":
            revision, _, file = rest.partition("/")
            found = commits[int(revision) - 1].get(file)
            if self.elsewhere and found is not None:
                type(self).elsewhere_holds[file] = found
                self.send_response(302)
                self.send_header("Location", f"{self.elsewhere}/{file}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self.reply(404, b"") if found is None else self.reply(200, found)

    def post(self) -> None:
        if self.path == "/api/repos/create":
            asked = self.body()
            kind = "datasets/" if asked.get("type") == "dataset" else ""
            full = f"{kind}{asked.get('organization', 'ann')}/{asked['name']}"
            known = full in self.repositories
            self.repositories.setdefault(full, [{"README.md": b"mine"}])
            self.private.setdefault(full, bool(asked.get("private") or asked.get("visibility") == "private"))
            self.reply(409 if known else 200, {"url": f"http://127.0.0.1/{full}"})
            return
        name, what, _ = self._parts()
        if what == "preupload":
            files = [each["path"] for each in self.body()["files"]]
            self.reply(
                200, {"files": [{"path": path, "uploadMode": "regular", "shouldIgnore": False} for path in files]}
            )
            return
        assert what == "commit"
        after = dict(self.repositories[name][-1])
        for line in self.rfile.read(int(self.headers["Content-Length"])).splitlines():
            entry = json.loads(line)
            if entry["key"] == "file":
                after[entry["value"]["path"]] = base64.b64decode(entry["value"]["content"])
            elif entry["key"] == "deletedFile":
                del after[entry["value"]["path"]]
        self.repositories[name].append(after)
        self.reply(200, {"commitUrl": f"http://127.0.0.1/{name}/commit/1", "commitOid": "1", "success": True})


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Hub]]:
    from huggingface_hub import constants

    handler = type("Handler", (Hub,), {"repositories": {}, "private": {}, "tokens": []})
    with contextlib.closing(Loopback(handler, "")) as running:
        monkeypatch.setattr(constants, "ENDPOINT", running.base)
        monkeypatch.setattr(
            constants, "HUGGINGFACE_CO_URL_TEMPLATE", running.base + "/{repo_id}/resolve/{revision}/{filename}"
        )
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr("huggingface_hub.hf_api.api.endpoint", running.base)
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        yield handler


@pytest.fixture
def index(tmp_path: Path, corpus: Path) -> Path:
    build_index(corpus, tmp_path / "index", retriever="bm25")
    return tmp_path / "index"


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("kind", ["", "datasets/"])
def test_what_is_pushed_to_the_hub_is_pulled_from_it(hub, index: Path, tmp_path: Path, corpus: Path, kind: str):
    place = f"hf://{kind}ann/ponds"
    assert push_index(index, place).changed is True
    assert hub.private == {f"{kind}ann/ponds": True}
    assert len(hub.repositories[f"{kind}ann/ponds"]) == 2  # the first commit, and one of all files
    assert pull_index(place, tmp_path / "out").changed is True
    assert files(tmp_path / "out") == files(index)
    assert push_index(index, place).changed is False
    build_index(corpus, tmp_path / "other", retriever="bm25s")
    with pytest.raises(UserError, match=r"already contains another index: replace it \(--overwrite\)"):
        push_index(tmp_path / "other", place)
    push_index(tmp_path / "other", place, overwrite=True)
    last = hub.repositories[f"{kind}ann/ponds"][-1]
    assert last["README.md"] == b"mine"
    assert not [name for name in last if name.startswith("bm25/")]
    assert pull_index(place, tmp_path / "out", overwrite=True).info.retriever == "bm25s"
    assert pull_index(f"{place}@2", tmp_path / "old").info.retriever == "bm25"
    assert set(hub.tokens) <= {None, f"Bearer {TOKEN}"}


def test_a_repository_that_is_not_there_or_not_mine_is_one_line_without_the_token(
    hub, index: Path, tmp_path: Path, monkeypatch
):
    with pytest.raises(UserError, match="hf auth login") as raised:
        pull_index("hf://ann/nothing", tmp_path / "out")
    assert "\n" not in str(raised.value)
    assert TOKEN not in str(raised.value)
    push_index(index, "hf://ann/ponds")
    monkeypatch.delenv("HF_TOKEN")
    with pytest.raises(UserError, match="hf auth login"):
        pull_index("hf://ann/ponds", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_token_is_not_sent_to_where_the_hub_redirects(hub, index: Path, tmp_path: Path):
    push_index(index, "hf://ann/ponds")
    seen: list[str | None] = []

    class Store(JsonHandler):
        def get(self) -> None:
            seen.append(self.headers.get("Authorization"))
            self.reply(200, hub.elsewhere_holds[self.path.removeprefix("/")])

    with contextlib.closing(Loopback(Store, "")) as store:
        hub.elsewhere = store.base
        pull_index("hf://ann/ponds", tmp_path / "out")
    assert len(seen) == len(files(index)) + 1
    assert set(seen) == {None}
    assert files(tmp_path / "out") == files(index)


def test_a_repository_without_an_index_says_so(hub, tmp_path: Path):
    hub.repositories["ann/notes"] = [{"README.md": b"mine"}]
    with pytest.raises(UserError, match=r"No hf://ann/notes/files\.json: no index was pushed there"):
        pull_index("hf://ann/notes", tmp_path / "out")


def test_without_the_client_or_the_hub_the_cure_is_one_line(index: Path, tmp_path: Path, monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(UserError, match="The model hub does not answer: check the network"):
        push_index(index, "hf://ann/ponds")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(UserError, match=r"pip install 'verihop\[hub\]'"):
        pull_index("hf://ann/ponds", tmp_path / "out")
