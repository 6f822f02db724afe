"""Write boards as a folder of pages that work from files: a table, answers and traces, and hashes of what was asked.

`index.html` is a table and a plot for each board, and works without its script, too, which sorts, filters and opens
rows. `BOARD.html` has the answers of all runs side by side, `BOARD.ROW.html` those of one: they are reports
(`experiments.analysis.report.html`). `hashes.json` has hashes of questions and passages in place of their texts, by
which others check whether they have the same (`corpora.index.hashes`).
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from corpora.index.hashes import ABOUT, SCHEMA, pool_of, question_hash
from corpora.index.manifest import which_corpora
from experiments.analysis.boards import COST, REFERENCE, Board
from experiments.analysis.closed_book import ALL, answer_line, reads_nothing
from experiments.analysis.compare import Line, Run, fewer_notices, metric_notices
from experiments.analysis.report.html import commands_of, outcome_bars, score_line, write_page, write_report
from experiments.analysis.report.scatter import scatter
from experiments.analysis.statistics import too_small
from experiments.analysis.summary import interval, number, of_kinds, percent
from experiments.runs.files import Json, read_json, write_json
from signatures.common.errors import UserError
from signatures.common.files import utf8, writing

PAGE, HASHES = "index.html", "hashes.json"
_SHOWN_COSTS = ("lm_calls", COST, "seconds")
_SHOWN_FAULTS = ("errors", "abstentions", "parse_failures")
_MOST_METRICS = 3  # beside the one that ranks; all metrics, costs and faults are in the opened row
_LONGEST_NAME = 60  # characters of the name of a file
_PAGE_NAME = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)?\.html")  # of a board or a run: no path


def write_leaderboard(
    boards: Sequence[Board],
    out: Path | str,
    *,
    corpora: Sequence[Path] = (),
    on_page: Callable[[], None] = lambda: None,
) -> Path:
    """Write the pages of boards into a folder and return the path of `index.html`, which is written last.

    Args:
        boards: As `read_boards` returns them.
        out: New, empty, or of an earlier leaderboard, whose pages are replaced or, if they would be left over, deleted.
        corpora: Files of passages, to hash those of runs whose index is elsewhere.
        on_page: Called after the page of each run.

    Raises:
        UserError: The folder has other files, or cannot be written, or a file is no run's corpus.
    """
    out = Path(out)
    taken = {"index"}
    named = [(board, _new_name(board.title, taken)) for board in boards]
    hashes = {name: _hashes(board, name) for board, name in named}
    pools = _pools([run for board in boards for run in board.runs], corpora)
    with writing(out):
        for left in _pages_in(out).difference(*(own["pages"] for own in hashes.values())):
            (out / left).unlink(missing_ok=True)
        out.mkdir(parents=True, exist_ok=True)
    write_json(out / HASHES, {"schema": SCHEMA, "about": ABOUT, "boards": hashes, "corpora": pools})
    views = [_board(board, name, out, on_page) for board, name in named]
    page = {
        "title": "Leaderboard",
        "made": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "boards": views,
        "overview": _overview(views) if len(views) > 1 else [],
        "hashes": HASHES,
    }
    return write_page(out / PAGE, "leaderboard.html.j2", page)


def _pages_in(out: Path) -> set[str]:
    """Return the names of the pages of a leaderboard in a folder; what it says of other files is not believed.

    Raises:
        UserError: The folder has files, but is not that of a leaderboard.
    """
    if not out.is_dir() or all(each.name.startswith(".") for each in out.iterdir()):
        return set()
    try:
        found = read_json(out / HASHES)
    except UserError:
        found = {}
    boards = found.get("boards")
    if "schema" not in found or not isinstance(boards, dict):
        raise UserError(f"{out} contains other files. Choose a new or empty folder, or that of a leaderboard.")
    pages = [board.get("pages") for board in boards.values() if isinstance(board, dict)]
    names = [str(name) for own in pages if isinstance(own, list) for name in own]
    return {name for name in names if _PAGE_NAME.fullmatch(name) and name != PAGE}


def _pages(board: Board, name: str) -> list[str]:
    """Return the names of the pages of a board's runs, in the order of their ranks."""
    taken: set[str] = set()
    return [f"{name}.{_new_name(board.runs[place].label, taken)}.html" for place in board.ranked]


def _page_of_all(board: Board, name: str) -> str | None:
    return f"{name}.html" if len(board.runs) > 1 else None


