"""One row per item on an LM that fails now and then."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import dspy
import pytest
from dspy.lm15 import ServerError

from experiments.pipeline.map_rows import map_rows
from experiments.runs.files import read_rows
from programs.lms.calls.metered import LMUnavailable, metered_lm
from programs.lms.calls.transport import Transport
from signatures.common.errors import UserError

pytestmark = pytest.mark.usefixtures("no_waiting")


def run(toy: ModuleType, folder: Path, before: Callable[[str], None], *, threads: int = 2) -> list[dict[str, Any]]:
    lm = metered_lm("local/m", engine=toy.Engine(before), cache=False, transport=Transport(retries=0))

    def work(item: int) -> dict[str, Any]:
        for part in "ab":
            dspy.settings.lm(f"item {item}{part}.")
        return {"id": str(item)}

    link = toy.Link(lm, dspy.ChatAdapter())
    return map_rows(
        range(12), work, id_of=str, description={"kind": "numbers"}, connection=link, out=folder, threads=threads,
        resume=folder.exists(),
    )  # fmt: skip


def fail_on(*items: str) -> Callable[[str], None]:
    def before(prompt: str) -> None:
        if any(f"item {item}." in prompt for item in items):
            raise ServerError("500")

    return before


def test_items_that_fail_are_counted_at_the_end_and_done_by_resuming(toy, tmp_path):
    with pytest.raises(UserError, match="2 of 12 items failed; resume to ask them again"):
        run(toy, tmp_path / "rows", fail_on("0b", "7b"))
    assert {row["id"] for row in read_rows(tmp_path / "rows")} == {str(n) for n in range(12)} - {"0", "7"}
    assert len(run(toy, tmp_path / "rows", fail_on())) == 12


def test_an_lm_that_does_not_answer_ends_it(toy, tmp_path):
    asked: list[str] = []

    def before(prompt: str) -> None:
        asked.append(prompt)
        raise ServerError("500")

    with pytest.raises(LMUnavailable):
        run(toy, tmp_path / "rows", before, threads=1)
    assert len(asked) <= 2


def test_rows_of_items_in_progress_are_kept(toy, tmp_path):
    """The pool runs ahead of the writer, which Ctrl-C interrupts."""
    from experiments.runs.files import RowLog

    append, written = RowLog.append, []

    def interrupted(log: RowLog, row: dict[str, Any]) -> None:
        append(log, row)
        written.append(row["id"])
        if len(written) == 1:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(RowLog, "append", interrupted)
        run(toy, tmp_path / "rows", fail_on())
    assert [row["id"] for row in read_rows(tmp_path / "rows")] == written
    assert 1 <= len(written) < 12
