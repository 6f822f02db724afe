"""Send spans in the background, and end within seconds where no collector takes them."""

import logging
import mmap
import os
import re
import threading
from collections.abc import Callable, Sequence
from urllib.parse import urlsplit

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

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
        thread = threading.Thread(target=send, daemon=True)
        thread.start()
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
