"""Open the record of a run for a study: settings are evaluated from it, and what it lacks is bought, if allowed."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.runs.config import Connected, describe_lm, describe_program
from experiments.runs.files import Json, run_lock
from optimizers.examples import to_examples
from optimizers.metrics.judges.answer_judge import judged_by
from optimizers.metrics.typed.opened import typed_metric
from optimizers.replay.evaluator import Buyer, ReplayEvaluator
from optimizers.replay.record import Record
from optimizers.replay.record_files import RecordLog, load_record
from optimizers.replay.running import Runner, scores_by
from programs.parts.knobs import knob_values
from signatures.common.errors import UserError

if TYPE_CHECKING:
    import dspy


def checked_record(
    folder: Path,
    *,
    metric: str,
    questions: Sequence[Any],
    program: "dspy.Module | None" = None,
    connection: Connected | None = None,
) -> Record:
    """Return the record of a run, of which is known that it has what is needed.

    Args:
        folder: Of the run.
        metric: Must have been recorded.
        questions: Must have been recorded.
        program: Must be the recorded one, except for its knobs, which settings start from; None is not compared, and
            settings start from those recorded.
        connection: Must be that of the run; None is not compared.

    Raises:
        UserError: The record is missing, damaged or of something else; the message names the difference.
    """
    record = load_record(folder, program)
    record.check_metric(metric)
    compared: Json = {}
    if connection is not None:
        compared["lm"] = describe_lm(connection)
    if program is not None:
        compared["program"] = describe_program(program)
        if (retriever := getattr(program, "retrieve", None)) is not None:
            compared["corpus"] = {"fingerprint": retriever.fingerprint}
    record.check(compared, to_examples(questions))
    record.base = {} if program is None else knob_values(program)
    return record


@contextlib.contextmanager
def buying(
    folder: Path,
    *,
    metric: str,
    questions: Sequence[Any],
    program: "dspy.Module",
    connection: Connected,
    judge: Connected | None = None,
    threads: int = 8,
) -> Iterator[ReplayEvaluator]:
    """Open the record of a run to evaluate settings; what it lacks is asked within the budget of the LM, and written.

    Args:
        folder: Of the run; one process may buy at a time.
        metric: Of the study, one of those recorded.
        questions: Of the study, all recorded.
        program: The recorded one with its retriever; settings start from its knobs.
        connection: The LM of the run, with the budget.
        judge: The judge of the run, if it had one.
        threads: Questions bought in parallel.

    Raises:
        UserError: The record is of something else, had fixed contexts or a judge that is not given, or is in use.
    """
    record = checked_record(folder, metric=metric, questions=questions, program=program, connection=connection)
    metrics = [typed_metric(name) for name in record.metrics]
    if "given" in record.run:
        raise UserError("The run had fixed contexts, which its record does not hold: replay it without buying.")
    if judge is None and (judged := [each.name for each in metrics if each.judged]):
        raise UserError(f"The run has scores of {judged[0]}: name its judge LM to buy more.")
    for each in metrics:
        if each.definition != record.run["metrics"][each.name]:
            raise UserError(f"The definition of {each.name} has changed since the run was recorded: record it again.")
    with run_lock(folder), judged_by(judge), RecordLog(folder) as log:
        record = load_record(folder, program)  # another process may have bought in the meantime
        record.base = knob_values(program)
        buyer = Buyer(Runner.for_program(program, record, scores_by(metrics)), log)
        import dspy

        with dspy.context(lm=connection.lm, adapter=connection.adapter, disable_history=True, trace=None):
            yield ReplayEvaluator(record, metric, buyer, threads)
