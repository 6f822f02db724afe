"""Asks a program the questions of a board, and records what its answers are worth and what they cost."""

from pathlib import Path
from typing import Annotated, Any, NamedTuple, Self

from pydantic import Field, model_validator

from experiments.papers.leaderboard.boards import SIZES, Board
from experiments.papers.record_file import Recorded, RecordFile, require_same, rounded
from signatures.common.errors import UserError

F1 = "f1[hotpot]"
PAIRED = ("em", F1)  # recorded for each question
SCORES = ("em", F1, "acc[substring]", "passage_recall[all]")
COSTS = ("lm_calls", "tokens", "rounds", "seconds")
_MEAN = {"mean", "low", "high", "n"}
FAULTS = ("errors", "abstentions", "parse_failures", "truncated")


class Key(NamedTuple):
    """Names a row: the board and the program."""

    board: str
    program: str

    def __str__(self) -> str:
        return f"{self.board}, {self.program}"


class Record(Recorded):
    """One program on one board.

    Args:
        board: See `Key`, and so the next.
        program: Name in the catalog.
        preset: Its preset.
        knobs: Its knobs.
        max_calls: The most LM calls it may make for a question.
        session: Revision, library versions, start (UTC) and machine.
        means: Score or cost -> its mean with the 95 % interval over questions.
        answers: Name of `PAIRED` -> a score per question, in the order of the board.
        given, golds: The answer to each question, and the accepted ones, in the order of the board, for those who score
            otherwise; None in rows of earlier versions.
        kinds: The kind of each question, None where it is not known; None in rows of earlier versions.
        closed_book: What the majority answer and a guess among two choices score, of all questions and of each kind.
        faults: Name of `FAULTS` -> number of questions, or of replies and prompts.
        stop_reasons: Why it stopped -> number of questions.
    """

    board: str
    program: str
    preset: str
    knobs: dict[str, Any]
    max_calls: Annotated[int, Field(ge=0)]
    session: dict[str, Any]
    means: dict[str, dict[str, Any]]
    answers: dict[str, list[float | None]]
    faults: dict[str, int]
    stop_reasons: dict[str, int]
    given: list[str] | None = None
    golds: list[list[str]] | None = None
    kinds: list[str | None] | None = None
    closed_book: dict[str, dict[str, Any]] | None = None

    @property
    def key(self) -> Key:
        """Its name."""
        return Key(self.board, self.program)

    @property
    def group(self) -> str:
        """The board."""
        return self.board

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.board not in SIZES:
            raise ValueError(f"'board' is {self.board!r:.60}, not one of {', '.join(SIZES)}")
        if set(self.means) != {*SCORES, *COSTS} or any(set(mean) != _MEAN for mean in self.means.values()):
            raise ValueError(f"'means' needs {', '.join((*SCORES, *COSTS))}, each with {', '.join(sorted(_MEAN))}")
        asked = self.made_with.get("questions")
        n = asked.get("n") if isinstance(asked, dict) else None
        if set(self.answers) != set(PAIRED) or any(len(values) != n for values in self.answers.values()):
            raise ValueError(f"'answers' needs {', '.join(PAIRED)}, with one number for each of the {n} questions")
        if any(texts is not None and len(texts) != n for texts in (self.given, self.golds, self.kinds)):
            raise ValueError(f"'given', 'golds' and 'kinds' need one entry for each of the {n} questions")
        if set(self.faults) != set(FAULTS):
            raise ValueError(f"'faults' needs {', '.join(FAULTS)}")
        return self


class Records(RecordFile[Record]):
    """The records in a file; see `RecordFile`."""

    def __init__(self, path: Path):
        super().__init__(path, Record)

    def boards(self) -> dict[str, dict[str, Record]]:
        """Return the records that can be compared: board -> program -> record."""
        found: dict[str, dict[str, Record]] = {}
        for key, record in sorted(self.found.items()):
            found.setdefault(key.board, {})[key.program] = record
        return found


def measure(name: str, board: Board, records: Records, folder: Path, *, threads: int, decoder: str = "") -> Record:
    """Return the record of a program on a board; where there is none, ask what is not answered yet, and add it.

    Args:
        name: Of the program.
        board: The questions.
        records: Of finished rows.
        folder: Of the run; one that was stopped goes on.
        threads: Questions asked in parallel.
        decoder: What has decoded in place of the embedded LM's runtime, for the record.

    Raises:
        UserError: Rows of the board were made with other settings, or that of the program with other knobs; or not all
            questions were answered.
    """
    from experiments.analysis.closed_book import closed_books, row_kind
    from experiments.pipeline.evaluate import evaluate
    from experiments.pipeline.setup import open_similarity
    from experiments.runs.config import RunConfig, describe_session, machine
    from experiments.runs.files import read_rows
    from programs.catalog import build, presets_of, typed_program
    from programs.parts.knobs import knob_values, takes_similarity

    made_with = board.made_with()
    records.check(board.name, made_with)
    cls = typed_program(name)
    preset = board.preset if board.preset in presets_of(cls) else "paper"
    if (known := records.find(Key(board.name, name))) is not None:
        knobs = knob_values(build(name, preset=preset))
        # A knob that is newer than the row has the value that the program had without it.
        require_same(known.knobs, {each: knobs.get(each) for each in known.knobs}, f"{records.path}: {known.key}")
        return known
    similarity = open_similarity() if takes_similarity(cls) else None
    if similarity is not None:
        similarity(["its model"], ["is loaded before the first question"])
    program: Any = build(name, board.retrieve, preset=preset, similarity=similarity)
    session = {**describe_session(), "machine": machine(), **({"decoder": decoder} if decoder else {})}
    config = RunConfig(metrics=SCORES, threads=threads)
    summary = evaluate(
        program, board.questions, config, connection=board.connection, folder=folder, resume=folder.exists()
    )
    if not summary.complete:
        raise UserError(f"{folder} lacks answers ({summary.stopped}): start the command again.")
    order = {question.id: place for place, question in enumerate(board.questions)}
    rows = sorted(read_rows(folder), key=lambda row: order[row["id"]])
    found = {**summary.metrics, **summary.costs}
    record = Record(
        board=board.name,
        program=name,
        preset=preset,
        knobs=knob_values(program),
        max_calls=program.max_calls(),
        made_with=made_with,
        session=session,
        means={each: _short(found[each].as_dict()) for each in (*SCORES, *COSTS)},
        answers={each: [rounded(row["scores"][each]) for row in rows] for each in PAIRED},
        faults={each: getattr(summary, each) for each in FAULTS},
        stop_reasons=summary.stop_reasons,
        given=[row["answer"] for row in rows],
        golds=[list(row["answers"]) for row in rows],
        kinds=[row_kind(row) for row in rows],
        closed_book={group: book.as_dict() for group, book in closed_books(rows, PAIRED).items()},
    )
    records.add(record)
    return record


def _short(mean: dict[str, Any]) -> dict[str, Any]:
    """Return a mean as it is recorded: without what `faults` has, and rounded."""
    return {**{name: rounded(mean[name]) for name in ("mean", "low", "high")}, "n": mean["n"]}
