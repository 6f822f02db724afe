"""Prefix share: which part of a program's prompt tokens continues no earlier prompt, and which part repeats one.

    python -m experiments.benchmarks.speed.prompt_prefix --data ../shared/data

A server with a prefix cache (vLLM, SGLang, llama.cpp, the embedded OpenVINO GenAI) computes only the tokens of a prompt
that come after its longest prefix in the cache. Here the cache is unlimited and exact, and holds whole prompts: every
prompt is turned into tokens by the embedded LM's tokenizer and chat template, and compared with all earlier ones. So
the shares are what an ideal server would reuse; one that caches blocks of tokens, or evicts some, reuses less
(`share_in_blocks`: in blocks of 16 tokens, as vLLM has them). The embedded runtime itself counts no reused tokens.

Programs run on the first questions of HotpotQA's dev file with the embedded LM and the preset that it gets (`small`
where there is one), then on the simulated world with the knobs of their papers. Every prompt counts, also one whose
reply is cached. `share` counts the prompts of all questions before, `share_when_warm` the same without the first
question, which finds no system message in the cache, `share_of_question` only those of the same question. `at_most` is
what no order of the fields could exceed: every system message, value, passage and hop computed once.

With `--orders` the recorded calls are rendered in every order of their input fields, and the best one is listed beside
the order as it is.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dspy

import signatures.common.openvino_core  # noqa: F401 - before OpenVINO itself: without telemetry
from experiments.benchmarks.speed.prompt_shares import (
    Call,
    Recorder,
    Tokenize,
    Tokens,
    at_most,
    best_orders,
    shares,
)
from experiments.runs.files import write_json
from experiments.runs.provenance import portable, provenance
from signatures.common.errors import UserError

if TYPE_CHECKING:
    from corpora.questions import Question
    from programs.lms.connect import Connection
    from signatures.types import Retriever

PROGRAMS = (
    "rag", "multihop", "genground", "genground:preset=paper", "cov_rag", "retro_rag", "retro_rag:batch_weighing=5"
)  # fmt: skip
HOTPOTQA = "hotpotqa/hotpot_dev_100.hf.jsonl"
RESULT = Path("experiments/results/prompt_prefix.json")


def embedded_tokenizer() -> Tokenize:
    """Return a function that turns messages into the embedded LM's tokens.

    Raises:
        UserError: Its weights are not installed.
    """
    import openvino_genai

    from programs.lms.weights.choice import weights

    tokenizer = openvino_genai.Tokenizer(str(weights("").converted()))

    def tokenize(messages: Sequence[Mapping[str, Any]]) -> Tokens:
        text = tokenizer.apply_chat_template([dict(message) for message in messages], add_generation_prompt=True)
        return tuple(tokenizer.encode(text, add_special_tokens=False).input_ids.data[0].tolist())

    return tokenize


def ask(program: dspy.Module, questions: "Sequence[Question]", connection: "Connection") -> list[list[Call]]:
    """Return the prompts of each question, asked one after another."""
    asked = []
    for question in questions:
        recorder = Recorder(program)
        with connection.use(), recorder.recording():
            program(question=question.question)
        asked.append(recorder.calls)
    return asked


def measure(name: str, asked: Sequence[Sequence[Call]], tokenize: Tokenize, *, orders: bool) -> dict[str, Any]:
    """Return what the prompts of a program share, and print it."""
    prompts = [[(call.predictor, tokenize(call.messages)) for call in calls] for calls in asked]
    found = {"questions": len(asked), "at_most": at_most(asked, tokenize), **shares(prompts)}
    for of, share in {name: found, **found["predictors"]}.items():
        print(
            f"{of:28} {share['calls']:6} calls {share['prompt_tokens']:8} prompt tokens, shared {share['share']:.3f}"
            f" (warm {share['share_when_warm']:.3f}, within a question {share['share_of_question']:.3f})",
            flush=True,
        )
    return {**found, **({"orders": best_orders(asked, tokenize)} if orders else {})}


def open_program(text: str, retrieve: "Retriever", preset: str) -> dspy.Module:
    """Return a program by its name, or `name:preset=NAME`, or `name:knob=NUMBER`; with `preset` if it has that.

    Raises:
        UserError: The program, the preset or the knob is unknown.
    """
    from programs.catalog import PROGRAMS, build

    name, _, option = text.partition(":")
    knob, _, value = option.partition("=")
    presets = PROGRAMS[name].PRESETS if name in PROGRAMS else {}
    chosen = value if knob == "preset" else preset if preset in presets else "paper"
    knobs: dict[str, Any] = {} if knob in ("", "preset") else {knob: int(value)}
    return build(name, retrieve, preset=chosen, **knobs)


def open_hotpotqa(data: Path, folder: Path, limit: int) -> "tuple[Retriever, list[Question]]":
    """Return BM25 over the pooled paragraphs of HotpotQA's file, and its first questions."""
    from corpora.datasets.convert import convert
    from corpora.index.build import build_index
    from corpora.index.open import open_index
    from corpora.questions import read_questions, select

    converted = convert("hotpotqa", str(data / HOTPOTQA), folder / "data")
    if converted.questions_path is None or converted.passages_path is None:
        raise UserError(f"{data / HOTPOTQA} contains no questions: set --data to the folder that contains hotpotqa/.")
    build_index(converted.passages_path, folder / "index", retriever="bm25")
    return open_index(folder / "index"), select(read_questions(converted.questions_path), limit=limit)


