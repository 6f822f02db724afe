"""Limits on the cost of LM calls, enforced across threads and forks: a budget, shares of it, a question's own budget.

A session that repeats the work of an earlier one from its start gets the replies that were paid for from the cache.
Each is taken over when the cache gives it for the first time, so that what was spent until then is what one session
would have spent.
"""

import contextlib
import contextvars
import math
import mmap
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import IO, Any

from dspy.clients.call_result import CallResult
from dspy.clients.execution import PreparedCall

from programs.lms.calls.control import SLICE, current_control
from programs.lms.requests import system_text
from signatures.common.context import set_within
from signatures.common.costs import Costs
from signatures.common.errors import UserError
from signatures.common.per_process import Uncopied

SUMS = ("calls", "tokens", "usd", "reserved_tokens", "reserved_usd", "in_flight", "start", "highest_price")


class Ledger:
    """Numbers by name, nan at first for those that may be unknown; change them inside `with` only.

    Call `share` before a fork: the numbers are then in shared memory, and a file lock guards them between processes,
    which the system releases if its owner is killed.
    """

    def __init__(self) -> None:
        self._numbers: Any = [0.0] * len(SUMS)  # or a view of shared memory
        self._change = threading.Condition()
        self._file: IO[bytes] | None = None
        self["start"] = self["highest_price"] = math.nan

    def share(self) -> None:
        """Share the numbers with forks of this process; repeated calls change nothing.

        Raises:
            OSError: No temporary file can be created.
        """
        with self._change:
            if self._file is not None:
                return
            memory = memoryview(mmap.mmap(-1, 8 * len(SUMS))).cast("d")
            for place, number in enumerate(self._numbers):
                memory[place] = number
            self._numbers, self._file = memory, tempfile.TemporaryFile()  # noqa: SIM115 - as long as the budget
            weakref.finalize(self, self._file.close)

    def __getitem__(self, name: str) -> float:
        return float(self._numbers[SUMS.index(name)])

    def __setitem__(self, name: str, number: float) -> None:
        self._numbers[SUMS.index(name)] = number

    def __enter__(self) -> "Ledger":
        self._change.acquire()
        self._lock()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._unlock()
        self._change.release()

    def wait(self, seconds: float) -> None:
        """Let others in until a thread of this process calls `notify`, for at most `seconds`; inside `with` only."""
        self._unlock()
        try:
            self._change.wait(seconds)
        finally:
            self._lock()

    def notify(self) -> None:
        """End the waits of this process; inside `with` only. Other processes look again when theirs end."""
        self._change.notify_all()

    def _lock(self) -> None:
        if self._file is not None:
            import fcntl

            fcntl.lockf(self._file, fcntl.LOCK_EX)  # of the process, so it does not survive it, nor pass to a fork

    def _unlock(self) -> None:
        if self._file is not None:
            import fcntl

            fcntl.lockf(self._file, fcntl.LOCK_UN)


PAID = ("calls", "tokens", "usd")  # seconds are those of a session


class Share:
    """A part of a budget, which `Budget.within` opens.

    Args:
        limits: On what is spent from now on.
        sums: Returns what the whole budget has spent in one session, with the time of its clock as `seconds`.
        name: What messages call it.
    """

    def __init__(self, limits: dict[str, float | None], sums: Callable[[], Costs], name: str):
        self.limits, self.name = limits, name
        self._sums, self._before = sums, sums()

    @property
    def spent(self) -> Costs:
        """Calls, tokens, usd and seconds since the share was opened."""
        return self._sums() - self._before


class BudgetExceeded(BaseException):  # not an Exception: optimizers catch those and continue
    """The next LM call would exceed the budget and was not sent.

    Args:
        message: Which limit, and what was spent.
        share: The share of `Budget.within` that is used up, if it is that.
    """

    def __init__(self, message: str = "", share: "Share | None" = None):
        super().__init__(message)
        self.share = share
        self.of_question = False  # whether it is the budget that a question has of its own (`limited_by`)


@dataclass
class Reservation:
    """The maximum cost of a call, replaced by the actual cost once it is known.

    Args:
        tokens: Prompt and completion tokens together.
        usd: Price; None if unknown.
    """

    tokens: int
    usd: float | None = None


