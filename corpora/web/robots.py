"""robots.txt as RFC 9309 says: the longest rule that fits decides, with `*` and `$`, which `urllib.robotparser` lacks.

No rule becomes a regular expression: a stranger wrote it.
"""

from typing import NamedTuple
from urllib.parse import quote, unquote

AGENT = "verihop"
_MOST_PAUSE = 10.0  # seconds that a Crawl-delay may ask for


class Robots(NamedTuple):
    """The rules of one host for us.

    Args:
        rules: Path and whether it is allowed.
        delay: Seconds between requests that the host asks for.
    """

    rules: tuple[tuple[str, bool], ...] = ()
    delay: float = 0.0

    def allows(self, target: str) -> bool:
        """Return whether a path with its query may be fetched; of equally long rules, the one that allows decides."""
        target = _plain(target)
        fitting = [(len(rule), allowed) for rule, allowed in self.rules if _fits(rule, target)]
        return max(fitting, default=(0, True))[1]


EVERYTHING, NOTHING = Robots(), Robots((("/", False),))


def parse_robots(text: str) -> Robots:
    """Return the rules for `AGENT`, or else for all agents."""
    groups: dict[str, list[tuple[str, str]]] = {}
    agents: set[str] = set()  # that the next rules are for; others than ours could be thousands
    named = False  # whether the line before named an agent, too
    for line in text.splitlines():
        key, colon, value = line.partition("#")[0].partition(":")
        key, value = key.strip().lower(), value.strip()
        if not colon:
            continue
        if key == "user-agent":
            agents = (agents if named else set()) | ({value.lower()} & {AGENT, "*"})
            for agent in agents:
                groups.setdefault(agent, [])
        else:
            for agent in agents:
                groups[agent].append((key, value))
        named = key == "user-agent"
    chosen = groups.get(AGENT, groups.get("*", []))
    rules = tuple((_plain(value), key == "allow") for key, value in chosen if key in ("allow", "disallow") and value)
    return Robots(rules, max((_seconds(value) for key, value in chosen if key == "crawl-delay"), default=0.0))


def _seconds(text: str) -> float:
    try:
        return min(max(0.0, float(text)), _MOST_PAUSE)  # the order of both counts: 0 stays where the other is NaN
    except ValueError:
        return 0.0


def _plain(path: str) -> str:
    """Return a path in one of its spellings."""
    return quote(unquote(path), safe="/?=&:;,+@!~'()*$")


def _fits(rule: str, target: str) -> bool:
    anchored = rule.endswith("$")
    first, *others = rule.removesuffix("$").split("*")
    if not target.startswith(first):
        return False
    place = len(first)
    for number, part in enumerate(others, start=1):
        if anchored and number == len(others):
            return len(target) - len(part) >= place and target.endswith(part)
        found = target.find(part, place)
        if found < 0:
            return False
        place = found + len(part)
    return not anchored or place == len(target)
