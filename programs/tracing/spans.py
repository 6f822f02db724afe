"""Questions, LM calls and searches as spans of OpenTelemetry, sent by OTLP over HTTP (extra `otel`).

Names and attributes follow the semantic conventions for generative AI, which are in development:
https://github.com/open-telemetry/semantic-conventions-genai (commit 002c8a6). What they have no name for begins with
`verihop.`. A question is the operation `invoke_workflow`, an LM call `chat` or `text_completion`, a search `retrieval`.

Where spans go is said by the standard variables (OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_HEADERS,
OTEL_SERVICE_NAME, OTEL_TRACES_SAMPLER ...). Texts (questions, prompts, replies, queries, and messages of errors, which
may contain them) are sent only if OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT says so; keys never are.
"""

import contextlib
import json
import logging
import mmap
import os
import re
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import metadata
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote, urlsplit

import dspy
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from programs.lms.tracing.calls import LMCall, observe_calls
from programs.parts.prediction import original_of
from programs.parts.threads import daemon
from signatures.common.errors import UserError, UserNotice, one_line
from signatures.common.files import utf8
from signatures.common.per_process import Uncopied
from signatures.common.secrets import redact, register
from signatures.types import Passage

if TYPE_CHECKING:
    from opentelemetry.trace import Span


_PROVIDERS = {  # prefixes of model strings that the conventions name otherwise
    "gemini": "gcp.gemini", "vertex_ai": "gcp.vertex_ai", "bedrock": "aws.bedrock", "azure": "azure.ai.openai",
    "xai": "x_ai", "mistral": "mistral_ai", "moonshot": "moonshot_ai",
}  # fmt: skip
_REQUESTED = ("temperature", "top_p", "top_k", "max_tokens", "seed")


def call_attributes(call: LMCall, names: Mapping[int, str], *, content: bool) -> dict[str, Any]:
    """Return what the span of an LM call says.

    Args:
        call: That has ended.
        names: Of the predictors of the program, by `id`.
        content: Whether texts are among it.
    """
    provider = call.model.partition("/")[0]
    counts, settings = call.meter.counts(), call.settings
    signature = getattr(call.predictor, "signature", None)
    reasons = [str(reply["finish_reason"]) for reply in call.replies if reply.get("finish_reason")]
    attributes = {
        "gen_ai.operation.name": call.operation,
        "gen_ai.provider.name": _PROVIDERS.get(provider, provider),
        "gen_ai.request.model": call.model.partition("/")[2] or call.model,
        **{f"gen_ai.request.{name}": settings[name] for name in _REQUESTED if name in settings},
        "gen_ai.response.finish_reasons": reasons,
        "gen_ai.usage.input_tokens": int(counts["prompt_tokens"]),
        "gen_ai.usage.output_tokens": int(counts["completion_tokens"]),
        "verihop.predictor": names.get(id(original_of(call.predictor))) or getattr(signature, "__name__", None),
        "verihop.metric": call.metric,
        "verihop.cached": call.cached,
        "verihop.retries": int(counts["retries"]),
        "verihop.usd": counts["usd"],
        "verihop.rollout_id": settings.get("rollout_id"),
    }
    if counts["reasoning_tokens"]:
        attributes["gen_ai.usage.reasoning.output_tokens"] = int(counts["reasoning_tokens"])
    if content:
        system = [str(each["content"]) for each in call.messages if each["role"] == "system"]
        others = [(each["role"], str(each.get("content"))) for each in call.messages if each["role"] != "system"]
        attributes["gen_ai.system_instructions"] = _json([{"type": "text", "content": text} for text in system])
        attributes["gen_ai.input.messages"] = messages_of(others)
        attributes["gen_ai.output.messages"] = _json([_reply(reply) for reply in call.replies])
    return attributes


def documents_of(passages: Iterable[Passage]) -> str:
    """Return ids and scores of passages, as JSON."""
    return _json([{"id": passage.id, "score": passage.score} for passage in passages])


