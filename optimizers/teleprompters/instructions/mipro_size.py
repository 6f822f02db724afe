"""How large a search of MIPROv2 is: candidates, trials, and the program runs that they take."""

import math
from dataclasses import dataclass

import dspy

from optimizers.teleprompters.task import Task

AUTO = {"light": 6, "medium": 12, "heavy": 18}  # candidates
_WHOLE = 50  # validation examples up to which every trial is scored on all of them


@dataclass(frozen=True)
class Size:
    """The size of a search.

    Args:
        demo_sets: Sets of demonstrations per predictor, the empty one included.
        instructions: Instructions per predictor, the present one included.
        trials: Combinations tried.
        minibatch: Validation examples of a trial; 0 for all.
        runs: Program runs on validation examples.
    """

    demo_sets: int
    instructions: int
    trials: int
    minibatch: int
    runs: int


def size_of(student: dspy.Module, task: Task) -> Size:
    """Return the size of the search that the options of a task ask for.

    `auto` is DSPy's: 6, 12 or 18 sets of demonstrations, half as many instructions, and trials by the number of
    choices. Without demonstrations there are as many instructions.
    """
    options, n_val = task.options, len(task.valset)
    given = options["num_candidates"]
    sets = given or AUTO[options["auto"]]
    instructions = sets if given or not task.max_demos else sets // 2
    variables = len(student.predictors()) * (2 if task.max_demos else 1)
    trials = options["num_trials"] or int(max(2 * variables * math.log2(sets), 1.5 * sets))
    wanted = n_val > _WHOLE if options["minibatch"] is None else options["minibatch"]
    minibatch = min(options["minibatch_size"], n_val) if wanted else 0
    steps = options["minibatch_full_eval_steps"]
    each = trials * minibatch + n_val * _full_evaluations(trials, steps) if minibatch else trials * n_val
    return Size(sets, instructions, trials, minibatch, n_val + each)


def _full_evaluations(trials: int, steps: int) -> int:
    """Return how many trials are followed by an evaluation on all examples, which takes a trial's number as well."""
    last = trials + trials // steps + (1 if trials % steps else 0)
    number, count = 1, 0
    for _ in range(trials):
        number += 1
        if number % (steps + 1) == 0 or number == last:
            count, number = count + 1, number + 1
    return count
