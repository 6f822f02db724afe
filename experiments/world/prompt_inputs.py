"""The inputs of a prompt: its blocks, recognised by their names and their shape."""

import json
import re
from dataclasses import dataclass

from experiments.world.grammar import Plan, parse_question
from experiments.world.passage_text import split_passages
from experiments.world.prompt import Prompt

# A block has the first role whose expression matches its name.
_ROLES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("reasoning", re.compile(r"reason|rationale|thought|explanation")),
    ("query", re.compile(r"quer(?:y|ies)|search|keywords")),
    ("question", re.compile(r"question")),
    ("entities", re.compile(r"entit")),
    ("listed", re.compile(r"inference|facts")),
    ("evidence", re.compile(r"evidence|quote")),
    ("claim", re.compile(r"claim")),
    ("reply", re.compile(r"reply")),
    ("response", re.compile(r"response")),
    ("answer", re.compile(r"answer|draft|candidate|prediction")),
)
_OFFERS_UNKNOWN = re.compile(r"[\"'“]unknown[\"'”]", re.IGNORECASE)
_LIST_LINE = re.compile(r"^- (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class PromptInputs:
    """The inputs of a prompt by role; a role without a block is empty.

    Args:
        instruction: The system text, whose words tell what kind of judgement is asked for.
        question: The question to answer: the sub-question, if the prompt has one.
        plan: The parsed question; None if it is not about the world.
        passages: Lines `[n] title: text`.
        listed_facts: Facts listed one by one.
        entities: Names listed one by one.
        answers: Short answers, empty ones included: two to compare, or one to check.
        texts: The other blocks by role: "query", "reasoning", "evidence", "claim", "reply", "response".
    """

    instruction: str
    question: str
    plan: Plan | None
    passages: list[str]
    listed_facts: list[str]
    entities: list[str]
    answers: list[str]
    texts: dict[str, str]

    @property
    def content(self) -> str:
        """The inputs by role as one text, without the names of the blocks, their layout and the instruction."""
        parts = (
            " ".join(self.question.split()),
            self.passages,
            self.listed_facts,
            self.entities,
            self.answers,
            sorted(self.texts.items()),
        )
        return json.dumps(parts, ensure_ascii=False)

    @property
    def offers_unknown(self) -> bool:
        """Whether the instruction allows the answer "unknown"."""
        return bool(_OFFERS_UNKNOWN.search(self.instruction))

    @property
    def draft(self) -> str | None:
        """The first answer that is not empty."""
        return next((answer for answer in self.answers if answer), None)


def parse_inputs(prompt: Prompt) -> PromptInputs:
    """Return the inputs of a prompt."""
    blocks = prompt.blocks
    question = (
        blocks.get("sub_question")
        or blocks.get("question")
        or next((text for text in blocks.values() if parse_question(text)), "")
    )
    roles = {name: _role(name) for name in blocks}
    texts: dict[str, str] = {}
    for name, text in blocks.items():
        texts.setdefault(roles[name], text)
    lists = {role: _items(texts.get(role, "")) for role in ("listed", "entities")}
    return PromptInputs(
        instruction=prompt.instruction,
        question=question,
        plan=parse_question(question),
        passages=[line for name, text in blocks.items() if roles[name] not in lists for line in split_passages(text)],
        listed_facts=lists["listed"],
        entities=lists["entities"],
        answers=[text for name, text in blocks.items() if roles[name] == "answer" and "\n" not in text],
        texts={role: text for role, text in texts.items() if role not in {"question", "answer", *lists}},
    )


def _items(text: str) -> list[str]:
    """Return the items of a list: lines `- item` in the project's layout, JSON in DSPy's own."""
    try:
        items = json.loads(text) if text.startswith("[") else []
    except ValueError:
        items = []
    return [str(item) for item in items] or _LIST_LINE.findall(text)


def _role(name: str) -> str:
    return next((role for role, expression in _ROLES if expression.search(name)), "")
