"""Defaults of the embedded LM, and of other LMs."""

import pytest

from corpora.index.build import build_index
from corpora.index.open import open_index
from corpora.retrievers.rerank import open_reranker
from experiments.pipeline.setup import SMALL, SMALL_PROGRAM, retriever_of, with_defaults
from experiments.runs.specs import ProgramSpec
from programs.catalog import PROGRAMS, build
from programs.lms.spec import LMSpec
from signatures.common.errors import UserError


@pytest.mark.parametrize("lm", [None, "embedded", "embedded:base", "embedded:some/folder"])
def test_the_embedded_lm_gets_the_small_preset_and_our_reranker(lm, tmp_path):
    program, same, note = with_defaults(ProgramSpec(program="genground", index=tmp_path), LMSpec(id=lm))
    assert (program.preset, program.rerank, same) == (SMALL, "own", LMSpec(id=lm))
    assert note == "genground with preset small: k=3, batch_size=1, max_hops=4, reranker own"


@pytest.fixture(scope="module")
def indexes(tmp_path_factory):
    """Return a folder with indexes of two passages, `hybrid` by the default embedder and `bm25`."""
    folder = tmp_path_factory.mktemp("indexes")
    corpus = folder / "passages.jsonl"
    corpus.write_text(
        '{"id": "a", "title": "Ossa", "text": "A river."}\n{"id": "b", "title": "Marn", "text": "A lake."}\n'
    )
    for retriever in ("hybrid", "bm25"):
        build_index(corpus, folder / retriever, retriever=retriever)
    return folder


def test_the_embedded_lm_gets_multihop_retrieval_where_the_index_serves_it(indexes, tmp_path):
    def chosen(index, **named):
        program, _, note = with_defaults(ProgramSpec(program="rag", index=index, **named), LMSpec())
        assert (f"retriever {program.retriever}" in note) == (program.retriever is not None and not named)
        return program.retriever

    assert chosen(indexes / "hybrid") == "multihop"
    assert chosen(indexes / "hybrid", retriever="hybrid") == "hybrid"
    assert chosen(indexes / "bm25") is None
    assert chosen(tmp_path / "nowhere") is None


def test_an_index_that_is_opened_as_another_retriever_is_known_behind_its_reranker(indexes):
    assert retriever_of(open_reranker(open_index(indexes / "hybrid", retriever="bm25"), "own-light")) == "bm25"
    assert retriever_of(open_index(indexes / "hybrid")) is None
    assert retriever_of(lambda query, k: []) is None


def test_a_named_preset_reranker_or_knob_stays(tmp_path):
    named = ProgramSpec(program="rag", preset="paper", index=tmp_path)
    assert with_defaults(named, LMSpec()) == (named, LMSpec(), None)
    program, _, note = with_defaults(
        ProgramSpec(program="rag", rerank="none", knobs={"k": 7}, index=tmp_path), LMSpec()
    )
    assert (program.preset, program.rerank, program.knobs) == (SMALL, "none", {"k": 7})
    assert note == "rag with preset small: k=7, compare=True"


def test_without_an_index_nothing_is_reranked():
    assert with_defaults(ProgramSpec(program="rag"), LMSpec()).program.rerank is None


def test_without_a_program_the_embedded_lm_gets_rag(tmp_path):
    program, _, note = with_defaults(ProgramSpec(index=tmp_path), LMSpec())
    assert (program.program, program.preset) == (SMALL_PROGRAM, SMALL)
    assert note.startswith("rag with preset small")


def test_a_program_without_that_preset_is_unchanged():
    config = ProgramSpec(program="cot")
    assert with_defaults(config, LMSpec()) == (config, LMSpec(), None)


def test_an_unknown_program_is_refused_before_anything_is_opened():
    with pytest.raises(UserError, match="Unknown program 'nothing'"):
        with_defaults(ProgramSpec(program="nothing"), LMSpec())


@pytest.mark.parametrize(
    "lm",
    [LMSpec(id="openai/gpt-4o-mini"), LMSpec(id="simulated"), LMSpec(id="embedded", api_base="http://127.0.0.1:1/v1")],
)
def test_other_lms_get_the_paper_preset(lm, tmp_path):
    config = ProgramSpec(program="rag", index=tmp_path)
    assert with_defaults(config, lm) == (config, lm, None)


@pytest.mark.parametrize("name", [name for name, cls in PROGRAMS.items() if SMALL in cls.PRESETS])
def test_the_small_preset_reads_three_passages_at_most(name):
    assert build(name, preset=SMALL).k <= 3
