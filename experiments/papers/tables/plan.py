"""What a table needs: its cells, each an ordinary run, what is missing, and what the rest costs. No LM is asked."""

import json
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache, cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from corpora.index.info import PARTS
from experiments.papers.tables.sources import Source, indexed, open_source
from experiments.papers.tables.spec import Column, Compile, Row, Setting, Table
from experiments.runs.files import ROWS, read_rows
from experiments.runs.files import Row as Answered
from experiments.runs.specs import ProgramSpec
from programs.lms.spec import LMSpec
from signatures.common.errors import UserError
from signatures.common.files import sha256_text
from signatures.common.specs import fields_of

if TYPE_CHECKING:
    from experiments.pipeline.evaluate import Estimate
    from experiments.runs.shards import Shard

OTHER_LM = "the LM of the row: name it with --lm"
STUDENT = "a trained student: make it with `verihop distill synthesize` and `train`, and name it with --student-lm"


@dataclass(frozen=True, kw_only=True)
class Request:
    """What the user names beside the table.

    Args:
        lm, student: Answer; the second is the LM that was trained, of rows with that role.
        judge: Decides judged metrics.
        teacher: The second LM of recipes that have one.
        data: Folder of official or converted files, or "world".
        work: Folder for converted files, indexes and runs.
        index: Searched in place of each set's own passages.
        retrievers: Name in a table -> own retriever (`module:name`), or the folder of a recording of the web.
        limit: Questions of each column; None is as many as the paper asked.
        runs: Folder of runs that were made otherwise; their cells are found by what they are of.
        answers: File of the answers that a table was published with (`answers.py`).
        reviews, examples: Folders of human ratings, of training examples.
        only_table: Ask no LM: assemble what is there.
    """

    lm: LMSpec = field(default_factory=LMSpec)
    student: LMSpec | None = None
    judge: LMSpec | None = None
    teacher: LMSpec | None = None
    data: str = "data"
    work: Path = Path("runs/reproduce")
    index: Path | None = None
    retrievers: Mapping[str, str] = field(default_factory=dict)
    limit: int | None = None
    threads: int = 8
    shard: "Shard | None" = None
    runs: Path | None = None
    answers: Path | None = None
    reviews: tuple[Path, ...] = ()
    examples: Path | None = None
    only_table: bool = False
    progress: bool = True

    def lm_of(self, setting: Setting) -> LMSpec | None:
        """Return the LM of a cell; None if the user names none for its role or of its pattern."""
        lm = self.student if setting.role == "student" else self.lm
        return lm if lm is not None and fits(setting.lm, id_of(lm)) else None


def id_of(lm: LMSpec) -> str:
    """Return the id of an LM."""
    return lm.id or "embedded"


def fits(pattern: str | None, lm: str) -> bool:
    """Return whether an id of an LM has the pattern of a row."""
    return pattern is None or fnmatchcase(lm.lower(), pattern.lower())


def folder_of_lm(lm: LMSpec) -> str:
    """Return the name of the folder of an LM's runs: its id, and a hash of what else decides its replies."""
    decided = {name: getattr(lm, name) for name, one in fields_of(LMSpec).items() if one.field.decides and name != "id"}
    stated = {name: value for name, value in decided.items() if value != fields_of(LMSpec)[name].default}
    name = "".join(letter if letter.isalnum() or letter in "-._" else "_" for letter in id_of(lm)).strip(".")
    return name + (f"-{_hash(stated)}" if stated else "")


def _hash(value: Any) -> str:
    return sha256_text(json.dumps(value, sort_keys=True, default=str))[:8]


@dataclass(frozen=True)
class Recipe:
    """How the program of a cell is compiled.

    Args:
        train, val: Numbers of questions.
        calls: LM calls at most.
        teacher: Makes demonstrations and writes instructions; None is the LM itself.
    """

    how: Compile
    train: int
    val: int
    calls: int
    teacher: LMSpec | None

    @property
    def decided(self) -> list[Any]:
        """Return what decides its result, as JSON values."""
        second = [] if self.teacher is None else [folder_of_lm(self.teacher)]
        return [self.how.model_dump(), self.train, self.val, self.calls, *second]


