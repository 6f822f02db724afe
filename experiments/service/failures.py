"""Errors of a service as clients see them: a status, a type and one sentence; no path, key or traceback."""

import logging
import secrets
from dataclasses import dataclass

from signatures.common.errors import UserError, user_error_within

log = logging.getLogger("verihop.service")

RETRY_SECONDS = 5  # after which a refused request may be sent again


@dataclass(frozen=True)
class Failure:
    """Why a question has no answer.

    Args:
        status: Of HTTP.
        type: For programs: "invalid_request", "unauthorized", "not_found", "too_large", "queue_full",
            "budget_exceeded", "unavailable", "timeout" or "internal".
        message: For people.
    """

    status: int
    type: str
    message: str

    def as_dict(self) -> dict[str, dict[str, object]]:
        """Return the body of the response."""
        return {"error": {"message": self.message, "type": self.type, "status": self.status}}

    @property
    def headers(self) -> dict[str, str]:
        """Headers of the response."""
        if self.status == 401:
            return {"WWW-Authenticate": "Bearer"}
        return {"Retry-After": str(RETRY_SECONDS)} if self.type in ("queue_full", "unavailable") else {}


class Refused(Exception):
    """A request that is not answered."""

    def __init__(self, failure: Failure):
        super().__init__(failure.message)
        self.failure = failure


def failure_of(error: BaseException, *, timed_out: bool = False) -> Failure:
    """Return what a client is told of what ended a question; more goes to the log, under a number that it is told.

    Args:
        error: What ended it.
        timed_out: It took longer than a question may take; a TimeoutError may be the program's own.
    """
    from programs.lms.calls.budget import BudgetExceeded
    from programs.lms.calls.metered import LMUnavailable

    if isinstance(error, Refused):
        return error.failure
    if isinstance(error, BudgetExceeded):
        if error.of_question:
            return Failure(422, "budget_exceeded", "The question needs more than the budget that each question has.")
        return Failure(503, "budget_exceeded", "The budget of this service is used up.")
    if timed_out:
        return Failure(504, "timeout", "The question took longer than a question may take.")
    number = secrets.token_hex(4)
    told = {"verihop_event": "failure", "verihop_fields": {"number": number, "error": type(error).__name__}}
    log.error("error %s", number, exc_info=error, extra=told)
    if isinstance(error, LMUnavailable):
        return Failure(503, "unavailable", f"The LM does not answer at the moment (error {number} of the log).")
    if (known := user_error_within(error)) is not None and type(known) is UserError:
        return Failure(500, "internal", f"A setting of the service is wrong (error {number} of the log).")
    return Failure(500, "internal", f"The question could not be answered (error {number} of the log).")
