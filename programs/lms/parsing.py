"""Count the replies that an adapter parses, show one that it could not, and cache only those that it could."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from dspy.utils.exceptions import AdapterParseError

from programs.lms.calls.reply_cache import Unparsed, cached_if_parsed
from programs.lms.tracing.calls import calls_read
from programs.parts.meter import record, record_unreadable
from programs.parts.probability import asks_yes_no, yes_share


@contextmanager
def counting_replies() -> Iterator[Unparsed]:
    """Count the reply of the block; one that cannot be parsed is counted, shown and not cached."""
    with calls_read() as unreadable:
        try:
            with cached_if_parsed() as replies:
                yield replies
        except AdapterParseError as error:
            unreadable(str(error).partition("\n\n")[0])  # what follows is the reply
            record(replies=1, parse_failures=1)
            record_unreadable(_text_of(error.lm_response))
            raise
    record(replies=1)


def drop_without_p_yes(
    lm_kwargs: dict[str, Any], signature: Any, values: list[dict[str, Any]], replies: Unparsed
) -> None:
    """Leave a reply uncached that has no P(yes) although log-probabilities were requested."""
    if lm_kwargs.get("logprobs") and asks_yes_no(signature):
        given = [value.get("logprobs") for value in values]
        if any(not isinstance(each, Mapping) or yes_share(each.get("content")) is None for each in given):
            replies.drop()


def _text_of(reply: Any) -> str:
    """Return the text of an unparseable reply as DSPy gives it: text, "None", or a dict."""
    return "" if str(reply) == "None" or str(reply).startswith(("{'text': None", "{'text': ''")) else str(reply)
