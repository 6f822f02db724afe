"""The cost of a run, estimated before it starts."""

from collections.abc import Sequence
from dataclasses import dataclass

from experiments.runs.files import Row

TYPICAL_TOKENS = 900  # of one LM call with about five passages and a short reply


@dataclass(frozen=True)
class Estimate:
    """Upper bounds on the cost of the remaining questions.

    Args:
        questions: Questions left to ask.
        calls: LM calls at most.
        tokens: Prompt and completion tokens if all these calls are made.
        seconds: Wall-clock seconds at the pace measured; None if nothing was measured.
        usd: Price at the rate measured; None if nothing was measured or the LM states no price.
        measured: Rows the rates were taken from; 0 means typical values.
    """

    questions: int
    calls: int
    tokens: int
    seconds: float | None
    usd: float | None
    measured: int

    def __str__(self) -> str:
        basis = f"measured on {self.measured} questions" if self.measured else "typical values, nothing measured yet"
        parts = [f"at most {self.calls:,} LM calls", f"about {self.tokens:,} tokens"]
        if self.seconds is not None:
            parts.append(f"{self.seconds / 60:.1f} min" if self.seconds >= 90 else f"{self.seconds:.0f} s")
        if self.usd is not None:
            parts.append(f"{self.usd:.2f} USD")
        return f"{self.questions} questions: {', '.join(parts)} ({basis})."


def unmeasured(questions: int, calls: int) -> Estimate:
    """Return the estimated cost of `questions` questions with so many LM calls in all, before anything is measured."""
    return Estimate(questions, calls, calls * TYPICAL_TOKENS, None, None, 0)


def estimate(questions: int, max_calls: int, *, rows: Sequence[Row] = (), threads: int = 1) -> Estimate:
    """Return the estimated cost of asking `questions` questions.

    Args:
        questions: Number of questions to ask.
        max_calls: LM calls one question can take (`program.max_calls()`).
        rows: Rows of the same or a similar run, to measure tokens per call, pace and price on; failed rows and rows
            answered by the cache alone are ignored.
        threads: Questions answered in parallel, as they were for `rows`.
    """
    paid = [row for row in rows if row["error"] is None and row["calls"] > row["cached_calls"]]
    calls = questions * max_calls
    if not paid:
        return unmeasured(questions, calls)
    paid_calls = sum(row["calls"] - row["cached_calls"] for row in paid)
    tokens = sum(row["prompt_tokens"] + row["completion_tokens"] for row in paid)
    usd = sum(row["usd"] for row in paid)
    return Estimate(
        questions=questions,
        calls=calls,
        tokens=round(calls * tokens / paid_calls),
        seconds=questions * sum(row["seconds"] for row in paid) / len(paid) / threads,
        usd=calls * usd / paid_calls if usd else None,
        measured=len(paid),
    )
