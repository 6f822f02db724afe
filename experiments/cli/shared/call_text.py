"""LM calls as text."""

import textwrap
from typing import Any

from experiments.cli.shared.console import say

_SHORT = 200  # characters of a reply that is not shown whole


def show_call(call: dict[str, Any], *, whole: bool) -> None:
    """Print an LM call: who asked, what it took, the messages as sent, and the reply; if not whole, its start only."""
    say(f"Call {call['call']}: {_asker(call)}: {', '.join(_facts(call))}")
    if whole:
        for message in call["messages"]:
            _block(str(message.get("role", "")), _content(message))
    for reply in call["replies"]:
        if whole and reply.get("thinking"):
            _block("thinking", reply["thinking"])
        for tool in reply.get("tool_calls", ()):
            say(f"  calls {tool['name']}({tool['arguments']})")
        text = reply["text"]
        if whole:
            _block("reply", text)
        elif text:
            say(f"  {textwrap.shorten(text, _SHORT, placeholder=' ...')}")
    for name, what in (("error", "error"), ("unreadable", "the reply could not be read")):
        if call[name]:
            say(f"  {what}: {call[name]}")
    if whole:
        say()


def _asker(call: dict[str, Any]) -> str:
    if call["metric"]:
        return f"judge of {call['metric']}"
    return str(call["predictor"] or call["signature"] or call["model"])


def _facts(call: dict[str, Any]) -> list[str]:
    facts = [f"{call['prompt_tokens']:,.0f} + {call['completion_tokens']:,.0f} tokens", f"{call['seconds']:.2f} s"]
    if call["cached"]:
        facts[0] = f"cached ({call['cached_tokens']:,.0f} tokens)"
    if call["usd"]:
        facts.append(f"{call['usd']:.6f} USD")
    if call["retries"]:
        facts.append(f"{call['retries']:.0f} retries")
    facts += [f"{name} {call['settings'][name]}" for name in ("temperature", "rollout_id") if name in call["settings"]]
    return facts + [f"ended by {reason}" for reason in _endings(call)]


def _endings(call: dict[str, Any]) -> list[str]:
    return [reply["finish_reason"] for reply in call["replies"] if reply.get("finish_reason") not in (None, "stop")]


def _content(message: dict[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    return "" if content is None else str(content)


def _block(title: str, text: str) -> None:
    say(f"  {title}:")
    say(textwrap.indent(text.rstrip(), "    ") if text.strip() else "    (nothing)")
