"""Index folders from strangers, whose digests fit: refused in one line or opened, and the process lives on."""

import json
import random
import shutil

import numpy as np
import pytest

from corpora.index import manifest
from corpora.index.build import build_index
from corpora.index.open import open_index
from corpora.retrievers.settings import make_settings
from signatures.common.errors import UserError

KINDS = {
    "bm25": ("bm25", {}),
    "bm25s": ("bm25s", {}),
    "flat": ("dense", {}),
    "rabitq": ("dense", {"dense_kind": "rabitq"}),
    "ivf_rabitq": ("dense", {"dense_kind": "ivf_rabitq"}),
}


@pytest.fixture(scope="module")
def indexes(tmp_path_factory, corpus, fake_embedder):
    root = tmp_path_factory.mktemp("hostile")
    for name, (retriever, settings) in KINDS.items():
        build_index(
            corpus, root / name, retriever=retriever, embedder=fake_embedder, settings=make_settings(**settings)
        )
    return root


@pytest.fixture
def copied(indexes, tmp_path):
    def copy(name):
        return shutil.copytree(indexes / name, tmp_path / "index")

    return copy


def seal(folder, change=lambda content: None):
    """Compute the digests in `index.json` anew, as an attacker would."""
    content = json.loads((folder / "index.json").read_text())
    del content["digest"]
    change(content)
    for name in content["files"]:
        if (folder / name).is_file():
            digest = manifest.file_digest(folder / name)
            content["files"][name] = {"bytes": (folder / name).stat().st_size, "digest": digest}
    content["digest"] = manifest.sha256_text(json.dumps(content, sort_keys=True, separators=(",", ":")))
    (folder / "index.json").write_text(json.dumps(content))


def refusal(folder, embedder):
    with pytest.raises(UserError) as caught:
        open_index(folder, embedder=embedder)("amber brook", 5)
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


def spoil(path, place, value):
    content = bytearray(path.read_bytes())
    content[place : place + len(value)] = value
    path.write_bytes(content)


def field(value):
    return value.to_bytes(8, "little")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["rabitq", "ivf_rabitq"])
@pytest.mark.parametrize("seed", range(20))
def test_a_damaged_faiss_file_with_fitting_digests_never_ends_the_process(kind, seed, copied, fake_embedder):
    folder, rng = copied(kind), random.Random(seed)
    path = rng.choice(sorted((folder / "dense").glob("*.faiss")))
    content = bytearray(path.read_bytes())
    place = rng.randrange(rng.choice([60, len(content)]))
    if rng.random() < 0.2:
        del content[place:]
    else:
        content[place : place + 8] = rng.choice([rng.randbytes(8), field(2**63 - 1), field(0), field(2**40)])
    path.write_bytes(content)
    seal(folder)
    try:
        retrieve = open_index(folder, embedder=fake_embedder)
    except UserError:
        return
    assert all(len(found) <= 60 for found in retrieve.many(["amber", "cedar lagoon"], 60))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bm25", "bm25s", "flat"])
@pytest.mark.parametrize("seed", range(15))
def test_any_damaged_file_with_fitting_digests_is_refused_or_answers(kind, seed, copied, fake_embedder):
    folder, rng = copied(kind), random.Random(seed)
    names = json.loads((folder / "index.json").read_text())["files"]
    path = folder / rng.choice(sorted(names, key=lambda name: (name.rsplit(".", 1)[-1], name)))
    content = bytearray(path.read_bytes())
    place = rng.randrange(rng.choice([128, len(content)]))
    if rng.random() < 0.2:
        del content[place:]
    else:
        content[place : place + 8] = rng.choice(
            [rng.randbytes(8), field(2**63 - 1), field(0), b"((((((((", b"\xff" * 8]
        )
    path.write_bytes(content)
    seal(folder)
    try:
        found = open_index(folder, embedder=fake_embedder).many(["amber", "cedar lagoon"], 60)
    except UserError:
        return
    assert all(len(passages) <= 60 for passages in found)


def test_a_file_of_tantivy_that_differs_from_its_checksum_is_refused(copied, fake_embedder):
    """tantivy asked for 256 GiB at this one, and ended the process."""
    folder = copied("bm25")
    (path,) = (folder / "bm25").glob("*.store")
    content = path.read_bytes()
    path.write_bytes(content[:76] + b"\x07\x80\x80\x01" + content[76:])
    seal(folder)
    assert ".store differs from its checksum" in refusal(folder, fake_embedder)


@pytest.mark.parametrize("name", ["int_dtype", "dtype", "method", "backend"])
def test_parameters_of_bm25s_that_we_never_write_are_refused(name, copied, fake_embedder):
    folder = copied("bm25s")
    path = folder / "bm25s" / "params.index.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), name: [{"a": "int32"}]}))
    seal(folder)
    assert "is damaged" in refusal(folder, fake_embedder)


