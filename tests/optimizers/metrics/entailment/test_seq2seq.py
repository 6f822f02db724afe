import math

import pytest

from optimizers.metrics.entailment.cross_encoder import Seq2SeqOracle
from signatures.common.errors import UserError

PAIRS = [("the sky is blue", "sky blue"), ("a", "blue is the sky"), ("", "sky"), ("the sky", "a a a")]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> str:
    """A random T5 of two small layers whose tokenizer, like T5's, writes "1" as one token and "0" as two."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast, T5Config, T5ForConditionalGeneration

    words = ["▁premise:", "▁hypothesis:", "▁the", "▁sky", "▁is", "▁blue", "▁a", "▁1", "▁", "0"]
    vocabulary = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", -20.0), *((word, -1.0) for word in words)]
    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=2))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>", unk_token="<unk>")
    torch.manual_seed(5)
    config = T5Config(
        vocab_size=len(vocabulary), d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2, decoder_start_token_id=0
    )
    folder = tmp_path_factory.mktemp("t5")
    T5ForConditionalGeneration(config).save_pretrained(folder)
    fast.save_pretrained(folder)
    return str(folder)


def by_loss(folder: str, text: str, label: str) -> float:
    """Return the log-probability of a label as transformers' own loss gives it."""
    import torch
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    labels = tokenizer(label, add_special_tokens=False, return_tensors="pt").input_ids
    with torch.no_grad():
        return -float(model(**tokenizer(text, return_tensors="pt"), labels=labels).loss) * labels.shape[1]


def test_probabilities_are_those_of_the_models_own_loss_for_both_labels(tiny: str) -> None:
    oracle = Seq2SeqOracle(tiny, batch_size=2)
    scores = oracle(PAIRS)
    for (premise, hypothesis), score in zip(PAIRS, scores, strict=True):
        if not premise:
            assert score == 0.0
            continue
        text = f"premise: {premise} hypothesis: {hypothesis}"
        yes, no = (math.exp(by_loss(tiny, text, label)) for label in "10")
        assert score == pytest.approx(yes / (yes + no), abs=1e-5)
    assert len({round(score, 6) for score in scores}) == len(PAIRS)
    assert oracle.cut == 0


def test_a_long_premise_is_cut_at_its_end_with_a_warning(tiny: str) -> None:
    oracle = Seq2SeqOracle(tiny, max_tokens=24)
    pair = ("the sky is blue " * 30, "sky blue")
    with pytest.warns(UserWarning, match="1 of 2 texts did not fit into 24 tokens"):
        cut, whole = oracle([pair, ("a", "sky")])
    assert oracle.cut == 1
    assert whole == Seq2SeqOracle(tiny)([("a", "sky")])[0]
    longer = Seq2SeqOracle(tiny)([pair])[0]
    assert cut != pytest.approx(longer, abs=1e-7)


def test_the_fingerprint_tells_weights_and_length_and_the_name_the_model(tiny: str) -> None:
    oracle = Seq2SeqOracle(tiny)
    assert oracle.name == f"seq2seq:{tiny}"
    assert oracle.fingerprint == Seq2SeqOracle(tiny).fingerprint != Seq2SeqOracle(tiny, max_tokens=99).fingerprint
    assert oracle.agreement is None


def test_a_folder_without_a_model_is_a_user_error(tmp_path) -> None:
    with pytest.raises(UserError, match="cannot be loaded"):
        Seq2SeqOracle(str(tmp_path))([("a", "b")])
