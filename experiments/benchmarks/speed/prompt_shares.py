"""The prompts of a program's calls, and how many of their tokens earlier prompts begin with as well."""

import bisect
import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from threading import Lock
from typing import Any

import dspy
from dspy.utils.callback import BaseCallback

from programs.parts.predict import in_order

BLOCK = 16  # tokens
MOST_ORDERS = 24  # of four fields

Tokens = tuple[int, ...]
Tokenize = Callable[[Sequence[Mapping[str, Any]]], Tokens]


@dataclass(frozen=True)
class Call:
    """One prompt as a program made it.

    Args:
        predictor: Its name in the program.
        adapter: That rendered the prompt.
        signature: Of the predictor, as it was rendered.
        demos: Shown in the prompt.
        inputs: Values of the input fields.
        messages: The prompt.
    """

    predictor: str
    adapter: Any
    signature: Any
    demos: list[Any]
    inputs: dict[str, Any]
    messages: list[dict[str, Any]]


class Recorder(BaseCallback):
    """Records the prompts of a program's predictors; safe under threads.

    Args:
        program: Its predictors are recognised by instruction, input fields and whether they reason, since a yes/no
            question may be asked for a number instead.
    """

    def __init__(self, program: dspy.Module):
        self.names = {_shape(predictor.signature): name for name, predictor in program.named_predictors()}
        self.calls: list[Call] = []
        self._started: dict[str, tuple[Any, dict[str, Any]]] = {}
        self._lock = Lock()

    def recording(self) -> AbstractContextManager[None]:
        """Return a context in which the prompts are recorded."""
        return dspy.context(callbacks=[self])

    def on_adapter_format_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:
        """Note what is to be rendered."""
        self._started[call_id] = (instance, inputs)

    def on_adapter_format_end(self, call_id: str, outputs: Any, exception: Exception | None = None) -> None:
        """Record the prompt."""
        adapter, inputs = self._started.pop(call_id)
        if exception is None:
            signature = inputs["signature"]
            name = self.names.get(_shape(signature), signature.__name__).removesuffix(".predict")
            with self._lock:
                self.calls.append(Call(name, adapter, signature, inputs["demos"], _copied(inputs["inputs"]), outputs))


def _shape(signature: Any) -> tuple[Any, ...]:
    return signature.instructions, *signature.input_fields, "reasoning" in signature.output_fields


