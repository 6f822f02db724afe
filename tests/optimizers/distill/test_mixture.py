"""Mixtures: properties for any examples."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpora.questions import Question, select
from optimizers.distill.examples import Example, Message, by_skill
from optimizers.distill.mixture import counts_of, is_made, limit_made, mix, one_split_each, split_by_question
from optimizers.distill.specs import Mixture
from signatures.common.errors import UserError


def make(parts: tuple[int, str, str, int]) -> Example:
    text, skill, source, question = parts
    return Example(
        messages=(Message(role="user", content=str(text)),), completion="a", program="rag", predictor="reading",
        skill=skill, question_id=f"q{question}", source=source, licence="any", labels="gold",
    )  # fmt: skip


EXAMPLES = st.lists(
    st.builds(
        make,
        st.tuples(
            st.integers(0, 60), st.sampled_from("ab"), st.sampled_from(["world", "nq_open", "own"]), st.integers(0, 9)
        ),
    ),
    min_size=1,
    max_size=60,
)
SHARES = st.sampled_from([0.0, 0.3, 0.5, 0.75, 1.0])


def made_share(examples: list[Example]) -> float:
    return sum(map(is_made, examples)) / len(examples) if examples else 0.0


@given(EXAMPLES, SHARES, st.integers(0, 5))
def test_the_generated_world_is_never_more_than_its_share_of_any_skill(examples, share, seed):
    mixed = mix(examples, Mixture(made_share=share, seed=seed)).examples
    assert all(made_share(group) <= share + 1e-9 for group in by_skill(mixed).values())


@given(EXAMPLES, SHARES, st.integers(0, 30))
def test_no_real_example_is_left_out_for_a_made_one_and_none_is_wasted(examples, share, most):
    kept = limit_made(examples, share, most=most)
    real = sum(not is_made(example) for example in examples)
    assert len(kept) <= min(most, len(examples))
    assert made_share(kept) <= share + 1e-9
    assert len(kept) >= min(most, real)
    if share == 1.0:
        assert len(kept) == min(most, len(examples))


@given(EXAMPLES, st.integers(0, 5), st.randoms())
def test_the_choice_does_not_depend_on_the_order_of_the_files(examples, seed, random):
    mixture = Mixture(counts={examples[0].skill: 3}, cap=8, seed=seed)
    other = random.sample(examples, len(examples))
    assert {example.key for example in mix(examples, mixture).examples} == {
        example.key for example in mix(other, mixture).examples
    }


@given(EXAMPLES, st.integers(0, 20))
def test_no_repeats_and_no_source_beyond_its_cap(examples, cap):
    mixed = mix(examples, Mixture(cap=cap, made_share=1))
    keys = Counter(example.key for example in mixed.examples)
    assert set(keys.values()) <= {1}
    assert all(count <= cap for count in Counter(example.source for example in mixed.examples).values())
    assert len(examples) == len(mixed.examples) + sum(mixed.dropped.values())


@given(EXAMPLES, st.floats(0, 0.9), st.integers(0, 5))
def test_no_question_is_in_both_splits(examples, validation, seed):
    splits: dict[str, set[str]] = {}
    for example in split_by_question(examples, validation, seed=seed):
        splits.setdefault(example.question_id, set()).add(example.split)
    assert all(len(found) == 1 for found in splits.values())


@given(EXAMPLES, st.randoms())
def test_splits_are_kept_but_no_question_is_in_both(examples, random):
    given = [example.model_copy(update={"split": random.choice(["train", "validation"])}) for example in examples]
    held = {example.question_id for example in given if example.split == "validation"}
    for example in one_split_each(given):
        assert (example.split == "validation") == (example.question_id in held)


def test_the_split_of_a_question_depends_on_its_id_alone(example):
    one = [example(f"q{number}") for number in range(400)]
    other = [example(f"q{number}", source="own", program="genground") for number in reversed(range(400))]
    split = {each.question_id: each.split for each in split_by_question(one, 0.25)}
    assert {each.question_id: each.split for each in split_by_question(other, 0.25)} == split
    assert 70 <= Counter(split.values())["validation"] <= 130
    assert {each.split for each in split_by_question(one, 0.0)} == {"train"}


@pytest.mark.parametrize("seed", [0, 1])
def test_a_limit_of_the_same_seed_does_not_choose_what_is_held_back(seed, example):
    questions = [Question(id=f"q{number}", question="Who?") for number in range(800)]
    chosen = select(questions, limit=80, seed=seed)
    splits = Counter(one.split for one in split_by_question([example(q.id) for q in chosen], 0.1, seed=seed))
    assert 2 <= splits["validation"] <= 18


def test_weights_take_as_much_as_the_scarcest_skill_allows(example):
    examples = [example(f"r{number}") for number in range(90)]
    examples += [example(f"g{number}", skill="grounding") for number in range(20)]
    weights = {"reading": 2.0, "grounding": 1.0}
    counts = counts_of(mix(examples, Mixture(weights=weights)).examples)["by_skill"]
    assert counts == {"grounding": 20, "reading": 40}
    assert counts_of(mix(examples, Mixture(weights=weights, total=9)).examples)["by_skill"] == {
        "grounding": 3, "reading": 6
    }  # fmt: skip
    assert counts_of(mix(examples, Mixture(weights={"reading": 1.0})).examples)["by_skill"] == {"reading": 90}
    assert counts_of(mix(examples, Mixture(counts={"reading": 5})).examples)["by_skill"] == {
        "grounding": 20, "reading": 5
    }  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"counts": {"a": 1}, "weights": {"a": 1.0}}, "counts or weights"),
        ({"total": 3}, "needs weights"),
        ({"made_share": 1.5}, "from 0 to 1"),
        ({"validation": 1.0}, "below 1"),
        ({"cap": -1}, "negative"),
        ({"weights": {"a": 0.0}}, "above 0"),
        ({"weights": {"a": float("inf")}}, "above 0"),
    ],
)
def test_impossible_mixtures_are_refused(settings, message):
    with pytest.raises(UserError, match=message):
        Mixture(**settings)


def test_an_unknown_skill_is_named(example):
    with pytest.raises(UserError, match="Unknown skill 'x'. Choose from: reading"):
        mix([example("q")], Mixture(counts={"x": 1}))


@pytest.mark.parametrize("limits", [{}, {"cap": 7}, {"counts": {"a": 7}}, {"weights": {"a": 1}, "total": 7}])
def test_a_balanced_mixture_has_as_many_of_either_verdict_after_all_limits(limits):
    decided = [make((number, "a", "own", number)) for number in range(14)]
    verdicts = ["yes"] * 8 + ["no"] * 5 + [""]
    examples = [one.model_copy(update={"verdict": said}) for one, said in zip(decided, verdicts, strict=True)]
    mixed = mix(examples, Mixture(balance=True, **limits))
    counts = Counter(example.verdict for example in mixed.examples)
    assert counts["yes"] == counts["no"] > 0
    assert sum(mixed.dropped.values()) == len(examples) - len(mixed.examples)
    assert limits or counts == {"yes": 5, "no": 5, "": 1}


def test_balance_and_the_share_of_the_generated_world_hold_together():
    real = [make((number, "a", "own", number)).model_copy(update={"verdict": "yes"}) for number in range(6)]
    made = [make((number, "a", "world", number)) for number in range(6, 12)]
    made = [one.model_copy(update={"verdict": "no"}) for one in made[:4]] + made[4:]
    mixed = mix([*real, *made], Mixture(balance=True, made_share=0.4)).examples
    counts = Counter(example.verdict for example in mixed)
    assert counts["yes"] == counts["no"]
    assert made_share(mixed) <= 0.4


def test_what_says_no_verdict_cannot_be_balanced():
    with pytest.raises(UserError, match="synthesize them again"):
        mix([make((1, "a", "own", 1))], Mixture(balance=True))
