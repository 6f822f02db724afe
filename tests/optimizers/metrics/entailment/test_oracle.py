import pytest

from optimizers.metrics.entailment.catalog import DEFAULT, open_oracle
from optimizers.metrics.entailment.oracle import (
    Agreement,
    EntailmentOracle,
    Passed,
    SetAgreement,
    describe,
    judge,
    over_distinct,
)
from signatures.common.errors import UserError


def test_each_distinct_pair_is_scored_once_and_blank_sides_are_zero() -> None:
    asked = []

    def score(pairs):
        asked.extend(pairs)
        return [0.7 for _ in pairs]

    pairs = [("a", "b"), ("", "b"), ("a", " \n"), ("a", "b"), ("c", "b")]
    assert over_distinct(pairs, score) == [0.7, 0.0, 0.0, 0.7, 0.7]
    assert asked == [("a", "b"), ("c", "b")]
    assert over_distinct([], score) == []


def test_half_characters_are_replaced_before_a_tokenizer_sees_them() -> None:
    asked = []
    assert over_distinct(
        [("a\ud83d", "\udc00"), ("a\ud83d", "\udc01")], lambda pairs: asked.extend(pairs) or [0.1]
    ) == [0.1, 0.1]
    assert asked == [("a?", "?")]


@pytest.mark.parametrize("wrong", [[1.2], [float("nan")], [-0.1]])
def test_what_is_no_probability_is_refused(wrong: list[float]) -> None:
    with pytest.raises(ValueError, match="must be in"):
        over_distinct([("a", "b")], lambda pairs: wrong)


def test_a_judge_asks_once_and_knows_only_its_pairs(overlap) -> None:
    entails = judge(overlap, [("a b", "a"), ("a b", "c"), ("a b", "a")])
    assert entails("a b", "a") is True
    assert entails("a b", "c") is False
    assert overlap.calls == [[("a b", "a"), ("a b", "c")]]
    with pytest.raises(KeyError):
        entails("x", "y")
    judge(overlap, [])
    assert len(overlap.calls) == 1


def test_the_description_contains_the_agreement_on_each_set_and_the_contradictions_that_pass(overlap) -> None:
    assert describe(overlap) == "overlap (agreement with people not measured)"
    sets = {
        "A": SetAgreement(0.71, 0.65, 0.77, 0.66, 0.3, 120),
        "B": SetAgreement(0.55, 0.45, 0.65, 0.5, 0.01, 80),
    }
    overlap.agreement = Agreement(sets)
    assert describe(overlap) == (
        "overlap (agreement with people: AUC 0.71 [0.65, 0.77], kappa 0.30 on 120 unseen pairs of A; "
        "AUC 0.55 [0.45, 0.65], kappa 0.01 on 80 unseen pairs of B)"
    )
    overlap.agreement = Agreement(sets, {"negation": Passed(10, 10), "changed number": Passed(0, 10)})
    assert describe(overlap).endswith(". Contradictions pass as entailed: negation 10 of 10, changed number 0 of 10")
    assert Agreement(sets, {"negation": Passed(0, 10)}).warning is None


def test_the_default_oracle_is_lexical() -> None:
    assert open_oracle(cache=False).name == DEFAULT == "lexical"


@pytest.mark.parametrize("name", ["lexical", "semantic", "calibrated", "likelihood"])
def test_offline_oracles_open_by_name_and_keep_to_the_interface(name: str, tmp_path) -> None:
    oracle = open_oracle(name, path=tmp_path / "judged.sqlite")
    assert isinstance(oracle, EntailmentOracle)
    assert oracle.name == name
    assert oracle.fingerprint == open_oracle(name, cache=False).fingerprint


def test_unknown_oracles_are_refused_with_the_forms() -> None:
    with pytest.raises(UserError, match="Unknown entailment oracle 'nli'. Choose from: .*seq2seq:<model>"):
        open_oracle("nli")
    for incomplete in ("seq2seq", "cross-encoder:"):
        with pytest.raises(UserError, match="needs a model"):
            open_oracle(incomplete)
    with pytest.raises(UserError, match="Unknown entailment oracle 'lexical:x'"):
        open_oracle("lexical:x")
