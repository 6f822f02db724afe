"""Evaluate the trials of a study from the record of a run."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from experiments.pipeline.tuning.config import TuneConfig
from signatures.common.errors import UserError

if TYPE_CHECKING:
    import dspy

    from corpora.questions import Question
    from optimizers.replay.evaluator import ReplayEvaluator
    from programs.lms.connect import Connection


@contextlib.contextmanager
def replayed(
    student: "dspy.Module", questions: "Sequence[Question]", config: TuneConfig, connection: "Connection"
) -> "Iterator[ReplayEvaluator | None]":
    """Open the record that trials are evaluated from; None if the study asks the LM.

    Raises:
        UserError: The record is of another program, LM, corpus or metric, lacks a question, or has none with the
            knobs of the student that no gate reads.
    """
    if config.replay is None:
        yield None
        return
    from experiments.pipeline.branches.opened import buying, checked_record
    from optimizers.replay.evaluator import ReplayEvaluator

    metric = config.metric.name
    if config.buy:
        with buying(
            config.replay,
            metric=metric,
            questions=questions,
            program=student,
            connection=connection,
            threads=config.threads,
        ) as evaluator:
            yield evaluator
        return
    record = checked_record(config.replay, metric=metric, questions=questions, program=student, connection=connection)
    record.check_root({})  # the knobs of the student, of which only those of gates are searched
    yield ReplayEvaluator(record, metric)


def searched_knobs(student: "dspy.Module", config: TuneConfig) -> tuple[str, ...] | None:
    """Return the knobs that a study searches; None means all that have a range.

    A replay without buying searches those alone that only gates read.

    Raises:
        UserError: Another knob is named.
    """
    if config.replay is None or config.buy:
        return config.searched
    from programs.parts.gates import replayable_knobs
    from programs.parts.knobs import knobs_of

    known = knobs_of(student)
    own = tuple(name for name in replayable_knobs(student) if known[name].space is not None)
    for name in [*(config.searched or ()), *config.narrowed]:
        if name in known and name not in own:
            raise UserError(
                f"Knob {name} decides more than gates do, so no record can say what it changes: search "
                f"{', '.join(own) or 'another program'}, buy what the record lacks, or tune without a record."
            )
    return own if config.searched is None else config.searched
