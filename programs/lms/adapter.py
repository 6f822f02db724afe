"""Format prompts from signatures and parse replies: one layout, two forms of reply.

Both forms start with what calls share (instruction, fields, demos), so that prompts share a cached prefix. `ChatForm`
asks for fields under `[[ ## name ## ]]` headers; `JsonForm` asks for one JSON object and suits LMs that enforce a
schema. If the only output of a signature is a bool, both ask for one word; a text that is to be continued is sent alone
(`continuing.py`). A reply in plain text (`signatures.plain_text`) may also be calls of tools, which are no part of the
prompt, but of the request beside it.

There is no second call if a reply cannot be parsed: the failure is counted and raised, and the strategy continues with
its documented fallback (`programs.parts.prediction`).

The action of an agent is also read as its LM writes it in the plain text of papers:

    Thought 1: Who is the harbour master?
    Action 1: Search[harbour master of Quillon]

`Search[x]` and `search: x` are the action with its argument, in a reply without fields or as the value of the field
`action`. Other names that LMs are used to are understood (`finish` for `final answer`). A thought may be missing, and
where query and answer are fields apart, the one that the action does not use.
"""

import json
import re
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import takewhile
from typing import Any, Literal, get_args, get_origin

from dspy.adapters import ChatAdapter, JSONAdapter
from dspy.adapters.chat_adapter import field_header_pattern
from dspy.adapters.utils import apply_output_field_defaults
from dspy.utils.exceptions import AdapterParseError

from programs.lms.calls.reply_cache import Unparsed, cached_if_parsed
from programs.lms.continuing import Continuing, checked_text
from programs.lms.rendering import describe_field, escape, escape_all, is_passages, render
from programs.lms.servers.thinking import ThinkingBudget, is_thinking_only, record_replies, thinking_apart
from programs.lms.tolerant import LONGEST_REPLY, check_length, coerce, read_json
from programs.lms.tracing.calls import calls_read
from programs.parts.meter import record, record_unreadable
from programs.parts.probability import ProbabilityMode, asks_yes_no, yes_no_by_logprobs, yes_share
from signatures.plain_text import PlainText, continues_text, replies_in_text


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


Inputs = dict[str, Any]


class PlainReplies:
    """Mixed in before an adapter, which it leaves as it is for all other signatures."""

    def format_system_message(self, signature: Any) -> str:
        """Return the instruction, the input fields, and what the text is to say."""
        if not replies_in_text(signature):
            return super().format_system_message(signature)  # type: ignore[misc]
        name = _text_field(signature)
        given = "\n".join(describe_field(name, field) for name, field in signature.input_fields.items())
        said = describe_field(name, signature.output_fields[name])
        return f"{signature.instructions.strip()}\n\nGiven:\n{given}\n\nReply in plain text with:\n{said}"

    def user_message_output_requirements(self, signature: Any) -> str:
        """Return the last line of a prompt."""
        if not replies_in_text(signature):
            return super().user_message_output_requirements(signature)  # type: ignore[misc]
        return f"Call a tool, or reply with the {_text_field(signature)} alone."

    def format_assistant_message_content(
        self, signature: Any, outputs: Inputs, missing_field_message: str | None = None
    ) -> str:
        """Return the text of a demo."""
        if not replies_in_text(signature):
            return super().format_assistant_message_content(signature, outputs, missing_field_message)  # type: ignore[misc]
        return escape(str(outputs.get(_text_field(signature)) or missing_field_message or ""))

    def parse(self, signature: Any, completion: str) -> Inputs:
        """Return the reply without white space around it.

        Raises:
            AdapterParseError: It is empty or too long.
        """
        if not replies_in_text(signature):
            return super().parse(signature, completion)  # type: ignore[misc]
        return {_text_field(signature): checked_text(self, signature, completion, shown=LONGEST_REPLY).strip()}


def _text_field(signature: Any) -> str:
    return next(name for name, field in signature.output_fields.items() if field.annotation is PlainText)


Messages = list[dict[str, Any]]

_ONE_WORD = "Answer with one word, yes or no."
_ONE_WORD_TOKENS = 4  # allows for formatting such as "**Yes**"; log-probabilities are those of the first

# DSPy makes a pydantic model and its JSON schema for every call, a fifth of the time of one; signatures do not change.
_RESPONSE_MODELS: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


def rough_tokens(text: str) -> int:
    """Return a high estimate of the tokens in `text`, for LMs whose tokenizer is not available."""
    return len(text.encode()) // 3 + 4  # English has about 4 bytes per token; 3 overestimates