@dataclass(frozen=True)
class Cell:
    """A row in a column.

    Args:
        setting: As it is asked.
        source: None if its questions are not there.
        asked: Number of questions.
        missing: Why it cannot be asked, in words with the cure; None if it can.
        recipe: None if its program is asked as it is.
    """

    row: Row
    column: Column
    setting: Setting
    lm: LMSpec
    program: ProgramSpec
    source: Source | None
    asked: int
    missing: str | None
    recipe: Recipe | None = None

    @cached_property
    def hash(self) -> str:
        """Return what tells its runs from others of the same program, LM and questions; tables share equal ones."""
        said = self.setting
        rest = (said.references, said.n_references if said.references else None, said.repeats or 1)
        searched = (self.retriever, self.program.rerank, _identity(self.program.index))
        made = [] if self.recipe is None else self.recipe.decided
        return _hash([self.program.preset, dict(self.program.knobs), *rest, *searched, *made])

    @property
    def retriever(self) -> str | None:
        """The retriever that is named, or that of the embedded LM; None is that of the index."""
        from experiments.pipeline.setup import SMALL_RETRIEVER, is_embedded

        unnamed = self.program.retriever is None and searches(self.setting) and is_embedded(self.lm)
        return SMALL_RETRIEVER if unnamed else self.program.retriever

    def artifact(self, work: Path) -> Path:
        """Return the folder of its compiled program."""
        run = self.folder(work)
        return work / "compiled" / run.relative_to(work / "cells")

    def folder(self, work: Path) -> Path:
        """Return the folder of its run."""
        name = self.source.name if self.source else self.column.data
        return work / "cells" / folder_of_lm(self.lm) / f"{name}-{self.asked}" / f"{self.program.program}-{self.hash}"

    @property
    def other_lm(self) -> bool:
        """Whether its LM is another than those that the user names."""
        return self.missing in (OTHER_LM, STUDENT)

    @property
    def label(self) -> str:
        """Return what it is, for messages."""
        return f"{self.row.label}, {self.column.label}"


def _identity(index: Path | None) -> str | None:
    """Return the fingerprint of an index or a recording of the web, the same wherever it is; without one, the path."""
    try:
        return None if index is None else _fingerprint(index) or str(index)
    except UserError:  # `unsearchable` says why
        return str(index)


def _fingerprint(index: Path) -> str | None:
    """Return the fingerprint of an index or a recording of the web; None if a folder is neither.

    Raises:
        UserError: It is damaged.
    """
    from corpora.index.manifest import INFO_FILE, parse_info
    from corpora.index.replace import state_of
    from corpora.web.recording import Recording, is_recording

    if is_recording(index):
        return Recording(index).fingerprint
    _, stated = state_of(index)
    return None if stated is None else parse_info(stated, index / INFO_FILE).fingerprint()


def unsearchable(index: Path | None, *, recorded: bool) -> str | None:
    """Return what is missing where a folder cannot be searched, which names the cells that do; None if it can.

    Args:
        index: None searches no folder that is named.
        recorded: It has to be a recording of the web.
    """
    from corpora.index.manifest import read_info
    from corpora.index.replace import complete_index
    from corpora.web.recording import is_recording

    if index is None:
        return None
    web = is_recording(index)
    if recorded and not web:
        return f"a recording of the web in {index}: record it with --retriever and --index"
    try:
        if _fingerprint(index) is None:
            read_info(complete_index(index))  # says what is there instead
    except UserError as error:
        return f"a readable {'recording of the web' if web else 'index'}: {str(error).removesuffix('.')}"
    return None


