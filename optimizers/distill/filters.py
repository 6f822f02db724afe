"""The rules by which trajectories and their steps are kept; each is a function, named in the manifest with its count.

GenGround (Shi et al., ACL 2024, section 4 and appendix III, https://arxiv.org/abs/2406.14891) drops a trajectory
without cited evidence, without a revised answer, or whose answer is misaligned with the gold evidence. The rules here
are the same for any program: the final answer is right, what is cited exists, each reply parses.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from optimizers.distill.trajectories import Step, Trajectory
from programs.parts.passages import find_quote
from signatures.citation_marks import citation_numbers
from signatures.types import Passage

TrajectoryRule = Callable[[Trajectory, Any], bool]
"""Takes a trajectory and the question with its gold; returns whether the trajectory may be kept."""
StepRule = Callable[[Step], bool]
"""Returns whether a step may become an example."""


def ended_without_error(trajectory: Trajectory, question: Any) -> bool:
    """Return whether the program returned a prediction."""
    return trajectory.prediction is not None


def every_reply_parsed(trajectory: Trajectory, question: Any) -> bool:
    """Return whether the adapter could parse every reply of the teacher."""
    return trajectory.parse_failures == 0


def no_prompt_cut(trajectory: Trajectory, question: Any) -> bool:
    """Return whether every prompt fitted into the context of the teacher."""
    return trajectory.truncated == 0


def no_reply_cut(trajectory: Trajectory, question: Any) -> bool:
    """Return whether every reply of the teacher ended by itself; one that is cut can often be parsed."""
    return trajectory.cut_replies == 0


def citations_exist(trajectory: Trajectory, question: Any) -> bool:
    """Return whether every passage that the prediction cites is among those it read."""
    if trajectory.prediction is None:
        return False
    read = {passage.id for passage in trajectory.prediction.get("passages") or []}
    return read.issuperset(trajectory.prediction.get("citations") or [])


def evidence_of_hops_is_quoted(trajectory: Trajectory, question: Any) -> bool:
    """Return whether the evidence of every hop stands in a passage that was read (`find_quote`)."""
    if trajectory.prediction is None:
        return False
    passages = list(trajectory.prediction.get("passages") or [])
    quotes = [hop.evidence for hop in trajectory.prediction.get("hops") or [] if hop.evidence]
    return all(find_quote(quote, passages).passage is not None for quote in quotes)


def answer_is_right(score: Callable[[Any, Any], float | None], accept: float = 1.0) -> TrajectoryRule:
    """Return the rule that the final answer scores at least `accept` by a metric that is better when higher.

    Questions for which the metric is undefined, such as those without gold answers, are rejected.
    """

    def answer_is_right(trajectory: Trajectory, question: Any) -> bool:
        value = None if trajectory.prediction is None else score(question, trajectory.prediction)
        return value is not None and value >= accept

    return answer_is_right


SOUND: tuple[TrajectoryRule, ...] = (
    ended_without_error,
    every_reply_parsed,
    no_prompt_cut,
    no_reply_cut,
    citations_exist,
    evidence_of_hops_is_quoted,
)
"""Rules that need no gold; `answer_is_right` comes in addition."""


def evidence_is_quoted(step: Step) -> bool:
    """Return whether the evidence of a step, if it gives any, stands in a passage that it was shown."""
    evidence, passages = step.outputs.get("evidence"), shown(step)
    if not isinstance(evidence, str) or not evidence.strip() or passages is None:
        return True
    return find_quote(evidence, passages).passage is not None


def marks_exist(step: Step) -> bool:
    """Return whether every citation mark of a step's response is the number of a passage that it was shown."""
    response, passages = step.outputs.get("response"), shown(step)
    if not isinstance(response, str) or passages is None:
        return True
    return all(1 <= number <= len(passages) for number in citation_numbers(response))


STEP_RULES: tuple[StepRule, ...] = (evidence_is_quoted, marks_exist)


def shown(step: Step) -> list[Passage] | None:
    """Return the passages in the prompt of a step; None if it has no such field."""
    passages = step.inputs.get("passages")
    return list(passages) if isinstance(passages, list | tuple) else None


def first_broken(rules: Iterable[Callable[..., bool]], *subject: Any) -> str | None:
    """Return the name of the first rule that rejects a subject; None if all accept it."""
    return next((rule.__name__ for rule in rules if not rule(*subject)), None)


def kept_steps(steps: Sequence[Step], rules: Sequence[StepRule] = STEP_RULES) -> tuple[list[Step], Counter[str]]:
    """Return the steps that all rules accept, and how many each rule was the first to reject."""
    kept: list[Step] = []
    rejected: Counter[str] = Counter()
    for step in steps:
        broken = first_broken(rules, step)
        if broken is None:
            kept.append(step)
        else:
            rejected[broken] += 1
    return kept, rejected
