from hypothesis import given
from hypothesis import strategies as st

from experiments.pipeline.evaluate import TYPICAL_TOKENS, estimate

ROW = {
    "error": None,
    "calls": 2,
    "cached_calls": 0,
    "prompt_tokens": 180,
    "completion_tokens": 20,
    "usd": 0.0,
    "seconds": 4.0,
}


def test_nothing_measured_means_typical_tokens_and_no_time():
    guess = estimate(50, 4)
    assert (guess.calls, guess.tokens, guess.seconds) == (200, 200 * TYPICAL_TOKENS, None)
    assert "typical values" in str(guess)


def test_measured_rows_give_tokens_per_call_and_pace():
    guess = estimate(50, 4, rows=[ROW, ROW], threads=8)
    assert guess.tokens == 200 * 100
    assert guess.seconds == 25.0
    assert guess.usd is None
    assert str(guess) == "50 questions: at most 200 LM calls, about 20,000 tokens, 25 s (measured on 2 questions)."


def test_failed_and_cached_rows_teach_nothing():
    assert estimate(5, 1, rows=[{**ROW, "error": "x"}, {**ROW, "cached_calls": 2}]).measured == 0


def test_a_price_is_told_where_the_lm_has_one():
    assert estimate(10, 2, rows=[{**ROW, "usd": 0.5}]).usd == 5.0


@given(questions=st.integers(0, 10_000), calls=st.integers(1, 50))
def test_the_estimate_grows_with_questions(questions, calls):
    assert estimate(questions, calls, rows=[ROW]).tokens <= estimate(questions + 1, calls, rows=[ROW]).tokens
