"""Tune a program: a study over its knobs, demonstrations and instructions, and the best setting frozen.

A study goes on after a kill: its trials are in its storage, and a trial that was cut off is run again, mostly from the
cache of replies. Processes on one or many machines share a study by naming the same storage.
"""

import contextlib
import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.pipeline.evaluate import TYPICAL_TOKENS, Estimate, check_ids, unmeasured
from experiments.pipeline.progress import StudyProgress
from experiments.pipeline.scoring.score import check_evidence
from experiments.pipeline.tuning.candidates import Prepared, prepare
from experiments.pipeline.tuning.config import TuneConfig
from experiments.pipeline.tuning.opening import (
    Opened,
    booked,
    open_study,
    opened_storage,
    quiet_optuna,
    replayed,
    searched_knobs,
)
from experiments.pipeline.tuning.results import Found, check_choice, write_results
from experiments.pipeline.tuning.unseen import check_unseen
from experiments.runs.config import describe_questions, request_of
from experiments.runs.specs import CandidateSpec, StudySpec
from optimizers.examples import asked_words, to_examples
from optimizers.teleprompters.task import Task, check_splits
from optimizers.tuning.defaults import PRUNE_BELOW
from optimizers.tuning.objective import Evaluator, LiveEvaluator, Objective
from optimizers.tuning.prompts import PRESENT, instruction_calls
from optimizers.tuning.samplers import grid_size, open_pruner, open_sampler
from optimizers.tuning.space import Space, knob_space, most_calls
from programs.inference import warm_up
from programs.lms.calls.budget import PAID, Budget
from programs.lms.calls.control import controlled
from signatures.common.costs import Costs
from signatures.common.errors import UserError
from signatures.common.specs import deciding, fields_of

if TYPE_CHECKING:
    import dspy
    import optuna

    from corpora.questions import Question
    from programs.lms.connect import Connection


def estimate_study(
    student: "dspy.Module", questions: "Sequence[Question]", trainset: "Sequence[Question]", config: TuneConfig
) -> Estimate:
    """Return the most that a study can cost, candidates included; pruned and repeated trials cost less.

    Args:
        questions: Before training questions are split off.
    """

    train, asked = split_questions(trainset, questions, config)
    knobs = knob_space(student, searched=searched_knobs(student, config), narrowed=config.narrowed)
    made = config.candidates.trained or config.candidates.artifacts  # how many, is not known yet
    runs = (config.trials if made else trials_of(knobs, config)) * len(asked)
    replayed = config.replay is not None and not config.buy
    calls = 0 if replayed else runs * most_calls(student, knobs) + _candidate_calls(student, train, config)
    return unmeasured(runs, calls)


def _candidate_calls(student: "dspy.Module", train: "Sequence[Question]", config: TuneConfig) -> int:
    from optimizers.teleprompters.catalog import get_optimizer
    from optimizers.teleprompters.compile import checked_task

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


_TRAIN_SHARE = 3  # one of so many questions makes candidates, if no others are given


def split_questions(
    trainset: "Sequence[Question]", questions: "Sequence[Question]", config: TuneConfig
) -> "tuple[list[Question], list[Question]]":
    """Return training questions and those of the trials, each in a random order that depends only on the seed.

    Raises:
        UserError: A question is of a test split, two have one id, or one is in both sets.
    """
    from corpora.questions import select

    check_ids(questions)
    ordered = select(questions, seed=config.seed)
    train = select(trainset, seed=config.seed) if trainset else []
    if config.candidates.trained and not train:
        if len(ordered) < _TRAIN_SHARE:
            raise UserError(f"{len(ordered)} questions are too few to make demonstrations from a part of them.")
        size = len(ordered) // _TRAIN_SHARE
        words = {asked_words(each) for each in ordered[:size]}  # a question with two ids is on one side
        train = [each for each in ordered if asked_words(each) in words]
        ordered = [each for each in ordered if asked_words(each) not in words]
    check_splits(to_examples(train), to_examples(ordered))
    return train, ordered


