"""Random search over bootstrapped demonstrations, the row that every other optimizer has to beat; and its ensemble.

Khattab et al., "DSPy", ICLR 2024, section 4 (`BootstrapFewShotWithRandomSearch`). https://arxiv.org/abs/2310.03714

The candidates are those of DSPy: the program as it is, labelled demonstrations, the first examples accepted in the
given order, then random orders with a random number of demonstrations each. Different from DSPy's class (3.4.1), the
program keeps the demonstrations that it came with as a candidate, another seed draws other candidates, validation
examples are never training examples, each training example runs once for all candidates, equal candidates are scored
once, and scores are not rounded before they are compared.

In the ensemble the best candidates vote on each answer (`programs/ensemble.py`). DSPy's `Ensemble` (3.4.1) draws its
members again for every question; here they are the same for every question, and the majority of their answers decides.
"""

import random

import dspy

from optimizers.teleprompters.bootstrap import DemoPool, labeled_program, shuffled, with_demos
from optimizers.teleprompters.task import Optimizer, Option, Runs, ScoredProgram, Task, always_fits, score_candidate
from programs.ensemble import MOST_PROGRAMS, Ensemble

OPTIONS = {"candidates": Option(8, "Sets of bootstrapped demonstrations that are compared.", low=1, high=200)}
UNCOMPILED, LABELED = "uncompiled", "labeled"


def random_search(student: dspy.Module, task: Task) -> dspy.Module:
    """Return the best of several random sets of demonstrations, which may be none."""
    return best_of(scored_candidates(student, task)).program.deepcopy()


def best_of(candidates: list[ScoredProgram]) -> ScoredProgram:
    """Return the candidate with the highest mean, the earlier of equals."""
    return max(candidates, key=lambda candidate: candidate.mean)


def scored_candidates(student: dspy.Module, task: Task) -> list[ScoredProgram]:
    """Return the candidates of the search, scored, without those that equal an earlier one."""
    found = [score_candidate(student.deepcopy(), task, UNCOMPILED)]
    seen = [student.dump_state()]

    def score(program: dspy.Module, label: str) -> None:
        if (state := program.dump_state()) not in seen:
            seen.append(state)
            found.append(score_candidate(program, task, label))

    score(labeled_program(student, task), LABELED)
    pool = DemoPool(student, task)
    for number in range(task.options["candidates"]):
        rng = random.Random(f"{task.seed}:{number}")  # text, because 0 and 1 would share what follows with 1 and 0
        size = rng.randint(1, task.max_demos) if number and task.max_demos else task.max_demos
        order = shuffled(len(task.trainset), f"{task.seed}:{number}") if number else list(range(len(task.trainset)))
        score(with_demos(student, pool.first(order, size)), f"bootstrap {number}")
    return found


def estimate(student: dspy.Module, task: Task) -> Runs:
    """Return the runs if no two candidates are equal and each training example is tried."""
    return Runs(student=(task.options["candidates"] + 2) * len(task.valset), teacher=len(task.trainset))


RANDOM_SEARCH = Optimizer(
    run=random_search,
    summary="The best of several random sets of bootstrapped demonstrations, by validation score.",
    source="https://arxiv.org/abs/2310.03714",
    fits=always_fits,
    estimate=estimate,
    options=OPTIONS,
    compares=True,
)


def ensemble(student: dspy.Module, task: Task) -> dspy.Module:
    """Return the best candidates of a random search as one program; the best one alone if all others equal it."""
    candidates = sorted(scored_candidates(student, task), key=lambda each: -each.mean)  # stable: of equals the earlier
    members = candidates[: task.options["size"]]
    if len(members) < 2:
        return best_of(candidates).program.deepcopy()
    program = Ensemble([member.program.deepcopy() for member in members])
    return score_candidate(program, task, f"ensemble of {', '.join(member.label for member in members)}").program


def _estimate(student: dspy.Module, task: Task) -> Runs:
    members = min(task.options["size"], task.options["candidates"] + 2)
    return estimate(student, task) + Runs(student=members * len(task.valset))


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
