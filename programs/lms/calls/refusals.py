"""What an error of a provider means, in the words of each, whatever route brought it.

A content filter, an account without credit, a wrong key and a wrong model often come as a bad request (400) that only
its text tells from others. LiteLLM, on which DSPy sends the ids of some providers, drops codes and headers of a reply
and wraps its text; the reply itself is among the causes of its errors.
"""

import contextlib
import json
import re
from typing import Any, NamedTuple

import httpx
from dspy.utils import exceptions as errors

from programs.lms.calls.reply_cache import FILTERED
from signatures.common.errors import one_line, with_causes
from signatures.common.http import retry_after
from signatures.common.logs import WEB_PAGE

# Codes of filters, of prompts and of replies: of Azure and OpenAI; of Gemini as `lm15.providers.gemini` names them.
FILTERS = {FILTERED, "content_policy_violation", "promptFeedback"} | {
    "SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII"
}  # fmt: skip
# Codes and types of errors that no wait ends, although their status is that of a rate: of OpenAI
# (https://platform.openai.com/docs/guides/error-codes), Moonshot and Z.AI, as in DSPy's `lm15.providers.openai`.
NO_CREDIT = {"insufficient_quota", "exceeded_current_quota_error", "1113"}
_LONGEST_REASON = 300  # characters of a server's message


class _Meaning(NamedTuple):
    """What an error means if it has one of these codes, or says one of these words."""

    kind: type[errors.LMError]
    codes: set[str]
    words: re.Pattern[str]

    def means(self, codes: set[str | None], said: str) -> bool:
        """Return whether an error with these codes, that says this, has the meaning."""
        return not self.codes.isdisjoint(codes) or self.words.search(said) is not None


# Of several the first. Anthropic: "Output blocked by content filtering policy", "Your credit balance is too low";
# OpenAI: "flagged as potentially violating our usage policy"; DeepSeek: "Content Exists Risk"
# (https://github.com/deepseek-ai/awesome-deepseek-integration/issues/13); OpenRouter, with status 403: "your input was
# flagged" (https://openrouter.ai/docs/api/reference/errors-and-debugging); LiteLLM's class; Gemini: "API key not
# valid", "API key expired"; Bedrock: "model identifier is invalid" and "with on-demand throughput isn't supported"
# (https://github.com/aws-samples/sample-getting-started-with-strands-agents-course/issues/1); Mistral: "Invalid model".
_MEANINGS = (
    _Meaning(
        errors.LMInvalidRequestError,
        FILTERS,
        re.compile(
            r"content filtering policy|violating our usage policy|Content Exists Risk|input was flagged"
            r"|ContentPolicyViolation",
            re.IGNORECASE,
        ),
    ),
    _Meaning(errors.LMBillingError, NO_CREDIT, re.compile(r"credit balance is too low", re.IGNORECASE)),
    _Meaning(errors.LMAuthError, {"API_KEY_INVALID"}, re.compile(r"API key (?:not valid|expired)", re.IGNORECASE)),
    _Meaning(
        errors.LMUnsupportedModelError,
        {"invalid_model"},
        re.compile(r"model identifier is invalid|on-demand throughput isn.t supported", re.IGNORECASE),
    ),
)
_AMBIGUOUS = (errors.LMInvalidRequestError, errors.LMAuthError, errors.LMRateLimitError, errors.LMServerError)
# A reply that begins as a page does, not a message that quotes one. lm15 quotes a reply that is no JSON, as repr does.
_PAGE = re.compile(
    r"(?:the reply \(HTTP .*?Body starts: ['\"])?(?>\s|\\[nrt]|\ufeff|\\ufeff|<\?.*?\?>|<!--.*?-->)*+"
    r"<(?:!doctype(?:\s|\\[nrt])++)?html\b(?:.*?<title[^<>]*>([^<]*))?",
    re.IGNORECASE | re.DOTALL,
)
_HEAD = 20_000  # characters in which a page and its title are looked for


def understood(error: errors.LMError) -> errors.LMError:
    """Return an error as what its provider means, with what it says and the seconds for which it asks to wait."""
    reply = _reply_behind(error)
    said, codes, wait = web_page(error.message) or error.message, {error.provider_code}, error.retry_after
    kind, code = type(error), error.provider_code
    if reply is not None:
        said, codes = error_message(reply.content), codes | {error_code(reply.content)}
        wait = retry_after(reply.headers) if wait is None else wait
    if kind in _AMBIGUOUS:
        meant = next((each for each in _MEANINGS if each.means(codes, f"{error.message} {said}")), None)
        if meant is not None:
            kind, code = meant.kind, FILTERED if meant.codes is FILTERS else code
        elif kind is errors.LMInvalidRequestError and error.status in (401, 403):
            kind = errors.LMAuthError
    if (kind, code, said, wait) == (type(error), error.provider_code, error.message, error.retry_after):
        return error
    about = {"provider": error.provider, "status": error.status, "request_id": error.request_id}
    return kind(message=said, model=error.model, provider_code=code, retry_after=wait, **about)


def _reply_behind(error: errors.LMError) -> Any:
    """Return the HTTP reply behind an error of LiteLLM's route; None if there is none that was read and refuses."""
    causes = list(with_causes(error))
    if not any(type(cause).__module__.startswith("litellm.") for cause in causes):
        return None
    replies = [getattr(cause, "response", None) for cause in causes]
    reply: Any = next((each for each in reversed(replies) if each is not None), None)  # others LiteLLM makes itself
    with contextlib.suppress(httpx.ResponseNotRead):
        return reply if getattr(reply, "is_error", False) and reply.is_stream_consumed and reply.content else None
    return None


def error_message(content: bytes) -> str:
    """Return the message of an error reply in one line, else its text, or that it is a web page."""
    text: Any = content.decode("utf-8", "replace")
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        body = None
    if isinstance(body, dict):
        error = body.get("error")
        inner = error.get("message") if isinstance(error, dict) else error
        text = inner or body.get("message") or body.get("detail") or text
    else:
        text = web_page(text) or text
    return one_line(text, _LONGEST_REASON) or "no reason given"


def web_page(text: str) -> str | None:
    """Return what to say of a web page in place of a reply, with its title; None for another reply."""
    if (page := _PAGE.match(text[:_HEAD])) is None:
        return None
    words = (page[1] or "").replace("\\n", " ")  # of lm15
    return WEB_PAGE.format(title=f" ({one_line(words, 60)!r})" if words.strip() else "")


def error_code(content: bytes) -> str | None:
    """Return the code of the error in an error reply, else its type; of both, that which has a meaning."""
    try:
        error = json.loads(content)["error"]
        stated = [str(error[name]) for name in ("code", "type") if error.get(name)]
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        return None
    known = {code for meaning in _MEANINGS for code in meaning.codes}
    return next((code for code in stated if code in known), stated[0] if stated else None)