def tune_program(
    student: "dspy.Module",
    questions: "Sequence[Question]",
    config: TuneConfig,
    *,
    connection: "Connection",
    out: Path | str,
    trainset: "Sequence[Question]" = (),
    resume: bool = False,
    overwrite: bool = False,
    progress: bool = True,
) -> Found:
    """Search the best setting of a program on questions, and freeze it to `out/artifact`.

    Args:
        student: The program; it is not changed. As it is, it is trial 0.
        questions: Every trial asks them, in the same random order.
        config: What is searched, and how.
        out: Folder of the study.
        trainset: Questions that demonstrations and instructions are made from; without any, a third of `questions`.
        resume: Go on with the study in `out`; one in a named storage is joined in any case.
        overwrite: Start anew in `out`.
        progress: Show estimate and progress on stderr.

    Raises:
        UserError: A question is of the split test or in both sets, the program or an artifact has seen questions of
            the study, there is nothing to search, the metric would be 0 for every answer, `out` has a study, or the
            study was started with other settings.
        KeyboardInterrupt: After Ctrl-C, with all finished trials kept, and the results so far written.
    """
    from programs.artifact import check_freezable

    out = Path(out)
    check_freezable(student)
    check_evidence(student, [config.metric])
    whole = estimate_study(student, questions, trainset, config)
    given = questions
    trainset, questions = split_questions(trainset, questions, config)
    check_unseen(student, config.candidates.artifacts, questions, given)
    knobs = knob_space(student, searched=searched_knobs(student, config), narrowed=config.narrowed)
    if not knobs.dimensions and not (config.candidates.trained or config.candidates.artifacts):
        raise UserError("There is nothing to search: name knobs, or candidates for demonstrations or instructions.")
    if config.storage is None and not resume:  # a new study
        check_choice(config.chosen, (), config.trials)
    request = _request(student, knobs, questions, trainset, config, connection)
    with opened_storage(out, config, resume=resume, overwrite=overwrite) as (storage, alone), quiet_optuna():
        with (
            connection.use(),
            replayed(student, questions, config, connection) as record,
            StudyProgress(config.trials, shown=progress) as bar,
            controlled(bar.say),
        ):
            opened = open_study(
                storage,
                config.study or out.resolve().name,
                request,
                [question.id for question in questions],
                config.goal,
                student,
                functools.partial(_made, student, knobs, trainset, config, connection, bar.say),
                functools.partial(_queue, knobs),
                grace=0.0 if alone else config.grace,
                say=bar.say,
            )
            for text in opened.prepared.notes:
                bar.say(f"Note: {text}")
            space = whole_space(knobs, opened.prepared)
            if opened.joined:
                from optimizers.tuning.checks import check_trials

                check_trials(opened.study, space, len(questions))
            live = LiveEvaluator(student, opened.prepared.prompts, config.metric, config.threads)
            if alone:
                from optimizers.tuning.worker import fail_running

                fail_running(opened.study)
            check_choice(config.chosen, opened.study.get_trials(deepcopy=False), trials_of(space, config))
            bar.update(total=trials_of(space, config))
            bar.say(f"Study of {trials_of(space, config)} trials. {whole}")
            most = len(questions) * most_calls(student, knobs)
            if (record is None or config.buy) and (short := _short(connection.lm.budget, most)):
                bar.say(f"Note: {short}")
            if record is None or config.buy:
                warm_up(student, connection)
            stopped, interrupted = _run(opened, space, record or live, questions, config, connection, bar)
        found = write_results(
            opened.study,
            space,
            live,
            questions,
            config,
            request=request,
            spent=_spent(opened),
            stopped=stopped,
            connection=connection,
            out=out,
        )
    if interrupted:
        raise KeyboardInterrupt
    return found if record is None or record.buyer is None else replace(found, unbought=record.buyer.note())


def _short(budget: "Budget | None", calls: int) -> str:
    """Return which limits of a budget may not pay for one whole trial of so many LM calls; empty if all do."""
    limits = budget.limits if budget is not None else {}
    needed = {"calls": calls, "tokens": calls * TYPICAL_TOKENS}
    short = [
        f"it has {limit:,} {name}, and a trial takes up to {most:,}"
        for name, most in needed.items()
        if (limit := limits.get(name)) is not None and limit < most
    ]
    cure = "Raise it, or give fewer questions; replies from the cache are free."
    return f"The budget may not pay for one whole trial: {', '.join(short)}. {cure}" if short else ""


