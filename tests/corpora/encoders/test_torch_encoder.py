"""A model of the hub that cannot be had is refused before torch is loaded."""

import sys

import pytest

from corpora.encoders import torch_encoder
from corpora.retrievers.embedder import Embedder
from signatures.common.errors import UserError


@pytest.fixture
def no_hub(monkeypatch, tmp_path):
    """Have no network and an empty cache of the hub; return that folder."""
    monkeypatch.setattr(torch_encoder, "hub_answers", lambda: False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)  # an import of it fails
    return tmp_path


def test_an_unknown_model_offline_is_refused_without_torch(no_hub):
    with pytest.raises(UserError, match=r"'org/model' cannot be loaded \(the model hub is unreachable"):
        Embedder("org/model")(["text"])


def test_a_model_that_the_hub_client_keeps_is_tried(no_hub):
    (no_hub / "models--sentence-transformers--model").mkdir()
    with pytest.raises(UserError, match="torch"):
        Embedder("model")(["text"])
