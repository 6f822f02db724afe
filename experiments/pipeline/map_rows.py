"""Map a function over items in parallel, one row per item, for results other than runs (judgements, key facts)."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import dspy

from experiments.pipeline.parallel.thread_pool import ThreadPool, take_all
from experiments.runs.files import SYNC_SECONDS, Json, Row, RowLog, open_run, read_rows, run_lock
from programs.lms.calls.control import controlled
from programs.lms.calls.metered import LMUnavailable
from signatures.common.errors import UserError, user_error_within
from signatures.common.progress import ProgressLine

if TYPE_CHECKING:
    from programs.lms.connect import Connection


Item = TypeVar("Item")


@contextlib.contextmanager
def progress_bar(title: str, total: int, completed: int, *, shown: bool) -> Iterator[Callable[[], None]]:
    """Show a progress bar on standard error; yield the function that advances it by one."""
    columns = ("what", "bar", "count", "left")
    with ProgressLine(title.capitalize(), *columns, total=total, completed=completed, shown=shown) as line:
        yield lambda: line.update(advance=1)


def map_rows(
    items: Sequence[Item],
    work: Callable[[Item], Row],
    *,
    id_of: Callable[[Item], str],
    description: Json,
    connection: "Connection",
    out: Path,
    threads: int,
    resume: bool,
    progress: bool = True,
    current: Callable[[Row, Item], bool] = lambda row, item: True,
) -> list[Row]:
    """Return the rows of all items; each is written as soon as it is complete, and items that have a row are skipped.

    Args:
        items: Started in order.
        work: Returns the row of an item, with its `id`; runs in threads, on the LM of `connection`.
        id_of: Returns the id of an item.
        description: Content of `run.json`.
        out: Folder for the rows.
        threads: Items in progress at a time.
        resume: Continue what `out` contains.
        progress: Show a bar on stderr.
        current: Returns whether a row with the id of an item is still that of the item; else it is made again.

    Raises:
        UserError: `out` contains something else, or rows although `resume` is False; or items failed because the LM did
            not answer, after all others have their rows.
        BaseException: What else `work` raised, Ctrl-C or a spent budget; no further item is started, items in progress
            have a moment to finish, and all rows are kept.
    """
    with run_lock(out):
        done = {row["id"]: row for row in open_run(out, description, resume=resume)}
        waiting = [item for item in items if (row := done.get(id_of(item))) is None or not current(row, item)]
        with (
            dspy.context(lm=connection.lm, adapter=connection.adapter, disable_history=True, trace=None),
            controlled() as control,
            RowLog(out, sync_every=SYNC_SECONDS) as log,
            progress_bar(
                str(description.get("kind", "rows")), len(items), len(items) - len(waiting), shown=progress
            ) as advance,
        ):
            model = connection.lm.model

            def row_of(item: Item) -> Row | UserError:
                before = control.answers()[model]
                try:
                    return work(item)
                except Exception as error:
                    cause = user_error_within(error)
                    if isinstance(cause, LMUnavailable) and control.answers()[model] > before:
                        return cause  # the LM answers others
                    raise

            failed: list[UserError] = []

            def take(result: Row | UserError) -> None:
                if isinstance(result, UserError):
                    failed.append(result)
                else:
                    log.append(result)
                    advance()

            take_all(ThreadPool(row_of, waiting, threads=threads), take, control)
        if failed:
            raise UserError(f"{len(failed)} of {len(waiting)} items failed; resume to ask them again. {failed[0]}")
        return read_rows(out)
