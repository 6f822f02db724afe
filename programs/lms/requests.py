"""Parts of a request for engines: its system text and its turns."""

from dspy.lm15 import Request, TextPart


def system_text(request: Request) -> str:
    """Return the system message as one text, empty if there is none."""
    system = request.system
    if system is None or isinstance(system, str):
        return system or ""
    return "".join(part.text for part in system if isinstance(part, TextPart))


def turns(request: Request) -> list[dict[str, str]]:
    """Return the conversation as `role` and `content`, the system message first if there is one."""
    system = system_text(request)
    messages = [{"role": message.role, "content": message.text or ""} for message in request.messages]
    return ([{"role": "system", "content": system}] if system else []) + messages
