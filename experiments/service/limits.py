"""What a service grants to one request, and to all of them together."""

from dataclasses import dataclass, field

from signatures.common.errors import UserError

_CONNECTIONS = 1024


@dataclass(frozen=True)
class Limits:
    """The limits of a service.

    Args:
        width: Questions that are answered at a time.
        queue: Questions that may wait for their turn; further ones are refused with status 503. So are searches.
        body_bytes: Of a request.
        question_characters: Of a question, and of a query.
        queries: Of one retrieval.
        searches: Retrievals at a time, beside those of questions.
        seconds: That a question may take, without waiting for its turn; None for no limit.
        budget: LM calls, tokens and price (`calls`, `tokens`, `usd`) that one question may take.
    """

    width: int = 16
    queue: int = 64
    body_bytes: int = 1 << 18
    question_characters: int = 4000
    queries: int = 256
    searches: int = 4
    seconds: float | None = 600.0
    budget: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raise UserError if no question could be answered."""
        at_least = {"width": 1, "queue": 0, "body_bytes": 100, "question_characters": 1, "searches": 1}
        for name, least in at_least.items():
            if getattr(self, name) < least:
                raise UserError(f"{name} of the service must be at least {least}, got {getattr(self, name)}.")
        if self.seconds is not None and self.seconds <= 0:
            raise UserError(f"seconds of a question must be more than 0, got {self.seconds}.")

    @property
    def connections(self) -> int:
        """Connections that may be open at a time: more than can be answered, so that others may wait for the next."""
        return max(_CONNECTIONS, 2 * (self.width + self.queue))
