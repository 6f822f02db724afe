"""Cross-encoders as rerankers, on tiny random models made on the spot."""

from pathlib import Path

import pytest

from corpora.retrievers.rerank import Reranker, open_reranker
from corpora.retrievers.rerank_features import Pool
from corpora.retrievers.rerank_models import ModelScorer
from signatures.common.errors import UserError
from signatures.types import Passage
from tests.corpora.retrievers.tiny_models import SIZES, bert, save

PASSAGES = [
    Passage(id="a", title="sky", text="the sky is blue"),
    Passage(id="b", text="a blue"),
    Passage(id="c", title="a", text="is the a the blue sky"),
]


class All:
    """Retrieves all passages."""

    fingerprint = "all"

    def __call__(self, query, k):
        return self.many([query], k)[0]

    def many(self, queries, k):
        return [PASSAGES[:k] for _ in queries]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return bert(tmp_path_factory.mktemp("tiny"))


def test_scores_are_those_of_the_model_for_question_and_passage(tiny):
    from sentence_transformers import CrossEncoder

    expected = CrossEncoder(tiny).predict([("blue sky", "sky: the sky is blue"), ("blue sky", "a blue")])
    assert ModelScorer(tiny)("blue sky", Pool(PASSAGES[:2])) == pytest.approx(expected.tolist(), abs=1e-6)
    assert ModelScorer(tiny)("blue sky", Pool([])) == []


def test_folder_reranks_in_the_order_of_the_scores(tiny):
    retrieve = open_reranker(All(), tiny)
    assert isinstance(retrieve, Reranker)
    scores = ModelScorer(tiny)("is the sky blue", Pool(PASSAGES))
    expected = [PASSAGES[place].id for place in sorted(range(3), key=lambda place: -scores[place])]
    assert [each.id for each in retrieve("is the sky blue", 3)] == expected


def test_fingerprint_changes_with_the_weights_alone(tiny, tmp_path):
    same = bert(tmp_path / "same")
    other = bert(tmp_path / "other", seed=2)
    assert ModelScorer(same).fingerprint == ModelScorer(tiny).fingerprint
    assert ModelScorer(other).fingerprint != ModelScorer(tiny).fingerprint


def test_models_that_cannot_rerank_are_refused(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="cannot be loaded"):
        ModelScorer(str(tmp_path / "empty"))("q", Pool(PASSAGES))
    two = bert(tmp_path / "two", outputs=2)
    with pytest.raises(UserError, match="has 2 outputs: choose a cross-encoder with one"):
        ModelScorer(two)("q", Pool(PASSAGES))


def test_the_model_is_loaded_although_nothing_is_found(tiny):
    class Nothing(All):
        def many(self, queries, k):
            return [[] for _ in queries]

    retrieve, loaded = open_reranker(Nothing(), tiny), []
    retrieve._first._open = lambda: loaded.append(tiny) or tiny
    retrieve.load()
    assert loaded == [tiny]


@pytest.mark.parametrize("name", ["owm", "./nowhere", "/nowhere", "own ", ""])
def test_a_name_that_is_no_folder_and_not_on_the_hub_is_refused_when_it_is_opened(name):
    with pytest.raises(UserError, match="cannot be loaded .*: give own, own-light, lm, none, a model folder"):
        open_reranker(All(), name)


def test_a_folder_is_found_from_another_one_and_a_name_of_the_hub_stays(tiny, monkeypatch, tmp_path):
    monkeypatch.chdir(Path(tiny).parent)
    retrieve = open_reranker(All(), Path(tiny).name)
    monkeypatch.chdir(tmp_path)
    assert retrieve.name == tiny
    assert len(retrieve("is the sky blue", 3)) == 3
    assert open_reranker(All(), "cross-encoder/ms-marco").name == "cross-encoder/ms-marco"  # nothing is downloaded yet


def causal(folder, **tokenizer):
    """Save an LM that is asked for yes or no."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(1)
    return save(Qwen2ForCausalLM(Qwen2Config(**SIZES, num_key_value_heads=2)), folder, pair=False, **tokenizer)


def pooled(folder):
    """Save an encoder with a pooling and a layer of its own for the score, and a prompt."""
    import torch
    from sentence_transformers import CrossEncoder
    from sentence_transformers.base.modules import Dense, Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    torch.manual_seed(1)
    modules = [
        Transformer(bert(folder / "base", "Model")),
        Pooling(16, "cls"),
        Dense(16, 1, activation_function=torch.nn.Identity(), module_output_name="scores"),
    ]
    model = CrossEncoder(modules=modules, prompts={"rank": "query : "}, default_prompt_name="rank")
    model.save_pretrained(str(folder / "model"))
    return str(folder / "model")


@pytest.mark.parametrize("kind", [causal, pooled])
def test_heads_poolings_and_prompts_of_other_kinds_are_kept(kind, tmp_path):
    from sentence_transformers import CrossEncoder

    folder = kind(tmp_path)
    pairs = [("blue sky", "sky: the sky is blue"), ("blue sky", "a blue"), ("blue sky", "a: is the a the blue sky")]
    expected = [float(CrossEncoder(folder).predict([pair])[0]) for pair in pairs]
    assert ModelScorer(folder)("blue sky", Pool(PASSAGES)) == pytest.approx(expected, abs=1e-5)
    if kind is pooled:
        bare = CrossEncoder(folder).predict([("query : blue sky", "a blue")], prompt="")
        assert float(bare[0]) == pytest.approx(expected[1], abs=1e-5)


def test_a_model_that_cannot_read_what_its_tokenizer_gives_is_one_line(tmp_path):
    broken = causal(tmp_path, pad=False)  # transformers adds a token to pad with, which the model has no vector for
    with pytest.raises(UserError, match="cannot score .*index out of range"):
        ModelScorer(broken)("blue sky", Pool(PASSAGES))


def test_embedders_and_models_without_a_head_are_refused_since_theirs_would_be_random(tmp_path):
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    bare = bert(tmp_path / "bare", "Model")
    SentenceTransformer(modules=[Transformer(bare), Pooling(16, "mean")]).save_pretrained(str(tmp_path / "embedder"))
    for folder, kind in ((bare, "BertModel"), (tmp_path / "embedder", "SentenceTransformer")):
        with pytest.raises(UserError, match=rf"is not a model that reranks \({kind}\).*an embedder is named when"):
            ModelScorer(str(folder))("q", Pool(PASSAGES))
    with pytest.raises(UserError, match="has 3 outputs"):
        ModelScorer(bert(tmp_path / "three", "ForSequenceClassification", outputs=3)).load()


def test_scores_that_are_no_numbers_are_refused(tiny):
    scorer = ModelScorer(tiny)
    scorer.load().predict = lambda pairs, **_: [float("nan")] * len(pairs)
    with pytest.raises(UserError, match="scores that are not numbers"):
        scorer("q", Pool(PASSAGES))


def test_halves_of_characters_and_empty_texts_have_scores(tiny):
    assert (
        len(ModelScorer(tiny)("\ud800", Pool([*PASSAGES, Passage(id="d", text="\ud800"), Passage(id="e", text="")])))
        == 5
    )


def test_a_model_that_is_neither_here_nor_on_the_hub_is_one_line(monkeypatch):
    monkeypatch.setattr("corpora.retrievers.rerank_models.hub_answers", lambda: False)
    with pytest.raises(UserError, match=r"'nobody/nothing' cannot be loaded \(no config.json was found\)"):
        open_reranker(All(), "nobody/nothing")("q", 2)
