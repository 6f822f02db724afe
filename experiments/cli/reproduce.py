"""`verihop reproduce`: tables and figures of the four papers and public recipes, ours beside the published numbers."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from experiments.cli.shared import options
from experiments.cli.shared.console import emit, interruptible, next_step, note, say
from experiments.cli.shared.next_commands import command, new_path
from experiments.cli.shared.options import with_option_groups
from programs.lms.spec import LMSpec
from signatures.common.errors import UserError
from signatures.common.files import writing
from signatures.common.secrets import redact
from signatures.common.specs import Field, Range

if TYPE_CHECKING:
    from experiments.papers.tables.plan import Request
    from experiments.papers.tables.run import Plan
    from experiments.papers.tables.spec import Table


@dataclass(frozen=True, kw_only=True)
class Which:
    """Which table or figure; by default all of the paper."""

    PANEL: ClassVar[str] = "Table"
    table: Annotated[int | None, Range(1), Field("Number of a table.")] = None
    figure: Annotated[int | None, Range(1), Field("Number of a figure.")] = None
    row: Annotated[list[str] | None, typer.Option(help="Only run and write the row of this label; repeatable.")] = None
    list_: Annotated[bool, Field("List all tables and figures.", "--list")] = False
    estimate: Annotated[
        bool, Field("Only report what is missing and what the rest costs; call no LM.", "--estimate")
    ] = False
    only_table: Annotated[bool, Field("Call no LM: write the table from existing runs.", "--only-table")] = False


@dataclass(frozen=True, kw_only=True)
class Roles:
    """LMs other than the one that answers; their calls count in the same budget."""

    PANEL: ClassVar[str] = "Other LMs"
    judge_lm: Annotated[str | None, Field("Decides judged metrics, and compares answers.")] = None
    judge_api_base: Annotated[str | None, Field("Base URL of the judge's server.")] = None
    judge_api_key_env: Annotated[str | None, Field("Environment variable with the judge's API key.")] = None
    student_lm: Annotated[str | None, Field("Answers in the rows of a trained student.")] = None
    teacher_lm: Annotated[
        str | None, Field("Teaches and writes instructions where a compiled row has a second LM; by default --lm.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class Material:
    """Questions, passages, and what people or earlier runs have made."""

    PANEL: ClassVar[str] = "Material"
    data: Annotated[
        str,
        Field(
            "Folder with a folder per data set (`verihop data list`): official files, or questions.jsonl as converted; "
            "or world, the generated one instead of every set."
        ),
    ] = "data"
    index: Annotated[Path | None, Field("Index to search instead of each set's own passages.")] = None
    tool: Annotated[
        list[str] | None,
        typer.Option(
            help="Searches for a tool that a table names: your own retriever, e.g. bing=module:name, or the folder of "
            "a recording of the web; repeatable."
        ),
    ] = None
    limit: options.Limit = None
    runs: Annotated[
        Path | None, Field("Take cells from runs of `verihop eval` in this folder, in subfolders named after the set.")
    ] = None
    answers: Annotated[
        Path | None, Field("Restore the answers that were published with a table, TABLE-answers.jsonl.zst.")
    ] = None
    review: Annotated[list[Path] | None, typer.Option(help="Folder of human ratings; repeatable.")] = None
    examples: Annotated[Path | None, Field("Folder of training examples (`verihop distill synthesize`).")] = None


@dataclass(frozen=True, kw_only=True)
class Asking:
    """How questions are processed; the same command resumes stopped work."""

    PANEL: ClassVar[str] = "Execution"
    threads: options.Threads = 8
    shard: Annotated[
        str | None, Field("Ask only every n-th question, as one of n machines with the same --work: 1/n to n/n.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class Written(options.Output):
    """Where runs and tables are written, and what is printed."""

    work: Annotated[Path, Field("Folder for converted files, indexes and runs; tables share runs.")] = Path(
        "runs/reproduce"
    )
    out: Annotated[Path | None, Field("Folder for the tables; by default tables in --work.", "--out -o")] = None

    @property
    def tables(self) -> Path:
        """The folder for the tables."""
        return self.out or self.work / "tables"


@with_option_groups
def reproduce(
    which: Which,
    lm: LMSpec,
    roles: Roles,
    material: Material,
    asking: Asking,
    limits: options.Limits,
    output: Written,
    paper: Annotated[
        str | None,
        typer.Argument(
            help="credibility, genground, cov_rag or retro_rag; dspy or gepa: a recipe; embedded: our own LM; "
            "leaderboard: all programs.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Write tables and figures of a paper: our numbers with n and interval beside the published ones.

    First it says what is missing and what the rest costs, then asks what it can. Each cell is an ordinary run, which
    tables share; another --lm adds its own rows.
    """
    from experiments.papers.tables.run import plan

    if which.list_:
        _list(as_json=output.as_json)
        return
    tables, request = _tables(paper, which), _request(lm, roles, material, asking, output, which)
    if request.answers is not None and request.answers.resolve().parent == output.tables.resolve():
        raise UserError(f"{request.answers} would be replaced by the answers of this table: name another --out.")
    planned = [(table, plan(table, request)) for table in tables]
    for table, found in planned:
        if found.taken is not None:
            note(f"{table.id}: reused {found.taken}.")
        if not which.only_table:
            _tell(table, found)
    if which.estimate:
        if output.as_json:
            emit({table.id: _estimated(of) for table, of in planned})
        elif following := _after_estimate(planned, request):
            next_step(*following)
        return
    _write(planned, request, limits, output)


