"""A server on loopback whose connections follow a script."""

import contextlib
import socket
import threading
from collections.abc import Sequence

OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"


class ScriptedServer:
    """Each connection answers one request after another with the bytes of its script, and is closed at its end.

    A list of bytes is sent slowly, 20 ms after each.

    `requests` holds the requests with the number of their connection, in the order in which they came in whole.

    Args:
        scripts: Of the connections, in the order in which they are opened; others are closed at once.
        family: Of the addresses.
    """

    def __init__(self, *scripts: Sequence[bytes | list[bytes]], family: socket.AddressFamily = socket.AF_INET):
        self.requests: list[tuple[int, bytes]] = []
        self.closed = [threading.Event() for _ in scripts]
        self._scripts, self._pause = scripts, threading.Event()
        self._listening = socket.create_server(("::1" if family == socket.AF_INET6 else "127.0.0.1", 0), family=family)
        self.port = self._listening.getsockname()[1]
        host = "[::1]" if family == socket.AF_INET6 else "127.0.0.1"
        self.base = f"http://{host}:{self.port}/v1"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Accept no more connections."""
        self._listening.close()

    def _accept(self) -> None:
        for number, script in enumerate(self._scripts):
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(number, connection, script), daemon=True).start()

    def _serve(self, number: int, connection: socket.socket, script: Sequence[bytes | list[bytes]]) -> None:
        with connection, connection.makefile("rb") as received, contextlib.suppress(OSError):  # the client may leave
            for answer in script:
                if not (head := _head(received)):
                    break
                length = next((int(line[15:]) for line in head.lower().split(b"\r\n") if b"content-length:" in line), 0)
                self.requests.append((number, head + received.read(length)))
                for piece in [answer] if isinstance(answer, bytes) else answer:
                    connection.sendall(piece)
                    self._pause.wait(0 if isinstance(answer, bytes) else 0.02)
            else:
                if script and script[-1] == b"":  # the connection breaks instead of an answer
                    connection.shutdown(socket.SHUT_RDWR)
        self.closed[number].set()


def _head(received: "socket.SocketIO") -> bytes:
    lines = []
    while line := received.readline():
        lines.append(line)
        if line == b"\r\n":
            return b"".join(lines)
    return b""
