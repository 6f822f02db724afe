"""What a service has done and how it stands, for Prometheus: numbers with labels of few values each, and no texts.

Several processes count in files of one folder, which `run.serve_in_processes` names in a variable before
prometheus_client is imported; whichever is asked tells the sums.
"""

import os
import re
import time
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, MutableMapping
from typing import Any

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector
from starlette.responses import Response

from experiments.service.answering import Answering, Event, Refused
from experiments.service.guards import Application, Receive, Scope, Send
from signatures.common.logs import of_request

disable_created_metrics()  # a second number for each count, which nobody needs here
_OUTCOMES = (
    ("answered", 200), ("unreadable", 200), ("abandoned", 499), ("queue_full", 503), ("budget_exceeded", 422),
    ("budget_exceeded", 503), ("content_filter", 422), ("unavailable", 503), ("timeout", 504), ("internal", 500),
)  # fmt: skip
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)


class Metrics(Collector):
    """The metrics of a service; `response` is what `/metrics` says.

    Args:
        answering: Answers its questions.
        about: Returns what `/v1/info` says of it now.
    """

    def __init__(self, answering: Answering, about: Callable[[], dict[str, Any]]):
        self._answering, self._about, self._kept = answering, about, CollectorRegistry()
        kept: dict[str, Any] = {"namespace": "verihop", "registry": self._kept}
        said = "HTTP requests that have ended, streams with their last event."
        self._requests = Counter("http_requests", said, ["path", "status"], **kept)
        said = "Until the last byte of a response was sent."
        self._seconds = Histogram("http_request_duration_seconds", said, ["path"], buckets=_SECONDS, **kept)
        said = "Questions that have ended, by outcome: answered, unreadable, abandoned, or the type of the error."
        self._questions = Counter("questions", said, ["outcome", "status"], **kept)
        for ended in _OUTCOMES:  # from 0 on: Prometheus sees no increase where a series begins with 1
            self._questions.labels(*ended)
        said = "Questions that are being answered, or wait for it."
        self._in_flight = Gauge("questions_in_flight", said, multiprocess_mode="sum", **kept)
        said = "Questions that are answered at a time; further ones wait."
        Gauge("width", said, multiprocess_mode="sum", **kept).set(answering.limits.width)

    def response(self) -> Response:
        """Return all metrics in the text format of Prometheus."""
        return Response(generate_latest(self), media_type=CONTENT_TYPE_LATEST)

    def collect(self) -> Iterable[Metric]:
        """Yield what was counted, and what is so now."""
        kept = MultiProcessCollector(None) if "PROMETHEUS_MULTIPROC_DIR" in os.environ else self._kept
        yield from kept.collect()
        about, budget = self._about(), self._answering.answerer.connection.lm.budget
        index, spent = about.get("index") or {}, budget.spent
        named = {name: about.get(name) for name in ("program", "lm", "artifact")}
        stated = {**named, "corpus_hash": index.get("corpus_hash"), "index": index.get("fingerprint")}
        told = {name: str(value) for name, value in stated.items() if value is not None}
        yield InfoMetricFamily("verihop", "What answers new questions; hashes of artifact, corpus and index.", told)
        said = "Whether questions are answered, as /ready says."
        yield GaugeMetricFamily("verihop_ready", said, self._answering.unready() is None)
        refused = GaugeMetricFamily(
            "verihop_refused", "Whether a new one cannot be used: the old answers.", labels=["what"]
        )
        for what in ("index", "artifact"):
            refused.add_metric([what], what in about.get("refused", ()))
        yield refused
        if corpus := about.get("corpus"):
            yield GaugeMetricFamily("verihop_index_passages", "Passages of the index.", corpus["passages"])
        if index:
            yield CounterMetricFamily("verihop_index_swaps", "How often a new index was opened.", index["swaps"])
        for name, said in (
            ("calls", "Calls sent to the LM, with retries."),
            ("tokens", "Tokens of prompts and replies of these calls."),
            ("usd", "Price of these calls in US dollars, where the LM states one."),
        ):
            yield CounterMetricFamily(f"verihop_lm_{name}", said, spent[name])
        left = GaugeMetricFamily("verihop_budget_left", "What is left of the budget of all questions.", labels=["unit"])
        for unit, value in budget.left().items():
            left.add_metric([unit], value)
        yield left

    async def of_question(self, events: AsyncGenerator[Event]) -> AsyncGenerator[Event]:
        """Yield the events of a question, and count it with its end, before the last is yielded."""
        ended = ("abandoned", 499)
        with self._in_flight.track_inprogress():
            try:
                async for event in events:
                    if event.kind == "answer":
                        empty = not event.data["answer"] and event.data["unreadable"] is not None
                        ended = ("unreadable" if empty else "answered", 200)
                        break
                    if event.kind == "error":
                        ended = (event.data["error"]["type"], event.data["error"]["status"])
                        break
                    yield event
            except Refused as error:
                ended = (error.failure.type, error.failure.status)
                raise
            finally:
                await events.aclose()
                self._questions.labels(*ended).inc()
        yield event

    def of_request(self, path: str, status: int, seconds: float) -> None:
        """Count a request that has ended."""
        self._requests.labels(path, status).inc()
        self._seconds.labels(path).observe(seconds)


class Counted:
    """Counts requests, also those that are refused before they are read, and names them in the log as the proxy does.

    Args:
        application: Answers them.
        metrics: Receive the counts.
        paths: Those that are told apart; all others count as one.
    """

    def __init__(self, application: Application, *, metrics: Metrics, paths: Collection[str]):
        self._application, self._metrics, self._paths = application, metrics, paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":  # the application begins or ends
            return await self._application(scope, receive, send)
        begun, status = time.perf_counter(), 500  # of an error, which is answered farther out

        async def sent(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            with of_request(_stated_id(scope)):
                await self._application(scope, receive, sent)
        finally:
            path = scope["path"] if scope["path"] in self._paths else "other"
            self._metrics.of_request(path, status, time.perf_counter() - begun)


def _stated_id(scope: Scope) -> str | None:
    """Return the id that a proxy gave a request, for the log; None without one, or if it is no word of 128 at most."""
    stated = next((value for name, value in scope.get("headers", ()) if name == b"x-request-id"), b"").decode("latin-1")
    return stated if re.fullmatch(r"[A-Za-z0-9._:/+=-]{1,128}", stated) else None
