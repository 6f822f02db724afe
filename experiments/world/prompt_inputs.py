"""The inputs of a prompt by role: what is asked, the passages, what was found before, and the texts to judge."""

import json
import re
from dataclasses import dataclass
from typing import Any

from experiments.world.grammar import Plan, facts_of, parse_question
from experiments.world.passage_text import split_passages
from experiments.world.prompt import FieldNote, Prompt
from experiments.world.roles.instruction import offers_unknown, quoted_refusal
from experiments.world.roles.recognise import input_role, items_of, read_json_list

_NOTHING = {"", "(none)", "[]"}
# Roles whose texts tell what was found before: pairs of questions and answers, thoughts, observations.
_FOUND_BEFORE = ("history", "reasoning")
_REJECTED = re.compile(r"\b(?:not|never) (?:been )?accepted\b|\brejected\b|\bwas wrong\b|\bfailed attempts?\b", re.I)


@dataclass(frozen=True)
class PromptInputs:
    """The inputs of a prompt by role; a role without a block is empty.

    Args:
        instruction: What to do; its words tell what kind of judgement is asked for.
        offers_unknown: Whether the prompt allows the answer "unknown".
        refusal: The sentence with which the prompt asks to decline; empty if it quotes none.
        question: The question to answer: the sub-question, if the prompt has one.
        plan: The parsed question; None if it is not about the world.
        passages: Lines `[n] title: text`.
        listed_facts: Facts listed one by one.
        entities: Names listed one by one.
        answers: Short answers, empty ones included: two to compare, or one to check.
        accepted_answers: Answers in a list, each of which would be right.
        limit: The most items that a list may have; None without a limit.
        found_before: Pairs of questions and answers, thoughts and observations, as text; None without such a block.
        shows_passages: Whether the prompt has a block for passages, if only an empty one.
        rejected: Whether the prompt says of something it shows that it was not accepted.
        texts: The other blocks by role: "query", "reasoning", "claim", "reply", "response", and so on.
    """

    instruction: str
    offers_unknown: bool
    refusal: str
    question: str
    plan: Plan | None
    passages: list[str]
    listed_facts: list[str]
    entities: list[str]
    answers: list[str]
    accepted_answers: list[str]
    limit: int | None
    found_before: str | None
    shows_passages: bool
    rejected: bool
    texts: dict[str, str]

    @property
    def content(self) -> str:
        """The inputs by role as one text, without the names of the blocks, their layout and the instruction."""
        parts = (
            " ".join(self.question.split()),
            self.passages,
            self.listed_facts,
            self.entities,
            sorted(self.answers),  # the order of the fields is no content
            self.accepted_answers,
            self.limit,
            self.found_before,
            sorted((role, text) for role, text in self.texts.items() if text),
        )
        return json.dumps(parts, ensure_ascii=False)

    @property
    def draft(self) -> str | None:
        """The first answer that is not empty."""
        return next((answer for answer in self.answers if answer), None)


def parse_inputs(prompt: Prompt) -> PromptInputs:
    """Return the inputs of a prompt."""
    blocks = prompt.blocks
    role_of = {
        name: input_role(name, prompt.notes.get(name, FieldNote()), text, prompt.instruction)
        for name, text in blocks.items()
    }
    by_role: dict[str, list[str]] = {}
    for name, role in role_of.items():
        by_role.setdefault(role, []).append("" if blocks[name] in _NOTHING else blocks[name])
    question = _question(by_role)
    passages = _passages(by_role)
    sources = by_role.pop("source", [])
    if not passages:
        passages = _numbered([source for source in sources if source], [])
    elif sources:  # a single text beside passages is what is checked against them
        by_role.setdefault("claim", []).extend(sources)
    answers = [text for text in by_role.get("answer", []) if not items_of(text)]
    return PromptInputs(
        instruction=prompt.instruction,
        offers_unknown=offers_unknown(prompt.system),
        refusal=quoted_refusal(prompt.system),
        question=question,
        plan=parse_question(question),
        passages=passages,
        listed_facts=_items(by_role, "listed"),
        entities=_items(by_role, "entities"),
        answers=[text for text in answers if "\n" not in text],
        accepted_answers=_items(by_role, "answer"),
        limit=next((int(text) for text in by_role.get("limit", []) if text.isdecimal()), None),
        found_before=_found_before(by_role),
        shows_passages="passages" in by_role,
        rejected=_says_rejected(prompt),
        texts={
            role: "\n".join(texts)
            for role, texts in by_role.items()
            if role not in {"question", "sub_question", "passages", "listed", "entities", "answer", "limit", "history"}
        },
    )