class Budget(Uncopied):
    """Limits on LM calls, shared by every copy of an LM; None is no limit.

    Each call is reserved before it is sent, so that calls in flight count; a call that fits only if they cost less than
    reserved waits for them. Replies from the cache are free.

    Args:
        calls: LM calls sent, including retries.
        tokens: Prompt and completion tokens; both are estimated high before the call, then corrected by what the LM
            reports. If it reports nothing, the prompt's estimate and that of the reply's length are booked.
        usd: Price. Calls are sequential until the first price is known; then each is reserved at the highest price
            so far, so that only a call more expensive than all before can exceed the limit.
        seconds: No call starts later than this after the first one, and a call in flight is abandoned.
        clock: Seconds from any fixed point.

    Raises:
        UserError: A limit is negative or not a number.
    """

    def __init__(
        self,
        *,
        calls: int | None = None,
        tokens: int | None = None,
        usd: float | None = None,
        seconds: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ):
        self.limits = {"calls": calls, "tokens": tokens, "usd": usd, "seconds": seconds}
        _check_limits(self.limits)
        self._clock = clock
        self._sums = Ledger()
        self._shares: list[Share] = []
        self._earlier = Costs()  # what was spent before and is not taken over yet
        self._known: set[str] = set()  # keys of the calls that this run has sent or taken over
        self._alone = 0  # open shares that count replies from the cache
        self._replayed = Costs()  # what those cost that no session of this work has paid for

    def share(self) -> None:
        """Share the budget with forks of this process, made after this call."""
        self._sums.share()

    def end_calls(self) -> None:
        """Forget the calls in flight: the processes that made them have ended, some before they could say so."""
        with self._sums as sums:
            sums["in_flight"] = sums["reserved_tokens"] = sums["reserved_usd"] = 0.0
            sums.notify()

    @property
    def spent(self) -> Costs:
        """Calls, tokens, usd and seconds used so far; of calls in flight, only their number."""
        with self._sums:
            return self._spent()

    @property
    def limits_here(self) -> dict[str, float | None]:
        """The limits of the innermost open share, of the budget itself if none is open."""
        return (self._shares[-1] if self._shares else self).limits

    @property
    def limited(self) -> bool:
        """Whether there is any limit."""
        return any(limit is not None for limit in self.limits.values())

    def left(self, *, uninterrupted: bool = False) -> Costs:
        """Return what is left of the limits by name, the tightest of budget and open shares; calls in flight count.

        Args:
            uninterrupted: Count what earlier sessions have spent only as far as this one has taken it over.
        """
        with self._sums:
            found = Costs()
            for share in (None, *self._shares):
                spent = share.spent if share else self._in_one_session() if uninterrupted else self._spent()
                for name, left in spent.left_of((share or self).limits).items():
                    found[name] = min(found.get(name, math.inf), left)
            return found

    def carry(self, *, calls: float = 0, tokens: float = 0, usd: float = 0) -> None:
        """Count what was spent before this budget was made, by an earlier run of the same work.

        Shares count it as this run takes it over: they limit what is spent inside their blocks.
        """
        added = {"calls": calls, "tokens": tokens, "usd": usd}
        with self._sums as sums:
            for name, value in added.items():
                sums[name] += value
            self._earlier += added

    @property
    def resumed(self) -> bool:
        """Whether an earlier run has spent what this one has not taken over yet."""
        return any(self._earlier.values())

    @property
    def counts_replies(self) -> bool:
        """Whether `take_over` may count a reply from the cache."""
        return self.resumed or self._alone > 0

    def sent(self, key: str) -> None:
        """Note that this run has sent a call, so that its reply is not one of an earlier run."""
        with self._sums:
            self._known.add(key)

    def take_over(self, key: str, booking: Reservation, *, calls: int, at_most: int) -> None:
        """Count a reply from the cache in shares, if an earlier session may have paid for it, or a share is `alone`.

        Args:
            key: Of the call.
            booking: What the reply has cost.
            calls: LM calls that it took.
            at_most: Tokens that would be reserved to send it.

        Raises:
            BudgetExceeded: A share has no room for the call.
        """
        with self._sums as sums:
            paid = self._earlier["calls"] >= calls
            if key not in self._known and (paid or self._alone):
                if exceeded := self._exceeded(calls, at_most, self._price(), only_shares=True):
                    raise self._used_up(*exceeded)
                self._known.add(key)
                cost = Costs(calls=calls, tokens=booking.tokens, usd=booking.usd or 0.0)
                if paid:
                    self._earlier = cost.left_of(self._earlier)
                else:
                    self._replayed += cost
                if booking.usd is not None:
                    sums["highest_price"] = max(self._price(), booking.usd)

    @contextlib.contextmanager
    def within(
        self,
        *,
        calls: int | None = None,
        tokens: int | None = None,
        usd: float | None = None,
        seconds: float | None = None,
        name: str = "share",
        alone: bool = False,
    ) -> Iterator[Share]:
        """Limit what is spent inside the block, in addition to the budget itself: the share of one arm of a race.

        A call that the share has no room for raises BudgetExceeded with `share` set to the one that is yielded; a call
        that the whole budget has no room for raises it with `share=None`. Blocks may be nested, but not opened
        by threads in parallel, as all calls inside the block count. `seconds` begin with it. Messages use `name`.

        With `alone`, shares count what the block would have cost with an empty cache: a reply that other work has paid
        for, too, when the block asks for it the first time. The budget itself counts what is sent.

        Raises:
            UserError: A limit is negative or not a number.
        """
        limits = {"calls": calls, "tokens": tokens, "usd": usd, "seconds": seconds}
        _check_limits(limits)
        share = Share(limits, lambda: Costs(self._in_one_session() + self._replayed, seconds=self._clock()), name)
        with self._sums:
            self._shares.append(share)
            self._alone += alone
            before, self._known = self._known, set() if alone else self._known
        try:
            yield share
        finally:
            with self._sums:
                self._shares.remove(share)
                self._alone -= alone
                self._known |= before

    def check_seconds(self) -> None:
        """Raise BudgetExceeded if the seconds are over."""
        for share in (None, *self._shares):
            limit = (share or self).limits["seconds"]
            if limit is not None and (share.spent["seconds"] if share else self._seconds()) > limit:
                raise self._used_up("seconds", share)

    @contextlib.contextmanager
    def reserve(self, tokens: int, calls: int = 1) -> Iterator[Reservation]:
        """Reserve `calls` calls of at most `tokens` tokens in total, then book the cost that the caller fills in.

        Raises:
            BudgetExceeded: The reservation exceeds a limit, whatever the calls in flight cost.
            Stopped: The work was stopped while it waited for them.
            UserError: A limit in usd is set, but the price of the LM is unknown.
        """
        sums = self._sums
        with sums:
            while sums["in_flight"] and (not self._price_is_known() or self._must_wait(calls, tokens)):
                current_control().check()
                self.check_seconds()
                sums.wait(SLICE)
            usd = self._price()
            if exceeded := self._exceeded_now(calls, tokens, usd):
                raise self._used_up(*exceeded)
            sums["start"] = self._clock() if math.isnan(sums["start"]) else sums["start"]
            sums["calls"] += calls
            sums["reserved_tokens"] += tokens
            sums["reserved_usd"] += usd
            sums["in_flight"] += 1
        booking = Reservation(tokens=0)
        try:
            yield booking
        finally:
            with sums:
                sums["in_flight"] -= 1
                sums["reserved_tokens"] -= tokens
                sums["reserved_usd"] -= usd
                sums["tokens"] += booking.tokens
                sums["usd"] += booking.usd or 0.0
                if booking.usd is not None:
                    sums["highest_price"] = max(self._price(), booking.usd)
                sums.notify()
        if self._limits_usd() and booking.usd is None:
            raise UserError(
                "This LM states no price, so a budget in usd cannot be enforced: limit calls or tokens instead."
            )

    def _spent(self) -> Costs:
        sums = self._sums
        calls, tokens = int(sums["calls"]), int(sums["tokens"])
        return Costs(calls=calls, tokens=tokens, usd=sums["usd"], seconds=self._seconds())

    def _in_one_session(self) -> Costs:
        """Return what was spent, less what earlier sessions have spent and this one has not taken over yet."""
        return self._spent() - self._earlier

    def _price(self) -> float:
        """Return the highest price so far; 0 if none is known."""
        highest = self._sums["highest_price"]
        return 0.0 if math.isnan(highest) else highest

    def _price_is_known(self) -> bool:
        return not self._limits_usd() or not math.isnan(self._sums["highest_price"])

    def _limits_usd(self) -> bool:
        return any(limits["usd"] is not None for limits in (self.limits, *(share.limits for share in self._shares)))

    def _seconds(self) -> float:
        start = self._sums["start"]
        return 0.0 if math.isnan(start) else self._clock() - start

    def _must_wait(self, calls: int, tokens: int) -> bool:
        """Return whether a call exceeds the limits, but might fit once the calls in flight have reported their cost."""
        return self._exceeded_now(calls, tokens, self._price()) is not None and (
            self._exceeded(calls, tokens, self._price()) is None
        )

    def _exceeded_now(self, calls: int, tokens: int, usd: float) -> "tuple[str, Share | None] | None":
        """Return the first limit that these costs and those reserved would exceed."""
        return self._exceeded(calls, tokens + self._sums["reserved_tokens"], usd + self._sums["reserved_usd"])

    def _exceeded(
        self, calls: int, tokens: float, usd: float, *, only_shares: bool = False
    ) -> "tuple[str, Share | None] | None":
        """Return the first limit that the sums spent would exceed with these costs, and whose it is; None if none."""
        added = {"calls": calls, "tokens": tokens, "usd": usd, "seconds": 0.0}
        whole = () if only_shares else ((None, self._in_one_session()),)
        # Last, so that a share refuses what it has refused in an earlier session.
        carried = ((None, self._spent()),) if self.resumed and not only_shares else ()
        for share, spent in (*whole, *((share, share.spent) for share in self._shares), *carried):
            for name, limit in (share or self).limits.items():
                # The price of the next call may be 0, so a sum that has reached the limit must itself be refused.
                full = name == "usd" and limit is not None and 0 < limit <= spent["usd"]
                if limit is not None and (spent[name] + added[name] > limit or full):
                    return name, share
        return None

    def _used_up(self, name: str, share: Share | None = None) -> BudgetExceeded:
        spent, limit = (share.spent, share.limits[name]) if share else (self._spent(), self.limits[name])
        line = ", ".join(f"{value:.4g} {each}" for each, value in spent.items())
        return BudgetExceeded(
            f"The {share.name if share else 'budget'} of {limit:g} {name} is used up ({line}).", share
        )


