"""The best candidates of a random search vote on each answer (`programs/ensemble.py`).

DSPy's `Ensemble` (3.4.1) takes programs that were compiled before, draws its members anew for every question with the
global random state, and returns a list unless it is given a function. Here the members are the best candidates on the
validation examples, the same for every question, and the majority of their short answers decides.
"""

import dspy

from optimizers.teleprompters.random_search import OPTIONS, best_of, scored_candidates
from optimizers.teleprompters.random_search import estimate as of_search
from optimizers.teleprompters.task import Optimizer, Option, Runs, Task, always_fits, score_candidate
from programs.ensemble import MOST_PROGRAMS, Ensemble


def ensemble(student: dspy.Module, task: Task) -> dspy.Module:
    """Return the best candidates of a random search as one program; the best one alone if all others equal it."""
    candidates = sorted(scored_candidates(student, task), key=lambda each: -each.mean)  # stable: of equals the earlier
    members = candidates[: task.options["size"]]
    if len(members) < 2:
        return best_of(candidates).program.deepcopy()
    program = Ensemble([member.program.deepcopy() for member in members])
    return score_candidate(program, task, f"ensemble of {', '.join(member.label for member in members)}").program


def _estimate(student: dspy.Module, task: Task) -> Runs:
    search = of_search(student, task)
    members = min(task.options["size"], task.options["candidates"] + 2)
    return Runs(student=search.student + members * len(task.valset), teacher=search.teacher)


def _fits(student: dspy.Module, task: Task | None) -> str | None:
    if isinstance(student, Ensemble):
        return "it is an ensemble already"
    return always_fits(student, task)


ENSEMBLE = Optimizer(
    run=ensemble,
    summary="The best candidates of a random search vote on each answer; a question costs as much as all of them.",
    source="https://arxiv.org/abs/2203.11171",
    fits=_fits,
    estimate=_estimate,
    options={**OPTIONS, "size": Option(3, "Candidates that vote.", low=2, high=MOST_PROGRAMS)},
    compares=True,
)
