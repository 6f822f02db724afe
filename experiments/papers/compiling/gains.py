"""What compiling and tuning gain: optimizers, races and studies at equal budgets, on a real LM and real questions.

    python -m experiments.papers.compiling.gains --data ../shared/data --work ../compiling

Each row makes one artifact per seed from the same train and dev questions; the test questions are asked once per
artifact. All are of the development sets of HotpotQA, 2WikiMultihopQA and MuSiQue near their official mix, which nobody
trained on. Programs start at their preset for small LMs and read what our own reranker chooses from multi-hop
retrieval, as in every command with the embedded LM.

Every row gets the same number of LM calls and pays for each out of its own budget, as if it were alone: its LM has a
cache of its own. Behind these LMs stands one LM with the common cache, so that a prompt that several rows send is
computed once.

A finished row is recorded beside the table, with the scores of every test question, and is not made again; so the
command can be stopped and started again, here or on another machine. `--rows`, `--programs` and `--seeds` choose a
part; `--only-table` makes table and plot again from the records, without an LM.
"""

import re
import secrets
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Self

import typer
from dspy.lm15 import Request, Response
from pydantic import Field, model_validator

from experiments.analysis.report.plots import empty_figure, write_png
from experiments.analysis.statistics import means_and_differences
from experiments.papers.command import help_of, names, run_command, say
from experiments.papers.compiling.rows import DEFAULT, PRESET, ROWS, Work, limits_of, make
from experiments.papers.record_file import Recorded, RecordFile, as_stored, require_same, rounded
from optimizers.metrics.scoring import tokens_of
from programs.lms.calls.budget import Budget
from programs.lms.calls.metered import MeteredLM, metered_lm
from programs.lms.connect import Connection
from programs.parts.meter import metered
from signatures.common.errors import UserError
from signatures.common.per_process import Uncopied

if TYPE_CHECKING:
    import dspy
    from matplotlib.axes import Axes

    from corpora.questions import Question
    from experiments.runs.files import Row
    from signatures.types import Retriever


METRIC = "f1[hotpot]"
METRICS = ("em", METRIC, "passage_recall@5")
COSTS = ("calls", "tokens")
FAULTS = ("errors", "abstained", "parse_failures", "truncated")


class Key(NamedTuple):
    """Names a row: the id of the LM without local folders, the program, the row of `ROWS`, and the seed."""

    lm: str
    program: str
    row: str
    seed: int

    def __str__(self) -> str:
        return f"{self.lm}, {self.program}, {self.row}, seed {self.seed}"


class Record(Recorded):
    """A finished row: what it was made with, what that cost, and how it answered the test questions.

    Args:
        lm: See `Key`, and so the next three.
        program: Name in the catalog.
        row: A name of `ROWS`.
        seed: Of the row.
        made_with: What decides all rows of this LM and program; rows can be compared only if it is the same.
        session: Revision, library versions, start (UTC) and machine.
        spent: LM calls and tokens that making it cost, as if it had been alone.
        seconds: Wall clock of making it; what other rows had asked before took no time.
        artifact: What the artifact says of itself; None if the row is the uncompiled program.
        answers: Metric (in [0, 1], None where it is undefined) or cost (LM calls; tokens, cached ones included) -> one
            number per test question, in their order.
        faults: Name of `FAULTS` -> number of test questions.
    """

    lm: str
    program: str
    row: str
    seed: Annotated[int, Field(ge=0)]
    session: dict[str, Any]
    spent: dict[str, float]
    seconds: float
    artifact: dict[str, Any] | None
    answers: dict[str, list[float | None]]
    faults: dict[str, int]

    @property
    def key(self) -> Key:
        """Its name."""
        return Key(self.lm, self.program, self.row, self.seed)

    @property
    def group(self) -> tuple[str, str]:
        """The LM and the program."""
        return self.key[:2]

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.row not in ROWS:
            raise ValueError(f"{self.row!r} is not a row")
        if set(self.answers) != {*METRICS, *COSTS} or len({len(values) for values in self.answers.values()}) != 1:
            raise ValueError(f"'answers' needs {', '.join((*METRICS, *COSTS))}, with one number per question each")
        if set(self.faults) != set(FAULTS):
            raise ValueError(f"'faults' needs {', '.join(FAULTS)}")
        return self


