"""Keys out of what an LM's server sends back, before it is cached, parsed or raised."""

from dspy.clients.call_result import CallResult

from signatures.common.errors import with_causes
from signatures.common.secrets import redacted


def without_keys(result: CallResult) -> CallResult:
    """Return a result with keys hidden in its replies, ids and raw data; the result itself if it contains none."""
    dumped = result.dump()
    clean = redacted(dumped)
    if clean is dumped:
        return result
    hidden = CallResult.load(clean)
    hidden.usage, hidden.cache_hit = result.usage, result.cache_hit
    return hidden


def hide_keys_in(error: BaseException | None) -> None:
    """Hide keys in the texts of an error and of its causes, which a traceback prints."""
    for each in with_causes(error):
        each.args = tuple(redacted(part) for part in each.args)
        for name, value in list(vars(each).items()):  # notes, too
            if (clean := redacted(value)) is not value:
                setattr(each, name, clean)