def cells_of(table: Table, request: Request) -> list[Cell]:
    """Return the cells of a table that have a program, for the LMs of a request, missing ones included."""
    opened = cache(partial(_opened, request))  # each source once
    return [
        _cell(table.setting_of(row, column), row, column, request, opened)
        for row in table.rows
        for column in table.all_columns
        if table.setting_of(row, column).program is not None and row.needs is None
    ]


Opened = Callable[[str, str | None], tuple[Source | None, int, str | None]]


def _opened(request: Request, data: str, subset: str | None) -> tuple[Source | None, int, str | None]:
    """Return a source and how many questions it has, or why there is none."""
    from corpora.questions import read_questions

    try:
        source = open_source(Column(label=data, data=data, subset=subset), request.data, request.work)
        return source, len(read_questions(source.questions)), None
    except UserError as error:
        return None, 0, str(error)


def _cell(setting: Setting, row: Row, column: Column, request: Request, opened: Opened) -> Cell:
    source, there, missing = opened(column.data, column.subset)
    setting = _known(setting, row)
    wanted = request.limit or column.questions or there
    lm = request.lm_of(setting)
    program, without = _program(setting, lm or request.lm, request, source)
    asked = min(wanted, there) if source else wanted
    recipe = _recipe(setting, column, request)
    if source is not None and recipe is not None and (lacking := asked + recipe.train + recipe.val - there) > 0:
        without = without or f"{lacking} more questions of {source.name} to compile on: name a smaller --limit"
    untaught = None if recipe is None or recipe.teacher is None else unopened(recipe.teacher)
    missing = _lm_missing(setting, lm) or untaught or missing or without
    return Cell(row, column, setting, lm or request.lm, program, source, asked, missing, recipe)


def _recipe(setting: Setting, column: Column, request: Request) -> Recipe | None:
    """Return how a cell is compiled; with a limit each part of the questions is at most as large, and calls fewer."""
    if setting.compile is None:
        return None
    how, limit = setting.compile, request.limit
    teacher = request.teacher if how.second_lm else None
    if limit is None or column.questions is None or limit >= column.questions:
        return Recipe(how, column.train, column.val, how.calls, teacher)
    calls = math.ceil(how.calls * limit / column.questions)
    return Recipe(how, min(limit, column.train), min(limit, column.val), calls, teacher)


def _knobs(program: str | None) -> list[str]:
    from programs.catalog import typed_program
    from programs.parts.knobs import knobs_of

    return list(knobs_of(typed_program(str(program))))


def _known(setting: Setting, row: Row) -> Setting:
    """Return a setting without knobs of table and column that are not its program's; those of the row are checked."""
    known = {*_knobs(setting.program), *row.knobs}
    return setting.model_copy(update={"knobs": {name: value for name, value in setting.knobs.items() if name in known}})


@cache
def unopened(lm: LMSpec) -> str | None:
    """Return what an LM lacks to be asked, with the cure, as far as can be said without a call; None if nothing."""
    from experiments.pipeline.setup import is_embedded
    from experiments.world.connect import connect_any
    from programs.lms.connect import lacking_key
    from programs.lms.weights import choice
    from signatures.common.http import checked_key

    try:
        checked_key(lm.api_key_env)
        if lm.api_base is not None:  # a server is asked when it is connected
            return None
        if is_embedded(lm):  # not connected here, which takes seconds
            choice.weights(choice.parse(id_of(lm).partition(":")[2])[1])
            return None
        opened = connect_any(id_of(lm), cache=False)
    except (UserError, OSError) as error:
        return f"the LM {id_of(lm)}: {str(error).removesuffix('.')}"
    key = None if lm.api_key_env else lacking_key(opened.lm)
    return None if key is None else f"a key of {id_of(lm)}: set {key}"


def _lm_missing(setting: Setting, lm: LMSpec | None) -> str | None:
    if lm is None and setting.role == "student":
        return STUDENT
    return OTHER_LM if lm is None else unopened(lm)


