"""What every skill works with: memory, dials, the random draws of this prompt, and how a plan is solved hop by hop."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from experiments.world.dials import Dials
from experiments.world.draws import Draws
from experiments.world.grammar import Fact, Name, Plan, compare, facts_of, key, value_of
from experiments.world.passage_text import shares_word
from experiments.world.relations import BY_NAME
from experiments.world.skills.memory import Memory
from experiments.world.skills.statements import SourcedStatement

UNKNOWN = "unknown"
MOST_MISJUDGED = 0.45  # mean probability of error of the hardest judgements; at 0.5 they would be coins


@dataclass(frozen=True)
class SolvedHop:
    """One hop of a plan with its value.

    Args:
        sentence: The passage sentence that states it; None if it was not read from a passage.
        in_prompt: The prompt's own hops contain the answer, so that nothing had to be composed.
        source: Number of the passage it was read from, 0 for a list of facts; None for any other origin.
    """

    entity: str
    relation: str
    value: str
    sentence: str | None = None
    in_prompt: bool = False
    source: int | None = None

    def same_source_as(self, other: "SolvedHop") -> bool:
        """Return whether one text states both hops, so that they need not be composed."""
        return self.source is not None and self.source == other.source

    def as_sentence(self) -> str:
        """Return the hop as a sentence."""
        return BY_NAME[self.relation].statements[0].format(x=self.entity, y=self.value)


FindHop = Callable[[str, str], SolvedHop | None]
"""(entity, relation name) -> the solved hop, or None if no value is found."""


@dataclass(frozen=True)
class PromptState:
    """The simulated LM's state while it replies to one prompt.

    Args:
        in_writing: The reply writes the hops down one by one before the answer.
        facts: How many facts the question needs; at least 1.
        rejected: The prompt says that an earlier attempt was not accepted.
        hop_answers: Answers of the hops in the prompt: (key of entity, relation name) -> answer.
    """

    memory: Memory
    dials: Dials
    draws: Draws
    in_writing: bool = False
    hop_answers: dict[tuple[str, str], str] = field(default_factory=dict)
    facts: int = 1
    rejected: bool = False

    @property
    def composition_error(self) -> float:
        """Probability that a hop after the first is wrong when several are answered in one reply."""
        return self.dials.reasoning_composition * (self.dials.reasoning_written_relief if self.in_writing else 1.0)

    @property
    def judging_error(self) -> float:
        """Mean probability that a judgement is wrong; it grows with the facts that the question needs."""
        error, harder = self.dials.judging_error, self.dials.judging_per_fact
        return min(1 - (1 - error) * (1 - harder) ** (self.facts - 1), MOST_MISJUDGED) if harder else error

    def answered(self, plan: Plan) -> int:
        """Return how many facts of a plan the prompt's hops answer; other facts that they state do not count."""
        values: dict[tuple[str, str], str] = {}
        for fact in facts_of(plan):
            entity = value_of(fact.of, lambda head, relation: values.get((head, relation)))
            value = self.hop_answers.get((key(entity), fact.relation)) if entity else None
            if entity and value is not None:
                values[entity, fact.relation] = value
        return len(values)

    def late_entity(self, plan: Plan, entity: str, relation: str) -> str:
        """Return the entity that the next query for a plan names: late, perhaps a namesake of the right one."""
        chance = 1 - (1 - self.dials.reasoning_late_drift) ** (self.answered(plan) + self.rejected)
        namesakes = self.memory.namesakes(entity, relation)
        if not namesakes or not self.draws.happens(chance, "late", entity, relation):
            return entity
        return self.draws.choose(namesakes, "namesake", entity, relation)

    def recall(self, entity: str, relation: str) -> SolvedHop | None:
        """Return one fact from memory, or a guess, or None."""
        value = self.memory.remembered(entity, relation)
        if value is None and self.draws.happens(self.dials.memory_guess, "guess", entity, relation):
            value = self.guess(entity, relation)
        return None if value is None else SolvedHop(entity, relation, value)

    def guess(self, entity: str, relation: str) -> str:
        """Return a random value of the relation."""
        return self.memory.arbitrary_value(relation, self.draws.uniform("guessed", entity, relation))

    def rival_weights(self, entity: str, rivals: Sequence[SourcedStatement]) -> list[float]:
        """Return the weight with which each rival statement is mistaken for one about an entity."""
        weight = self.dials.reading_lookalike_weight
        return [weight if shares_word(rival.statement.head, entity) else 1.0 for rival in rivals]

    def solve(self, plan: Plan, find: FindHop) -> tuple[str, list[SolvedHop]]:
        """Return the answer of a plan and its hops; each hop after the first may be composed wrongly.

        Args:
            plan: The question.
            find: Returns the value of one hop.
        """
        hops: list[SolvedHop] = []
        values: dict[tuple[str, str], str] = {}
        for fact in facts_of(plan):
            entity = value_of(fact.of, lambda head, relation: values.get((head, relation)))
            hop = find(entity, fact.relation) if entity else None
            if hop is None:
                return UNKNOWN, hops
            safe = not hops or hop.in_prompt or hop.same_source_as(hops[-1])
            if not safe and self.draws.happens(self.composition_error, "slip", entity, fact.relation):
                hop = replace(hop, value=self.guess(hop.entity, hop.relation))
            hops.append(hop)
            values[hop.entity, hop.relation] = hop.value
        if self.rejected and self.draws.happens(self.dials.reasoning_leaving, "leaving"):
            hops[-1] = replace(hops[-1], value=self.guess(hops[-1].entity, hops[-1].relation))
            values[hops[-1].entity, hops[-1].relation] = hops[-1].value
        return self._conclude(plan, hops, values), hops

    def _conclude(self, plan: Plan, hops: list[SolvedHop], values: dict[tuple[str, str], str]) -> str:
        if isinstance(plan, Fact):
            return hops[-1].value
        left, right = (value_of(side, lambda *fact: values.get(fact)) or "" for side in (plan.left, plan.right))
        if self.draws.happens(self.dials.reasoning_comparison, "comparison"):
            if plan.kind == "same":
                return "no" if compare(plan, left, right, lambda *fact: values.get(fact)) == "yes" else "yes"
            left, right = right, left
        return compare(plan, left, right, lambda *fact: values.get(fact)) or UNKNOWN


def single_fact(entity: str, relation: str) -> Fact:
    """Return the plan of a question for one fact."""
    return Fact(relation, Name(entity))
