"""The clients that `throughput` compares, each in a process of its own.

python -m experiments.benchmarks.speed.throughput_clients CLIENT --base URL ...
"""

import argparse
import asyncio
import json
import logging
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import dspy

CLIENTS = ("raw", "dspy.Evaluate", "dspy", "litellm")
_MAX_TOKENS = 256


def raw(base: str, width: int, calls: int) -> None:
    """Send `calls` equal requests over `width` kept connections: what the machine and the server allow."""
    url = urlsplit(base)
    prompt = "The passages say what there is to say about the question. " * 70  # 4 KB
    body = json.dumps({"model": "loopback", "messages": [{"role": "user", "content": prompt}]}).encode()
    head = f"POST {url.path}/chat/completions HTTP/1.1\r\nHost: {url.netloc}\r\nContent-Length: {len(body)}\r\n\r\n"
    left = iter(range(calls))

    async def connection() -> None:
        reader, writer = await asyncio.open_connection(url.hostname, url.port)
        for _ in left:
            writer.write(head.encode() + body)
            reply = await reader.readuntil(b"\r\n\r\n")
            length = next(
                int(line[15:]) for line in reply.split(b"\r\n") if line.lower().startswith(b"content-length:")
            )
            json.loads(await reader.readexactly(length))
        writer.close()

    async def all_connections() -> None:
        await asyncio.gather(*(connection() for _ in range(width)))

    asyncio.run(all_connections())


def evaluate(client: str, base: str, width: int, *, program: str, index: Path, questions: Path, limit: int) -> int:
    """Run `dspy.Evaluate` on a program and return how many questions failed.

    Args:
        client: "dspy.Evaluate": our LM and adapter. "dspy": DSPy's native client and its JSON adapter. "litellm": the
            same adapter through LiteLLM.
        base: Base URL of the server.
        width: Threads.
        program: Name in the catalog.
        index: Folder of the index.
        questions: File of the questions.
        limit: Questions asked.
    """
    import dspy

    from corpora.index.open import open_index
    from experiments.pipeline.setup import open_questions
    from optimizers.examples import to_examples
    from programs.catalog import PROGRAMS

    retriever = open_index(index)
    retriever(" ", 1)  # models are loaded
    examples = [example.with_inputs("question") for example in to_examples(open_questions(questions, limit=limit))]
    lm, adapter = _ours(base, width) if client == "dspy.Evaluate" else _of_dspy(base, client)
    failed = []

    def metric(example: Any, prediction: Any, trace: Any = None) -> float:
        failed.append(not prediction.answer)
        return float(prediction.answer in example.answers)

    asked = dspy.Evaluate(devset=examples, metric=metric, num_threads=width, display_progress=False, max_errors=limit)
    with dspy.context(lm=lm, adapter=adapter, disable_history=True):
        asked(PROGRAMS[program](retriever))
    return limit - len(failed) + sum(failed)


def _ours(base: str, width: int) -> "tuple[dspy.BaseLM, dspy.Adapter]":
    from programs.lms.calls.transport import Transport, connections_for
    from programs.lms.connect import connect

    transport = Transport(connections=connections_for(width))
    connection = connect("loopback", api_base=base, cache=False, transport=transport)
    return connection.lm, connection.adapter


def _of_dspy(base: str, client: str) -> "tuple[dspy.BaseLM, dspy.Adapter]":
    import dspy

    engine = "lm15" if client == "dspy" else "litellm"
    settings: dict[str, Any] = {"temperature": 0.0, "max_tokens": _MAX_TOKENS, "cache": False, "engine": engine}
    return dspy.LM("openai/loopback", api_base=base, api_key="none", **settings), dspy.JSONAdapter()


def main() -> None:
    """Run one client."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("client", choices=CLIENTS)
    parser.add_argument("--base", required=True)
    parser.add_argument("--width", type=int, required=True)
    parser.add_argument("--count", type=int, required=True, help="Calls of raw, questions of the others.")
    parser.add_argument("--program")
    parser.add_argument("--index", type=Path)
    parser.add_argument("--questions", type=Path)
    given = parser.parse_args()
    if given.client == "raw":
        raw(given.base, given.width, given.count)
        return
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    failed = evaluate(
        given.client,
        given.base,
        given.width,
        program=given.program,
        index=given.index,
        questions=given.questions,
        limit=given.count,
    )
    if failed:
        sys.exit(f"{failed} of {given.count} questions have no answer")


if __name__ == "__main__":
    main()