class Records(RecordFile[Record]):
    """The records in a file; see `RecordFile`."""

    def __init__(self, path: Path):
        super().__init__(path, Record)

    def groups(self) -> dict[tuple[str, str], dict[str, dict[int, Record]]]:
        """Return the records that can be compared: (LM, program) -> row -> seed -> record."""
        found: dict[tuple[str, str], dict[str, dict[int, Record]]] = {}
        for key, record in sorted(self.found.items()):
            found.setdefault((key.lm, key.program), {}).setdefault(key.row, {})[key.seed] = record
        return found


_COLUMNS = 3  # of panels
_NOTHING = {"difference": 0.0, "low": 0.0, "high": 0.0}
VALUES = ("em", "passage_recall@5", "calls", "tokens")
JOINT = "joint"
TITLES = {
    "random_search": "random search",
    "mipro": "MIPROv2",
    "gepa": "GEPA",
    "prompts_then_knobs": "prompts, then knobs",
    JOINT: "joint study",
    "random_knobs": "random knobs",
}


def table(rows: Mapping[str, Mapping[int, Record]]) -> dict[str, Any]:
    """Return each row: its scores and costs on the test questions, and its difference to two other rows.

    Values are means over the seeds of each question first, so that an interval is one over questions: it says nothing
    of what other seeds would have found. `per_seed` shows that.

    Args:
        rows: Row -> seed -> record, as in a group of `Records.groups`.
    """
    order = [row for row in ROWS if row in rows]
    columns = [_per_question(rows[row], METRIC) for row in order]
    references = [row for row in (DEFAULT, JOINT) if row in order]
    pairs = [(order.index(reference), place) for reference in references for place in range(len(order))]
    means, differences = means_and_differences(columns, pairs)
    compared = dict(zip(pairs, differences, strict=True))
    return {
        row: {
            METRIC: means[place].as_dict(),
            **{name: rounded(_mean(_per_question(rows[row], name))) for name in VALUES},
            **{
                f"against {reference}": compared[order.index(reference), place].as_dict()
                for reference in references
                if reference != row
            },
            "per_seed": {str(seed): _seed(record) for seed, record in sorted(rows[row].items())},
        }
        for place, row in enumerate(order)
    }


def _per_question(of_seeds: Mapping[int, Record], name: str) -> list[float | None]:
    """Return the mean over seeds of a value of each question; None where it is undefined, for all seeds alike."""
    columns = zip(*(record.answers[name] for record in of_seeds.values()), strict=True)
    # Rounded, since a third of three equal scores is not always that score: rows that answer alike must be alike.
    return [rounded(_mean(column), 6) for column in columns]


def _seed(record: Record) -> dict[str, Any]:
    """Return what a reader of the table wants to know of one artifact."""
    return {
        METRIC: rounded(_mean(record.answers[METRIC])),
        "tokens": rounded(_mean(record.answers["tokens"])),
        **{name: value for name, value in (record.artifact or {}).items() if name not in ("folder", "race")},
        **record.model_dump(include={"spent", "seconds", "faults", "session"}),
    }


def _mean(values: Iterable[float | None]) -> float | None:
    found = [value for value in values if value is not None]
    return sum(found) / len(found) if found else None


