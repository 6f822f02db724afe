"""Calls of the LM that writes instructions, and the end of a compilation whose LM is gone."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import dspy
from dspy.utils.callback import BaseCallback
from dspy.utils.exceptions import AdapterParseError, ContextWindowExceededError

from optimizers.teleprompters.task import Task
from programs.parts.threads import run_all
from signatures.common.errors import UserError, user_error_within
from signatures.types import Hop, Passage

_ROLLOUTS = 100_000  # calls of one seed
_LONGEST = 400  # characters of a passage or another value in a prompt about prompts


def prompt_lm(task: Task, number: int = 0, **settings: Any) -> dspy.LM:
    """Return the prompt LM of a task (the task LM if there is none), seeded by the task's seed and the call's number.

    At a temperature of 0 there is nothing to seed.

    Args:
        task: With the LM and the seed.
        number: Of the call, so that samples of one prompt differ.
        **settings: Such as `temperature`.
    """
    lm = task.prompt_settings().get("lm") or dspy.settings.lm
    if settings.get("temperature", lm.kwargs.get("temperature")):
        settings["rollout_id"] = task.seed * _ROLLOUTS + number
    return lm.copy(**settings)


def ask(task: Task, signature: Any, *, number: int, temperature: float, **inputs: Any) -> dspy.Prediction | None:
    """Return the reply of the prompt LM; None if it cannot be read, or if the prompt is too long for it."""
    settings = {**task.prompt_settings(), "lm": prompt_lm(task, number, temperature=temperature)}
    with dspy.context(**settings, trace=[]):
        try:
            return dspy.Predict(signature)(**inputs)
        except (AdapterParseError, ContextWindowExceededError):
            return None


def ask_all(task: Task, calls: Sequence[Callable[[], Any]]) -> list[Any]:
    """Return the results of calls in their order; they run in parallel."""
    return [ended.result() for ended in run_all(calls, width=task.threads, name="propose")]


def proposals(task: Task, signature: Any, field: str, *, numbers: range, **inputs: Any) -> list[str]:
    """Return the texts that the prompt LM writes into a field, one call for each number; without blanks and repeats.

    Args:
        task: Its option `init_temperature` is that of the calls.
        signature: Of the call.
        field: Output field.
        numbers: Of the calls.
        **inputs: Of the call.
    """
    temperature = task.options["init_temperature"]
    calls = [partial(ask, task, signature, number=number, temperature=temperature, **inputs) for number in numbers]
    texts = [str(reply.get(field) or "").strip().strip('"').strip() for reply in ask_all(task, calls) if reply]
    return list(dict.fromkeys(text for text in texts if text))


class LMGone(BaseException):  # not an Exception: DSPy catches those and scores 0
    """An LM cannot be reached."""

    def __init__(self, error: UserError):
        super().__init__(str(error))
        self.error = error


class Watch(BaseCallback):
    """Notices errors of LMs that the user has to fix, which DSPy's optimizers catch and forget."""

    def __init__(self) -> None:
        self.error: UserError | None = None

    def on_lm_end(self, call_id: str, outputs: Any, exception: BaseException | None = None) -> None:
        """Keep the first such error."""
        self.error = self.error or user_error_within(exception)

    def check(self) -> None:
        """Raise LMGone if there was such an error."""
        if self.error is not None:
            raise LMGone(self.error)

    def checked(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that checks before and after its work."""

        def call(*args: Any, **kwargs: Any) -> Any:
            self.check()
            try:
                return function(*args, **kwargs)
            finally:
                self.check()

        return call


@contextlib.contextmanager
def watching() -> Iterator[Watch]:
    """End the block with the UserError of an LM, as soon as the watch is checked, at its end at the latest."""
    watch = Watch()
    try:
        with dspy.context(callbacks=[*(dspy.settings.get("callbacks") or ()), watch]):
            yield watch
            watch.check()
    except LMGone as gone:
        raise gone.error from None
    except Exception:
        if watch.error is not None:
            raise watch.error from None
        raise


def shown(value: Any) -> Any:
    """Return a value as a text for a prompt about prompts: passages and hops as in other prompts, long texts cut."""
    if isinstance(value, Passage):
        return _cut(f"{value.title}: {value.text}" if value.title else value.text)
    if isinstance(value, Hop):
        return _cut(f"{value.question} -> {value.answer}")
    if isinstance(value, list | tuple):
        return "\n".join(f"[{number}] {shown(item)}" for number, item in enumerate(value, start=1))
    if isinstance(value, Mapping):
        return {name: shown(item) for name, item in value.items()}
    return _cut(value) if isinstance(value, str) else str(value)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
