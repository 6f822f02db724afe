"""What a round of RetroRAG starts from."""

from typing import NamedTuple

from programs.parts.yes_no_scores import YesNoScores
from signatures.types import Passage


class State(NamedTuple):
    """What a round starts from. Steps return a new state; only `scores`, a cache, is shared by all rounds."""

    question: str  # q
    scores: YesNoScores  # of all yes/no questions asked so far
    query: str = ""  # q_s; empty while it is q itself
    entities: list[str] | None = None  # k; None until named
    source: list[Passage] = []  # E_s, best first
    inferences: list[str] = []  # E_i, best first
    read: list[Passage] = []  # E_s of all rounds
    last: bool = False  # this is the last round