def searches(setting: Setting) -> bool:
    """Return whether a program with its knobs looks for passages in an index."""
    return setting.references is None and _retrieves(
        str(setting.program), setting.preset or "paper", json.dumps(dict(setting.knobs))
    )


@cache
def _retrieves(program: str, preset: str, knobs: str) -> bool:
    from programs.artifact import retrieves
    from programs.catalog import build

    return retrieves(build(program, preset=preset, **json.loads(knobs)))


def _program(setting: Setting, lm: LMSpec, request: Request, source: Source | None) -> tuple[ProgramSpec, str | None]:
    """Return the program as it is opened with an LM, and what it lacks to search."""
    from experiments.pipeline.opened import AnswererSpec
    from experiments.pipeline.setup import SMALL_RERANK, is_embedded
    from signatures.common.own_code import is_own

    retriever, own = setting.retriever, request.retrievers.get(setting.retriever or "")
    recording = None if own is None or is_own(own) else Path(own)
    searching = searches(setting)
    index = request.index or (source.index if source and source.passages else None)
    named = ProgramSpec(program=setting.program, preset=setting.preset, knobs=setting.knobs)
    if searching:  # the folder, which cannot exist, stands for any: the same is chosen before the questions are there
        any_index = recording if own else Path(os.devnull, "index")
        search = None if recording else own or retriever
        named = replace(named, index=any_index, retriever=search, rerank=setting.rerank)
    spec, _ = AnswererSpec(named, lm).with_defaults()
    rerank = spec.program.rerank
    if searching and own is None and is_embedded(lm):  # for programs without the preset `small`, too
        rerank = rerank or SMALL_RERANK
    chosen = replace(spec.program, rerank=rerank, index=(recording if own else request.index) if searching else None)
    if (without := unsearchable(chosen.index, recorded=recording is not None)) is not None:
        return chosen, without
    if setting.k is not None and not is_embedded(lm) and "k" in _knobs(setting.program):
        chosen = replace(chosen, knobs={"k": setting.k, **chosen.knobs})
    if searching and retriever not in (None, *PARTS) and own is None:
        return chosen, f"a retriever {retriever}: name your own with --tool {retriever}=MODULE:NAME, or a recording"
    if searching and own is None and index is None and source is not None:
        return chosen, f"a corpus for {source.name}: name an index built by `verihop index` with --index"
    if setting.references is not None and source is not None and source.passages is None:
        return chosen, f"passages of {source.name} to choose references from"
    return chosen, None


def index_of(cell: Cell, *, progress: bool) -> Path | None:
    """Return the index that a cell searches, built unless it is there; None if it searches none."""
    from signatures.common.own_code import is_own

    own = cell.program.retriever is not None and is_own(cell.program.retriever)
    if own or not searches(cell.setting):
        return None
    if cell.program.index is not None or cell.source is None:
        return cell.program.index
    return indexed(cell.source, progress=progress)


def missing_of(table: Table, cells: Sequence[Cell], request: Request) -> list[str]:
    """Return what is missing, each with what it leaves out and its cure."""
    found: dict[str, list[str]] = {}
    for cell in cells:
        if cell.missing:
            found.setdefault(cell.missing, []).append(cell.row.label if cell.missing == OTHER_LM else cell.label)
    for row in table.rows:
        if row.needs:
            found.setdefault(row.needs, []).append(row.label)
    no_judge = "a judge LM: name it with --judge-lm" if request.judge is None else unopened(request.judge)
    if no_judge is not None and (judged := _judged(table)):
        found.setdefault(no_judge, []).extend(judged)
    if table.kind == "ratings" and not request.reviews:
        what = "human ratings: collect them with `verihop review answers`, and name the folder with --review"
        found.setdefault(what, []).append("all of ours")
    return [f"{_listed(of)}: needs {what}." for what, of in found.items()]


def _listed(names: Sequence[str]) -> str:
    once = list(dict.fromkeys(names))
    return "; ".join(once[:3]) + (f" and {len(once) - 3} more" if len(once) > 3 else "")


