"""Questions lost at a server that limits the rate: a real server on loopback, many threads, real waits.

    python -m experiments.benchmarks.rate_limits

The server answers at most `--rate` requests in any second and refuses the others with HTTP 429, once without and once
with the header `Retry-After: 1`. The fastest possible time is questions / rate.
"""

import argparse
import json
import sys
import threading
import time
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from experiments.pipeline.parallel.thread_pool import ThreadPool
from experiments.runs.files import write_json
from experiments.runs.provenance import portable, provenance
from programs.lms.connect import Connection, ModelTraits, connect
from programs.parts.meter import metered

RESULT = Path("experiments/results/rate_limits.json")
REPLY_SECONDS = 0.05


class LimitedServer:
    """An OpenAI-compatible server with a rate limit.

    Args:
        rate: Requests accepted in any second.
        hint: Seconds in the header `Retry-After`; None sends none.
    """

    def __init__(self, rate: int, hint: int | None):
        self.accepted: deque[float] = deque()
        self.refused = 0
        lock, outer = threading.Lock(), self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *arguments: Any) -> None:
                pass

            def do_GET(self) -> None:
                self.reply(200, {"data": [{"id": "m"}]})

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                with lock:
                    now = time.monotonic()
                    while outer.accepted and outer.accepted[0] <= now - 1:
                        outer.accepted.popleft()
                    accepted = len(outer.accepted) < rate
                    outer.accepted.append(now) if accepted else None
                    outer.refused += not accepted
                if not accepted:
                    self.reply(429, {"error": {"message": "too many requests"}})
                    return
                time.sleep(REPLY_SECONDS)
                choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "yes"}}
                usage = {"prompt_tokens": 7, "completion_tokens": 1}
                self.reply(200, {"model": "m", "choices": [choice], "usage": usage})

            def reply(self, status: int, body: dict[str, Any]) -> None:
                data = json.dumps(body).encode()
                self.send_response(status)
                if status == 429 and hint is not None:
                    self.send_header("Retry-After", str(hint))
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        class Server(ThreadingHTTPServer):
            request_queue_size = 256
            daemon_threads = True

        self.http = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.http.serve_forever, daemon=True).start()


def measure(hint: int | None, *, rate: int, threads: int, questions: int) -> tuple[dict[str, Any], Connection]:
    """Return how many questions were answered and lost, and what that took."""
    server = LimitedServer(rate, hint)
    base = f"http://127.0.0.1:{server.http.server_port}/v1"
    connection = connect("m", api_base=base, cache=False, traits=ModelTraits(probability_mode="samples"))
    start = time.monotonic()
    waits: list[float] = []

    def ask(number: int) -> int:
        begun = time.monotonic()
        with metered() as meter:
            connection.lm(f"question {number}")
        waits.append(time.monotonic() - begun)
        return int(meter.calls)

    outcomes = list(ThreadPool(ask, range(questions), threads=threads))
    server.http.shutdown()
    server.http.server_close()
    answered = sum(outcome.error is None for outcome in outcomes)
    return {
        "retry_after": hint,
        "answered": answered,
        "lost": questions - answered,
        "refused": server.refused,
        "seconds": round(time.monotonic() - start, 1),
        "longest_question_seconds": round(max(waits), 1),
    }, connection


def main() -> None:
    """Measure, print a line for each kind of refusal, and write the result file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=int, default=20, help="requests a second (default: 20)")
    parser.add_argument("--threads", type=int, default=64)
    parser.add_argument("--questions", type=int, default=300)
    parser.add_argument("--out", type=Path, default=RESULT)
    arguments = parser.parse_args()
    settings = {"rate": arguments.rate, "threads": arguments.threads, "questions": arguments.questions}
    measured = [measure(hint, **settings) for hint in (None, 1)]
    rows = [row for row, _ in measured]
    record = {**provenance("experiments.benchmarks.rate_limits", measured[0][1]), **settings, "rows": rows}
    write_json(arguments.out, portable(record))
    for row in rows:
        print(", ".join(f"{name} {value}" for name, value in row.items()))
    print(f"Written: {arguments.out}", file=sys.stderr)


if __name__ == "__main__":
    main()
