"""Cross-encoders as rerankers, on tiny random models made on the spot."""

from pathlib import Path

import pytest

from corpora.retrievers.rerank import Reranker, open_reranker
from corpora.retrievers.rerank_features import Pool
from corpora.retrievers.rerank_models import ModelScorer
from signatures.common.errors import UserError
from signatures.types import Passage

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


def save_tiny(folder, outputs=1, seed=1):
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "sky", "is", "blue", "a"]
    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=len(words), hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=32, num_labels=outputs, initializer_range=1.0,
    )  # fmt: skip
    BertForSequenceClassification(config).save_pretrained(folder)
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]",
        model_max_length=32,
    ).save_pretrained(folder)  # fmt: skip
    return str(folder)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return save_tiny(tmp_path_factory.mktemp("tiny"))


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
    same = save_tiny(tmp_path / "same")
    other = save_tiny(tmp_path / "other", seed=2)
    assert ModelScorer(same).fingerprint == ModelScorer(tiny).fingerprint
    assert ModelScorer(other).fingerprint != ModelScorer(tiny).fingerprint


def test_models_that_cannot_rerank_are_refused(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="cannot be loaded"):
        ModelScorer(str(tmp_path / "empty"))("q", Pool(PASSAGES))
    two = save_tiny(tmp_path / "two", outputs=2)
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
    with pytest.raises(UserError, match="cannot be loaded .*: give own, own-light, none, a model folder"):
        open_reranker(All(), name)


def test_a_folder_is_found_from_another_one_and_a_name_of_the_hub_stays(tiny, monkeypatch, tmp_path):
    monkeypatch.chdir(Path(tiny).parent)
    retrieve = open_reranker(All(), Path(tiny).name)
    monkeypatch.chdir(tmp_path)
    assert retrieve.name == tiny
    assert len(retrieve("is the sky blue", 3)) == 3
    assert open_reranker(All(), "cross-encoder/ms-marco").name == "cross-encoder/ms-marco"  # nothing is downloaded yet