def _copied(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return inputs with their lists copied: a program goes on to append to its hops."""
    return {name: list(value) if isinstance(value, list) else value for name, value in inputs.items()}


class PrefixCache:
    """An exact prefix cache without a limit.

    In a sorted list the longest prefix that a prompt shares with any other is the one it shares with a neighbour.
    """

    def __init__(self) -> None:
        self._prompts: list[Tokens] = []

    def add(self, prompt: Tokens) -> int:
        """Return how many tokens at the start of `prompt` an earlier prompt has as well, and remember the prompt."""
        shared = self.shared(prompt)
        bisect.insort(self._prompts, prompt)
        return shared

    def shared(self, prompt: Tokens) -> int:
        """Return how many tokens at the start of `prompt` an earlier prompt has as well."""
        place = bisect.bisect_left(self._prompts, prompt)
        neighbours = self._prompts[max(0, place - 1) : place + 1]
        return max((common_prefix(prompt, other) for other in neighbours), default=0)


def common_prefix(one: Tokens, other: Tokens) -> int:
    """Return how many tokens both begin with."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (left, right) in pairs if left != right), min(len(one), len(other)))


def shares(prompts: Iterable[Sequence[tuple[str, Tokens]]]) -> dict[str, Any]:
    """Return what the prompts of a program share, in total, by predictor, and by pair of predictors in a question.

    Args:
        prompts: For each question the predictor and the tokens of each prompt, in the order of the calls.
    """
    everything = PrefixCache()
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    pairs: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for number, question in enumerate(prompts):
        before: defaultdict[str, PrefixCache] = defaultdict(PrefixCache)
        for predictor, tokens in question:
            shared = everything.add(tokens)
            of_question = {name: cache.shared(tokens) for name, cache in before.items()}
            before[predictor].add(tokens)
            pairs[predictor] += Counter(of_question)
            counts[predictor] += Counter(
                calls=1,
                tokens=len(tokens),
                shared=shared,
                blocks=shared // BLOCK * BLOCK,
                of_question=max(of_question.values(), default=0),
                warm=shared if number else 0,
                warm_tokens=len(tokens) if number else 0,
            )
    predictors = {
        name: {
            **_as_shares(count),
            "share_with_earlier": {other: _share(tokens, count["tokens"]) for other, tokens in pairs[name].items()},
        }
        for name, count in counts.items()
    }
    return {**_as_shares(sum(counts.values(), Counter())), "predictors": predictors}


def _as_shares(count: Counter[str]) -> dict[str, Any]:
    return {
        "calls": count["calls"],
        "prompt_tokens": count["tokens"],
        "shared_tokens": count["shared"],
        "share": _share(count["shared"], count["tokens"]),
        "share_when_warm": _share(count["warm"], count["warm_tokens"]),
        "share_in_blocks": _share(count["blocks"], count["tokens"]),
        "share_of_question": _share(count["of_question"], count["tokens"]),
    }


def _share(part: int, whole: int) -> float:
    return round(part / whole, 3) if whole else 0.0


def at_most(questions: Sequence[Sequence[Call]], tokenize: Tokenize) -> dict[str, float]:
    """Return the shares that no order of fields, and no cache of prefixes, could exceed.

    Every part of a prompt (a system message, the value of a field, a passage, a hop) is computed once in the run, or
    once in each question, wherever it stands.
    """
    frame = len(tokenize([{"role": "user", "content": ""}]))
    computed, total, known = Counter[str](), 0, set[str]()
    for calls in questions:
        of_question: set[str] = set()
        for call in calls:
            total += len(tokenize(call.messages))
            parts = [part for message in call.messages for part in _parts(message["content"])]
            for part in dict.fromkeys(parts):
                tokens = len(tokenize([{"role": "user", "content": part}])) - frame
                computed["of_question"] += 0 if part in of_question else tokens
                computed["share"] += 0 if part in known else tokens
                of_question.add(part)
                known.add(part)
    return {
        "share": _share(total - computed["share"], total),
        "share_of_question": _share(total - computed["of_question"], total),
    }


def _parts(text: str) -> list[str]:
    """Return the fields of a message, each line of a field by itself; a text without fields as it is."""
    return text.splitlines() if text.startswith("[[ ## ") else [text]


def best_orders(questions: Sequence[Sequence[Call]], tokenize: Tokenize) -> dict[str, Any]:
    """Return, for each predictor, the share of its prompts in the order of fields as it is and in the best order.

    The prompts of the calls that were recorded are rendered again; replies would differ in another order.
    """
    signatures = {call.predictor: call.signature for calls in questions for call in calls}
    found: dict[str, Any] = {}
    for predictor, signature in signatures.items():
        of = [[call for call in calls if call.predictor == predictor] for calls in questions]
        orders = list(itertools.islice(itertools.permutations(signature.input_fields), MOST_ORDERS))
        share = {order: _share_in(order, of, tokenize) for order in orders}
        best = max(orders, key=lambda order: share[order])
        found[predictor] = {"order": orders[0], "share": share[orders[0]], "best_order": best, "best": share[best]}
    return found


def _share_in(order: tuple[str, ...], questions: Sequence[Sequence[Call]], tokenize: Tokenize) -> float:
    def render(call: Call) -> tuple[str, Tokens]:
        signature = in_order(call.signature, order)
        return call.predictor, tokenize(call.adapter.format(signature, call.demos, call.inputs))

    return float(shares([[render(call) for call in calls] for calls in questions])["share"])
