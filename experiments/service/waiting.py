"""Connections that wait for their client, in the order in which they are closed when there are too many."""

import ipaddress
from collections import defaultdict
from typing import Any, Generic, TypeVar

Connection = TypeVar("Connection")


class Waiting(Generic[Connection]):
    """Says which connection is closed first.

    First those that are idle between two requests, the one that has waited longest. Then those without a whole request,
    of the address that has most of them the oldest. So nobody keeps others out by half requests: who has another
    address loses nothing, and who has the same, such as all on the loopback address or behind a proxy, has as long to
    send a request as it takes to open all connections anew.
    """

    def __init__(self) -> None:
        self._idle: dict[Connection, None] = {}  # in order of arrival, like those below
        self._begun: defaultdict[str, dict[Connection, None]] = defaultdict(dict)
        self._address: dict[Connection, str] = {}

    def add(self, connection: Connection, client: Any, *, idle: bool = False) -> None:
        """Add a connection, as the last; one that is there keeps its place unless it was idle and is no longer.

        Args:
            connection: What waits.
            client: Host and port; None if unknown.
            idle: Between two requests.
        """
        if idle:
            self.remove(connection)
            self._idle[connection] = None
        elif connection not in self._address:
            self._idle.pop(connection, None)
            address = self._address[connection] = _share(client)
            self._begun[address][connection] = None

    def remove(self, connection: Connection) -> None:
        """Remove a connection, if it is there."""
        self._idle.pop(connection, None)
        if (address := self._address.pop(connection, None)) is not None:
            del self._begun[address][connection]
            if not self._begun[address]:
                del self._begun[address]

    def first(self) -> Connection | None:
        """Return the connection to close; None if none waits."""
        most = self._idle or max(self._begun.values(), key=len, default={})
        return next(iter(most), None)


def _share(client: Any) -> str:
    """Return the address whose connections count together: of IPv6 the network, in which one host has any address."""
    host = str(client[0]) if client else ""
    return ipaddress.ip_address(host.partition("%")[0]).exploded[:19] if ":" in host else host
