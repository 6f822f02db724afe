"""A collector of OpenTelemetry on the loopback address: keeps the spans that it is sent."""

from dataclasses import dataclass
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from tests.loopback import JsonHandler, Loopback

HEADER = "hdr-5b1c7d9e3f2a4b6c8d"  # a key that the collector asks for


@dataclass(frozen=True)
class Received:
    """A span: its attributes by name, with those of its resource."""

    name: str
    trace: bytes
    id: bytes
    parent: bytes
    attributes: dict[str, Any]
    resource: dict[str, Any]
    failed: bool
    seconds: float


class Collector:
    """Runs until it is closed; `base` is its URL, `bodies` and `headers` what came."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        collector = self

        class Handler(JsonHandler):
            def post(self) -> None:
                assert self.path == "/v1/traces"
                collector.headers.append(dict(self.headers))
                collector.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
                self.reply(200, ExportTraceServiceResponse().SerializeToString())

        self._server = Loopback(Handler, path="")
        self.base = self._server.base

    def close(self) -> None:
        self._server.close()

    @property
    def spans(self) -> list[Received]:
        """What came, in the order begun."""
        found = []
        for body in self.bodies:
            for group in ExportTraceServiceRequest.FromString(body).resource_spans:
                resource = _values(group.resource.attributes)
                for scope in group.scope_spans:
                    found += [(span.start_time_unix_nano, span, resource) for span in scope.spans]
        ordered = sorted(found, key=lambda each: each[0])
        return [
            Received(
                span.name, span.trace_id, span.span_id, span.parent_span_id, _values(span.attributes), resource,
                span.status.code == 2, (span.end_time_unix_nano - span.start_time_unix_nano) / 1e9,
            )
            for _, span, resource in ordered
        ]  # fmt: skip


def _values(pairs: Any) -> dict[str, Any]:
    def plain(value: Any) -> Any:
        kind = value.WhichOneof("value")
        return [plain(item) for item in value.array_value.values] if kind == "array_value" else getattr(value, kind)

    return {pair.key: plain(pair.value) for pair in pairs}


def check_tree(spans: list[Received], questions: int) -> list[Received]:
    """Check that each question is a trace of its own, with its LM calls and searches below; return the questions."""
    roots = [span for span in spans if not span.parent]
    assert [span.attributes["gen_ai.operation.name"] for span in roots] == ["invoke_workflow"] * questions
    assert len({span.trace for span in spans}) == questions
    by_id = {span.id: span for span in spans}
    for span in spans:
        if span.parent:
            assert by_id[span.parent].trace == span.trace
            assert span.attributes["gen_ai.operation.name"] in ("chat", "retrieval")
    return roots