def messages_of(pairs: Sequence[tuple[str, str]]) -> str:
    """Return roles and texts in the form of the conventions, as JSON."""
    return _json([{"role": role, "parts": [{"type": "text", "content": text}]} for role, text in pairs])


def _reply(reply: Mapping[str, Any]) -> dict[str, Any]:
    thinking = [{"type": "reasoning", "content": reply["thinking"]}] if reply.get("thinking") else []
    tools = [{"type": "tool_call", **call} for call in reply.get("tool_calls") or ()]
    parts = [*thinking, {"type": "text", "content": reply["text"]}, *tools]
    return {"role": "assistant", "parts": parts, "finish_reason": reply.get("finish_reason") or "stop"}


def plain(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes as OpenTelemetry takes them, without those that are None, with keys hidden."""
    return {name: plain_text(value) for name, value in attributes.items() if value is not None}


def plain_text(value: Any) -> Any:
    """Return one value of an attribute as OpenTelemetry takes it, with keys hidden.

    A list is one of texts, even if it is empty; what is structured is JSON before, so that its type never changes.
    """
    if isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return utf8(redact(value))
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return [plain_text(item) for item in value]
    return plain_text(_json(value))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


CONTENT_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_CONTENT = ("true", "span_only", "span_and_event")

Found = TypeVar("Found")


def _warn(text: str) -> None:
    warnings.warn(text, UserNotice, stacklevel=2)


def open_spans(tell: Callable[[str], object] = _warn) -> "Spans":
    """Return what sends spans as the variables of OpenTelemetry say.

    Args:
        tell: Is given one line if spans cannot be delivered, maybe in another thread.

    Raises:
        UserError: A variable asks for another protocol or exporter than OTLP over HTTP.
    """
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    for name, most in (
        ("OTEL_TRACES_EXPORTER", "otlp"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
        ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf"),
    ):
        if os.environ.get(name, "").strip() not in ("", most):
            raise UserError(f"{name} is {os.environ[name]!r}, but spans are sent by {most} only: set {name}={most}.")
    for name in ("OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"):
        for pair in os.environ.get(name, "").split(","):
            value = pair.partition("=")[2].strip()
            register(value, unquote(value), unquote(value).rpartition(" ")[2])
    content = os.environ.get(CONTENT_VARIABLE, "").strip().lower() in _CONTENT

    exporters = (OTLPSpanExporter(), OTLPSpanExporter(timeout=LAST_SECONDS))
    return Spans(Sender(*exporters, tell, OTLPSpanExporter.__module__), content=content)


class Spans:
    """Makes spans and sends them in the background; `close` sends the last ones.

    Args:
        exporter: Sends them; a `Sender` within seconds at the end.
        content: Whether texts are sent as well.
    """

    def __init__(self, exporter: SpanExporter, *, content: bool = False):
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        version = metadata.version("verihop")
        named = {} if "OTEL_SERVICE_NAME" in os.environ else {"service.name": "verihop"}
        resource = Resource({"service.version": version}).merge(Resource.create(named))
        # Not the global provider: libraries that look for one would send spans of their own.
        self._provider: TracerProvider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._exporter = exporter
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("verihop", version)
        self._content = content
        self._names: dict[int, dict[int, str]] = {}  # of the predictors of each program

    def flush(self) -> None:
        """Send what has ended, for at most a few seconds, in a process that is about to end."""
        self._end(self._provider.force_flush)

    def close(self) -> None:
        """Send what has ended, for at most a few seconds, and stop."""
        self._end(self._provider.shutdown)

    def _end(self, send: Callable[[], object]) -> None:
        if isinstance(self._exporter, Sender):
            self._exporter.end(send)
        else:
            send()

    @contextlib.contextmanager
    def question(self, program: dspy.Module, question: str, facts: Mapping[str, Any]) -> Iterator["_Question"]:
        """Answer a question in the block, in a span that LM calls and searches are children of."""
        from opentelemetry.trace import SpanKind

        from programs.artifact import program_name

        name = program_name(program)
        attributes = {
            "gen_ai.operation.name": "invoke_workflow",
            "gen_ai.workflow.name": name,
            **{f"verihop.question.{fact}": value for fact, value in facts.items()},
        }
        names = self._names_of(program)
        with self._tracer.start_as_current_span(
            f"invoke_workflow {name}", kind=SpanKind.INTERNAL, attributes=plain(attributes), record_exception=False,
            set_status_on_exception=False,
        ) as span:  # fmt: skip
            if self._content:
                span.set_attributes(plain({"gen_ai.input.messages": messages_of([("user", question)])}))
            told = _Question(span, content=self._content)
            with observe_calls(lambda call: self._heard(call, names)):
                try:
                    yield told
                except BaseException as error:
                    told.ended(error=error)
                    raise

    def _names_of(self, program: dspy.Module) -> dict[int, str]:
        if id(program) not in self._names:
            self._names[id(program)] = {id(each): name for name, each in program.named_predictors()}
        return self._names[id(program)]

    def _heard(self, call: LMCall, names: Mapping[int, str]) -> None:
        """Make a span of an LM call that has ended, below what runs in its thread."""
        from opentelemetry.trace import SpanKind

        attributes = call_attributes(call, names, content=self._content)
        started = int(1e9 * call.started)
        name = f"{call.operation} {attributes['gen_ai.request.model']}"
        span = self._tracer.start_span(
            name, kind=SpanKind.CLIENT, start_time=started, attributes=plain(attributes), record_exception=False
        )
        if call.error is not None:
            _fail(span, call.error.partition(":")[0], call.error if self._content else None)
        span.end(started + int(1e9 * call.seconds))

    def traced(self, program: dspy.Module) -> dspy.Module:
        """Let the searches of a program, and of those it contains, be spans; return it."""
        wrapped: dict[int, TracedRetriever] = {}
        for _, module in program.named_sub_modules():
            retriever = vars(module).get("retrieve")  # of a cascade it is that of a part
            if retriever is not None and not isinstance(retriever, TracedRetriever):
                module.retrieve = wrapped.setdefault(id(retriever), TracedRetriever(retriever, self._searched))
        return program

    def _searched(
        self, search: Callable[[], Found], source: str, queries: Sequence[str], k: int, ids: Callable[[Found], Any]
    ) -> Found:
        from opentelemetry.trace import SpanKind

        attributes: dict[str, Any] = {
            "gen_ai.operation.name": "retrieval",
            "gen_ai.data_source.id": source,
            "gen_ai.request.top_k": float(k),
            "verihop.queries": len(queries),
        }
        if self._content:
            attributes["gen_ai.retrieval.query.text"] = "\n".join(queries)
        with self._tracer.start_as_current_span(
            f"retrieval {source}", kind=SpanKind.CLIENT, attributes=plain(attributes), record_exception=False,
            set_status_on_exception=False,
        ) as span:  # fmt: skip
            try:
                found = search()
            except BaseException as error:
                _fail(span, type(error).__name__, one_line(error) if self._content else None)
                raise
            span.set_attributes(plain({"gen_ai.retrieval.documents": ids(found)} if self._content else {}))
            return found


class _Question:
    """The span of a question."""

    def __init__(self, span: "Span", *, content: bool):
        self._span, self._content = span, content

    @property
    def trace_id(self) -> str | None:
        """The id of its trace, hexadecimal."""
        return f"{self._span.get_span_context().trace_id:032x}"

    def ended(
        self, *, answer: str | None = None, error: BaseException | None = None, facts: Mapping[str, Any] = {}
    ) -> None:
        """Tell how the question ended."""
        self._span.set_attributes(plain({f"verihop.{name}": value for name, value in facts.items()}))
        if answer is not None and self._content:
            self._span.set_attributes(plain({"gen_ai.output.messages": messages_of([("assistant", answer)])}))
        if error is not None:
            _fail(self._span, type(error).__name__, one_line(error) if self._content else None)


class TracedRetriever(Uncopied):
    """A retriever whose searches are traced."""

    def __init__(self, retriever: Any, searched: Callable[..., Any]):
        self._retriever, self._searched = retriever, searched

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # of copying and the like, which must not find those of the retriever
            raise AttributeError(name)
        return getattr(self._retriever, name)

    def __call__(self, query: str, k: int) -> list[Passage]:
        """Return the first `k` passages for a query."""
        found: list[Passage] = self._searched(
            lambda: self._retriever(query, k), str(self._retriever.fingerprint), [query], k, documents_of
        )
        return found

    def many(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        """Return the first `k` passages for each query."""
        found: list[list[Passage]] = self._searched(
            lambda: self._retriever.many(queries, k), str(self._retriever.fingerprint), list(queries), k,
            lambda rankings: documents_of(passage for ranking in rankings for passage in ranking),
        )  # fmt: skip
        return found


def _fail(span: "Span", kind: str, message: str | None) -> None:
    from opentelemetry.trace import Status, StatusCode

    span.set_attributes(plain({"error.type": kind}))
    span.set_status(Status(StatusCode.ERROR, message if message is None else plain_text(message)))


LAST_SECONDS = 2.0  # for what is sent at the end
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_DEFAULT = "http://localhost:4318"  # https://opentelemetry.io/docs/specs/otel/protocol/exporter/
_STATUS = re.compile(r"code: (\d+)")


class Sender(SpanExporter):
    """Hands spans to an exporter, and tells once if it cannot deliver them; forks of this process tell once together.

    Args:
        exporter: Repeats what fails for as long as it is set to.
        last: Takes its place at the end; gives up within `LAST_SECONDS`.
        tell: Is given one line.
        log: The logger of the exporters, whose messages are what is told.
    """

    def __init__(self, exporter: SpanExporter, last: SpanExporter, tell: Callable[[str], object], log: str):
        self._exporter, self._last, self._tell = exporter, last, tell
        self._told = mmap.mmap(-1, 1)  # shared with forks
        self._telling = threading.Lock()
        self._ending = self._failed = False
        self._status: str | None = None
        self._log = logging.getLogger(log)
        self._log.addFilter(self._heard)

    def _heard(self, record: logging.LogRecord) -> bool:
        """Keep the status that the collector answered; let no message pass."""
        if found := _STATUS.search(record.getMessage()):
            self._status = found[1]
        return False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send spans."""
        if self._ending and self._failed:  # each attempt takes seconds
            return SpanExportResult.FAILURE
        result = (self._last if self._ending else self._exporter).export(spans)
        self._failed = result is not SpanExportResult.SUCCESS
        if self._failed:
            self._tell_once()
        return result

    def end(self, send: Callable[[], object]) -> None:
        """Run what sends the last spans, for `LAST_SECONDS` and a little more at most."""
        self._ending = True
        self._exporter.shutdown()  # it waits for no further attempt
        thread = daemon(send, name="last-spans")
        thread.join(1.1 * LAST_SECONDS)
        if thread.is_alive():
            self._failed = True  # further batches are not tried
            self._tell_once()

    def shutdown(self) -> None:
        """Send nothing more."""
        self._last.shutdown()
        self._log.removeFilter(self._heard)

    def _tell_once(self) -> None:
        with self._telling:
            if self._told[0]:
                return
            self._told[0] = 1
        variable, endpoint = next(((name, os.environ[name]) for name in _ENDPOINTS if os.environ.get(name)), ("", ""))
        address = urlsplit(endpoint or _DEFAULT)
        place = f"{address.scheme}://{address.netloc.rpartition('@')[2]}"
        why = "no collector takes them" if self._status is None else f"status {self._status}"
        cure = f"Start a collector there, or name another in {variable or _ENDPOINTS[1]}."
        self._tell(f"Spans were not delivered to {place}: {why}. {cure}")
