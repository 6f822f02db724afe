"""Replies of the loopback server."""

from typing import Any


def completion(body: dict[str, Any]) -> dict[str, Any]:
    """Return the reply to a chat request."""
    message = {"role": "assistant", "content": "yes"}
    usage = {"prompt_tokens": 100, "completion_tokens": 1, "total_tokens": 101}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {"id": "x", "object": "chat.completion", "model": body.get("model"), "choices": [choice], "usage": usage}
