"""Which replies of LMs are cached: those that were parsed, so that a bad reply is asked again.

An adapter wraps its call in `cached_if_parsed`: the reply is cached after it was parsed, and a cached reply that cannot
be parsed is removed. Replies outside of such a block (an optimizer that calls an LM by itself) are cached if they have
text. A reply that the provider's filter ended is never cached.
"""

import contextlib
import contextvars
import os
import re
from collections.abc import Iterator, Sequence
from typing import Any

import dspy
from dspy.clients.cache import Cache
from dspy.clients.call_result import CallResult, usage_dict
from dspy.clients.execution import IGNORED_CACHE_KEYS, PreparedCall
from dspy.utils.exceptions import AdapterParseError

from programs.lms.calls.reply_store import ReplyStore

_ADDRESS = re.compile(r"(?:BASE|URL|ENDPOINT|HOST)(?:$|_BEDROCK)")  # names of variables
_OF_ANY = "_API_BASE"  # the end of what LiteLLM calls them, after many a name that is not quite the provider's
_OTHER_WORDS = {"BEDROCK": "AWS", "SAGEMAKER": "AWS", "WATSONX": "WX"}  # in names of variables, by a word of a provider
FILTERED = "content_filter"  # finish reason of a reply that a filter of the provider ended


class ReplyCache(Cache):
    """DSPy's cache with a `ReplyStore` in place of its memory and its folder of pickles.

    The keys are DSPy's: model string, request and `rollout_id`.

    Args:
        store: Keeps the replies.
    """

    def __init__(self, store: ReplyStore):
        super().__init__(enable_disk_cache=False, enable_memory_cache=False, disk_cache_dir=None)
        self.store = store

    def __contains__(self, key: str) -> bool:
        """Return whether there is a value for a key as `cache_key` returns it."""
        return self.store.get(key) is not None

    def get(self, request: dict[str, Any], ignored_args_for_cache_key: list[str] | None = None) -> Any:
        """Return the value of a request, None if there is none."""
        key = self._key(request, ignored_args_for_cache_key)
        return None if key is None else self.store.get(key)

    def put(
        self,
        request: dict[str, Any],
        value: Any,
        ignored_args_for_cache_key: list[str] | None = None,
        enable_memory_cache: bool = True,
    ) -> None:
        """Store a value that is JSON; others are not stored."""
        key = self._key(request, ignored_args_for_cache_key)
        if key is not None:
            self.store.put(key, value)

    def forget(self, request: dict[str, Any], ignored_args_for_cache_key: list[str] | None = None) -> None:
        """Remove the value of a request."""
        key = self._key(request, ignored_args_for_cache_key)
        if key is not None:
            self.store.delete(key)

    def _key(self, request: dict[str, Any], ignored: list[str] | None) -> str | None:
        try:
            return self.cache_key(request, ignored)
        except Exception:  # noqa: BLE001 - a request without a JSON form has no key, and orjson raises several types
            return None


class _Reply:
    """A reply of the LM, and whether it is cached."""

    def __init__(self, key: dict[str, Any], record: dict[str, Any] | None):
        self.key, self.record = key, record  # a record of None is cached already

    def keep(self) -> None:
        if self.record is not None:
            dspy.cache.put(self.key, self.record, IGNORED_CACHE_KEYS)

    def drop(self) -> None:
        if self.record is None and isinstance(dspy.cache, ReplyCache):
            dspy.cache.forget(self.key, IGNORED_CACHE_KEYS)


class Unparsed:
    """The replies received in a block of `cached_if_parsed`."""

    def __init__(self) -> None:
        self._replies: list[_Reply] = []

    def add(self, reply: _Reply) -> None:
        """Hold a reply until the block ends."""
        self._replies.append(reply)

    def keep(self) -> None:
        """Cache the replies."""
        for reply in self._replies:
            reply.keep()

    def drop(self) -> None:
        """Cache none of the replies, and remove those that were cached."""
        for reply in self._replies:
            reply.drop()
        self._replies.clear()


_unparsed: contextvars.ContextVar[Unparsed | None] = contextvars.ContextVar("verihop_unparsed", default=None)