def as_text(program: str, record: Mapping[str, Any]) -> str:
    """Return the plain table of a program: scores in percent with 95 % intervals, costs per question.

    `spent` is what making an artifact cost at most. Faults are those of all seeds; none is left out.
    """
    lines = [f"\n{program}, {record['questions']['test']['n']} test questions, {METRIC}, {record['calls']} calls a row"]
    lines.append(
        f"{'':20}{'F1':>19}{'against default':>21}{'against joint':>21}{'calls':>7}{'tokens':>8}{'spent':>7}"
        "  F1 of each seed"
    )
    for row, found in record["rows"].items():
        cells = [
            _interval(found[METRIC], "mean"),
            *(_interval(found.get(f"against {other}"), "difference") for other in (DEFAULT, JOINT)),
        ]
        seeds = list(found["per_seed"].values())
        faults = {name: sum(of["faults"][name] for of in seeds) for name in FAULTS}
        lines.append(
            f"{TITLES.get(row, row):20}{cells[0]:>19}{cells[1]:>21}{cells[2]:>21}"
            f"{found['calls']:>7.1f}{found['tokens']:>8.0f}{max(of['spent']['calls'] for of in seeds):>7.0f}"
            f"  {' '.join(f'{100 * of[METRIC]:.1f}' for of in seeds)}"
            + "".join(f", {number} {name.replace('_', ' ')}" for name, number in faults.items() if number)
        )
    return "\n".join(lines)


def _interval(found: Mapping[str, Any] | None, value: str) -> str:
    if found is None or found[value] is None:
        return ""
    sign = "+" if value == "difference" else ""
    return f"{100 * found[value]:{sign}.1f} [{100 * found['low']:.1f}, {100 * found['high']:.1f}]"


def draw(programs: Mapping[str, Any], path: Path) -> Path:
    """Plot what each row gains, and beside it its price: paired differences with 95 % intervals, tokens per question.

    Args:
        programs: Program -> its record.
        path: The PNG file, written atomically.
    """

    columns = min(len(programs), _COLUMNS)
    lines = -(-len(programs) // columns)
    figure, canvas = empty_figure(5.6 * columns, 3.4 * lines, dpi=110)
    panels = list(figure.subplots(lines, 2 * columns, squeeze=False, width_ratios=[2.4, 1] * columns).flat)
    most = max(len(record["rows"]) for record in programs.values())
    for program, record, gains, price in zip(programs, programs.values(), panels[::2], panels[1::2], strict=False):
        if gains is not panels[0]:
            gains.sharex(panels[0])  # before it is drawn on, so that its limits count
        draw_rows(gains, price, record["rows"])
        gains.set_title(program, loc="left", fontsize=11)
        for axes in (gains, price):
            axes.set_ylim(most - 0.5, -0.5)  # the first row on top, all of one height
    for axes in panels[2 * len(programs) :]:
        axes.set_axis_off()
    return write_png(canvas, path)


def draw_rows(gains: "Axes", price: "Axes", rows: Mapping[str, Any]) -> None:
    """Draw the rows of a program that can be compared with its default, each on a line of its own, on two axes."""
    compared = {row: _NOTHING if row == DEFAULT else found.get(f"against {DEFAULT}") for row, found in rows.items()}
    shown = {row: gained for row, gained in compared.items() if gained is not None}
    gains.axvline(0, color="0.8", linewidth=1, zorder=0)
    for place, (row, gained) in enumerate(shown.items()):
        color = "C3" if row == JOINT else "C0"
        x, low, high = (100 * gained[name] for name in ("difference", "low", "high"))
        spread = [[max(0.0, x - low)], [max(0.0, high - x)]]
        gains.errorbar([x], [place], xerr=spread, capsize=2, fmt="o", color=color, markersize=4)
        bar = price.barh([place], [rows[row]["tokens"]], color=color, height=0.6)
        price.bar_label(bar, fmt="{:,.0f}", fontsize=7, padding=2)
    for axes in (gains, price):
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=8)
    gains.set_yticks(range(len(shown)), [TITLES.get(row, row) for row in shown])
    gains.set_xlabel("F1 minus that of the default, points", fontsize=8)
    price.set_yticks([])
    price.set_xlabel("tokens per question", fontsize=8)
    price.margins(x=0.35)
    if DEFAULT not in rows:
        gains.text(0.5, 0.5, "default not measured yet", ha="center", transform=gains.transAxes)


MODULE = "experiments.papers.compiling.gains"
RESULTS, FILE, ROWS_FILE = Path("experiments/results"), "compiling.json", "compiling_rows.jsonl"