def _tables(paper: str | None, which: Which) -> "list[Table]":
    from experiments.papers.tables.spec import PAPERS, names_of, paper_of, read_table

    if paper is None:
        raise UserError(
            f"Name a paper: {', '.join(PAPERS)}; `verihop reproduce --list` lists their tables and figures."
        )
    numbers = {"table": which.table, "figure": which.figure}
    named = [f"{kind}{number}" for kind, number in numbers.items() if number is not None]
    tables = [read_table(paper, name) for name in named or names_of(paper_of(paper))]
    if which.row is None:
        return tables
    wanted = {*which.row}
    having = [table for table in tables if wanted <= {row.label for row in table.rows}]
    return [table.of_rows(which.row) for table in (having if having and not named else tables)]


def _request(lm: LMSpec, roles: Roles, material: Material, asking: Asking, output: Written, which: Which) -> "Request":
    from experiments.papers.tables.plan import Request
    from experiments.pipeline.setup import other_lm, shard_of

    judge = other_lm(roles, "judge_lm")
    student = None if roles.student_lm is None else LMSpec(id=roles.student_lm).called_as(lm)
    return Request(
        lm=lm,
        student=student,
        judge=judge and judge.called_as(lm),
        teacher=None if roles.teacher_lm is None else LMSpec(id=roles.teacher_lm).called_as(lm),
        data=material.data,
        work=output.work,
        index=material.index,
        retrievers=options.pairs(material.tool, "--tool", ("NAME=module:name or NAME=FOLDER", "bing=mine:search"), str),
        limit=material.limit,
        threads=asking.threads,
        shard=shard_of(asking.shard),
        runs=material.runs,
        answers=material.answers,
        reviews=tuple(material.review or ()),
        examples=material.examples,
        only_table=which.only_table,
        progress=not output.quiet,
    )


def _after_estimate(planned: "list[tuple[Table, Plan]]", request: "Request") -> list[str]:
    """Return the command without --estimate; if nothing can be asked, what fetches the questions, then this command."""
    from experiments.papers.tables.sources import fetching

    cells = [cell for _, of in planned for cell in of.cells]
    if not cells or any(cell.missing is None for cell in cells):
        return [command("verihop", *(word for word in sys.argv[1:] if word != "--estimate"))]
    lacking = dict.fromkeys(cell.column.data for cell in cells if cell.source is None)
    fetch = [line for name in lacking for line in fetching(name, Path(request.data))]
    return [*fetch, command("verihop", *sys.argv[1:])] if fetch else []


