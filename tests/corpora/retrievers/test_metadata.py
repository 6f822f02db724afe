"""Other keys of passages live on in an index; one without any is as it was."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from corpora.index.build import build_index
from corpora.index.open import open_index
from corpora.retrievers.rerank import open_reranker
from corpora.retrievers.store import KEYS_FILE, KEYS_OFFSETS_FILE, PassageStore, content_hash, stored, write_store
from signatures.common.errors import UserError
from signatures.types import Passage, SourcedPassage, make_passage
from tests.corpora.index.test_hostile_index import seal

KEYS = {"source": "report.pdf", "page": 12, "url": "https://example.org/a?b=ü", "tags": ["x", {"y": None}]}


@pytest.fixture(scope="session")
def sourced(tmp_path_factory, make_corpus_lines) -> Path:
    """A corpus whose passages have other keys, but for every third one; all have sentences."""
    path = tmp_path_factory.mktemp("sourced") / "passages.jsonl"
    lines = [
        {**line, "sentences": [line["text"]], **({"number": number, **KEYS} if number % 3 else {})}
        for number, line in enumerate(make_corpus_lines)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.fixture(scope="session")
def make_corpus_lines(corpus):
    return [json.loads(line) for line in corpus.read_text().splitlines()]


@pytest.fixture(scope="session")
def folder(tmp_path_factory, sourced, fake_embedder):
    folder = tmp_path_factory.mktemp("index") / "sourced"
    build_index(sourced, folder, embedder=fake_embedder)
    return folder


def check(found):
    assert len(found) == 60
    for passage in found:
        number = int(passage.id[1:])
        assert passage.metadata == ({"number": number, **KEYS} if number % 3 else {})
        assert type(passage) is (SourcedPassage if number % 3 else Passage)


def test_every_retriever_returns_the_keys(folder, fake_embedder):
    hybrid = open_index(folder, embedder=fake_embedder)
    check(hybrid("amber brook", 60))
    check(open_index(folder, retriever="dense", embedder=fake_embedder)("amber brook", 60))
    for name in ("own", "own-light"):
        check(open_reranker(hybrid, name)("amber brook", 60))


def test_the_results_are_those_without_keys(folder, hybrid_folder, fake_embedder):
    found, plain = (
        open_index(each, embedder=fake_embedder).many(["amber", "oasis"], 9) for each in (folder, hybrid_folder)
    )
    shown = [[Passage.model_validate(passage.model_dump()) for passage in ranking] for ranking in found]
    assert shown == plain
    assert not list(hybrid_folder.glob("*.keys.*"))


def test_the_files_are_listed_and_damage_is_one_line(folder, tmp_path, fake_embedder):
    listed = json.loads((folder / "index.json").read_text())["files"]
    assert {KEYS_FILE, KEYS_OFFSETS_FILE} <= listed.keys()

    def copied(name, change):
        target = tmp_path / name
        target.mkdir()
        for file in folder.rglob("*"):
            if file.is_file():
                (target / file.relative_to(folder)).parent.mkdir(parents=True, exist_ok=True)
                (target / file.relative_to(folder)).write_bytes(file.read_bytes())
        change(target)
        return target

    def spoilt(line):
        def change(target):
            lines = (target / KEYS_FILE).read_bytes().splitlines(keepends=True)
            lines[0] = line.ljust(len(lines[0]) - 1) + b"\n"
            (target / KEYS_FILE).write_bytes(b"".join(lines))
            seal(target)

        return change

    def offsets(values):
        def change(target):
            np.save(target / KEYS_OFFSETS_FILE, values(np.load(target / KEYS_OFFSETS_FILE)))
            seal(target)

        return change

    faults = [
        lambda target: (target / KEYS_FILE).write_bytes(b"{}\n"),
        lambda target: (target / KEYS_OFFSETS_FILE).unlink(),
        lambda target: seal(target, lambda content: content["files"].pop(KEYS_FILE)),
        spoilt(b"[1]"), spoilt(b'{"id": "other"}'), spoilt(b'{"a": 1, "a": 2}'), spoilt(b'{"a": NaN}'),
        spoilt(b"\xff"), spoilt(b'{"a":' * 40),
        offsets(lambda old: old[:-1]), offsets(lambda old: old.astype(np.int32)), offsets(lambda old: old + 1),
        offsets(lambda old: np.concatenate([old[:1], old[1:-1] * 0 - 9, old[-1:]])),
        offsets(lambda old: np.concatenate([old[:1], old[1:-1] * 0 + 10**15, old[-1:]])),
    ]  # fmt: skip
    for number, fault in enumerate(faults):
        with pytest.raises(UserError, match="index") as caught:
            open_index(copied(str(number), fault), embedder=fake_embedder)("amber brook", 60)
        assert len(str(caught.value).splitlines()) == 1, number


def test_files_of_keys_that_are_not_listed_are_not_read(hybrid_folder, tmp_path, folder, fake_embedder):
    import shutil

    mixed = shutil.copytree(hybrid_folder, tmp_path / "i")
    for name in (KEYS_FILE, KEYS_OFFSETS_FILE):
        shutil.copyfile(folder / name, mixed / name)
    assert all(type(passage) is Passage for passage in open_index(mixed, embedder=fake_embedder)("amber", 9))


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**62), 2**62) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3), max_leaves=5,
)  # fmt: skip
names = st.text(max_size=6).filter(lambda name: name not in SourcedPassage.model_fields)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.dictionaries(names, values, max_size=3), min_size=1, max_size=5))
def test_any_json_comes_back_as_it_was(tmp_path, keys):
    passages = [make_passage({"id": str(n), "text": "x", **own}) for n, own in enumerate(keys)]
    write_store(tmp_path, passages)
    store = PassageStore(tmp_path)
    rows = np.arange(len(keys))[::-1].copy()
    found = store.passages(rows, np.zeros(len(keys)))
    assert [json.dumps(passage.metadata) for passage in found] == [json.dumps(own) for own in keys[::-1]]
    assert list(store.stored(rows)) == [stored(passage) for passage in passages[::-1]]
    assert (tmp_path / KEYS_FILE).exists() == any(keys)


def nested(depth):
    return [] if depth == 0 else [nested(depth - 1)]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 2**70, nested(70)])
def test_keys_that_cannot_be_read_again_are_refused_when_an_index_is_built(tmp_path, value):
    with pytest.raises(UserError, match=r"Passage 'a': its other keys cannot be stored \(.*\): correct or remove them"):
        write_store(tmp_path, [make_passage({"id": "a", "text": "x", "big": value})])
    assert list(tmp_path.iterdir()) == []


def test_the_hash_of_the_content_changes_with_every_part_and_with_the_order():
    one, two = {"id": "a", "title": "b", "text": "cd"}, {"id": "x", "text": "y"}
    variants = [
        [one, two], [two, one], [one], [{**one, "text": "c", "title": "bd"}, two], [{**one, "page": 1}, two],
        [{**one, "page": 2}, two], [one, {**two, "page": 1}],
    ]  # fmt: skip
    hashes = {content_hash(map(stored, map(make_passage, each))) for each in variants}
    assert len(hashes) == len(variants)