class _Form:
    """Shared by both forms; mixed in before a DSPy adapter.

    Args:
        context_size: Tokens of prompt and reply together; None if unknown, then nothing is cut.
        reply_tokens: Tokens of the context reserved for the reply.
        count_tokens: Returns the number of tokens in a text; None uses a high estimate.
        probability_mode: How `programs.parts.probability` gets P(yes) from this LM.
        short_replies: Whether a call may limit its reply to a few tokens; False for a reasoning model of a provider.
        thinking: Tokens that a thinking model gets before its answer, and how it is asked yes/no questions.
    """

    def __init__(
        self,
        *,
        context_size: int | None = None,
        reply_tokens: int = 256,
        count_tokens: Callable[[str], int] | None = None,
        probability_mode: ProbabilityMode = "samples",
        short_replies: bool = True,
        thinking: ThinkingBudget = ThinkingBudget(),
    ):
        super().__init__(use_native_function_calling=True)  # type: ignore[call-arg]
        self.use_json_adapter_fallback = False
        self.context_size = context_size
        self.reply_tokens = reply_tokens
        self.count_tokens = count_tokens or rough_tokens
        self.probability_mode = probability_mode
        self.short_replies = short_replies
        self.thinking = thinking

    def __call__(self, lm: Any, lm_kwargs: Inputs, signature: Any, demos: list[Inputs], inputs: Inputs) -> list[Inputs]:
        """Call the LM once; count a reply that cannot be parsed, and raise AdapterParseError."""
        self._limit(lm_kwargs, signature)
        with counting_replies() as replies:
            values = super().__call__(lm, lm_kwargs, signature, demos, inputs)  # type: ignore[misc]
            drop_without_p_yes(lm_kwargs, signature, values, replies)
            return values

    async def acall(
        self, lm: Any, lm_kwargs: Inputs, signature: Any, demos: list[Inputs], inputs: Inputs
    ) -> list[Inputs]:
        """Do the same asynchronously."""
        self._limit(lm_kwargs, signature)
        with counting_replies() as replies:
            values = await super().acall(lm, lm_kwargs, signature, demos, inputs)  # type: ignore[misc]
            drop_without_p_yes(lm_kwargs, signature, values, replies)
            return values

    def _limit(self, lm_kwargs: Inputs, signature: Any) -> None:
        if not self.short_replies:
            lm_kwargs.pop("max_tokens", None)
        elif asks_yes_no(signature):
            lm_kwargs.setdefault("max_tokens", _ONE_WORD_TOKENS)
            self.thinking.limit_yes_no(lm_kwargs, _ONE_WORD_TOKENS)

    def format(self, signature: Any, demos: list[Inputs], inputs: Inputs) -> Messages:
        """Return the messages; if they exceed the context, first demos are dropped, then the last-ranked passages."""
        messages = self._messages(signature, demos, inputs)
        if self._fits(messages):
            return messages
        record(truncated=1)
        while demos and not self._fits(messages):
            demos = demos[:-1]
            messages = self._messages(signature, demos, inputs)
        names = [name for name, field in signature.input_fields.items() if is_passages(field) and inputs.get(name)]
        while names and not self._fits(messages):
            longest = max(names, key=lambda name: len(inputs[name]))
            if not inputs[longest]:
                break
            inputs = {**inputs, longest: inputs[longest][:-1]}
            messages = self._messages(signature, demos, inputs)
        return messages

    def fits(self, signature: Any, inputs: Inputs) -> bool:
        """Return whether the whole prompt without demos, and the reply, fit the context."""
        return self._fits(self._messages(signature, [], inputs))

    def _messages(self, signature: Any, demos: list[Inputs], inputs: Inputs) -> Messages:
        """Return the messages, each with one text as its content.

        DSPy's own `format` splits a text at the markers of message blocks (`dspy.Type`), which the signatures here
        never use: with it a marker in a passage would become a block of the request.
        """
        return [
            {"role": "system", "content": self.format_system_message(signature)},
            *self.format_demos(signature, demos),  # type: ignore[attr-defined]
            {"role": "user", "content": self.format_user_message_content(signature, inputs, main_request=True)},
        ]

    def _fits(self, messages: Messages) -> bool:
        if self.context_size is None:
            return True
        room = self.context_size - self.reply_tokens - 8 * len(messages)  # roles and separators of the chat template
        texts = [message["content"] for message in messages]
        if sum(len(text.encode("utf-8", "replace")) for text in texts) <= room:
            return True  # no token is shorter than a byte: a tokenizer need not be loaded to know
        return sum(map(self.count_tokens, texts)) <= room

    def format_system_message(self, signature: Any) -> str:
        """Return the instruction, the input fields and the output fields."""
        inputs = "\n".join(describe_field(name, field) for name, field in signature.input_fields.items())
        parts = [signature.instructions.strip(), f"Given:\n{inputs}"]
        if asks_yes_no(signature):
            parts.append(_ONE_WORD)
        else:
            outputs = "\n".join(describe_field(name, field) for name, field in signature.output_fields.items())
            parts.append(f"{self._reply_heading}\n{outputs}")
        return "\n\n".join(parts)

    _reply_heading = "Reply with:"

    def format_user_message_content(
        self, signature: Any, inputs: Inputs, prefix: str = "", suffix: str = "", main_request: bool = False
    ) -> str:
        """Return the input fields under their headers, then what to reply with."""
        blocks = [prefix] if prefix else []
        for name, field in signature.input_fields.items():
            if name in inputs:
                blocks.append(f"[[ ## {name} ## ]]\n{render(field, inputs[name])}")
        if main_request or asks_yes_no(signature):
            blocks.append(self.user_message_output_requirements(signature))
        if suffix:
            blocks.append(suffix)
        return "\n\n".join(blocks)

    def user_message_output_requirements(self, signature: Any) -> str:
        """Return the last line of a prompt: the fields to reply with, in order."""
        return _ONE_WORD if asks_yes_no(signature) else self._reminder(signature)

    def _reminder(self, signature: Any) -> str:
        raise NotImplementedError

    def format_assistant_message_content(
        self, signature: Any, outputs: Inputs, missing_field_message: str | None = None
    ) -> str:
        """Return the outputs of a demo in the form of a reply."""
        if asks_yes_no(signature):
            (name,) = signature.output_fields
            return "yes" if outputs.get(name) else "no"
        outputs = {name: escape_all(value) for name, value in outputs.items()}
        return super().format_assistant_message_content(signature, outputs, missing_field_message)  # type: ignore[misc]

    def format_finetune_data(
        self, signature: Any, demos: list[Inputs], inputs: Inputs, outputs: Inputs
    ) -> dict[str, Messages]:
        """Return a prompt and its reply as messages, the form of training data of `dspy.BootstrapFinetune`."""
        reply = self.format_assistant_message_content(signature, outputs)
        return {"messages": [*self.format(signature, demos, inputs), {"role": "assistant", "content": reply}]}

    def _call_postprocess(self, processed: Any, original: Any, outputs: list[Any], *rest: Any) -> list[Inputs]:
        if not continues_text(original):  # whose thinking is part of its text
            outputs = [thinking_apart(output) for output in outputs]
        record_replies(outputs)
        if any(map(is_thinking_only, outputs)):
            raise self._failure(original, "", {}, self.thinking.no_answer())
        if asks_yes_no(processed):
            outputs = [yes_no_by_logprobs(output) for output in outputs]
        return super()._call_postprocess(processed, original, outputs, *rest)  # type: ignore[misc]

    def parse(self, signature: Any, completion: str) -> Inputs:
        """Return the output fields of a reply.

        Raises:
            AdapterParseError: A field is missing or cannot be parsed as its type.
        """
        try:
            check_length(completion)
            raw = {next(iter(signature.output_fields)): completion} if asks_yes_no(signature) else None
            raw = raw or self._read_fields(signature, completion)
        except ValueError as error:
            raise self._failure(signature, completion, {}, str(error)) from error
        fields: Inputs = {}
        for name, value in raw.items():
            try:
                fields[name] = coerce(value, signature.output_fields[name].annotation)
            except ValueError as error:
                raise self._failure(signature, completion, fields, f"field {name}: {error}") from error
        fields = apply_output_field_defaults(signature, fields)
        if missing := [name for name in signature.output_fields if name not in fields]:
            raise self._failure(signature, completion, fields, f"missing: {', '.join(missing)}")
        return fields

    def _read_fields(self, signature: Any, completion: str) -> Inputs:
        """Return the texts of the output fields, those of an agent's action also where they are written otherwise."""
        options = options_of(signature)
        if not options:
            return self._split_fields(signature, completion)
        try:
            fields = self._split_fields(signature, completion)
        except (ValueError, AdapterParseError):
            if not (fields := with_action({}, completion, options, list(signature.output_fields))):
                raise
            return fields
        return with_action(fields, completion, options, list(signature.output_fields))

    def _split_fields(self, signature: Any, completion: str) -> Inputs:
        raise NotImplementedError

    def _failure(self, signature: Any, completion: str, parsed: Inputs, message: str) -> AdapterParseError:
        return AdapterParseError(
            adapter_name=type(self).__name__,
            signature=signature,
            lm_response=completion[:LONGEST_REPLY],
            parsed_result=parsed,
            message=message,
        )


