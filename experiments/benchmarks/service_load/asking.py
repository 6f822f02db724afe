"""Many clients at once: each asks one question after another, and notes how long each answer took.

    python -m experiments.benchmarks.service_load.asking direct|service URL INDEX PROGRAM CLIENTS QUESTIONS

asks a program in this process (`direct`, URL of the LM), or a service (`service`, its URL), and prints a JSON list of
seconds. The first answer of each client is not counted: it opens connections.
"""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from urllib.parse import urlsplit

from corpora.questions import read_questions

Ask = Callable[[str], Awaitable[object]]


async def seconds_of(ask: Ask, questions: list[str], clients: int, each: int) -> list[float]:
    """Return the seconds of every answer but the first of each client, when all clients ask at once."""
    found: list[float] = []

    async def client(number: int) -> None:
        for turn in range(each + 1):
            question = questions[(number * (each + 1) + turn) % len(questions)]
            begun = time.perf_counter()
            await ask(f"{question} ({number}.{turn})")  # so that no two are equal, and no reply comes from a cache
            if turn:
                found.append(time.perf_counter() - begun)

    await asyncio.gather(*map(client, range(clients)))
    return found


async def direct(url: str, index: Path, program: str, questions: list[str], clients: int, each: int) -> list[float]:
    """Ask a program of this process."""
    from corpora.index.open import open_index
    from experiments.pipeline.setup import open_lm
    from programs.catalog import build
    from programs.inference import Answerer
    from programs.lms.calls.transport import connections_for
    from programs.lms.spec import LMSpec

    connection = open_lm(LMSpec(id="loopback", api_base=url, cache=False, connections=connections_for(clients)))
    answerer = Answerer(build(program, open_index(index)), connection, width=clients)
    return await seconds_of(answerer.acall, questions, clients, each)


async def service(url: str, questions: list[str], clients: int, each: int) -> list[float]:
    """Ask a service over a connection for each client; without an HTTP library, whose time would be measured, too."""
    address = urlsplit(url)
    idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def ask(question: str) -> None:
        reader, writer = idle.pop() if idle else await asyncio.open_connection(address.hostname, address.port)
        body = json.dumps({"question": question}).encode()
        head = f"POST /v1/answers HTTP/1.1\r\nHost: {address.netloc}\r\nContent-Type: application/json\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        answer = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        assert answer.startswith("http/1.1 200"), answer
        await reader.readexactly(int(answer.partition("content-length: ")[2].split()[0]))
        idle.append((reader, writer))

    return await seconds_of(ask, questions, clients, each)


def main() -> None:
    """Measure, and print the seconds."""
    kind, url, index, program, clients, each = sys.argv[1:]
    questions = [question.question for question in read_questions(Path(index).parent / "questions.jsonl")]
    if kind == "direct":
        found = asyncio.run(direct(url, Path(index), program, questions, int(clients), int(each)))
    else:
        found = asyncio.run(service(url, questions, int(clients), int(each)))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