class Size(NamedTuple):
    """How much a program is given: LM calls of a row, dev questions and test questions."""

    calls: int
    dev: int
    test: int


LM = "embedded"
# A question costs rag one call, the other two about four.
SIZES = {"rag": Size(1000, 120, 250), "cov_rag": Size(1000, 50, 100), "genground": Size(1000, 50, 100)}

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command(help=help_of(__doc__))
def gains(
    data: Annotated[Path, typer.Option(help="Folder with the official files.")] = Path("../shared/data"),
    work: Annotated[Path, typer.Option(help="Folder for converted files, the index, artifacts and runs.")] = Path(
        "runs/compiling"
    ),
    lm: Annotated[str, typer.Option(help="Task LM, which also writes instructions.")] = LM,
    programs: Annotated[str, typer.Option(help="Separated by commas.")] = ",".join(SIZES),
    rows: Annotated[str, typer.Option(help="Separated by commas.")] = ",".join(ROWS),
    seeds: Annotated[str, typer.Option(help="Seeds of the artifacts, separated by commas.")] = "0,1,2",
    results: Annotated[Path, typer.Option(help="Folder for the records, the table and the plot.")] = RESULTS,
    only_table: Annotated[
        bool, typer.Option("--only-table", help="Make table and plot again from the records, without an LM.")
    ] = False,
) -> None:
    """Measure the rows, and write what is there after each."""
    records = Records(results / ROWS_FILE)
    if not only_table:
        named, chosen = names("program", programs, tuple(SIZES)), names("row", rows, tuple(ROWS))
        wanted = _numbers(seeds)
        _measure(records, _comparisons(named, data, work, lm, records), chosen, wanted)
    if not records.groups():
        raise UserError(f"{records.path} has no records of rows: measure some, or name their folder with --results.")
    found = write_table(records, results)
    for name, record in found.items():
        typer.echo(as_text(name, record))
    say(f"Written: {results / FILE}")


def _measure(records: Records, comparisons: "list[ComparedRows]", rows: Sequence[str], seeds: Sequence[int]) -> None:
    for seed in seeds:
        for comparison in comparisons:
            for row in rows:
                say(f"{comparison.program}, {row}, seed {seed}")
                known = len(records)
                comparison.measure(row, seed)
                if len(records) > known:
                    write_table(records, records.path.parent)


def _comparisons(programs: Sequence[str], data: Path, work: Path, lm: str, records: Records) -> "list[ComparedRows]":
    from corpora.retrievers.rerank import OWN, open_reranker
    from experiments.pipeline import setup
    from programs.catalog import build
    from programs.lms.spec import LMSpec

    connection, questions = setup.open_lm(LMSpec(id=lm)), open_questions(data, work)
    return [
        ComparedRows(
            program=name,
            student=build(name, open_reranker(questions.retrieve, OWN), preset=PRESET),
            splits={
                "train": questions.splits["train"],
                "dev": questions.splits["dev"][: SIZES[name].dev],
                "test": questions.splits["test"][: SIZES[name].test],
            },
            connection=connection,
            budget=SIZES[name].calls,
            records=records,
            folder=work / "rows" / re.sub(r"\W+", "-", lm) / name,
        )
        for name in programs
    ]


def _numbers(seeds: str) -> list[int]:
    named = [seed.strip() for seed in seeds.split(",")]
    if not all(seed.isascii() and seed.isdigit() for seed in named):
        raise UserError(f"{seeds!r} are not seeds: name whole numbers from 0, separated by commas, as in 0,1,2.")
    return sorted({int(seed) for seed in named})


def write_table(records: Records, results: Path) -> dict[str, Any]:
    """Write table and plot of all that is recorded, and return the table.

    Args:
        records: Of finished rows.
        results: Folder to write into.

    Returns:
        Program, with the LM unless it is the embedded one -> how it was measured, and its rows.
    """
    from experiments.runs.files import write_json

    found = {
        program if lm == LM else f"{program} with {lm}": _program(lm, rows)
        for (lm, program), rows in sorted(records.groups().items(), key=_place)
    }
    write_json(results / FILE, {"command": f"python -m {MODULE} --only-table", "programs": found})
    draw(found, (results / FILE).with_suffix(".png"))
    return found