def _check_limits(limits: dict[str, float | None]) -> None:
    for name, limit in limits.items():
        if limit is not None and not (limit >= 0 and math.isfinite(limit)):
            raise UserError(f"Budget {name} must be a number >= 0, got {limit!r}.")


UNKNOWN_REPLY = 1024  # tokens of a reply without a limit
_BYTES_PER_TOKEN = 3  # English has about 4
_PER_MESSAGE = 12  # role and separators of the chat template


def tokens_at_most(call: PreparedCall) -> int:
    """Return the tokens of the prompt and of the longest reply."""
    if call.request is not None:
        limit = call.request.config.max_tokens
    else:
        limit = call.legacy.get("max_tokens") or call.legacy.get("max_completion_tokens")
    return prompt_tokens_at_most(call) + call.n * (limit or UNKNOWN_REPLY)


def prompt_tokens_at_most(call: PreparedCall) -> int:
    """Return the tokens of the prompt, as often as it is sent."""
    if call.request is not None:
        texts = [message.text or "" for message in call.request.messages] + [system_text(call.request)]
    else:
        texts = [str(message.get("content") or "") for message in call.legacy["messages"]]
    return call.n * sum(_tokens(text) + _PER_MESSAGE for text in texts)


def reply_tokens_at_most(result: CallResult) -> int:
    """Return the tokens of the replies."""
    texts = [response.message.text or "" for response in result.responses]
    if not texts:
        texts = [output if isinstance(output, str) else str(output.get("text") or "") for output in result.outputs]
    return sum(_tokens(text) for text in texts)