def open_world(folder: Path, limit: int) -> "tuple[Retriever, list[Question]]":
    """Return BM25 over the generated world of seed 0, and its questions."""
    from corpora.index.build import build_index
    from corpora.index.open import open_index
    from corpora.questions import read_questions
    from experiments.world.generate import generate

    passages, questions = generate(folder / "data", questions=limit, seed=0)
    build_index(passages, folder / "index", retriever="bm25")
    return open_index(folder / "index"), read_questions(questions)


def main() -> None:
    """Measure, print the table, and write the result file."""
    from experiments.pipeline.setup import open_lm
    from experiments.runs.config import LMConfig

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder that contains hotpotqa/")
    parser.add_argument("--questions", type=int, default=5, help="of HotpotQA, with the embedded LM; 0 for none")
    parser.add_argument("--world", type=int, default=30, help="of the simulated world; 0 for none")
    parser.add_argument("--programs", default=",".join(PROGRAMS), help="separated by commas")
    parser.add_argument("--orders", action="store_true", help="try every order of the fields")
    parser.add_argument("--out", type=Path, default=RESULT)
    arguments = parser.parse_args()
    tokenize = embedded_tokenizer()
    record: dict[str, Any] = {**provenance("experiments.benchmarks.speed.prompt_prefix"), "load": os.getloadavg()}
    with tempfile.TemporaryDirectory() as folder:
        parts = {
            "hotpotqa": (arguments.questions, "embedded", "small", lambda to, n: open_hotpotqa(arguments.data, to, n)),
            "world": (arguments.world, "simulated", "paper", open_world),
        }
        for part, (limit, lm, preset, opened) in parts.items():
            if limit < 1:
                continue
            retrieve, questions = opened(Path(folder) / part, limit)
            connection = open_lm(LMConfig(lm, cache=lm == "embedded"))
            record[part] = {"lm": connection.id, "weights_hash": connection.weights_hash, "programs": {}}
            for name in arguments.programs.split(","):
                print(f"\n{part}: {name}")
                asked = ask(open_program(name, retrieve, preset), questions, connection)
                record[part]["programs"][name] = measure(name, asked, tokenize, orders=arguments.orders)
    write_json(arguments.out, portable(record))
    print(f"Written: {arguments.out}", file=sys.stderr)


if __name__ == "__main__":
    main()
