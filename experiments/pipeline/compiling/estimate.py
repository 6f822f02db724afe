"""What a compilation takes at most: runs of the program, LM calls, tokens and price, before it starts."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from dspy.clients.model_metadata import model_info, rate

from experiments.pipeline.evaluate import TYPICAL_TOKENS

if TYPE_CHECKING:
    import dspy

    from experiments.pipeline.compiling.config import CompileConfig
    from optimizers.teleprompters.task import Runs, Task
    from programs.lms.connect import Connection

_REPLY_TOKENS = 60  # of `TYPICAL_TOKENS`
_PROMPT_TOKENS = 3000  # of a call that writes instructions: examples and a description of the program
_WRITTEN_TOKENS = 400  # of them


@dataclass(frozen=True)
class RunCosts:
    """What one run of a program on an example costs.

    Args:
        calls: LM calls.
        tokens: Prompt and completion tokens of a call.
        written: Those of them that are completion tokens.
        measured: Runs that they are means of; 0 for typical values.
    """

    calls: float
    tokens: float = TYPICAL_TOKENS
    written: float = _REPLY_TOKENS
    measured: int = 0


@dataclass(frozen=True)
class CompileEstimate:
    """Upper bounds on the cost of a compilation.

    Args:
        runs: Runs of the program and of the teacher, and calls of the LM that writes instructions.
        calls: LM calls of all of these.
        tokens: Prompt and completion tokens, from typical values.
        usd: Price; 0 if the LMs are free, None if one states no price.
        limits: Of the budget, by name.
        measured: Runs from which calls and tokens of a run are known; 0 if they are the most and typical values.
    """

    optimizer: str
    runs: "Runs"
    calls: int
    tokens: int
    usd: float | None
    limits: Mapping[str, float | None] = field(default_factory=dict)
    measured: int = 0

    def __str__(self) -> str:
        if not self.calls:
            return f"{self.optimizer}: no LM call."
        most = {"calls": self.calls, "tokens": self.tokens, "usd": self.usd or 0.0}
        tight = [f"{limit:g} {name}" for name, limit in self.limits.items() if limit and limit < most.get(name, 0)]
        early = f" The budget of {' and '.join(tight)} may end it early." if tight else ""
        runs = [
            f"{self.runs.teacher:,} runs on training questions" if self.runs.teacher else "",
            f"{self.runs.student:,} runs to score programs" if self.runs.student else "",
            f"{self.runs.prompt_calls:,} calls to write instructions" if self.runs.prompt_calls else "",
        ]
        price = "price unknown" if self.usd is None else f"{self.usd:.2f} USD" if self.usd else "free"
        calls, source = "at most", "typical values, nothing measured yet"
        if self.measured:
            calls, source = "about", f"by {self.measured} run{'s' if self.measured > 1 else ''} on training examples"
        return (
            f"{self.optimizer}: at most {', '.join(part for part in runs if part)}; {calls} {self.calls:,} LM calls, "
            f"about {self.tokens:,} tokens, {price} ({source}).{early}"
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        runs = {"student": self.runs.student, "teacher": self.runs.teacher, "prompt_calls": self.runs.prompt_calls}
        return {
            "optimizer": self.optimizer,
            "runs": runs,
            "calls": self.calls,
            "tokens": self.tokens,
            "usd": self.usd,
            **({"measured": self.measured} if self.measured else {}),
        }


def compile_estimate(
    student: "dspy.Module",
    task: "Task",
    config: "CompileConfig",
    connection: "Connection",
    run: RunCosts | None = None,
) -> CompileEstimate:
    """Return what a compilation takes at most.

    Args:
        task: Examples and options, as `checked_task` returns them.
        config: Optimizer, teacher and prompt LM.
        run: What a run costs; by default the most calls of the student and of the teacher, at typical tokens.
    """
    from optimizers.teleprompters.catalog import get_optimizer

    record = get_optimizer(config.optimizer)
    runs = record.estimate(student, task)
    if not record.compares:
        runs = replace(runs, student=runs.student + len(task.valset))  # the result is scored on them
    each = run or RunCosts(student.max_calls())
    taught = run or RunCosts((task.teacher or student).max_calls())
    shares = [
        (each.calls * runs.student, each.tokens, each.written, connection),
        (taught.calls * runs.teacher, taught.tokens, taught.written, config.teacher or connection),
        (runs.prompt_calls, _PROMPT_TOKENS, _WRITTEN_TOKENS, config.prompt or connection),
    ]
    prices = [
        price_of(link, calls * (tokens - written), calls * written) for calls, tokens, written, link in shares if calls
    ]
    return CompileEstimate(
        config.optimizer,
        runs,
        round(sum(calls for calls, *_ in shares)),
        round(sum(calls * tokens for calls, tokens, *_ in shares)),
        None if None in prices else sum(price for price in prices if price is not None),
        dict(connection.lm.budget.limits) if getattr(connection.lm, "budget", None) else {},
        each.measured,
    )


def price_of(connection: "Connection", prompt_tokens: float, completion_tokens: float) -> float | None:
    """Return the price in US dollars by DSPy's price list; 0 for an LM without cost, None if it is unknown."""
    lm: Any = connection.lm
    if getattr(lm.engine, "free", False):
        return 0.0
    if getattr(lm, "address", None):
        return None
    provider, _, model = str(lm.model).partition("/")
    info = model_info(provider, model)
    read, write = rate(info, "input_cost_per_token"), rate(info, "output_cost_per_token")
    return None if read is None or write is None else prompt_tokens * read + completion_tokens * write