def _tokens(text: str) -> int:
    return -(-len(text.encode(errors="replace")) // _BYTES_PER_TOKEN)


_current: contextvars.ContextVar[Budget | None] = contextvars.ContextVar("verihop_question_budget", default=None)


def limited_by(budget: Budget) -> contextlib.AbstractContextManager[object]:
    """Let LM calls of the block count in `budget`, too, in threads that copy its context as well.

    Questions that are answered in parallel can each have one; `Budget.within` counts whatever runs during its block.
    What does not fit raises BudgetExceeded.
    """
    return set_within(_current, budget)


@contextlib.contextmanager
def _marked() -> Iterator[None]:
    """Mark a BudgetExceeded of the block as that of a question."""
    try:
        yield
    except BudgetExceeded as error:
        error.of_question = True
        raise


@contextlib.contextmanager
def reserve_in_both(budget: Budget, tokens: int, calls: int) -> Iterator[Reservation]:
    """Reserve calls in the budget of an LM and in that of the question, if there is one, and book their cost in both.

    Raises:
        BudgetExceeded: One of them has no room for the calls.
    """
    own = _current.get()
    if own is None:
        with budget.reserve(tokens=tokens, calls=calls) as booking:
            yield booking
        return
    with contextlib.ExitStack() as stack:
        with _marked():
            same = stack.enter_context(own.reserve(tokens=tokens, calls=calls))
        booking = stack.enter_context(budget.reserve(tokens=tokens, calls=calls))
        try:
            yield booking
        finally:
            same.tokens, same.usd = booking.tokens, booking.usd


def checks_of(budget: Budget) -> Callable[[], None]:
    """Return the function that raises BudgetExceeded if the seconds of the budget, or of the question's, are over."""
    own = _current.get()
    if own is None:
        return budget.check_seconds

    def check() -> None:
        with _marked():
            own.check_seconds()
        budget.check_seconds()

    return check
