"""CPU time per call of HTTP clients, many threads against a server on loopback.

    python -m experiments.benchmarks.speed.loopback_clients

Every client is measured in processes of its own, rounds interleaved. `post` is the client that LM calls go through.
"""

import argparse
import asyncio
import itertools
import json
import os
import queue
import resource
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from experiments.benchmarks.speed.loopback import server
from experiments.runs.files import write_json
from experiments.runs.provenance import portable, provenance

RESULT = Path("experiments/results/loopback_clients.json")
_TIMEOUT = 120.0
_JSON = {"Content-Type": "application/json"}
Post = Callable[[bytes], bytes]


def post(base: str, width: int) -> Post:
    """The client of LM calls; parses the JSON of replies, too."""
    from programs.lms.calls.transport import Transport
    from programs.lms.servers.post import ServerClient

    client = ServerClient(base, transport=Transport(connections=width))
    return lambda body: b"x" if client.post("chat/completions", json.loads(body)) else b""


def httpx_shared(base: str, width: int) -> Post:
    """One httpx client with a pool, which all threads share."""
    from signatures.common.http import http_client

    client = http_client(_TIMEOUT, connections=width)
    return lambda body: client.post(f"{base}/chat/completions", content=body, headers=_JSON).content


def httpx_exclusive(base: str, width: int) -> Post:
    """Clients of httpx with a connection each, checked out by a call."""
    import ssl

    import httpx

    free: queue.LifoQueue[Any] = queue.LifoQueue()
    context = ssl.create_default_context()
    for _ in range(width):
        free.put(httpx.Client(timeout=_TIMEOUT, verify=context, trust_env=False))

    def send(body: bytes) -> bytes:
        client = free.get()
        try:
            return client.post(f"{base}/chat/completions", content=body, headers=_JSON).content
        finally:
            free.put(client)

    return send


def urllib3_pool(base: str, width: int) -> Post:
    """A pool of urllib3."""
    import urllib3

    url = urlsplit(base)
    pool = urllib3.HTTPConnectionPool(url.hostname or "", url.port, maxsize=width, block=True, timeout=_TIMEOUT)
    path = f"{url.path}/chat/completions"
    return lambda body: pool.urlopen("POST", path, body=body, headers=_JSON, retries=False).data


def http_client_exclusive(base: str, width: int) -> Post:
    """Connections of the standard library, checked out by a call: what any of its users costs at least."""
    import http.client

    url = urlsplit(base)
    free: queue.LifoQueue[Any] = queue.LifoQueue()
    for _ in range(width):
        free.put(http.client.HTTPConnection(url.hostname or "", url.port, timeout=_TIMEOUT))

    def send(body: bytes) -> bytes:
        connection = free.get()
        try:
            connection.request("POST", f"{url.path}/chat/completions", body=body, headers=_JSON)
            return connection.getresponse().read()
        finally:
            free.put(connection)

    return send


def aiohttp_loop(base: str, width: int) -> Post:
    """One session of aiohttp on a loop in a background thread."""
    import aiohttp

    loop = _background_loop()

    async def opened() -> aiohttp.ClientSession:
        timeout = aiohttp.ClientTimeout(total=_TIMEOUT)
        return aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=width), timeout=timeout)

    session = asyncio.run_coroutine_threadsafe(opened(), loop).result()

    async def send(body: bytes) -> bytes:
        async with session.post(f"{base}/chat/completions", data=body, headers=_JSON, allow_redirects=False) as reply:
            return await reply.read()

    return lambda body: asyncio.run_coroutine_threadsafe(send(body), loop).result()


def httpx_loop(base: str, width: int) -> Post:
    """One asynchronous client of httpx on a loop in a background thread."""
    import httpx

    loop = _background_loop()
    client = httpx.AsyncClient(timeout=_TIMEOUT, limits=httpx.Limits(max_connections=width), trust_env=False)

    async def send(body: bytes) -> bytes:
        return (await client.post(f"{base}/chat/completions", content=body, headers=_JSON)).content

    return lambda body: asyncio.run_coroutine_threadsafe(send(body), loop).result()


def _background_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    return loop


CLIENTS: dict[str, Callable[[str, int], Post]] = {
    client.__name__: client
    for client in (
        post,
        httpx_shared,
        httpx_exclusive,
        urllib3_pool,
        http_client_exclusive,
        aiohttp_loop,
        httpx_loop,
    )
}


def measure(client: str, base: str, width: int, calls: int) -> dict[str, float]:
    """Return the seconds and the CPU milliseconds per call of `calls` calls by `width` threads in this process."""
    prompt = "The passages say what there is to say about the question. " * 70  # 4 KB
    body = json.dumps({"model": "loopback", "messages": [{"role": "user", "content": prompt}]}).encode()
    send = CLIENTS[client](base, width)
    left, lost = itertools.count(), []

    def work(_: int) -> None:
        while next(left) < calls:
            try:
                assert send(body)
            except Exception as error:  # noqa: BLE001 - counted
                lost.append(repr(error))

    with ThreadPoolExecutor(width) as pool:
        list(pool.map(lambda _: send(body), range(width)))  # connections are open, modules imported
        started, used = time.perf_counter(), _cpu()
        list(pool.map(work, range(width)))
        seconds, cpu = time.perf_counter() - started, _cpu() - used
    if lost:
        print(f"{client}: {len(lost)} of {calls} calls lost, as {lost[0]}", file=sys.stderr)
    return {"seconds": seconds, "cpu_ms_per_call": 1000 * cpu / calls, "lost": len(lost)}


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _in_process(client: str, base: str, width: int, calls: int) -> dict[str, float]:
    command = [sys.executable, "-m", "experiments.benchmarks.speed.loopback_clients", "--one", client, "--base", base]
    done = subprocess.run([*command, "--width", str(width), "--calls", str(calls)], check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)


def summary(values: list[float]) -> dict[str, float]:
    """Return the minimum, the median and the maximum."""
    return {"min": min(values), "median": statistics.median(values), "max": max(values)}


def main() -> None:
    """Measure all clients and write the result."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--width", type=int, default=64, help="Threads, and connections.")
    parser.add_argument("--calls", type=int, default=1280, help="Calls of each client in a round.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--latency", type=float, default=0.2, help="Seconds that the server takes.")
    parser.add_argument("--clients", nargs="*", default=list(CLIENTS), choices=list(CLIENTS))
    parser.add_argument("--out", type=Path, default=RESULT)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--base", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measure(arguments.one, arguments.base, arguments.width, arguments.calls)))
        return
    load = os.getloadavg()
    rounds: list[dict[str, dict[str, float]]] = []
    with server(arguments.latency) as base:
        for number in range(arguments.rounds):
            rounds.append({})
            for client in arguments.clients:
                rounds[-1][client] = found = _in_process(client, base, arguments.width, arguments.calls)
                print(f"round {number + 1}: {client}: {found['cpu_ms_per_call']:.3f} ms a call", file=sys.stderr)
    result = {
        client: {name: summary([one[client][name] for one in rounds]) for name in rounds[0][client]}
        for client in arguments.clients
    }
    settings = {name: value for name, value in vars(arguments).items() if name not in ("one", "base", "out")}
    write_json(arguments.out, portable({"settings": settings, "load": load, "cores": os.cpu_count(), "clients": result,
                               **provenance("experiments.benchmarks.speed.loopback_clients")}))  # fmt: skip
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
