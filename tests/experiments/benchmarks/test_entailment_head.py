"""Made contradictions differ in one point; the head learns, repeats itself and weighs its sets; what is kept."""

import numpy as np
import pytest

from experiments.benchmarks.entailment_head.__main__ import gain, mismatch_scores, passed, worth_keeping
from experiments.benchmarks.entailment_head.contrast import NAMES, contrast_features
from experiments.benchmarks.entailment_head.encoder import EncoderHead, Labelled, shortened, weights_of
from experiments.benchmarks.entailment_head.made import ENTAILED, KINDS, Statement, make_statements
from experiments.benchmarks.entailment_pairs import JudgedPair

TEXT = "Ada Stone was born in Oslo in 1871. In 1902, she was the first director of the Brandt Museum in Bergen."


def features(premise, hypothesis):
    return dict(zip(NAMES, contrast_features([(premise, hypothesis)])[0], strict=True))


def invented(count):
    names = ["Ada Stone", "Bo Lind", "Cara Moss", "Dan Reel", "Eva Holm"]
    places = ["Oslo", "Bergen", "Tarn", "Quillon", "Marne"]
    return [
        (
            names[n % 5],
            f"{names[n % 5]} was born in {places[n % 5]} before 18{10 + n} and was the first director of the museum "
            f"of {places[(n + 2) % 5]}, in which {names[(n + 1) % 5]} worked with {n + 3} painters from the academy. "
            f"The museum was closed in the north by {names[(n + 3) % 5]}.",
        )
        for n in range(count)
    ]


def test_every_kind_is_made_and_none_is_in_its_passage():
    made = make_statements(invented(40))
    assert {each.kind for each in made} == {ENTAILED, *KINDS}
    assert all(each.text not in each.premise for each in made if each.kind != ENTAILED)
    assert make_statements(invented(40)) == made
    assert make_statements(invented(40), seed=1) != made


def test_entailed_statements_use_no_word_that_the_passage_lacks():
    for each in make_statements(invented(40)):
        if each.kind == ENTAILED:
            assert {word.strip(".,").lower() for word in each.text.split()} <= {
                word.strip(".,").lower() for word in each.premise.split()
            }


@pytest.mark.parametrize(
    ("feature", "statement"),
    [
        ("all_numbers", "Ada Stone was born in Oslo in 1817."),
        ("all_names", "Ada Stone was born in Tarn in 1871."),
        ("same_polarity", "Ada Stone wasn't born in Oslo in 1871."),
        ("names_in_order", "Oslo was born in Ada Stone in 1871."),
        ("no_opposite", "Ada Stone died in Oslo in 1871."),
        ("few_missing", "Ada Stone was born in Oslo in 1871 with a harp."),
    ],
)
def test_one_wrong_word_is_found(feature, statement):
    assert features(TEXT, "Ada Stone was born in Oslo in 1871.")[feature] == 1
    assert features(TEXT, statement)[feature] < 1


def test_odd_pairs_have_finite_features():
    rows = contrast_features([("", ""), ("?", "東京 1"), ("a" * 500, "not")])
    assert rows.shape == (3, len(NAMES))
    assert ((rows >= 0) & (rows <= 1)).all()


def test_mismatches_separate_made_statements_of_unseen_passages():
    examples = [Labelled((s.premise, s.text), s.kind == ENTAILED, "made") for s in make_statements(invented(300))]
    scores = mismatch_scores(examples, 0)
    counts = passed(scores, make_statements(invented(60), seed=3))
    assert counts[ENTAILED]["passed"] / counts[ENTAILED]["of"] > 0.8
    assert counts["changed number"]["passed"] / counts["changed number"]["of"] < 0.5


def test_sets_and_labels_weigh_equally():
    examples = [Labelled(("p", str(n)), n % 4 == 0, "a") for n in range(8)]
    weights = weights_of(examples)
    assert sum(w for w, e in zip(weights, examples, strict=True) if e.entailed) == pytest.approx(4)
    assert sum(weights) == pytest.approx(8)


def test_premise_is_shortened_to_the_sentences_that_matter():
    premise = "Nothing of note here today. " * 5 + "Ada Stone sold the mill. " + "Other words follow now. " * 5
    kept = shortened(premise, "Ada Stone sold the mill", most=9)
    assert "Ada Stone sold the mill." in kept
    assert len(kept.split()) <= 9


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("encoder")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "yes", "no", "the", "sky"]
    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    torch.manual_seed(1)
    config = BertConfig(
        vocab_size=len(words), hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=32, initializer_range=0.5,
    )  # fmt: skip
    BertModel(config).save_pretrained(folder)
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    ).save_pretrained(folder)
    return folder


def test_head_learns_and_repeats_itself(tiny):
    examples = [Labelled(("the sky", word), word == "yes", "a") for word in ("yes", "no")] * 16
    pairs = [("the sky", "yes"), ("the sky", "no")]
    runs = []
    for _ in range(2):
        head = EncoderHead(tiny, frozen=1)
        before = head(pairs)
        report = head.train(examples, 60)
        runs.append(head(pairs))
        assert report["loss"][1] < report["loss"][0]
        assert runs[-1][0] - runs[-1][1] > before[0] - before[1]
    assert runs[0] == pytest.approx(runs[1], abs=1e-6)


def judged(count=40):
    return [
        JudgedPair("p", str(n), n % 2 == 0, data, f"{data}{n // 4}")
        for data in ("wice", "expertqa")
        for n in range(count)
    ]


def test_gain_is_that_of_both_sets(monkeypatch):
    monkeypatch.setattr("experiments.benchmarks.entailment_head.__main__.RESAMPLES", 50)
    pairs = judged()
    right = np.array([float(pair.entailed) for pair in pairs])
    found = gain(right, 1 - right, pairs)
    assert found["mean"] == {"value": 1.0, "low": 1.0, "high": 1.0}
    assert gain(right, right, pairs)["mean"]["value"] == 0


def test_only_what_rejects_accepts_and_agrees_is_kept():
    def line(low=0.01, wrong=1, entailed=10):
        counts = {ENTAILED: {"passed": entailed, "of": 10}, "negation": {"passed": wrong, "of": 10}}
        return {"made": counts, "hand_written": counts, "minus_lexical": {"mean": {"low": low}}}

    assert worth_keeping(line())
    assert not worth_keeping(line(low=0.0))
    assert not worth_keeping(line(wrong=2))
    assert not worth_keeping(line(entailed=8))


def test_statements_that_pass_are_counted_by_kind():
    made = [Statement("p", "x", ENTAILED), Statement("p", "y", "negation"), Statement("p", "z", "negation")]
    counts = passed(lambda pairs: np.array([0.9, 0.5, 0.1]), made)
    assert counts == {ENTAILED: {"passed": 1, "of": 1}, "negation": {"passed": 1, "of": 2}}