def _new_name(text: str, taken: set[str]) -> str:
    """Return a name for a file or an anchor, in letters that every system and address takes."""
    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", text)[:_LONGEST_NAME].strip("-") or "unnamed"
    name, number = plain, 2
    while name.lower() in taken:
        name, number = f"{plain}-{number}", number + 1
    taken.add(name.lower())
    return name


def _hashes(board: Board, name: str) -> Json:
    """Return the hashes of a board's questions, one by one, and of what each run was made with, and its pages."""
    page = _page_of_all(board, name)
    asked = [rows[0] for rows in board.runs[0].questions]
    return {
        "title": utf8(board.title),
        "questions": board.questions,
        "each": {
            utf8(str(row["id"])): question_hash(row["question"], row["answers"], row.get("gold_ids") or [])
            for row in asked
        },
        "runs": {utf8(run.label): _made_with(run.description) for run in board.runs},
        "pages": [*([page] if page else []), *_pages(board, name)],
    }


def _pools(runs: Sequence[Run], files: Sequence[Path]) -> Json:
    """Return what is published of each corpus of runs, by its hash."""
    found: dict[str, tuple[int | None, set[Path]]] = {}
    for run in runs:
        index, folder = run.description.get("index") or {}, (run.description.get("paths") or {}).get("index")
        if digest := index.get("corpus_hash"):
            folders = found.setdefault(digest, (index.get("passages"), set()))[1]
            folders |= {Path(folder)} if folder else set()
    of_file: dict[str, Path] = {}
    for path in files:
        if not (digests := which_corpora(path, found)):
            raise UserError(f"{path} is not the corpus of any run here: its hash is another. Leave it out.")
        of_file |= dict.fromkeys(digests, path)
    return {
        digest: pool_of(digest, passages, sorted(folders), of_file.get(digest)).model_dump(exclude_defaults=True)
        for digest, (passages, folders) in found.items()
    }


def _made_with(description: Json) -> Json:
    lm = description["lm"]
    return {
        "program": {name: description["program"].get(name) for name in ("name", "knobs", "state_sha256")},
        "lm": {name: lm.get(name) for name in ("id", "model", "weights_hash", "adapter", "settings")},
        "retriever": description["corpus"]["fingerprint"],
        "corpus": (description.get("index") or {}).get("corpus_hash"),
        "commands": commands_of(description),
    }


def _board(board: Board, name: str, out: Path, on_page: Callable[[], None]) -> Json:
    """Write the answers of a board and return what `index.html` shows of it."""
    comparison, folders = board.comparison, [run.folder for run in board.runs]
    others = [each for each in comparison.metrics if each != board.metric][:_MOST_METRICS]
    page_of_all, front = _page_of_all(board, name), board.front
    if page_of_all:
        write_report(folders, out / page_of_all, title=board.title, comparison=comparison)
    rows = []
    for place, page in zip(board.ranked, _pages(board, name), strict=True):
        row = _row(board, place, others, front=place in front)
        heading = f"{board.title}: {row['label']}"
        write_report([folders[place]], out / page, title=heading, right_by=comparison.right_by)
        on_page()
        rows.append({**row, "id": page.removesuffix(".html"), "page": page})
    return {
        "title": board.title,
        "id": name,
        "page": page_of_all,
        "questions": board.questions,
        "answers": answer_line(comparison.closed_book),
        "metric": board.metric,
        "others": others,
        "costs": [each.replace("_", " ") for each in _SHOWN_COSTS],
        "faults": [each.replace("_", " ") for each in _SHOWN_FAULTS],
        "reference": board.runs[0].label if page_of_all else None,
        "notices": _notices(board),
        "rows": rows,
        "outcomes": outcome_bars({row["label"]: comparison.outcomes[row["label"]] for row in rows}, comparison.right_by)
        if comparison.right_by
        else None,
        "unread": _unread(board),
        "plot": scatter(rows, _unread(board), board.runs[0].label if page_of_all else None),
    }


def _notices(board: Board) -> list[str]:
    runs = board.runs
    found = [
        *(f"{each} These rows are not comparable." for each in board.differences),
        *metric_notices([run.description["metrics"] for run in runs], list(board.comparison.metrics)),
        *fewer_notices(board.comparison.metrics),
        too_small(board.comparison.questions),
    ]
    if len(runs) > 1 and runs[0].description["program"]["name"] != REFERENCE:
        found.append(f"No run is of {REFERENCE}: differences are to {runs[0].label}.")
    return [text for text in found if text]


