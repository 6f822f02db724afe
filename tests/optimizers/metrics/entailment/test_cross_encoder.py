import json

import pytest

from optimizers.metrics.entailment.cross_encoder import CrossEncoderOracle, entailed_label
from signatures.common.errors import UserError

PAIRS = [("the sky is blue", "sky"), ("a sky", "blue"), ("", "sky"), ("is the sky blue", "a")]


def save_tiny(folder, labels: dict[int, str]) -> str:
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "sky", "is", "blue", "a"]
    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]",
        model_max_length=16,
    )  # fmt: skip
    torch.manual_seed(1)
    config = BertConfig(
        vocab_size=len(words), hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=16, id2label=labels, label2id={name: number for number, name in labels.items()},
        initializer_range=1.0,
    )  # fmt: skip
    BertForSequenceClassification(config).save_pretrained(folder)
    fast.save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> str:
    return save_tiny(tmp_path_factory.mktemp("nli"), {0: "contradiction", 1: "entailment", 2: "neutral"})


def softmax(folder: str, premise: str, hypothesis: str) -> list[float]:
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    with torch.no_grad():
        return model(**tokenizer(premise, hypothesis, return_tensors="pt")).logits[0].softmax(0).tolist()


def test_the_probability_is_that_of_the_label_named_entailment(tiny: str) -> None:
    scores = CrossEncoderOracle(tiny, batch_size=2)(PAIRS)
    for (premise, hypothesis), score in zip(PAIRS, scores, strict=True):
        expected = softmax(tiny, premise, hypothesis)[1] if premise else 0.0
        assert score == pytest.approx(expected, abs=1e-5)
    assert len({round(score, 5) for score in scores}) == len(PAIRS)


def test_the_order_of_labels_is_read_from_the_config(tmp_path, tiny: str) -> None:
    other = save_tiny(tmp_path, {0: "Entailment", 1: "not", 2: "unsure"})
    assert CrossEncoderOracle(other)(PAIRS[:1]) == pytest.approx([softmax(tiny, *PAIRS[0])[0]], abs=1e-5)


def test_labels_that_do_not_say_which_is_which_are_refused(tmp_path) -> None:
    with pytest.raises(UserError, match="LABEL_0, LABEL_1"):
        entailed_label({0: "LABEL_0", 1: "LABEL_1"})
    with pytest.raises(UserError, match="do not identify entailment"):
        CrossEncoderOracle(save_tiny(tmp_path, {0: "yes", 1: "no"}))(PAIRS)
    assert entailed_label({0: "not_entailment", 1: "entailment"}) == 1
    assert entailed_label({0: "LABEL_0"}) is None


def test_one_output_is_a_probability_by_its_sigmoid(tmp_path) -> None:
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    folder = save_tiny(tmp_path, {0: "LABEL_0"})
    assert json.loads((tmp_path / "config.json").read_text())["id2label"] == {"0": "LABEL_0"}
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForSequenceClassification.from_pretrained(folder)
    with torch.no_grad():
        logit = model.eval()(**tokenizer(*PAIRS[0], return_tensors="pt")).logits[0, 0]
    assert CrossEncoderOracle(folder)(PAIRS[:1]) == pytest.approx([float(torch.sigmoid(logit))], abs=1e-5)


def test_long_premises_are_cut_with_a_warning_and_the_hypothesis_is_kept(tiny: str) -> None:
    oracle = CrossEncoderOracle(tiny)
    with pytest.warns(UserWarning, match="1 of 1 texts did not fit into 16 tokens"):
        cut = oracle([("the sky is blue " * 10, "a sky is blue")])[0]
    assert oracle.cut == 1
    assert cut == pytest.approx(softmax(tiny, "the sky is blue the sky is blue the", "a sky is blue")[1], abs=1e-5)


def test_the_fingerprint_changes_with_the_weights(tmp_path, tiny: str) -> None:
    other = CrossEncoderOracle(save_tiny(tmp_path, {0: "entailment", 1: "neutral"}))
    assert other.fingerprint.rpartition(str(tmp_path))[2] != CrossEncoderOracle(tiny).fingerprint.rpartition(tiny)[2]