def _place(group: tuple[tuple[str, str], Any]) -> tuple[bool, str, int]:
    """Return what a table is sorted by: the embedded LM first, programs in the order of `SIZES`."""
    (lm, program), _ = group
    return lm != LM, lm, list(SIZES).index(program)


def _program(lm: str, rows: Mapping[str, Mapping[int, Record]]) -> dict[str, Any]:
    """Return what all rows of a program were made with, and its table."""
    made_with = next(record.made_with for of_seeds in rows.values() for record in of_seeds.values())
    return {"lm_id": lm, **made_with, "rows": table(rows)}


class SharedEngine(Uncopied):
    """An engine that lets another LM answer, with its cache and without its costs.

    Args:
        lm: Answers; its budget should have no limit.
    """

    def __init__(self, lm: MeteredLM):
        self.lm = lm
        self.supports_response_schema = lm.supports_response_schema
        self.supported_params = tuple(lm.supported_params)
        self.free = getattr(lm.engine, "free", False)

    def complete(self, request: Request) -> Response:
        """Answer a request; the row's own LM counts the call."""
        with metered():
            answered: Response = self.lm(replace(request, model=self.lm.model))
        return replace(answered, model=request.model)


def row_connection(connection: Connection, row: str, budget: Budget) -> Connection:
    """Return the connection of a row: the same LM with a budget and a cache of its own.

    Args:
        connection: The common LM, without limits.
        row: Names the cache; a row that is resumed under its name pays for no call twice.
        budget: Of the row.
    """
    lm = connection.lm
    own = metered_lm(f"{lm.model}#{row}", engine=SharedEngine(lm), budget=budget, cache=True, **lm.kwargs)
    return replace(connection, lm=own)


_MADE, _TEST = "row.json", "test"


