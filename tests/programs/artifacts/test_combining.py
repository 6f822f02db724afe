"""Artifacts combined into one: what is copied, what the parts agree on, and what is refused."""

import json
import warnings

import pytest

from programs.artifact import LMRecord, combine, freeze, load, read_artifact, verify
from programs.catalog import build
from programs.ensemble import Ensemble
from signatures.common.errors import UserError

LM = LMRecord(id="m", model="m", adapter="ChatForm", probability_mode="samples")


def part(folder, name, retriever, index="../index", lm=LM, **knobs):
    data = {"index": index, "rerank": "own", "sentences": 8} if index else {}
    freeze(build(name, retriever, **knobs), folder, lm=lm, corpus="list", data=data, metric={"mean": 0.5})
    return folder


@pytest.fixture
def parts(tmp_path, retriever):
    return [part(tmp_path / "a", "rag", retriever, k=2), part(tmp_path / "b", "cot", retriever)]


def test_the_parts_are_copied_unchanged_and_keep_their_provenance(parts, tmp_path, retriever):
    (parts[0] / "notes.txt").write_text("mine")
    record = combine("ensemble", parts, tmp_path / "deep" / "out")
    out = tmp_path / "deep" / "out"
    for number, folder in enumerate(parts, start=1):
        for name in ("artifact.json", "program.json"):
            assert (out / "children" / str(number) / name).read_bytes() == (folder / name).read_bytes()
    assert not (out / "children" / "1" / "notes.txt").exists()
    assert read_artifact(out) == record
    assert read_artifact(out / "children" / "1").metric == {"mean": 0.5}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program = load(out, retriever)
    assert type(program) is Ensemble
    assert [type(member) for member in program.programs] == [type(load(folder)) for folder in parts]
    assert program.programs[0].k == 2


def test_lm_corpus_and_index_are_recorded_if_the_parts_agree(parts, tmp_path, retriever):
    record = combine("ensemble", parts, tmp_path / "deep" / "out")
    assert (record.lm, record.corpus, record.data) == (
        LM,
        "list",
        {"index": "../../index", "rerank": "own", "sentences": 8},
    )
    retriever.fingerprint = "other"
    other = freeze(build("rag", retriever), tmp_path / "c", corpus="other", data={"index": "../other"})
    assert other.lm is None
    record = combine("ensemble", [*parts, tmp_path / "c"], tmp_path / "out")
    assert (record.lm, record.corpus, record.data) == (None, None, {})
    same = {"rerank": "own", "sentences": 8}  # of another index, which must be named, and is searched as before
    freeze(build("rag", retriever), tmp_path / "d", corpus="other", data={"index": "../other", **same})
    assert combine("ensemble", [*parts, tmp_path / "d"], tmp_path / "out2").data == same


def test_combinations_and_older_artifacts_can_be_combined_again(parts, tmp_path):
    path = parts[1] / "artifact.json"
    old = json.loads(path.read_text())
    for name in ("kind", "children", "pool_sha256", "similarity", "digest"):
        del old[name]
    path.write_text(json.dumps({**old, "schema_version": 1}))
    combine("ensemble", parts, tmp_path / "inner")
    combine("ensemble", [tmp_path / "inner", parts[0]], tmp_path / "outer")
    assert verify(tmp_path / "outer").children.keys() == {"1", "2"}
    assert (tmp_path / "outer" / "children" / "1" / "children" / "2" / "artifact.json").exists()


def test_a_cascade_has_a_cheap_and_a_dear_part_and_knobs(parts, tmp_path, retriever):
    record = combine("cascade", parts, tmp_path / "out", knobs={"threshold": 0.25})
    assert list(record.children) == ["cheap", "dear"]
    program = load(tmp_path / "out", retriever)
    assert (program.threshold, type(program.cheap), program.cheap.k) == (0.25, type(load(parts[0])), 2)
    with pytest.raises(UserError, match=r"A cascade consists of 2 artifacts \(cheap, dear\), got 3"):
        combine("cascade", [*parts, parts[0]], tmp_path / "none")


def test_what_cannot_be_combined_is_refused_and_leaves_nothing(parts, tmp_path):
    out = tmp_path / "out"
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "artifact.json").write_text("{}")
    for kind, folders, knobs, words in [
        ("chorus", parts, None, "Unknown kind 'chorus'. Choose from: "),
        ("ensemble", parts[:1], None, "2 to 16 programs, got 1"),
        ("ensemble", parts, {"k": 3}, "Ensemble has no knobs, got 'k'"),
        ("ensemble", [*parts, tmp_path / "damaged"], None, "is damaged"),
        ("ensemble", [*parts, tmp_path / "none"], None, "contains no artifact"),
        ("knn", parts, None, r"A knn consists of 1 artifacts \(program\), got 2"),
    ]:
        with pytest.raises(UserError, match=words):
            combine(kind, folders, out, knobs=knobs)
        assert not out.exists()
    with pytest.raises(UserError, match="exists already"):
        combine("ensemble", parts, parts[0])
    combine("ensemble", parts, out)
    combine("ensemble", parts[::-1], out, overwrite=True)
    assert read_artifact(out / "children" / "1").program == "cot"


def test_a_kind_with_a_pool_is_compiled_and_not_combined(parts, tmp_path):
    with pytest.raises(UserError, match="demonstrations to choose from, too: compile a program by the optimizer knn"):
        combine("knn", parts[:1], tmp_path / "out")
    assert not (tmp_path / "out").exists()