class ChatForm(Continuing, PlainReplies, _Form, ChatAdapter):
    """Replies are fields under `[[ ## name ## ]]` headers; works with any LM, and is the form of fine-tuning data."""

    _reply_heading = "Reply with these fields, each below its header in double brackets:"

    def _reminder(self, signature: Any) -> str:
        headers = ", then ".join(f"`[[ ## {name} ## ]]`" for name in signature.output_fields)
        return f"Reply with {headers}, and close with `[[ ## completed ## ]]`."

    def _split_fields(self, signature: Any, completion: str) -> Inputs:
        sections: dict[str | None, list[str]] = {None: []}
        current: str | None = None
        for line in completion.splitlines():
            header = field_header_pattern.match(line.strip())
            if header:
                current = header[1] if header[1] not in sections else "ignored"  # the first of each name counts
                sections.setdefault(current, []).append(line.strip()[header.end() :])
            else:
                sections.setdefault(current, []).append(line)
        fields = {name: "\n".join(sections[name]).strip() for name in signature.output_fields if name in sections}
        if set(sections) == {None} and len(signature.output_fields) == 1:
            # A reply without any header is the only field; a reply with other headers is not.
            fields = {next(iter(signature.output_fields)): completion.strip()}
        return fields


class JsonForm(Continuing, PlainReplies, _Form, JSONAdapter):
    """Replies are one JSON object; the schema is sent to an LM that enforces it."""

    _reply_heading = "Reply with a JSON object that holds:"

    def format_assistant_message_content(
        self, signature: Any, outputs: Inputs, missing_field_message: str | None = None
    ) -> str:
        """Return the outputs as one line of JSON: fewer tokens than an indented object, and no escaped Unicode."""
        if asks_yes_no(signature):
            return super().format_assistant_message_content(signature, outputs, missing_field_message)
        values = {name: outputs.get(name, missing_field_message) for name in signature.output_fields}
        return json.dumps(escape_all(values), ensure_ascii=False)

    def _prepare_response_format(self, lm: Any, lm_kwargs: Inputs, signature: Any) -> None:
        if asks_yes_no(signature) or continues_text(signature) or replies_in_text(signature):
            return
        takes_schema = lm.supports_response_schema and "response_format" in lm.supported_params
        if takes_schema and (made := _RESPONSE_MODELS.get(signature)) is not None:
            lm_kwargs["response_format"] = made
            return
        super()._prepare_response_format(lm, lm_kwargs, signature)
        if takes_schema and isinstance(lm_kwargs.get("response_format"), type):
            made = _RESPONSE_MODELS[signature] = lm_kwargs["response_format"]
            for shown in made.model_json_schema()["properties"].values():
                shown.pop("default", None)  # servers refuse it in a strict schema, whose fields all have to be there

    def _reminder(self, signature: Any) -> str:
        names = ", ".join(f"`{name}`" for name in signature.output_fields)
        return f"Reply with a JSON object: {names}."

    def _split_fields(self, signature: Any, completion: str) -> Inputs:
        start = completion.find("{")
        value = read_json(completion[start:]) if start >= 0 else None
        if not isinstance(value, dict):
            raise self._failure(signature, completion, {}, "the reply contains no JSON object")
        return {name: value[name] for name in signature.output_fields if name in value}