@dataclass(frozen=True)
class ComparedRows:
    """What all rows of a program share.

    Args:
        program: Name in the catalog.
        student: The uncompiled program.
        splits: Train, dev and test questions.
        connection: The common LM, without limits.
        budget: LM calls of a row.
        records: Of finished rows.
        folder: For artifacts and answers.
    """

    program: str
    student: "dspy.Module"
    splits: "Mapping[str, Sequence[Question]]"
    connection: "Connection"
    budget: int
    records: Records
    folder: Path

    def measure(self, row: str, seed: int) -> Record:
        """Return the record of a row; where there is none, make the row, ask it the test questions and record both.

        Raises:
            UserError: Rows to compare with were made with other settings, another process makes this row, or not all
                test questions were asked.
        """
        from signatures.common.files import exclusive_lock

        key, made_with = Key(as_stored(self.connection.id), self.program, row, seed), self.made_with()
        self.records.check(key[:2], made_with)
        if (known := self.records.find(key)) is not None:
            return known
        folder = self.folder / row / str(seed)
        busy = f"Another process is making {key} in {folder}: wait for it, or choose another folder for work."
        with exclusive_lock(folder.with_name(f".{seed}.lock"), busy):
            made = self._made(row, seed, folder, made_with)
            require_same(made["made_with"], made_with, str(folder))
            record = Record(**key._asdict(), **made, **_measured(self._ask(made, folder)))
        self.records.add(record)
        return record

    def made_with(self) -> dict[str, Any]:
        """Return what decides all rows of this program and their answers, beside row and seed, as it is recorded."""
        from experiments.runs.config import describe_lm, describe_questions
        from programs.parts.knobs import knob_values

        described = {split: describe_questions(found) for split, found in self.splits.items()}
        found: dict[str, Any] = {
            "lm": {name: value for name, value in describe_lm(self.connection).items() if name != "id"},
            "retriever": getattr(getattr(self.student, "retrieve", None), "fingerprint", None),
            "calls": self.budget,
            "metric": METRIC,
            "knobs": knob_values(self.student),
            "questions": {split: {name: of[name] for name in ("n", "sha256")} for split, of in described.items()},
            **limits_of(self.program),
        }
        return as_stored(found)

    def _made(self, row: str, seed: int, folder: Path, made_with: Mapping[str, Any]) -> dict[str, Any]:
        """Return what is known of a row's artifact, made unless that is finished.

        A row that was stopped is made anew, so that it keeps to its budget; replies are shared, so that what it had
        asked is not computed again.
        """
        from experiments.runs.config import describe_session, machine
        from experiments.runs.files import read_json, write_json

        if (folder / _MADE).is_file():
            return read_json(folder / _MADE)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        budgets: list[Any] = []
        session, started = {**describe_session(), "machine": machine()}, time.monotonic()
        artifact = make(row, self._work(seed, folder, budgets))
        made = {
            "made_with": made_with,
            "session": session,
            "spent": {name: sum(budget.spent[name] for budget in budgets) for name in COSTS},
            "seconds": round(time.monotonic() - started, 1),
            "artifact": _described(artifact, folder) if artifact else None,
        }
        write_json(folder / _MADE, made)
        return made

    def _ask(self, made: Mapping[str, Any], folder: Path) -> "list[Row]":
        """Return the answers of a row to the test questions, in their order."""
        from experiments.pipeline.evaluate import evaluate
        from experiments.runs.config import RunConfig
        from experiments.runs.files import read_rows
        from programs.artifact import load

        program, run, test = self.student, folder / _TEST, self.splits["test"]
        if made["artifact"]:
            program = load(folder / made["artifact"]["folder"], getattr(self.student, "retrieve", None))
        config = RunConfig(metrics=METRICS, threads=8)
        summary = evaluate(program, test, config, connection=self.connection, folder=run, resume=run.exists())
        if not summary.complete:
            raise UserError(f"{run} lacks answers ({summary.stopped}): start the command again.")
        order = {question.id: place for place, question in enumerate(test)}
        return sorted(read_rows(run), key=lambda answered: order[answered["id"]])

    def _work(self, seed: int, folder: Path, budgets: list[Any]) -> Work:
        from optimizers.metrics.catalog import get_metric

        name = secrets.token_hex(6)  # an attempt pays for all of its calls

        def connect(calls: int) -> "Connection":
            budgets.append(Budget(calls=calls))
            return row_connection(self.connection, name, budgets[-1])

        learned = {split: list(self.splits[split]) for split in ("train", "dev")}
        return Work(self.program, self.student, learned, get_metric(METRIC), connect, self.budget, seed, folder)


def _measured(rows: "Sequence[Row]") -> dict[str, Any]:
    """Return scores and costs of every answer, in the order of the questions, and how many have which fault."""
    scores = {name: [rounded(answered["scores"][name]) for answered in rows] for name in METRICS}
    costs = {"calls": [float(answered["calls"]) for answered in rows], "tokens": [tokens_of(row) for row in rows]}
    fields = {name: "error" if name == "errors" else name for name in FAULTS}
    faults = {name: sum(bool(row[field]) for row in rows) for name, field in fields.items()}
    return {"answers": {**scores, **costs}, "faults": faults}


def _described(artifact: Path, folder: Path) -> dict[str, Any]:
    """Return what an artifact says of itself that a reader of the table wants to know."""
    from experiments.runs.files import read_json
    from programs.artifact import read_artifact

    found = read_artifact(artifact)
    optimizer = found.optimizer
    state, study = artifact / "program.json", artifact.parent / "study.json"
    demos = {name: len(of["demos"]) for name, of in read_json(state).items()} if state.is_file() else None
    of_study = read_json(study) if study.is_file() else {}
    return {
        "folder": str(artifact.relative_to(folder)),
        "kind": found.kind,
        "knobs": dict(found.knobs),
        "optimizer": optimizer.get("name"),
        "stopped": of_study.get("stopped", optimizer.get("stopped")),
        "trials": of_study.get("counts"),
        "demonstrations": demos,
        "dev": found.metric.get("mean"),
        "race": optimizer.get("race"),
    }


