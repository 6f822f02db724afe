"""An updated index ranks as one built from the resulting corpus; only new passages are embedded."""

import json
import random
from pathlib import Path

import pytest

from corpora.index.build import build_index
from corpora.index.open import open_index
from corpora.index.update import update_index
from corpora.retrievers.embedder import Embedder
from corpora.retrievers.settings import make_settings
from signatures.common.errors import UserError, UserNotice
from tests.corpora.conftest import WORDS, hashed_words

KINDS = {
    "bm25": ("bm25", {}),
    "bm25s": ("bm25s", {"k1": 0.9, "title_repeats": 2}),
    "dense": ("dense", {}),
    "hybrid": ("hybrid", {"dense_weight": 0.4}),
    "rabitq": ("hybrid", {"dense_kind": "rabitq"}),
    "ivf_rabitq": ("dense", {"dense_kind": "ivf_rabitq"}),
}
QUERIES = ["amber brook", "cedar", "which meadow lies north", "oasis prairie amber", *WORDS]


def write(path: Path, lines: list[dict]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def made(rng: random.Random, name: str) -> dict:
    """A passage; some have other keys, some sentences, some a text that others have."""
    text = " ".join(rng.choices(WORDS, k=rng.choice([1, 6, 12, 30])))
    line = {"id": name, "title": " ".join(rng.choices(WORDS, k=rng.randrange(3))), "text": text}
    line |= rng.choice([{}, {"source": f"{name}.pdf", "page": rng.randrange(9)}])
    return line | rng.choice([{}, {"sentences": [text]}])


def changed(rng: random.Random, what: str, base: list[dict]) -> tuple[list[dict], list[str], list[dict]]:
    """Return added passages, removed ids and the resulting corpus."""
    names = [line["id"] for line in base]
    removed = rng.sample(names, rng.randrange(1, len(base) - 1)) if what != "add" else []
    added = [made(rng, f"new{n}") for n in range(rng.randrange(1, 20))] if what != "remove" else []
    if what == "replace":
        added = [made(rng, name) for name in removed[::2]]
    rng.shuffle(added)
    return added, removed, [line for line in base if line["id"] not in removed] + added


@pytest.mark.slow
@pytest.mark.parametrize("what", ["add", "remove", "both", "replace"])
@pytest.mark.parametrize("kind", KINDS)
def test_an_updated_index_ranks_as_a_new_one(kind, what, tmp_path, fake_embedder):
    rng = random.Random(f"{kind} {what}")
    retriever, settings = KINDS[kind]
    options = {"retriever": retriever, "settings": make_settings(**settings), "embedder": fake_embedder}
    base = [made(rng, f"p{n}") for n in range(60)]
    added, removed, resulting = changed(rng, what, base)
    corpus = write(tmp_path / "resulting.jsonl", resulting)
    build_index(corpus, tmp_path / "new", **options)
    build_index(write(tmp_path / "base.jsonl", base), tmp_path / "i", **options)
    before = open_index(tmp_path / "i", embedder=fake_embedder)
    half = len(added) // 2
    files = [write(tmp_path / f"{n}.jsonl", part) for n, part in enumerate((added[:half], added[half:])) if part]
    embedded = []
    counting = Embedder("fake", encode=lambda texts: (embedded.extend(texts), hashed_words(texts))[1])
    info, did = update_index(tmp_path / "i", add=files, remove=[*removed, *removed], embedder=counting)
    updated, new = (open_index(tmp_path / name, corpus, embedder=fake_embedder) for name in ("i", "new"))
    for k in (1, 5, 60):
        assert updated.many(QUERIES, k) == new.many(QUERIES, k)
    assert did
    update = info.update
    assert (update.kept, update.added, update.removed) == (len(base) - len(removed), len(added), len(removed))
    assert update.embedded == len(embedded) == (len(added) if info.embedder else 0)
    assert updated.fingerprint != before.fingerprint
    assert (info.passages, info.dense_kind, info.settings) == (len(resulting), info.dense_kind, options["settings"])
    assert not list((tmp_path / "i").glob(".rebuild"))


@pytest.fixture
def index(tmp_path, corpus, fake_embedder):
    build_index(corpus, tmp_path / "i", embedder=fake_embedder)
    return tmp_path / "i"


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_what_cannot_be_done_is_one_line_and_changes_nothing(index, tmp_path, corpus, fake_embedder):
    before = files_of(index)
    new, again = write(tmp_path / "new.jsonl", [{"id": "n", "text": "x"}]), tmp_path / "again.jsonl"
    again.write_text(new.read_text())
    other = Embedder("other", encode=lambda texts: hashed_words(texts) + 1)
    everything = [f"p{n}" for n in range(60)]
    for options, message in [
        ({}, "Nothing to change: give files"),
        (
            {"remove": ["p1", "nowhere", "gone"]},
            r"no passage 'nowhere'.*2 of 3 ids.*correct the ids; nothing was changed",
        ),
        (
            {"add": [corpus]},
            r"already has a passage 'p0' \(60 of 60.*remove these ids in the same update.*passages.jsonl",
        ),
        ({"add": [corpus], "remove": everything[1:]}, r"'p0' \(1 of 60"),
        ({"add": [new, again]}, r"Two added passages have the id 'n' \(.*new.jsonl and .*again.jsonl\)"),
        ({"remove": everything}, "All 60 passages of .* would be removed"),
        (
            {"add": [new], "embedder": other},
            "built with the embedder 'fake', and vectors of 'other' cannot be compared",
        ),
        ({"add": [tmp_path / "lost.jsonl"]}, "No file .*lost.jsonl"),
        ({"add": [write(tmp_path / "bad.jsonl", [{"id": "b"}])]}, r"bad.jsonl, line 1"),
    ]:
        with pytest.raises(UserError, match=message) as caught:
            update_index(index, **{"embedder": fake_embedder, **options})
        assert len(str(caught.value).splitlines()) == 1
        assert "--" not in str(caught.value)
        assert files_of(index) == before


def test_only_a_complete_index_is_updated(tmp_path, corpus):
    with pytest.raises(UserError, match="contains no index: build one there"):
        update_index(tmp_path / "nothing", remove=["a"])
    assert not (tmp_path / "nothing").exists()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("mine")
    with pytest.raises(UserError, match="contains no index"):
        update_index(tmp_path / "mine", remove=["a"])
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.txt"]


def test_the_same_update_again_changes_nothing_and_its_reverse_gives_the_old_results(index, tmp_path, fake_embedder):
    old = open_index(index, embedder=fake_embedder)
    new = write(tmp_path / "new.jsonl", [{"id": "n", "title": "amber", "text": "amber brook", "page": 3}])
    first = update_index(index, add=[new], embedder=fake_embedder)
    before = files_of(index)
    assert update_index(index, add=[new], embedder=fake_embedder) == (first.info, False)
    assert files_of(index) == before
    assert open_index(index, embedder=fake_embedder)("amber brook", 1)[0].metadata == {"page": 3}
    update_index(index, remove=["n"], embedder=fake_embedder)
    assert not list(index.glob("*.keys.*"))  # no passage has other keys now
    back = open_index(index, embedder=fake_embedder)
    assert back.many(QUERIES, 60) == old.many(QUERIES, 60)
    again = update_index(index, add=[new], embedder=fake_embedder)  # it is no longer the last update
    assert again.changed
    assert again.info.corpus_hash == first.info.corpus_hash
    assert again.info.update.corpus_before != first.info.update.corpus_before


def test_the_hash_is_that_of_the_passages_and_their_order(index, tmp_path, corpus, fake_embedder):
    lines = [json.loads(line) for line in corpus.read_text().splitlines()][1:]
    info, _ = update_index(index, remove=["p0"], embedder=fake_embedder)
    assert info.corpus_hash.startswith("passages:")
    variants = {
        "same": (lines, True),
        "spelled": ([{**dict(reversed(line.items())), "sentences": [line["text"]]} for line in lines], True),
        "order": (lines[::-1], False),
        "fewer": (lines[1:], False),
        "text": ([{**lines[0], "text": "x"}, *lines[1:]], False),
        "keys": ([{**lines[0], "page": 1}, *lines[1:]], False),
    }
    for name, (content, fits) in variants.items():
        path = write(tmp_path / f"{name}.jsonl", content)
        if fits:
            open_index(index, path, embedder=fake_embedder)
        else:
            with pytest.raises(UserError, match="another corpus"):
                open_index(index, path, embedder=fake_embedder)


def test_only_added_passages_are_noted_as_too_long(tmp_path):
    base = [{"id": "a", "text": "ab " * 5000}, {"id": "b", "text": "x"}]
    with pytest.warns(UserNotice):
        build_index(write(tmp_path / "p.jsonl", base), tmp_path / "i", retriever="bm25")
    update_index(tmp_path / "i", remove=["b"])  # a notice would be an error here
    new = write(tmp_path / "q.jsonl", [{"id": "c", "text": "ab " * 6000}, {"id": "d", "text": "y"}])
    with pytest.warns(UserNotice, match="1 of 2 passages .* 'c'"):
        update_index(tmp_path / "i", add=[new])


def test_an_index_whose_kind_follows_its_size_changes_it_with_its_size(index, tmp_path, fake_embedder, monkeypatch):
    monkeypatch.setattr("corpora.retrievers.dense.FLAT_LIMIT", 60)
    info, _ = update_index(index, add=[write(tmp_path / "n.jsonl", [{"id": "n", "text": "x"}])], embedder=fake_embedder)
    assert info.dense_kind == "rabitq"
    info, _ = update_index(index, remove=["n"], embedder=fake_embedder)
    assert info.dense_kind == "flat"
    assert not (index / "dense" / "codes.faiss").exists()
