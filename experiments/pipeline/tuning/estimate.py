"""The cost of a study, estimated before it starts."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from experiments.pipeline.cost_estimate import TYPICAL_TOKENS, Estimate
from experiments.pipeline.tuning.config import TuneConfig
from experiments.pipeline.tuning.replaying import searched_knobs
from optimizers.tuning.samplers import grid_size
from optimizers.tuning.space import Space, dearest, knob_space

if TYPE_CHECKING:
    import dspy

    from corpora.questions import Question


def estimate_study(
    student: "dspy.Module", questions: "Sequence[Question]", trainset: "Sequence[Question]", config: TuneConfig
) -> Estimate:
    """Return the most that a study can cost, candidates included; pruned and repeated trials cost less.

    Args:
        student: The program as it is.
        questions: Before training questions are split off.
        trainset: See `tune_program`.
        config: Of the study.

    Raises:
        UserError: See `tune_program`.
    """
    from experiments.pipeline.tuning.questions import split_questions

    train, asked = split_questions(trainset, questions, config)
    knobs = knob_space(student, searched=searched_knobs(student, config), narrowed=config.narrowed)
    made = config.candidates.trained or config.candidates.artifacts  # how many, is not known yet
    runs = (config.trials if made else trials_of(knobs, config)) * len(asked)
    replayed = config.replay is not None and not config.buy
    calls = 0 if replayed else runs * dearest(student, knobs) + _candidate_calls(student, train, config)
    return Estimate(runs, calls, calls * TYPICAL_TOKENS, None, None, 0)


def _candidate_calls(student: "dspy.Module", train: "Sequence[Question]", config: TuneConfig) -> int:
    """Return the LM calls that making candidates takes, at most."""
    from optimizers.examples import to_examples
    from optimizers.teleprompters.catalog import get_optimizer
    from optimizers.teleprompters.compile import checked_task
    from optimizers.teleprompters.task import Task
    from optimizers.tuning.instructions import instruction_calls

    candidates = config.candidates
    calls = instruction_calls(student, candidates.instructions)
    for name in candidates.optimizers:
        task = Task(trainset=to_examples(train), score=config.metric, max_demos=candidates.max_demos, seed=config.seed)
        runs = get_optimizer(name).estimate(student, checked_task(student, task, name))
        calls += candidates.seeds * ((runs.student + runs.teacher) * student.max_calls() + runs.prompt_calls)
    return calls


def trials_of(space: Space, config: TuneConfig) -> int:
    """Return the trials of a study: a grid has no more than its combinations, and the program as it is.

    Without anything to try, because no candidate could be made, the program as it is remains.
    """
    if not space.dimensions:
        return 1
    return min(config.trials, grid_size(space, config.points) + 1) if config.sampler == "grid" else config.trials