SPLITS = ("train", "dev", "test")
# Development set -> its questions in each split. Those of the dev files of the last two are for scoring alone.
SHARES: dict[str, dict[str, int]] = {
    "hotpotqa": {"train": 30, "dev": 110, "test": 130},
    "2wikimultihopqa": {"train": 14, "dev": 26, "test": 60},
    "musique": {"train": 6, "dev": 9, "test": 60},
}


@dataclass(frozen=True)
class Questions:
    """The splits and the corpus they share.

    Args:
        splits: Split -> its questions, the sets mixed; where fewer are wanted, the first are taken.
        retrieve: Multi-hop retrieval over the pooled passages, without a reranker.
        index: Its folder.
    """

    splits: "dict[str, list[Question]]"
    retrieve: "Retriever"
    index: Path


def open_questions(data: Path, work: Path) -> Questions:
    """Convert, pool and index the sets under `work`, unless they are there, and return the splits.

    Args:
        data: Folder with the official files.
        work: Folder for converted files and the index.

    Raises:
        UserError: A file is missing, or a set has too few questions.
    """
    from corpora.datasets.convert import pool
    from corpora.index.build import build_index
    from corpora.index.open import open_index
    from corpora.retrievers.multihop import MultihopEngine

    by_set, passages = _sets(data, work)
    pooled = work / "development" / "pool"
    corpus, index = pooled / "passages.jsonl", pooled / "index"
    if not corpus.is_file():
        corpus.parent.mkdir(parents=True, exist_ok=True)
        pool(passages, corpus)
    if not (index / "index.json").is_file():
        build_index(corpus, index, resume=index.exists(), progress=True)
    return Questions(divide(by_set), open_index(index, corpus, retriever=MultihopEngine.name), index)


def divide(by_set: "Mapping[str, Sequence[Question]]") -> "dict[str, list[Question]]":
    """Return the splits: in each set the questions are ordered by a hash of their ids, and so is every split.

    Where a set has questions of a train file, held back from training, those of a dev file are tested on alone.

    Raises:
        UserError: A set has fewer questions than `SHARES` takes.
    """
    from signatures.common.files import sha256_text

    def order(question: "Question") -> str:
        return sha256_text(f"compiling {question.id}")

    splits: dict[str, list[Question]] = {split: [] for split in SPLITS}
    for name, questions in by_set.items():
        left, scored_alone = _apart(sorted(questions, key=order))
        if len(questions) < (needed := sum(SHARES[name].values())):
            raise UserError(f"{name} has {len(questions)} questions here; the comparison takes {needed}.")
        for split in SPLITS:
            left = sorted([*left, *scored_alone], key=order) if split == "test" else left
            taken, left = left[: SHARES[name][split]], left[SHARES[name][split] :]
            splits[split] += [question.model_copy(update={"split": split}) for question in taken]
    return {split: sorted(questions, key=order) for split, questions in splits.items()}


def _apart(questions: "Sequence[Question]") -> "tuple[list[Question], list[Question]]":
    """Return the questions that may be compiled with, and those that are for scoring alone, each in their order."""
    mixed = len({question.split for question in questions}) > 1
    alone = {question.id for question in questions if mixed and question.split == "dev"}
    return [each for each in questions if each.id not in alone], [each for each in questions if each.id in alone]


def _sets(data: Path, work: Path) -> "tuple[dict[str, list[Question]], list[Path]]":
    """Return the questions of each set, converted under `work`, and the files of their passages."""
    from corpora.datasets.development import convert_development
    from corpora.questions import read_questions

    found, passages = {}, []
    for name in SHARES:
        folder = work / "development" / name
        if not (folder / "questions.jsonl").is_file():
            convert_development(f"{name}-dev", data, folder, overwrite=True)
        found[name] = read_questions(folder / "questions.jsonl")
        passages.append(folder / "passages.jsonl")
    return found, passages


if __name__ == "__main__":
    run_command(app, "gains")
