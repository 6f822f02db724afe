"""Which runtime for the embedded LM: calls a second on grounding prompts, alone and eight wide.

    python -m experiments.benchmarks.embedded_lm --calls 16 --rounds 2 --out results.json

Prompts have about 450 tokens, of which about 110 (system message) are shared; replies are 40 tokens at most. The
contenders run in turns, each with prompts it has not seen, so that other work on the machine hits them alike. Read
ratios, and CPU seconds where the machine is shared.
"""

import argparse
import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from dspy.lm15 import Config, Message, Request

from programs.lms import smollm
from programs.lms.adapter import JsonForm
from programs.lms.embedded import EmbeddedEngine
from programs.lms.gguf import GgufEngine
from signatures.common.files import atomic_write
from signatures.genground import GroundAnswer
from signatures.types import Passage

REPLY_TOKENS = 40
WIDTHS = (1, 8)
WORDS = "harbour river master of the old town keeps its ledger in a blue house near northern bridge since year".split()


def prompt(number: int) -> Request:
    """Return a grounding request whose user message no other number has."""
    texts = [" ".join(WORDS[(number * 7 + n * step) % len(WORDS)] for n in range(70)) for step in (3, 5, 11)]
    passages = [Passage(id=str(n), title=f"Town {number}-{n}", text=text) for n, text in enumerate(texts)]
    question = f"Who was the master of harbour {number}?"
    inputs = {"question": question, "draft": f"Master {number}", "passages": passages}
    system, *turns = JsonForm().format(GroundAnswer, [], inputs)
    config = Config(max_tokens=REPLY_TOKENS, temperature=0.0)
    messages = tuple(Message.user(turn["content"]) for turn in turns)
    return Request(model="benchmark", system=system["content"], messages=messages, config=config)


def measure(engine: Any, requests: list[Request], width: int) -> dict[str, float]:
    """Return calls per second, CPU seconds per call and the tokens of the calls."""
    start, busy = time.perf_counter(), time.process_time()
    with ThreadPoolExecutor(width) as pool:
        usages = [reply.usage for reply in pool.map(engine.complete, requests)]
    seconds, busy = time.perf_counter() - start, time.process_time() - busy
    return {
        "calls_per_second": len(requests) / seconds,
        "cpu_seconds_per_call": busy / len(requests),
        "prompt_tokens": sum(usage.input_tokens or 0 for usage in usages) / len(requests),
        "completion_tokens": sum(usage.output_tokens or 0 for usage in usages) / len(requests),
    }


def agreement(engine: Any, requests: list[Request]) -> float:
    """Return the share of prompts with the same reply asked one by one and asked all together."""
    alone = [engine.complete(request).message.text for request in requests]
    with ThreadPoolExecutor(8) as pool:
        together = [reply.message.text for reply in pool.map(engine.complete, requests)]
    return sum(a == b for a, b in zip(alone, together, strict=True)) / len(requests)


def run(calls: int, rounds: int, contenders: dict[str, Any]) -> dict[str, Any]:
    """Measure the contenders in turns and return the medians' raw material: every round of every width."""
    results: dict[str, Any] = {name: {f"{width}_wide": [] for width in WIDTHS} for name in contenders}
    number = 0
    for engine in contenders.values():
        engine.complete(prompt(10**6))  # load, and put the shared prefix into the cache
    for _ in range(rounds):
        for width in WIDTHS:
            for name, engine in contenders.items():
                count = calls if width > 1 else max(2, calls // 4)
                requests = [prompt(number + n) for n in range(count)]
                number += count
                results[name][f"{width}_wide"].append(measure(engine, requests, width))
    return results


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=16, help="calls in a round eight wide; a quarter of it alone")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--llama-cpp", action="store_true", help="measure llama.cpp too; minutes on a busy machine")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    contenders: dict[str, Any] = {
        "openvino": EmbeddedEngine(),
        "openvino exact": EmbeddedEngine(exact=True),
    }
    if args.llama_cpp:
        contenders["llama.cpp"] = GgufEngine(str(smollm.weights_path()))
    results: dict[str, Any] = {"speed": run(args.calls, args.rounds, contenders)}
    fresh = [prompt(10**5 + n) for n in range(8)]
    results["same_reply_alone_and_together"] = {
        name: agreement(contenders[name], fresh) for name in ("openvino", "openvino exact")
    }
    with atomic_write(args.out) as file:
        json.dump(results, file, indent=1)
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