def _row(board: Board, place: int, others: Sequence[str], *, front: bool) -> Json:
    run, comparison = board.runs[place], board.comparison
    line = comparison.metrics[board.metric][place]
    costs = {name: lines[place].mean for name, lines in comparison.costs.items()}
    scores = {name: lines[place].mean for name, lines in comparison.metrics.items()}
    faults = comparison.faults[run.label]
    return {
        "label": run.label,
        "run": run.description,
        "front": front,
        "unread": reads_nothing(run.rows),
        "value": line.mean.mean,
        "tokens": costs[COST].mean,
        "score": score_line(line),
        "gain": None if line.against_first is None else line.against_first.difference,
        "p": line.p_holm,
        "others": [(percent(scores[name].mean), scores[name].mean) for name in others],
        "costs": [(number(costs[name].mean), costs[name].mean) for name in _SHOWN_COSTS],
        "faults": [faults[name] for name in _SHOWN_FAULTS],
        "all": [
            *((name, percent(mean.mean), interval(mean)) for name, mean in scores.items()),
            *_by_kind(board, place),
            *((name.replace("_", " "), number(mean.mean), interval(mean, number)) for name, mean in costs.items()),
            *((name.replace("_", " "), str(count), "") for name, count in faults.items()),
        ],
        "stopped": ", ".join(f"{reason} {count}" for reason, count in comparison.stop_reasons[run.label].items()),
        "notes": _notes(run, line),
    }


def _by_kind(board: Board, place: int) -> Iterator[tuple[str, str, str]]:
    """Yield name, value and interval of a run's scores on each kind of questions, and of what it is ahead there."""
    for name, lines in of_kinds(board.comparison.kinds).items():
        shown = score_line(lines[place])
        yield name, shown["mean"], shown["interval"]
        if shown["difference"]:
            yield f"{name}, minus {board.runs[0].label}", shown["difference"], shown["spread"]


def _notes(run: Run, line: Line) -> list[str]:
    notice = line.against_first.notice if line.against_first else None
    return [*run.description.get("notes", []), *([notice] if notice else [])]


def _unread(board: Board) -> list[tuple[str, float]]:
    """Return what answers score by the board's metric that nobody had to read anything for."""
    book = board.comparison.closed_book.get(ALL)
    if book is None or board.metric not in book.majority:
        return []
    majority = [(f"majority answer {book.answer[:40]!r}", book.majority[board.metric])] if book.times > 1 else []
    chance = f"chance, where two choices are offered ({book.two_choices} questions)"
    return [*majority, *([(chance, book.chance[board.metric])] if book.two_choices else [])]


def _overview(views: Sequence[Json]) -> list[Json]:
    """Return score and tokens of each label, program and LM on each board, the highest sum of scores first."""
    found: dict[_Key, list[Json | None]] = {}
    for place, view in enumerate(views):
        for row in view["rows"]:
            found.setdefault(_key(row), [None] * len(views))[place] = row
    labels = _told_apart(found)
    sums = {key: sum(row["value"] or 0.0 for row in rows if row is not None) for key, rows in found.items()}
    return [{"label": labels[key], "rows": found[key]} for key in sorted(found, key=lambda key: (-sums[key], *key))]


_Key = tuple[str, str, str, str]


def _key(row: Json) -> _Key:
    """Return label, program, LM and the hash of its weights: folders of one name may be of different runs."""
    program, lm = row["run"]["program"], row["run"]["lm"]
    return (row["label"], program["name"], lm["id"], lm.get("weights_hash") or "")


def _told_apart(keys: Iterable[_Key]) -> dict[_Key, str]:
    """Return what the overview calls each: its label, followed where labels clash by all in which those differ."""
    alike: dict[str, list[_Key]] = defaultdict(list)
    for key in keys:
        alike[key[0]].append(key)
    names = {}
    for several in alike.values():
        clash = [place for place in (1, 2, 3) if len({key[place] for key in several}) > 1]
        for key in several:
            names[key] = ", ".join([key[0], *(_short(key, place) for place in clash)])
    return names


def _short(key: _Key, place: int) -> str:
    return key[place] if place < 3 else f"weights {key[place][:8] or 'unknown'}"