_LINE = re.compile(
    r"^\W*(thought|action input|action|input|query|final answer|answer)(?:\s+\d+)?\W*?[:：]\s*", re.IGNORECASE
)
_CALL = re.compile(r"^\W*(?:\d+[.)]\s*)?([a-z][a-z _-]{1,20}?)\s*([\[(（【:：])(.*)", re.IGNORECASE)
_CLOSING = {"[": "]", "(": ")", "（": "）", "【": "】"}
_EDGES = " \t\n\"'`*_“”‘’「」"
_LONGEST = 2000  # characters of an action; nothing longer is one
_INPUTS = ("action input", "input", "query")
_ANSWERS = ("final answer", "answer")
_NAMES = {
    "search": ("retrieve", "query", "google", "wikipedia", "semantic search"),
    "lookup": ("look up", "find"),
    "keywords": ("keyword", "keyword search"),
    "read": ("open", "read chunk", "chunk read"),
    "finish": ("answer", "final answer", "conclude", "done", "stop", "end"),
}


def options_of(signature: Any) -> tuple[str, ...]:
    """Return the actions that a signature offers; none if it is not that of an agent.

    An agent has the action's argument in one field, or apart in `answer` where it finishes and in `query` elsewhere.
    """
    fields = signature.output_fields
    has_argument = "argument" in fields or {"query", "answer"} <= fields.keys()
    if "action" not in fields or not has_argument or get_origin(fields["action"].annotation) is not Literal:
        return ()
    return get_args(fields["action"].annotation)