@contextlib.contextmanager
def cached_if_parsed() -> Iterator[Unparsed]:
    """Cache the replies received in the block when it ends; drop them if it raises AdapterParseError."""
    replies = Unparsed()
    token = _unparsed.set(replies)
    try:
        yield replies
    except AdapterParseError:
        replies.drop()
        raise
    finally:
        _unparsed.reset(token)
    replies.keep()


def look_up(lm: dspy.LM, call: PreparedCall) -> tuple[CallResult, dict[str, Any]] | None:
    """Return the cached reply to a call, and the usage that it had; None if there is none that can be used.

    The usage of the reply itself is empty, since nothing was sent.
    """
    if not call.cache:
        return None
    key = key_of(lm, call)
    record = dspy.cache.get(key, IGNORED_CACHE_KEYS)
    if record is None:
        return None
    reply = _Reply(key, None)
    try:
        result = CallResult.load(record)
        usage = {**(record.get("usage") or usage_of(result))}
        result.cost = None if result.cost is None else float(result.cost)
    except Exception:  # noqa: BLE001 - whatever a damaged or foreign entry contains, the LM is asked
        reply.drop()
        return None
    if _is_empty(result.outputs):
        reply.drop()
        return None
    if (pending := _unparsed.get()) is not None:
        pending.add(reply)
    return result, usage


def keep(lm: dspy.LM, call: PreparedCall, result: CallResult) -> None:
    """Cache a reply, or hold it until it was parsed; an empty or filtered one is not cached."""
    if not call.cache or _is_empty(result.outputs) or FILTERED in _finish_reasons(result):
        return
    reply = _Reply(key_of(lm, call), result.dump())
    if (pending := _unparsed.get()) is None:
        reply.keep()
    else:
        pending.add(reply)


def usage_of(result: CallResult) -> dict[str, Any]:
    """Return the tokens that the responses of a result report."""
    usages = [usage_dict(response) for response in result.responses]
    names = ("prompt_tokens", "completion_tokens")
    return {name: sum(each.get(name) or 0 for each in usages) for name in names} if usages else {}


def key_of(lm: dspy.LM, call: PreparedCall) -> dict[str, Any]:
    """Return DSPy's key, with what else decides the reply.

    That is the server's dialect if the call sets reasoning, which decides how that is sent; and the address that
    variables such as `OPENAI_BASE_URL` give the LMs of a provider. The address of a server stands in the model string.
    """
    reasoning = call.legacy.get("reasoning_effort") if call.request is None else call.request.config.reasoning
    dialect = getattr(lm.engine, "dialect_name", None)
    key = {**call.key(lm, False), **({"dialect": dialect} if reasoning and dialect else {})}
    if isinstance(lm.engine, str) and (elsewhere := _addresses_of(lm.model.partition("/")[0])):
        key["addresses"] = elsewhere  # a name that DSPy does not leave out of keys
    return key


def _addresses_of(provider: str) -> dict[str, str]:
    """Return the variables that may direct the calls of a provider's LMs to another host.

    Rather one too many, which costs a reply that was cached, than a reply of another host.
    """
    words = set(re.split("[_-]", provider.upper()))
    words |= {"LITELLM", *(other for word, other in _OTHER_WORDS.items() if word in words)}
    names = (name for name in sorted(os.environ) if _ADDRESS.search(name))
    return {n: os.environ[n] for n in names if n.endswith(_OF_ANY) or not words.isdisjoint(n.split("_"))}


def _is_empty(outputs: Sequence[Any]) -> bool:
    """Return whether any of the outputs has neither text nor anything else that can be read."""
    return not outputs or any(not _content(output) for output in outputs)


def _content(output: Any) -> Any:
    if not isinstance(output, dict):
        return output.strip() if isinstance(output, str) else output
    text = output.get("text")
    return (text.strip() if isinstance(text, str) else text) or output.get("tool_calls") or output.get("logprobs")


def _finish_reasons(result: CallResult) -> list[Any]:
    if result.responses:
        return [response.finish_reason for response in result.responses]
    return [getattr(choice, "finish_reason", None) for choice in getattr(result.raw, "choices", None) or ()]
