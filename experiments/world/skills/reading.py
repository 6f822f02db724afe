"""Reading: find a fact in the passages of the prompt, or mistake a rival statement for it."""

from collections.abc import Sequence

from experiments.world.grammar import Comparison, Plan, key
from experiments.world.passage_text import stated_conclusion
from experiments.world.skills.prompt_state import UNKNOWN, PromptState, SolvedHop
from experiments.world.skills.statements import (
    LISTED,
    SourcedStatement,
    best_supported,
    parse_sources,
    statements_about,
    statements_of_relation,
)


class Reader:
    """Looks facts up in passages and lists of facts, from their words alone.

    Args:
        state: The LM's state.
        passages: The passages as the prompt shows them.
        listed_facts: Single facts that the prompt lists; they do not distract, and are read with more care.
        quoting: The deciding words have to be quoted, which is done with more care and may be declined.
        recalls: Memory supplies what the passages do not state.
        offers_unknown: The prompt allows the answer "unknown", which is mostly given if no passage decides.
    """

    def __init__(
        self,
        state: PromptState,
        passages: list[str],
        listed_facts: Sequence[str] = (),
        *,
        quoting: bool = False,
        recalls: bool = True,
        offers_unknown: bool = False,
    ):
        self._state = state
        self._sources = parse_sources(passages, listed_facts)
        self._passages = [source for source in self._sources if source.number != LISTED]
        self._quoting = quoting
        self._recalls = recalls
        self._offers_unknown = offers_unknown
        self._used: set[int] = set()

    def find(self, entity: str, relation: str) -> SolvedHop | None:
        """Return the hop for one fact: from the prompt's hops, read, misread or remembered; None if not found."""
        state = self._state
        hop_answer = state.hop_answers.get((key(entity), relation))
        if hop_answer is not None:
            return SolvedHop(entity, relation, hop_answer, in_prompt=True)
        deciding = self._trusted_listed(entity, relation) or best_supported(self._sources, entity, relation)
        self._used |= {item.number for item in statements_about(self._passages, entity, relation)}
        recalls = self._recalls and (deciding is not None or self._ignores_unknown(entity, relation))
        read = self._mistaken_rival(entity, relation, deciding, recalls=recalls) or deciding
        if read:
            return SolvedHop(entity, relation, read.statement.value, read.statement.sentence, source=read.number)
        if not recalls:
            return None
        if self._quoting:
            value = state.memory.remembered(entity, relation)
            return None if value is None else SolvedHop(entity, relation, value)
        return state.recall(entity, relation)

    def _trusted_listed(self, entity: str, relation: str) -> SourcedStatement | None:
        """Return the listed fact that is trusted although passages state other values; None if none is."""
        about = statements_about(self._sources, entity, relation)
        read = {key(item.statement.value) for item in about if item.number != LISTED}
        contrary = [item for item in about if item.number == LISTED and key(item.statement.value) not in read]
        if not (read and contrary):
            return None
        trusted = self._state.draws.happens(self._state.dials.reading_listed_trust, "trusted", entity, relation)
        return contrary[0] if trusted else None

    def _ignores_unknown(self, entity: str, relation: str) -> bool:
        """Return whether an answer is given even if no passage decides."""
        return not self._offers_unknown or self._state.draws.happens(
            self._state.dials.reading_heedless, "heedless", entity, relation
        )

    def _mistaken_rival(
        self, entity: str, relation: str, deciding: SourcedStatement | None, *, recalls: bool
    ) -> SourcedStatement | None:
        """Return the rival statement that is mistaken for the deciding one; None if none is."""
        state, dials = self._state, self._state.dials
        irrelevant = [source for source in self._passages if source.number not in self._used]
        rivals = statements_of_relation(irrelevant, relation)
        if not rivals:
            return None
        per_passage = dials.reading_distraction * (dials.reading_quoting_care if self._quoting else 1.0)
        per_passage *= dials.reading_listed_care if deciding and deciding.number == LISTED else 1.0
        probability = 1 - (1 - per_passage) ** len(irrelevant)
        if deciding is None and recalls and not self._quoting:
            probability = max(probability, dials.reading_tempted)
        if not state.draws.happens(probability, "misled", entity, relation):
            return None
        return state.draws.choose(rivals, "rival", entity, relation, weights=state.rival_weights(entity, rivals))


def read_answer(
    state: PromptState,
    plan: Plan,
    passages: list[str],
    listed_facts: Sequence[str] = (),
    *,
    offers_unknown: bool = False,
) -> tuple[str, list[SolvedHop]]:
    """Return the answer from passages and listed facts, supplemented from memory, and its hops.

    If the only text states a conclusion itself, as a long answer does, that conclusion is the answer.
    """
    concluded = stated_conclusion(passages[0]) if len(passages) == 1 and not listed_facts else None
    if concluded is not None:
        return concluded, []
    return state.solve(plan, Reader(state, passages, listed_facts, offers_unknown=offers_unknown).find)


def ground(state: PromptState, plan: Plan, passages: list[str], draft: str | None) -> tuple[str, str, list[SolvedHop]]:
    """Return the quoted evidence, the answer it supports, and the hops; without evidence, the draft is the answer.

    The quote must state the plan's last fact; earlier hops may come from memory.
    """
    answer, hops = state.solve(plan, Reader(state, passages, quoting=True).find)
    quote = _last_quote(plan, hops)
    if quote is None or answer == UNKNOWN:
        return "", draft or state.solve(plan, state.recall)[0], []
    differs = draft and key(draft) not in {key(answer), UNKNOWN}
    if draft and differs and state.draws.happens(state.dials.reading_stubbornness, "stubborn"):
        answer = draft
    return quote, answer, hops


def _last_quote(plan: Plan, hops: list[SolvedHop]) -> str | None:
    """Return the sentence that states the plan's last fact (of either side, for a comparison)."""
    if isinstance(plan, Comparison):
        relations = {plan.left.relation, plan.right.relation}
        quotes = [hop.sentence for hop in hops if hop.relation in relations and hop.sentence]
        return quotes[-1] if quotes else None
    return hops[-1].sentence if hops else None
