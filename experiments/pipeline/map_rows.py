"""Work on items by an LM, row by row: for folders of rows that are no runs (judgements, key facts)."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from experiments.pipeline.thread_pool import Workers
from experiments.runs.config import Connected
from experiments.runs.files import Json, Row, RowLog, open_run, read_rows, run_lock

Item = TypeVar("Item")


def work_through(
    items: Sequence[Item],
    work: Callable[[Item], Row],
    *,
    id_of: Callable[[Item], str],
    description: Json,
    connection: Connected,
    out: Path,
    threads: int,
    resume: bool,
) -> list[Row]:
    """Return the rows of all items, each on the disk as soon as it is there; items that have a row are passed over.

    Args:
        items: Taken in order.
        work: Makes the row of an item, with its `id`; runs in threads, on the LM of `connection`.
        id_of: The id of an item.
        description: What `run.json` shall hold.
        connection: The LM and its adapter.
        out: Folder for the rows.
        threads: Items worked on side by side.
        resume: Go on with what `out` holds.

    Raises:
        UserError: `out` holds something else, or rows and `resume` is False.
        BaseException: What `work` ended with, Ctrl-C or a spent budget; no further item is begun, all rows are kept.
    """
    import dspy

    with run_lock(out):
        done = {row["id"] for row in open_run(out, description, resume=resume)}
        with (
            dspy.context(lm=connection.lm, adapter=connection.adapter, disable_history=True, trace=None),
            RowLog(out) as log,
        ):
            workers: Workers[Any, Row] = Workers(
                work, [item for item in items if id_of(item) not in done], threads=threads
            )
            try:
                for outcome in workers:
                    if outcome.result is None:
                        raise outcome.error or RuntimeError("An item ended with neither row nor error.")
                    log.append(outcome.result)
            finally:
                workers.stop()
        return read_rows(out)