def with_action(raw: dict[str, Any], completion: str, options: Sequence[str], names: Sequence[str]) -> dict[str, Any]:
    """Return the fields of a reply, the action and its argument as they were meant.

    Args:
        raw: The fields that were found in the reply, if any.
        completion: The reply.
        options: The actions that are offered.
        names: Of the output fields.
    """
    if not raw:
        raw = _written(completion, options)
    if not isinstance(raw.get("action"), str):
        return raw
    label = _LINE.match(raw["action"])
    start = label.end() if label and label[1].casefold() == "action" else 0
    name, argument, _ = _called(raw["action"][start:], options)
    if name is None:
        return raw
    own, unused = ("answer", "query") if name == "finish" else ("query", "answer")
    if "argument" in names:
        own, unused = "argument", "thought"
    fields = {"thought": "", **raw, "action": name}
    # A reply that ends before its argument, or inside its JSON object, was cut off and stays unparseable.
    if not completion.lstrip("`json \n").startswith("{") or completion.rstrip("` \n").endswith("}"):
        fields.setdefault(unused, "")
    if given := [raw[each] for each in (own, "argument") if each in raw] + [argument] * bool(argument):
        fields[own] = next((each for each in given if each not in (None, "")), "")
    return {each: fields[each] for each in names if each in fields}


def _written(completion: str, options: Sequence[str]) -> dict[str, Any]:
    """Return thought, action and argument of a reply in plain text; empty if it has no action.

    The first line labelled as an action counts, else a line that is a call in brackets and nothing else, else one that
    is labelled as the answer. Nothing in a thought is an action.
    """
    lines = completion.splitlines()
    labels = [_LINE.match(line) for line in lines]
    kinds = [label[1].casefold() if label else "" for label in labels]
    said = [line[label.end() :] if label else line for line, label in zip(lines, labels, strict=True)]
    found = [_called(text, options) for text in said]
    stated = (place for place, kind in enumerate(kinds) if kind == "action" and found[place][0])
    called = (place for place, kind in enumerate(kinds) if not kind and found[place][0] and found[place][2])
    place = next(iter((*stated, *called)), None)
    if place is not None:
        name, argument, _ = found[place]
        behind = [(kind, text.strip(_EDGES)) for kind, text in zip(kinds, said, strict=True)][place + 1 :]
        after = list(takewhile(lambda each: each[0] in _INPUTS + _ANSWERS, filter(any, behind)))  # without blank lines
        wanted = [*_ANSWERS, *_INPUTS[:2]] if name == "finish" else [*_INPUTS]  # a query is no answer
        argument = argument or next((text for one in wanted for kind, text in after if kind == one and text), "")
    else:
        place = next((place for place, kind in enumerate(kinds) if kind in _ANSWERS), None)
        if place is None or "finish" not in options:
            return {}
        name, argument = "finish", said[place].strip(_EDGES)
    thought = [said[before].strip() for before in range(place) if kinds[before] in ("", "thought")]
    return {"thought": " ".join(filter(None, thought)), "action": name, "argument": argument}


def _called(text: str, options: Sequence[str]) -> tuple[str | None, str, bool]:
    """Return the action that a text names, None if it names none, the argument, and if a bracket around it ends all.

    Only the first line counts: what LMs write behind it are results that they made up.
    """
    line = text.strip().partition("\n")[0]
    call = _CALL.match(line) if len(line) <= _LONGEST else None
    name, opening, argument = (call[1], call[2], call[3]) if call else (line, "", "")
    whole = False
    if closing := _CLOSING.get(opening):
        end = _end(argument, opening, closing)
        whole = not argument[end + 1 :].strip(_EDGES + ".")
        argument = argument[:end]
    word = re.sub(r"[\s_-]+", " ", name.strip(_EDGES + ".")).casefold()
    for option in options:
        if word == option or word in _NAMES.get(option, ()):
            return option, argument.strip(_EDGES), whole
    return None, "", False


def _end(text: str, opening: str, closing: str) -> int:
    """Return the place of the bracket that closes the one before a text; its length if none does."""
    depth = 1
    for place, sign in enumerate(text):
        depth += (sign == opening) - (sign == closing)
        if not depth:
            return place
    return len(text)
