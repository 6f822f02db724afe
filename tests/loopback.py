"""HTTP servers on loopback for tests."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class JsonHandler(BaseHTTPRequestHandler):
    """Reads JSON bodies, sends JSON replies, and logs nothing; subclasses define `get` and `post`."""

    def do_GET(self) -> None:
        self.get()

    def do_POST(self) -> None:
        self.post()

    def get(self) -> None:
        """Answer a GET request; by default there is nothing."""
        self.reply(404, {"error": {"message": "not found"}})

    def post(self) -> None:
        """Answer a POST request."""
        raise NotImplementedError

    def log_message(self, *arguments: object) -> None:
        pass

    def body(self) -> dict[str, Any]:
        """Return the JSON body of the request."""
        return json.loads(self.rfile.read(int(self.headers["Content-Length"])))

    def reply(self, status: int, payload: Any) -> None:
        """Send bytes as they are, or a value as JSON."""
        data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 512  # connections that wait to be accepted


class Loopback:
    """A running server on a free port; `base` is its URL, followed by `path`."""

    def __init__(self, handler: type[BaseHTTPRequestHandler], path: str = "/v1"):
        self._http = _Server(("127.0.0.1", 0), handler)
        self.port = self._http.server_port
        self.base = f"http://127.0.0.1:{self.port}{path}"
        threading.Thread(target=self._http.serve_forever, daemon=True, kwargs={"poll_interval": 0.01}).start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
