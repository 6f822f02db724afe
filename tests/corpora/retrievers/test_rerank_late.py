"""Late interaction as a reranker, on tiny random models in the formats that ColBERT checkpoints have."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from corpora.retrievers.rerank import open_reranker
from corpora.retrievers.rerank_features import Pool
from corpora.retrievers.rerank_models import ModelScorer
from signatures.common.errors import UserError
from signatures.types import Passage
from tests.corpora.retrievers.tiny_models import SIZES, bert, save

PASSAGES = [
    Passage(id="a", title="sky", text="the sky is blue"),
    Passage(id="b", text="a blue ."),
    Passage(id="c", title="a", text="is the a the blue sky . " * 9),
    Passage(id="d", text=""),
]


class Many:
    """Retrieves 150 passages."""

    fingerprint = "many"

    def __init__(self):
        self.asked = []

    def __call__(self, query, k):
        return self.many([query], k)[0]

    def many(self, queries, k):
        self.asked.append(k)
        passages = [Passage(id=str(n), text="the sky is a blue".split()[n % 5]) for n in range(150)]
        return [passages[:k] for _ in queries]


def own_format(folder: Path, seed: int = 1, **changed) -> str:
    """Save a model as sentence-transformers does, with prompts and lengths of its own."""
    import torch
    from sentence_transformers import MultiVectorEncoder
    from sentence_transformers.base.modules import Dense, Normalize, Transformer
    from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask

    base = bert(folder / "base", "Model", seed=seed)
    torch.manual_seed(seed)
    settings = {"document_length": 12, "query_expansion": {"strategy": "fixed", "attend": False, "length": 8}} | changed
    model = MultiVectorEncoder(
        modules=[
            Transformer(base, **settings),
            Dense(16, 8, bias=False, activation_function=torch.nn.Identity(), module_input_name="token_embeddings"),
            MultiVectorMask(skiplist_words=["."]),
            Normalize(module_input_name="token_embeddings"),
        ],
        prompts={"query": "query : ", "document": "doc : "},
    )
    model.save_pretrained(str(folder / "model"))
    return str(folder / "model")


def stanford_format(folder: Path) -> str:
    """Save a model as the ColBERT repository does: the projection is among the weights, the settings beside them."""
    import torch
    import transformers
    from safetensors.torch import save_file

    class Colbert(transformers.BertPreTrainedModel):
        def __init__(self, config):
            super().__init__(config)
            self.bert = transformers.BertModel(config)
            self.linear = torch.nn.Linear(16, 8, bias=False)
            self.post_init()

    torch.manual_seed(1)
    model = Colbert(transformers.BertConfig(**SIZES))
    save(model, folder)
    weights = {name: value.contiguous() for name, value in model.state_dict().items()}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text()) | {"architectures": ["HF_ColBERT"]}
    (folder / "config.json").write_text(json.dumps(config))
    settings = {"query_maxlen": 8, "doc_maxlen": 12, "query_token_id": "[unused0]", "doc_token_id": "[unused1]"}
    (folder / "artifact.metadata").write_text(json.dumps(settings))
    return str(folder)


@pytest.fixture(scope="module")
def native(tmp_path_factory):
    return own_format(tmp_path_factory.mktemp("native"))


def best_similarities(query, document) -> float:
    """MaxSim, of vectors of length one."""
    return float((np.asarray(query) @ np.asarray(document).T).max(axis=1).sum())


@pytest.mark.parametrize("form", ["native", "stanford"])
def test_scores_are_sums_of_best_similarities_with_the_prompts_and_lengths_of_the_model(form, native, tmp_path):
    from sentence_transformers import MultiVectorEncoder

    folder = native if form == "native" else stanford_format(tmp_path)
    model = MultiVectorEncoder(folder)
    texts = ["sky: the sky is blue", "a blue .", PASSAGES[2].title + ": " + PASSAGES[2].text, ""]
    asked, documents = model.encode_query("blue sky"), model.encode_document(texts)
    assert len(asked) == 8  # expanded with mask tokens
    assert max(map(len, documents)) <= 12
    expected = [best_similarities(asked, each) for each in documents]
    scorer = ModelScorer(folder)
    assert scorer.kind == "late-interaction"
    assert scorer("blue sky", Pool(PASSAGES)) == pytest.approx(expected, abs=5e-3)
    prefix = {"native": "query : blue sky", "stanford": "[unused0] blue sky"}[form]
    assert np.allclose(model.encode(prefix, prompt="", task="query"), asked, atol=1e-5)


def test_a_hundred_passages_are_reranked_or_as_many_as_the_name_says(native):
    below = Many()
    assert len(open_reranker(below, native)("blue sky", 3)) == 3
    found = open_reranker(below, f"{native}:30")
    assert len(found("blue sky", 200)) == 150
    found("blue sky", 5)
    assert below.asked == [100, 200, 30]
    assert found.name == f"{native}:30"
    assert found.fingerprint.startswith("rerank30[late-interaction:")


def test_ties_stay_in_the_order_of_the_retriever(native):
    found = open_reranker(Many(), native)("sky", 100)
    same = [int(each.id) for each in found if int(each.id) % 5 == 1]
    assert same == sorted(same)
    assert len({each.score for each in found}) == 5


def test_passages_are_encoded_once_within_the_memory_that_they_may_take(native):
    scorer, encoded = ModelScorer(native), []
    real = scorer.load().encode_document
    scorer.load().encode_document = lambda texts, **more: encoded.append(len(texts)) or real(texts, **more)
    first = scorer("blue sky", Pool(PASSAGES))
    assert scorer("blue sky", Pool(PASSAGES)) == first
    scorer("a", Pool([*PASSAGES[:2], Passage(id="e", text="yes")]))
    assert encoded == [4, 1]
    small = ModelScorer(native, kept_bytes=300)  # of one passage: up to 12 tokens of 8 numbers of 2 bytes
    assert small("blue sky", Pool(PASSAGES)) == pytest.approx(first, abs=1e-3)
    assert len(small._documents) <= 2


def test_the_fingerprint_changes_with_weights_prompts_and_lengths(native, tmp_path):
    same, weights, lengths = (
        own_format(tmp_path / name, **settings)
        for name, settings in (("same", {}), ("weights", {"seed": 2}), ("lengths", {"document_length": 9}))
    )
    prompts = own_format(tmp_path / "prompts")
    settings = Path(prompts) / "config_sentence_transformers.json"
    settings.write_text(settings.read_text().replace("doc : ", "yes : "))
    prints = [ModelScorer(folder).fingerprint for folder in (native, same, weights, lengths, prompts)]
    assert prints[0] == prints[1]
    assert len(set(prints)) == 4


def test_threads_get_the_scores_of_one(native):
    scorer = ModelScorer(native)
    queries = ["blue sky", "is a", "the", "yes no"] * 6
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda query: scorer(query, Pool(PASSAGES)), queries))
    for query, scores in zip(queries, found, strict=True):
        assert scores == pytest.approx(scorer(query, Pool(PASSAGES)), abs=2e-3)


def test_a_checkpoint_of_pylate_is_known_by_its_prefixes(native, tmp_path):
    import shutil

    folder = tmp_path / "pylate"
    shutil.copytree(native, folder)
    settings = {"query_prefix": "query : ", "document_prefix": "doc : ", "query_length": 8, "document_length": 12}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(settings))
    scorer = ModelScorer(str(folder))
    assert scorer.kind == "late-interaction"
    assert len(set(scorer("blue sky", Pool(PASSAGES)))) == 4


def test_a_damaged_checkpoint_is_one_line(tmp_path):
    folder = Path(stanford_format(tmp_path))
    (folder / "artifact.metadata").write_text("{")
    with pytest.raises(UserError, match="cannot be loaded"):
        ModelScorer(str(folder))("q", Pool(PASSAGES))
    (folder / "config.json").write_text("[" * 100_000)
    with pytest.raises(UserError, match="cannot be loaded"):
        ModelScorer(str(folder)).load()
