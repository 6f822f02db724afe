"""Runtimes for the embedded LM: calls per second on grounding prompts, one at a time and eight concurrently.

    python -m experiments.benchmarks.embedded_lm --calls 16 --rounds 2 --out results.json

Prompts have about 450 tokens, of which about 110 (system message) are shared; replies have at most 40 tokens. The
runtimes take turns, each with new prompts, so that other load on the machine affects them alike. Compare ratios, and
CPU seconds on a shared machine.
"""

import argparse
import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from dspy.lm15 import Config, Message, Request

from programs.lms.adapter import JsonForm
from programs.lms.embedded import EmbeddedEngine
from programs.lms.gguf import GgufEngine
from programs.lms.weights import choice
from signatures.common.files import atomic_write
from signatures.genground import GroundAnswer
from signatures.types import Passage

REPLY_TOKENS = 40
WIDTHS = (1, 8)
WORDS = "harbour river master of the old town keeps its ledger in a blue house near northern bridge since year".split()


def prompt(number: int) -> Request:
    """Return a grounding request; every number has a different user message."""
    texts = [" ".join(WORDS[(number * 7 + n * step) % len(WORDS)] for n in range(70)) for step in (3, 5, 11)]
    passages = [Passage(id=str(n), title=f"Town {number}-{n}", text=text) for n, text in enumerate(texts)]
    question = f"Who was the master of harbour {number}?"
    inputs = {"question": question, "draft": f"Master {number}", "passages": passages}
    system, *turns = JsonForm().format(GroundAnswer, [], inputs)
    config = Config(max_tokens=REPLY_TOKENS, temperature=0.0)
    messages = tuple(Message.user(turn["content"]) for turn in turns)
    return Request(model="benchmark", system=system["content"], messages=messages, config=config)


def measure(engine: Any, requests: list[Request], width: int) -> dict[str, float]:
    """Return calls per second, CPU seconds per call, and prompt and completion tokens per call."""
    start, cpu_start = time.perf_counter(), time.process_time()
    with ThreadPoolExecutor(width) as pool:
        usages = [reply.usage for reply in pool.map(engine.complete, requests)]
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
    return {
        "calls_per_second": len(requests) / seconds,
        "cpu_seconds_per_call": cpu_seconds / len(requests),
        "prompt_tokens": sum(usage.input_tokens or 0 for usage in usages) / len(requests),
        "completion_tokens": sum(usage.output_tokens or 0 for usage in usages) / len(requests),
    }


def agreement(engine: Any, requests: list[Request]) -> float:
    """Return the share of prompts with the same reply when sent one at a time and when sent concurrently."""
    alone = [engine.complete(request).message.text for request in requests]
    with ThreadPoolExecutor(8) as pool:
        together = [reply.message.text for reply in pool.map(engine.complete, requests)]
    return sum(a == b for a, b in zip(alone, together, strict=True)) / len(requests)


def run(calls: int, rounds: int, engines: dict[str, Any]) -> dict[str, Any]:
    """Measure the engines in turns and return every round of every number of concurrent calls."""
    results: dict[str, Any] = {name: {f"{width}_wide": [] for width in WIDTHS} for name in engines}
    number = 0
    for engine in engines.values():
        engine.complete(prompt(10**6))  # loads the model and caches the shared prefix
    for _ in range(rounds):
        for width in WIDTHS:
            for name, engine in engines.items():
                count = calls if width > 1 else max(2, calls // 4)
                requests = [prompt(number + n) for n in range(count)]
                number += count
                results[name][f"{width}_wide"].append(measure(engine, requests, width))
    return results


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--calls", type=int, default=16, help="calls per round with eight concurrent; a quarter one at a time"
    )
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--llama-cpp", action="store_true", help="also measure llama.cpp; may take minutes")
    parser.add_argument("--source", default="base", help="base, or the folder of an adapter or of merged weights")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    engines: dict[str, Any] = {
        "openvino": EmbeddedEngine(source=args.source),
        "openvino exact": EmbeddedEngine(exact=True, source=args.source),
    }
    if args.llama_cpp:
        engines["llama.cpp"] = GgufEngine(str(choice.weights_path()))
    results: dict[str, Any] = {"speed": run(args.calls, args.rounds, engines)}
    new_prompts = [prompt(10**5 + n) for n in range(8)]
    results["same_reply_alone_and_together"] = {
        name: agreement(engines[name], new_prompts) for name in ("openvino", "openvino exact")
    }
    with atomic_write(args.out) as file:
        json.dump(results, file, indent=1)
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