def grouped(failed: Sequence[tuple[str, str]]) -> list[str]:
    """Return what failed, with equal reasons in one line."""
    found: dict[str, list[str]] = {}
    for what, why in failed:
        found.setdefault(why, []).append(what)
    return [f"{_listed(of)}: {why}" for why, of in found.items()]


def _judged(table: Table) -> list[str]:
    from experiments.papers.tables.values import is_judged

    if table.kind == "judged":
        return [f"{table.name}: judgements"]
    scored = dict.fromkeys(name for column in table.columns for name in table.scored(column))
    return [name for name in scored if is_judged(name)]


def distinct(cells: Iterable[Cell], work: Path) -> dict[Path, Cell]:
    """Return the cells that can be asked by the folders of their runs, those with few calls first."""
    found = {cell.folder(work): cell for cell in cells if cell.missing is None}
    return dict(sorted(found.items(), key=lambda item: most_calls(item[1])))


@cache
def _calls(program: str, preset: str, knobs: str) -> int:
    from programs.catalog import build

    built: Any = build(program, preset=preset, **json.loads(knobs))
    return int(built.max_calls())


def most_calls(cell: Cell) -> int:
    """Return the LM calls that a question of a cell can take."""
    asked = cell.program
    return _calls(str(asked.program), asked.preset or "paper", json.dumps(dict(asked.knobs)))


def shard_folder(folder: Path, shard: "Shard") -> Path:
    """Return the folder of a shard of a run."""
    return folder.with_name(f"{folder.name}.shard-{shard.index}-of-{shard.of}")


def done_rows(folder: Path) -> list[Answered]:
    """Return the answers of a run without those that failed; [] if there is none."""
    return [row for row in read_rows(folder) if row["error"] is None] if (folder / ROWS).is_file() else []


def estimate_of(cells: Iterable[Cell], request: Request) -> "Estimate":
    """Return what is left to ask, at most, with tokens per call measured on the answers that are there."""
    from experiments.pipeline.evaluate import Estimate, estimate, unmeasured

    parts = []
    for folder, cell in distinct(cells, request.work).items():
        rows, repeats = done_rows(folder), cell.setting.repeats or 1
        asked = cell.asked * repeats
        if request.shard is not None and len(rows) < asked:
            rows = done_rows(shard_folder(folder, request.shard))
            asked = request.shard.size(cell.asked) * repeats
        left = max(0, asked - len(rows))
        parts.append(estimate(left, most_calls(cell), rows=rows, threads=request.threads))
        if cell.recipe is not None and not (cell.artifact(request.work) / "artifact.json").is_file():
            parts.append(unmeasured(0, cell.recipe.calls))
    prices = [part.usd for part in parts if part.usd is not None]
    seconds = [part.seconds for part in parts]
    return Estimate(
        questions=sum(part.questions for part in parts),
        calls=sum(part.calls for part in parts),
        tokens=sum(part.tokens for part in parts),
        seconds=None if None in seconds else sum(filter(None, seconds)),
        usd=sum(prices) if prices else None,
        measured=sum(part.measured for part in parts),
    )


def examples_of(table: Table, request: Request) -> tuple["Estimate", list[str]]:
    """Return what making the training examples of a table takes at most, and what is missing for it.

    It takes a draft and a grounding of each part of a question.
    """
    from experiments.pipeline.evaluate import unmeasured
    from experiments.pipeline.setup import open_questions
    from optimizers.distill.genground import seeds_of

    column = table.columns[0]
    source, _, missing = _opened(request, column.data, column.subset)
    missing = missing or unopened(request.lm)
    if source is None or missing:
        return unmeasured(0, 0), [f"{column.label}: needs {missing}."]
    asked = open_questions(source.questions, limit=request.limit or column.questions)
    return unmeasured(len(asked), sum(2 * len(seeds_of(question)) for question in asked)), []