def whole_space(knobs: Space, prepared: Prepared) -> Space:
    """Return the space of knobs and prompts."""
    prompts = prepared.prompts.dimensions()
    return knobs.joined(*prompts, present={dimension.name: PRESENT for dimension in prompts})


def _request(
    student: "dspy.Module",
    knobs: Space,
    questions: "Sequence[Question]",
    trainset: "Sequence[Question]",
    config: TuneConfig,
    connection: "Connection",
) -> dict[str, Any]:
    search = deciding(
        StudySpec,
        config if config.pruned else replace(config, prune_below=PRUNE_BELOW),
        candidates=config.candidates.describe(),
        cost=config.goal.cost,
        at_most=dict(config.goal.at_most),
        points=config.points if config.sampler == "grid" else None,
        prune=config.pruned,
        replay=None if config.replay is None else {"buy": config.buy},
    )
    return request_of(
        student,
        connection,
        metric=config.metric.described,
        questions=describe_questions(questions),
        trainset=describe_questions(trainset) if trainset else None,
        knobs=knobs.describe(),
        **{name: value for name, value in search.items() if name not in fields_of(CandidateSpec)},
    )


def _made(
    student: "dspy.Module",
    knobs: Space,
    trainset: "Sequence[Question]",
    config: TuneConfig,
    connection: "Connection",
    say: Callable[[str], None],
    study: "optuna.Study",
) -> Prepared:
    """Return the candidates; what making them costs is booked in the study."""
    check_choice(config.chosen, study.get_trials(deepcopy=False), config.trials)
    with booked(study, _paid_by(connection)) as earlier:
        return prepare(student, knobs, trainset, config, connection=connection, say=say, earlier=earlier)


def _queue(knobs: Space, study: "optuna.Study", prepared: Prepared) -> None:
    from optimizers.tuning.worker import enqueue

    present = whole_space(knobs, prepared).present
    enqueue(study, [present, *({**present, **setting} for setting in prepared.queued)])


def _paid_by(connection: "Connection") -> Callable[[], Costs]:
    """Return a function that returns what the LM calls of this process have cost so far."""
    budget = getattr(connection.lm, "budget", None)
    started = time.monotonic()

    def paid() -> Costs:
        spent = {name: float(value) for name, value in budget.spent.of(PAID).items()} if budget is not None else {}
        return Costs(spent, seconds=time.monotonic() - started)

    return paid


def _spent(opened: Opened) -> Costs:
    from optimizers.tuning.worker import spent_of

    return (spent_of(opened.study.get_trials(deepcopy=False)) + opened.spent).rounded()


def _run(
    opened: Opened,
    space: Space,
    evaluator: Evaluator,
    questions: "Sequence[Question]",
    config: TuneConfig,
    connection: "Connection",
    bar: StudyProgress,
) -> tuple[str | None, bool]:
    """Run trials; return why they ended early, and whether Ctrl-C ended them."""
    from optimizers.tuning.worker import work

    budget: Budget | None = getattr(connection.lm, "budget", None)
    limits = {name: limit for name, limit in (budget.limits if budget else {}).items() if limit and name in PAID}
    already = _spent(opened)
    left: dict[str, Any] = already.left_of(limits).whole()
    for_trials = Costs(opened.spent).left_of(limits)  # what preparing the study has left
    study = opened.study
    study.sampler = open_sampler(config.sampler, space, seed=config.seed, points=config.points)
    study.pruner = open_pruner(prune=config.pruned, below=config.prune_below)
    objective = Objective(
        space,
        config.goal,
        evaluator,
        questions,
        prune=config.pruned,
        spent=_paid_by(connection),
        report=functools.partial(bar.trial, study, len(questions)),
    )
    try:
        with (
            budget.within(**left, name="rest of the study's budget")
            if budget is not None and left
            else contextlib.nullcontext()
        ):
            ended = work(study, objective, trials=trials_of(space, config), limits=for_trials, tell=bar.say)
    except KeyboardInterrupt:
        return "interrupted by Ctrl-C", True
    bar.done(ended.finished)
    return ended.stopped, False
