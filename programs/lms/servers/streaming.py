"""Replies of a chat server as they are written: server-sent events to the stream events of DSPy's engines."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from dspy import lm15

from programs.lms.servers.thinking import NOT_SHOWN, TAGS, parts_of, split_text
from programs.parts.replies.sources import SOURCES, StatedSource, stated_sources
from signatures.common.errors import one_line
from signatures.common.secrets import redact

FINISHED = {"length": "length", "content_filter": "content_filter"}  # finish_reason; any other is "stop"
Event: TypeAlias = lm15.StreamStartEvent | lm15.StreamDeltaEvent | lm15.StreamEndEvent
_DONE = "[DONE]"
_Delta: TypeAlias = lm15.TextDelta | lm15.ThinkingDelta
# Reads the log-probabilities of a choice, given its answer and its thinking.
ReadLogprobs: TypeAlias = Callable[[Mapping[str, Any], str, str], tuple[lm15.TokenLogprob, ...] | None]


def event_values(pieces: Iterable[bytes]) -> Iterator[Any]:
    """Yield the JSON values of server-sent events as they come in; None for the event that ends an OpenAI stream.

    https://html.spec.whatwg.org/multipage/server-sent-events.html

    Raises:
        lm15.ServerError: An event is not JSON.
    """
    data: list[str] = []
    for line in _lines(pieces):
        if line:
            name, _, value = line.partition(":")  # a comment, by which a server keeps a connection open, has no name
            data += [value.removeprefix(" ")] if name == "data" else []
            continue
        text, data = "\n".join(data), []
        if text == _DONE:
            yield None
        elif text:
            try:
                yield json.loads(text)
            except (ValueError, RecursionError) as error:
                raise lm15.ServerError("an event of its stream is not JSON") from error


def _lines(pieces: Iterable[bytes]) -> Iterator[str]:
    """Yield complete lines; an event whose empty line is missing at the end of the stream is cut, and left out."""
    rest = b""
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            yield line.removesuffix(b"\r").decode("utf-8", "replace")


def stated_usage(usage: Any, thinking: str = "", answer: str = "") -> lm15.Usage:
    """Return the tokens that can be tokens; None for what the server does not state, or states as 0, text or less.

    A prompt and a reply have at least one token each, so 0 is no statement; budgets then count an estimate. If the
    server does not state the tokens of the thinking, they are estimated by its length.
    """
    written = _count(usage, "completion_tokens")
    thought = _count(usage.get("completion_tokens_details"), "reasoning_tokens") if isinstance(usage, Mapping) else None
    if thought is None and thinking and written is not None:
        thought = round(written * len(thinking) / (len(thinking) + len(answer)))
    return lm15.Usage(input_tokens=_count(usage, "prompt_tokens"), output_tokens=written, reasoning_tokens=thought)


def _count(counts: Any, name: str) -> int | None:
    value = counts.get(name) if isinstance(counts, Mapping) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


class ReplyStream:
    """The events of one reply, which end without an end event if the reply is cut.

    The answer is that of a complete reply, and so are its parts. One thing cannot be: if thinking ends with a closing
    tag, and the opening one is in the chat template, it is taken for the answer unless the model is known to think so.

    Args:
        request: What was asked.
        thinks_in_text: Whether the content is known to begin with thinking, even without an opening tag.
    """

    def __init__(self, request: lm15.Request, *, thinks_in_text: bool):
        self._request, self._parts = request, _Parts(thinks_in_text)
        self._finish: str | None = None
        self._done = self._said = self._declined = False
        self._usage: Any = None
        self._sources: list[StatedSource] = []
        self._scores: list[Any] = []  # tokens with log-probabilities as the server sends them

    @property
    def thought_in_text(self) -> bool:
        """Whether the content had thinking."""
        return self._parts.in_text

    def events(self, chunks: Iterable[Any], read_logprobs: ReadLogprobs) -> Iterator[Event]:
        """Yield the events of the chunks of a stream; None among them is its end. A complete reply is a stream, too.

        Raises:
            lm15.ServerError: A chunk is not that of a chat server, or is its error.
            lm15.TransportError: The stream ended before the reply.
        """
        yield lm15.StreamStartEvent(model=self._request.model)
        for chunk in chunks:
            if chunk is None:
                self._done = True
                continue
            try:
                yield from map(lm15.StreamDeltaEvent, list(self._deltas(chunk)))
            except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
                raise lm15.ServerError(f"the stream is not that of a chat server: {one_line(repr(error))}") from error
        if not (self._done or self._finish):
            raise lm15.TransportError("the stream ended before the reply")
        yield from map(lm15.StreamDeltaEvent, list(self._last_deltas(read_logprobs)))
        usage = stated_usage(self._usage, self._parts.thinking, self._parts.answer)
        named = {SOURCES: list(self._sources)} if self._sources else None
        yield lm15.StreamEndEvent(FINISHED.get(self._finish or "", "stop"), usage, named)

    def _deltas(self, chunk: Any) -> Iterator[_Delta]:
        if chunk.get("error") and not chunk.get("choices"):
            raise ValueError(redact(str(chunk["error"]))[:200])
        self._usage = chunk.get("usage") or self._usage
        sources = stated_sources(chunk)  # all so far in each chunk, or once
        self._sources = sources if len(sources) >= len(self._sources) else self._sources
        for choice in chunk.get("choices") or ():
            if choice.get("index"):  # another sample
                continue
            message = choice.get("delta") or choice.get("message") or {}
            self._said = self._said or message.get("content") is not None
            yield from self._parts.feed(message)
            self._declined = self._declined or bool(message.get("refusal"))
            self._scores += (choice.get("logprobs") or {}).get("content") or ()
            self._finish = choice.get("finish_reason") or self._finish

    def _last_deltas(self, read_logprobs: ReadLogprobs) -> Iterator[_Delta]:
        """Yield what was buffered, and what stands for an answer that did not come."""
        yield from self._parts.release()
        parts = self._parts
        if not parts.thinking and not parts.answer:
            if self._finish == "length" and stated_usage(self._usage).reasoning_tokens:
                yield parts.think(NOT_SHOWN)
            elif self._declined:  # lm15 has no event for its words
                self._finish = "content_filter"
            elif not self._said:
                raise lm15.ServerError("the reply is not that of a chat server: its content is null")
        scores = None
        if self._request.config.logprobs is not None:
            scores = read_logprobs({"logprobs": {"content": self._scores}}, parts.answer, parts.thinking)
        if scores or not (parts.thinking or parts.answer):
            yield parts.say("", tuple(scores or ()))


class _Parts:
    """Separates thinking from the answer while a reply is written, as `split_text` does with the whole of it.

    Args:
        thinks_in_text: Whether the content is known to begin with thinking, even without an opening tag.
    """

    def __init__(self, thinks_in_text: bool):
        self._opened_before, self._held = thinks_in_text, ""
        self._answering = False
        self._index: dict[type, int] = {}
        self.thinking = self.answer = ""
        self.in_text = False  # whether the content had thinking

    def feed(self, message: Mapping[str, Any]) -> Iterator[_Delta]:
        """Yield what a fragment of the message adds."""
        thought, content = parts_of(message)
        if thought:
            yield self.think(thought)
        if content and self._answering:
            yield self.say(content)
        elif content:
            self._held += content
            if not self._may_be_thinking():
                yield from self.release()

    def release(self) -> Iterator[_Delta]:
        """Yield what was buffered; the reply has ended, or its thinking has."""
        held, self._held = self._held, ""
        self._answering = self._answering or bool(held)
        inside, answer = split_text(held)
        if inside:
            self.in_text = True
            yield self.think(f"\n{inside}" if self.thinking else inside)
        if answer:
            yield self.say(answer)

    def _may_be_thinking(self) -> bool:
        """Return whether more text can still belong to the thinking, or to its opening tag."""
        rest = self._held.lstrip()
        if self._opened_before and not any(rest.startswith(begin) for begin, _ in TAGS):
            return not any(end in rest for _, end in TAGS)
        while tags := next((tags for tags in TAGS if rest.startswith(tags[0])), None):
            _, closed, rest = rest.partition(tags[1])
            if not closed:
                return True
            rest = rest.lstrip()
        return any(begin.startswith(rest) for begin, _ in TAGS)

    def think(self, text: str) -> _Delta:
        """Return a fragment of thinking."""
        self.thinking += text
        return lm15.ThinkingDelta(text, part_index=self._index.setdefault(lm15.ThinkingDelta, len(self._index)))

    def say(self, text: str, logprobs: tuple[lm15.TokenLogprob, ...] = ()) -> _Delta:
        """Return a fragment of the answer."""
        self.answer += text
        return lm15.TextDelta(
            text, part_index=self._index.setdefault(lm15.TextDelta, len(self._index)), logprobs=logprobs
        )
