"""The growing text of an agent that was trained to act by tags: what it wrote, and what it was shown.

    <think>Who is the harbour master?</think>
    <search>harbour master of Quillon</search>

    <information>Doc 1(Title: Quillon) The harbour master of Quillon is Ansa Merrow.</information>

Tags are the agent's alone: in passages, titles and queries that are shown they lose their brackets, and a passage takes
one line, so that it can neither close its block, nor act, nor imitate another passage.
"""

import re
from collections.abc import Sequence

from programs.parts.agents.transcript import Turn, count, first_words
from signatures.types import Passage

SEARCH, ANSWER = "search", "answer"
STOP = (f"</{SEARCH}>", f"</{ANSWER}>")  # a reply ends here; what a server does not stop at is cut

_ACTION = re.compile(rf"<({SEARCH}|{ANSWER})>(.*?)</\1>", re.DOTALL)
_TAG = re.compile(r"<\s*(/?)\s*(think|search|information|answer)\s*>", re.IGNORECASE)


def acted(reply: str) -> Turn:
    """Return the turn of a reply: the reply as its thought, up to its action, with the action and what it says.

    A reply is cut behind its first `</search>`, else behind its first `</answer>`; its first complete pair of tags is
    the action. Servers leave the string out at which they stop, so that an open tag at the end is closed.
    """
    if not any(end in reply for end in STOP):
        begun, name = max((reply.rfind(f"<{name}>"), name) for name in (SEARCH, ANSWER))
        reply = f"{reply}</{name}>" if begun >= 0 else reply
    for end in STOP:
        before, found, _ = reply.partition(end)
        if found:
            reply = before + found
            break
    action = _ACTION.search(reply)
    return Turn(reply, action[1], action[2].strip()) if action else Turn(reply)


def information(passages: Sequence[Passage], most_words: int) -> tuple[str, ...]:
    """Return passages as the lines of an information block, at most so many words in all."""
    lines = (
        f"Doc {number}(Title: {without_tags(passage.title)}) {without_tags(passage.text)}"
        for number, passage in enumerate(passages, start=1)
    )
    return tuple(first_words(lines, most_words))


def without_tags(text: str) -> str:
    """Return a text in one line, with round brackets around what would be a tag."""
    return _TAG.sub(r"(\1\2)", " ".join(text.split()))


def grown_text(turns: Sequence[Turn], most_words: int) -> str:
    """Return what the agent wrote and was shown: the results of a search in a block, a notice as a line.

    Turns that the limit has no room for are left out, oldest first; the last one stays. Departure: the public code cuts
    tokens at the left, those of the instruction first.
    """
    pieces = [turn.thought + _shown(turn) for turn in turns]
    sizes = list(map(count, pieces))
    first = 0
    while first < len(pieces) - 1 and sum(sizes[first:]) > most_words:
        first += 1
    return "".join(pieces[first:])


def _shown(turn: Turn) -> str:
    lines = "\n".join(turn.results)
    if not turn.results:
        return ""
    return f"\n\n<information>{lines}</information>\n\n" if turn.action == SEARCH else f"\n{lines}\n"