FAISS = {
    "number of codes": ("rabitq", "codes.faiss", 57, field(2**40)),
    "number of bits": ("rabitq", "codes.faiss", -1, b"\x09"),
    "header": ("rabitq", "codes.faiss", 0, b"IxFI"),
    "number of ranges": ("ivf_rabitq", "refine.faiss", 65, field(2**60)),
    "number of cells": ("ivf_rabitq", "codes.faiss", 37, field(0)),
}


@pytest.mark.parametrize("what", FAISS)
def test_a_size_that_does_not_follow_from_the_vectors_is_named(what, copied, fake_embedder):
    kind, name, place, value = FAISS[what]
    folder = copied(kind)
    size = (folder / "dense" / name).stat().st_size
    spoil(folder / "dense" / name, place % size, value)
    seal(folder)
    assert what in refusal(folder, fake_embedder)


def test_a_row_outside_the_corpus_is_refused(copied, fake_embedder):
    """FAISS would read the copy of that row from outside its memory."""
    folder = copied("ivf_rabitq")
    path = folder / "dense" / "codes.faiss"
    content = path.read_bytes()
    first_list = content.index(b"ilbl") + 4 + 4 * 8
    spoil(path, first_list + 8, field(2**40))
    seal(folder)
    assert "a row is outside the corpus" in refusal(folder, fake_embedder)


@pytest.mark.parametrize("kind", KINDS)
def test_an_index_with_more_passages_than_its_files_is_refused(kind, copied, fake_embedder):
    folder = copied(kind)
    seal(folder, lambda content: content.update(passages=61))
    assert "instead of 61" in refusal(folder, fake_embedder)


ARRAYS = {
    "objects": np.array([[None, "x"]], dtype=object),
    "doubles": np.zeros((60, 64)),
    "another shape": np.zeros((60, 32), dtype=np.float32),
    "one row": np.zeros(64, dtype=np.float32),
    "by columns": np.asfortranarray(np.ones((60, 64), dtype=np.float32)),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_vectors_of_another_type_or_shape_are_refused(name, copied, fake_embedder):
    folder = copied("flat")
    np.save(folder / "dense" / "vectors.npy", ARRAYS[name], allow_pickle=True)
    seal(folder)
    assert "rebuild the index" in refusal(folder, fake_embedder)


@pytest.mark.parametrize("header", [b"{'descr': '<f4', 'shape': (9**9**9,", b"{'descr': '<f4'", b"[" * 500, b"\x00"])
def test_a_broken_header_of_an_array_is_refused(header, copied, fake_embedder):
    folder = copied("flat")
    spoil(folder / "dense" / "vectors.npy", 10, header.ljust(110))
    seal(folder)
    assert "is damaged" in refusal(folder, fake_embedder)


def test_texts_that_are_no_unicode_are_refused(copied, fake_embedder):
    folder = copied("bm25")
    content = (folder / "passages.txt").read_bytes()
    (folder / "passages.txt").write_bytes(b"\xff" * len(content))
    seal(folder)
    assert "passages.txt is damaged" in refusal(folder, fake_embedder)


def add_file(name):
    def change(content):
        content["files"][name] = {"bytes": 1, "digest": "x"}

    return change


CHANGES = {
    "'../secret' is not a file of an index": add_file("../secret"),
    "'/etc/passwd' is not a file": add_file("/etc/passwd"),
    "'bm25/../../x' is not a file": add_file("bm25/../../x"),
    "does not list bm25/meta.json": lambda content: content["files"].pop("bm25/meta.json"),
    "'passages'": lambda content: content.update(passages=-1),
    "unknown retriever 'own'": lambda content: content.update(retriever="own"),
    "schema version [1]": lambda content: content.update(schema_version=[1]),
    "version 3, not 1 or 2: rebuild the index, or use the": lambda content: content.update(schema_version=3),
}


@pytest.mark.parametrize("fault", CHANGES)
def test_a_manifest_that_is_not_ours_is_refused(fault, copied, fake_embedder):
    folder = copied("bm25")
    seal(folder, CHANGES[fault])
    assert fault in refusal(folder, fake_embedder)


@pytest.mark.parametrize("text", [b"[" * 100_000, b'{"schema_version": 1e999}', b"\xff", b'{"a": 1, "a": 1}'])
def test_an_absurd_manifest_is_refused(text, copied, fake_embedder):
    folder = copied("bm25")
    (folder / "index.json").write_bytes(text)
    assert "cannot be parsed" in refusal(folder, fake_embedder)