def _list(*, as_json: bool) -> None:
    from experiments.papers.tables.spec import PAPERS, names_of, read_table

    tables = [read_table(paper, name) for paper in PAPERS for name in names_of(paper)]
    if as_json:
        emit({table.id: {"title": table.title, "source": table.source} for table in tables})
        return
    for table in tables:
        kind, number = ("--table", table.name[5:]) if table.name.startswith("table") else ("--figure", table.name[6:])
        say(f"{table.paper} {kind} {number}: {table.title}")
    next_step("verihop reproduce genground --table 2 --estimate")


def _tell(table: "Table", planned: "Plan") -> None:
    note(f"{table.id}: {table.title}")
    for text in planned.missing:
        note(f"  Missing: {text}")
    nothing = "Nothing to ask here."
    if planned.cells:
        ready = any(cell.missing is None for cell in planned.cells)
        nothing = "Nothing is left to ask." if ready else "Nothing can be asked before that is there."
    note(f"  To ask: {planned.estimate}" if planned.estimate.questions else f"  {nothing}")
    if planned.judging is not None and planned.judging.questions:
        note(f"  To judge: {planned.judging}")


def _estimated(planned: "Plan") -> dict[str, Any]:
    judging = {} if planned.judging is None else {"judging": vars(planned.judging)}
    return {"missing": planned.missing, **vars(planned.estimate), **judging}


def _write(planned: "list[tuple[Table, Plan]]", request: "Request", limits: options.Limits, output: Written) -> None:
    from experiments.papers.tables.plan import folder_of_lm, grouped
    from experiments.papers.tables.run import reproduce as reproduce_table
    from experiments.runs.config import portable

    out, budget = output.tables, limits.budget()
    typed = portable(redact(" ".join(["verihop", *sys.argv[1:]])))
    written: dict[str, list[str]] = {}
    failed: list[UserError] = []
    stopped, ours = None, request.only_table or not any(of.asks for _, of in planned)
    with writing(out):  # before anything is asked
        out.mkdir(parents=True, exist_ok=True)
    progress = note if request.progress else lambda text: None
    for table, of in planned:
        try:
            with interruptible():
                done = reproduce_table(table, of, request, out, command=typed, budget=budget, say=progress)
        except UserError as error:  # of this table; the others are made
            failed.append(error)
            continue
        for text in grouped(done.asked.failed):
            note(f"  Left out: {text}")
        ours = ours or done.ours or any(cell.missing is None for cell in of.cells)
        written[table.id] = [str(path) for path in done.paths]
        if not output.as_json:
            say(f"Written: {', '.join(written[table.id]) or 'nothing: the table has no number yet'}")
        if not done.ours and done.paths:
            note(f"  No number of {table.id} is ours yet: what is written is published.")
        if (stopped := done.asked.stopped) is not None:
            note(f"Stopped ({stopped}). Rerun with a larger budget to continue.")
            break
    if output.as_json:
        emit({"written": written, "stopped": stopped})
    for other in failed[1:]:
        note(str(other))
    if failed:
        raise failed[0]
    if not ours and stopped is None:
        raise UserError("No number is ours: nothing could be asked, as said under Missing.")
    if stopped is None and not output.as_json:
        cells = output.work / "cells" / folder_of_lm(request.lm)  # another LM's are not comparable
        ranked = request.shard is None and cells.is_dir() and any(table.ranked for table, _ in planned)
        page = command("verihop", "leaderboard", cells, "--out", new_path(Path("site")))
        next_step(page if ranked else "verihop reproduce --list")
    if stopped is not None:
        raise typer.Exit(3)
