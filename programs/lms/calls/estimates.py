"""High estimates of the tokens of a call, for budgets: before it is sent, and for an LM that reports no usage."""

from dspy.clients.call_result import CallResult
from dspy.clients.execution import PreparedCall

from programs.lms.requests import system_text

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
