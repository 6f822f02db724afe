"""How calls are sent over a connection."""

from dataclasses import dataclass

from signatures.common.errors import UserError


@dataclass(frozen=True)
class Transport:
    """Retries, time limit and width of the calls of a connection.

    Args:
        retries: How often a call is repeated after a transient failure (5xx, a reply that cannot be read, no reply in
            time, no connection to a server that has never answered).
        timeout: Seconds that one call to a server may take.
        connections: Calls in flight at a time, at least as many as there are threads; a server with fewer slots gets
            fewer.
        patience: Seconds for which a call is repeated, without counting as `retries`, while the server limits the rate
            (429, 503) or cannot be reached although it has answered before.

    Raises:
        UserError: A number is out of range.
    """

    retries: int = 3
    timeout: float = 120.0
    connections: int = 100
    patience: float = 600.0

    def __post_init__(self) -> None:
        if self.retries < 0:
            raise UserError(f"retries must be at least 0, got {self.retries}.")
        if not self.timeout > 0:
            raise UserError(f"timeout must be a positive number of seconds, got {self.timeout:g}.")
        if self.connections < 1:
            raise UserError(f"connections must be at least 1, got {self.connections}.")
        if not self.patience >= 0:
            raise UserError(f"patience must be at least 0 seconds, got {self.patience:g}.")
