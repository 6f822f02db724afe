"""A program that compares texts is frozen with the similarity's fingerprint, and loaded with a similarity."""

import pytest

from programs.artifact import freeze, load, needs_similarity, read_artifact, verify
from programs.catalog import build
from programs.parts.knobs import with_knobs
from signatures.common.errors import UserError, UserNotice
from tests.programs.fakes import Similar
from tests.programs.obliging import obliging


def lengths():
    """Texts of nearly the same length are alike."""
    return Similar(lambda one, other: 1.0 - abs(len(one) - len(other)) / 100, "lengths")


@pytest.fixture
def frozen(tmp_path, retriever):
    program = build("meta_rag", retriever, similarity=lengths())
    freeze(program, tmp_path / "artifact")
    return program, tmp_path / "artifact"


def test_it_is_loaded_with_the_similarity_and_answers_alike(frozen, scripted, retriever):
    program, folder = frozen
    assert (read_artifact(folder).similarity, needs_similarity(folder)) == ("lengths", True)
    verify(folder)
    similarity = lengths()
    loaded = load(folder, retriever, similarity=similarity)
    assert loaded.similarity is similarity
    scripted(obliging)
    assert loaded("Question?").toDict() == program("Question?").toDict()


def test_without_the_similarity_it_is_refused_and_another_one_warns(frozen, retriever):
    _, folder = frozen
    with pytest.raises(UserError, match=r"chooses texts by a similarity: pass the one it was made with \(lengths\)"):
        load(folder, retriever)
    other = lengths()
    other.fingerprint = "other"
    with pytest.warns(UserNotice, match="chooses texts by similarity lengths, this one is other"):
        load(folder, retriever, similarity=other)


def test_one_that_was_frozen_without_is_loaded_without(tmp_path, retriever):
    freeze(build("meta_rag", retriever), tmp_path / "artifact")
    assert needs_similarity(tmp_path / "artifact") is False
    assert load(tmp_path / "artifact", retriever, similarity=lengths()).similarity is None


def test_other_programs_are_built_without_and_changed_knobs_keep_it(retriever):
    similarity = lengths()
    assert not hasattr(build("rag", retriever, similarity=similarity), "similarity")
    assert with_knobs(build("meta_rag", retriever, similarity=similarity), k=2).similarity is similarity


def test_the_commands_give_it_the_embedder():
    from corpora.retrievers.embedder import EmbedderSimilarity
    from experiments.pipeline.setup import open_program
    from experiments.runs.specs import ProgramSpec

    program = open_program(ProgramSpec(program="meta_rag"), None, None, contexts=True)
    assert isinstance(program.similarity, EmbedderSimilarity)