def _says_rejected(prompt: Prompt) -> bool:
    """Return whether the description of a block that is not empty says that an attempt failed."""
    notes = [prompt.notes.get(name, FieldNote()) for name, text in prompt.blocks.items() if text not in _NOTHING]
    return any(_REJECTED.search(note.description) for note in notes)


def _question(by_role: dict[str, list[str]]) -> str:
    """Return what is asked: the sub-question, else the question, else any other text that is one.

    Of several questions the one of the fewest facts is asked now, and of equals the last.
    """
    for role in ("sub_question", "question"):
        if given := [text for text in by_role.get(role, []) if text]:
            return min(reversed(given), key=_facts_asked)
    return next((text for texts in by_role.values() for text in texts if parse_question(text)), "")


def _found_before(by_role: dict[str, list[str]]) -> str | None:
    texts = [_as_text(text) for role in _FOUND_BEFORE for text in by_role.get(role, [])]
    return "\n".join(texts) if texts else None


def _facts_asked(question: str) -> int:
    plan = parse_question(question)
    return len(list(facts_of(plan))) if plan else 99


def _passages(by_role: dict[str, list[str]]) -> list[str]:
    """Return all passages: lists of them, texts without number, and those quoted among observations."""
    passages: list[str] = []
    for text in by_role.get("passages", []):
        passages = _numbered(_passage_texts(text), passages)
    for role, texts in by_role.items():
        if role not in {"passages", "listed", "entities"}:
            passages += [line for text in texts for line in split_passages(text)]
    return passages


def _passage_texts(text: str) -> list[str]:
    """Return the passages of one block, those that have a number with it."""
    items: list[Any] = read_json_list(text)
    if any(isinstance(item, dict) for item in items):
        return [_passage_text(item) for item in items]
    return split_passages(text) or items_of(text) or [part for part in text.split("\n\n") if part.strip()]


def _passage_text(item: Any) -> str:
    """Return one item of a JSON list as a passage, whatever it is."""
    if not isinstance(item, dict) or item.get("text") is None:
        return str(item)
    return f"{item['title']}: {item['text']}" if item.get("title") else str(item["text"])


def _numbered(texts: list[str], before: list[str]) -> list[str]:
    """Return passages after those before them, each with its number; one with a number keeps it."""
    numbered = list(before)
    for text in texts:
        line = " ".join(text.split())
        numbered.append(line if split_passages(line) else f"[{len(numbered) + 1}] {line}")
    return numbered


def _items(by_role: dict[str, list[str]], role: str) -> list[str]:
    return [item for text in by_role.get(role, []) for item in items_of(text)]


def _as_text(text: str) -> str:
    """Return pairs and lists as lines; hops in DSPy's own layout as the project shows them."""
    items: list[Any] = read_json_list(text)
    lines = []
    for number, item in enumerate(items, 1):
        if not isinstance(item, dict) or "question" not in item:
            lines.append(str(item))
            continue
        evidence = f' (evidence: "{item["evidence"]}")' if item.get("evidence") else ""
        lines.append(f"{number}. {item['question']}{evidence} -> {item.get('answer', '')}")
    return "\n".join(lines) or "\n".join(items_of(text)) or text
