"""Reading: find in the passages of the prompt what is asked, or fall for what merely looks like it."""

import re

from experiments.world.grammar import Pair, Plan, key
from experiments.world.prose import Statement, read_passage, share_word
from experiments.world.skills.mind import UNKNOWN, Mind, Step

_PASSAGE = re.compile(r"^\[\d+\]\s", re.MULTILINE)


def split_passages(text: str) -> list[str]:
    """Return the passages of a block whose lines start with `[n]`, or nothing when there are none."""
    return [line for line in text.splitlines() if _PASSAGE.match(line)]


class Reader:
    """Looks facts up in passages. What it knows of them it takes from their words.

    Args:
        mind: The LM at work.
        passages: The passages as the prompt shows them.
        quoting: The deciding words have to be quoted, which is done with more care and may be declined.
        recalls: Memory helps out where the passages are silent.
    """

    def __init__(self, mind: Mind, passages: list[str], *, quoting: bool = False, recalls: bool = True):
        self._mind = mind
        self._views = [read_passage(passage) for passage in passages]
        self._quoting = quoting
        self._recalls = recalls
        self._used: set[int] = set()

    def find(self, entity: str, relation: str) -> Step | None:
        """Return the step for one fact: settled already, read, misread, remembered, or None."""
        mind = self._mind
        settled = mind.settled.get((key(entity), relation))
        if settled is not None:
            return Step(entity, relation, settled, settled=True)
        deciding = {
            number: statement
            for number, view in enumerate(self._views)
            for statement in view
            if statement.relation == relation and key(statement.head) == key(entity)
        }
        self._used |= set(deciding)
        misleading = self._misled(entity, relation, absent=not deciding)
        if misleading:
            return Step(entity, relation, misleading.value, misleading.sentence)
        if deciding:
            statement = next(iter(deciding.values()))
            return Step(entity, relation, statement.value, statement.sentence)
        if not self._recalls:
            return None
        if self._quoting:
            belief = mind.memory.belief(entity, relation)
            return None if belief is None else Step(entity, relation, belief)
        return mind.recall(entity, relation)

    def _misled(self, entity: str, relation: str, *, absent: bool) -> Statement | None:
        """Return the rival statement that is taken for the deciding one, if it comes to that."""
        mind, dials = self._mind, self._mind.dials
        rivals = [
            statement
            for number, view in enumerate(self._views)
            if number not in self._used
            for statement in view
            if statement.relation == relation
        ]
        if not rivals:
            return None
        each = mind.relieved(dials.reading_distraction, dials.demonstrations_distraction)
        each *= dials.reading_quoting_care if self._quoting else 1.0
        irrelevant = len(self._views) - len(self._used)
        chance = 1 - (1 - each) ** irrelevant
        if absent and self._recalls and not self._quoting:
            chance = max(chance, dials.reading_tempted)
        if not mind.dice.happens(chance, "misled", entity, relation):
            return None
        weights = [dials.reading_lookalike_weight if share_word(rival.head, entity) else 1.0 for rival in rivals]
        return mind.dice.choose(rivals, "rival", entity, relation, weights=weights)


def read_answer(mind: Mind, plan: Plan, passages: list[str]) -> tuple[str, list[Step]]:
    """Return the answer from passages, memory helping out, and the steps to it."""
    return mind.work_out(plan, Reader(mind, passages).find)


def ground(mind: Mind, plan: Plan, passages: list[str], draft: str | None) -> tuple[str, str, list[Step]]:
    """Return the quoted evidence and the answer it gives, and the steps; without evidence, the draft stands.

    A quote must bear on the last thing asked; inner hops may come from memory.
    """
    answer, steps = mind.work_out(plan, Reader(mind, passages, quoting=True).find)
    last = _last_quote(plan, steps)
    if last is None or answer == UNKNOWN:
        return "", draft or _remembered(mind, plan), []
    differs = draft and key(draft) not in {key(answer), UNKNOWN}
    if draft and differs and mind.dice.happens(mind.dials.reading_stubbornness, "stubborn"):
        answer = draft
    return last, answer, steps


def _remembered(mind: Mind, plan: Plan) -> str:
    return mind.work_out(plan, mind.recall)[0]


def _last_quote(plan: Plan, steps: list[Step]) -> str | None:
    """Return the sentence that decides the plan's last fact (of either side, for a pair)."""
    if isinstance(plan, Pair):
        wanted = {plan.left.relation, plan.right.relation}
        quotes = [step.sentence for step in steps if step.relation in wanted and step.sentence]
        return quotes[-1] if quotes else None
    return steps[-1].sentence if steps else None
