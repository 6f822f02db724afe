"""Boards: finished runs of several programs on the same questions, and in what they differ although they must not."""

import json
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from experiments.analysis.closed_book import main_score, reads_nothing
from experiments.analysis.compare import (
    JUDGE,
    Difference,
    Read,
    Run,
    RunComparison,
    compared,
    differences,
    differing,
    is_foreign,
    judge_of,
    merge_notes,
    runs_of,
    some,
)
from experiments.analysis.sound_runs import checked, impossible_score
from experiments.runs.files import COSTS, ROWS, RUN, Json, OtherKind, read_rows, read_run
from optimizers.metrics.catalog import JUDGED
from signatures.common.errors import UserError, UserNotice, one_line
from signatures.common.files import sha256_text
from signatures.common.secrets import in_texts, redacted, without_keys

REFERENCE = "rag"  # the program that others are compared with
COST = "tokens"
_LONGEST_TITLE = 60
_NOT_TITLES = {"questions", "dev", "train", "test", "validation"}  # names of files: the folder says of which set
_GOLD = {"answers": "gold answers", "gold_ids": "gold passages", "sub_answers": "gold answers of sub-questions"}


@dataclass(frozen=True)
class Board:
    """The runs on one set of questions.

    Args:
        title: Of the questions.
        comparison: Of the runs; differences are to the first, which is one of `REFERENCE` if there is one.
        metric: By which they are ranked.
        differences: In what the runs differ beside their programs, so that they cannot be compared.
    """

    title: str
    comparison: RunComparison
    metric: str
    differences: list[Difference]

    @property
    def runs(self) -> list[Run]:
        """The runs, in the order of the comparison's lines."""
        return self.comparison.runs

    @property
    def questions(self) -> Json:
        """Number and hashes of the questions."""
        return dict(self.runs[0].description["questions"])

    @property
    def ranked(self) -> list[int]:
        """Places of the runs, the best first; those without a score come last."""
        lines = self.comparison.metrics[self.metric]
        means = [-1.0 if line.mean.mean is None else line.mean.mean for line in lines]
        return sorted(range(len(lines)), key=lambda place: (-means[place], lines[place].run))

    @property
    def front(self) -> list[int]:
        """Places of the runs that no other one surpasses in score and tokens, cheapest first; their cost is known."""
        return self.comparison.front(self.metric, COST)

    def as_dict(self) -> Json:
        """Return everything as JSON values; runs by their labels."""
        label = [run.label for run in self.runs]
        return {
            "title": self.title,
            "metric": self.metric,
            "ranked": [label[place] for place in self.ranked],
            "front": [label[place] for place in self.front],
            "not_comparable": {each.setting: each.values for each in self.differences},
            **self.comparison.as_dict(),
        }


def _notice(reason: str) -> None:
    warnings.warn(UserNotice(f"Left out: {reason}"), stacklevel=3)


def refuse_left_out(reason: str) -> None:
    """Raise UserError where a page would leave a run out, so that no check passes without it."""
    raise UserError(f"Not all runs can be checked: {reason}")


def read_boards(folders: Sequence[Path], *, on_left_out: Callable[[str], None] = _notice) -> list[Board]:
    """Return the runs in these folders, those on the same questions together; boards by their titles.

    Args:
        folders: Of runs, or with folders of runs at any depth below them, where shards of a run, and runs that are
            damaged or not finished, are left out; so is what is no run (judgements, key facts), with a notice.
        on_left_out: Called for each run that is left out because it is damaged or not finished, with reason and cure;
            by default a notice says so. `refuse_left_out` raises UserError.

    Raises:
        UserError: A folder has no finished run with answers, is that of a damaged run, is named twice or has a link to
            runs elsewhere that are not named; or the runs on the same questions share no metric.
    """
    if not folders:
        raise UserError("A leaderboard needs at least one run. Name the folders of runs (`verihop eval --out`).")
    found = [(named, folder) for named in folders for folder in _runs_in(named)]
    known = {folder.resolve() for _, folder in found}
    for named in folders:
        _refuse_linked_runs(named, known)
        for path in sorted(named.rglob(ROWS)) if not (named / RUN).exists() else ():
            if not (path.parent / RUN).exists() and path.parent.resolve() not in known:
                on_left_out(f"{path.parent} is not the folder of a run: it has no {RUN}.")
    groups: dict[str, list[Read]] = {}
    for named, folder in found:
        _refuse_links(folder)
        try:
            description = read_run(folder)
            if folder != named and description.get("shard") is not None:
                continue
            rows = read_rows(folder, complete=True)
            if reason := impossible_score(folder, rows):
                raise UserError(reason)
        except UserError as error:
            if folder == named:
                raise
            (_notice if isinstance(error, OtherKind) else on_left_out)(str(error))
            continue
        if folder != named and (reason := _missing(folder, description, len(rows))):
            on_left_out(reason)
            continue
        groups.setdefault(description["questions"]["sha256"], []).append((folder, description, rows))
    if not groups:
        raise UserError("No finished run: merge shards (`verihop merge`), or continue (`verihop eval --resume`).")
    titles = {digest: _title(*runs[0][:2]) for digest, runs in groups.items()}
    boards = [_board(titles[digest], runs) for digest, runs in groups.items()]
    return sorted(boards, key=lambda board: (board.title, board.questions["sha256"]))


def _runs_in(folder: Path) -> list[Path]:
    """Return the folders of runs below a folder, in order; itself if it is one, or if there are none."""
    if (folder / RUN).exists():
        return [folder]
    return sorted(path.parent for path in folder.rglob(RUN) if path.exists()) or [folder]


def _refuse_linked_runs(folder: Path, known: Set[Path]) -> None:
    """Raise UserError if a link below a folder of runs leads to a run that is not among those known, resolved."""
    root = folder.resolve()
    for path in folder.rglob("*") if not (folder / RUN).exists() else ():
        if not (path.is_symlink() and path.is_dir()):
            continue
        if any((below / RUN).is_file() and below not in known for below in _through_links(path, root)):
            what = "a run" if (path / RUN).is_file() else "a folder of runs"
            raise UserError(f"{path} is a link to {what} elsewhere: remove the link, or name that folder, too.")


def _through_links(link: Path, root: Path) -> Iterator[Path]:
    """Yield what a link leads to outside a resolved folder, and all below it, each once and resolved."""
    seen: set[Path] = set()
    for path, folders, _ in os.walk(link, followlinks=True):
        here = Path(path).resolve()
        if here in seen or here.is_relative_to(root):
            folders.clear()
        else:
            seen.add(here)
            yield here


def _missing(folder: Path, description: Json, answers: int) -> str | None:
    """Return in words that a run has fewer answers than were asked, with the cure; None if it has not."""
    asked = description["questions"]["n"] * description.get("repeats", 1)
    if answers == asked:
        return None
    return f"{folder} has {answers} of {asked} answers: finish it (`verihop eval --resume`), or leave it out."


def _refuse_links(folder: Path) -> None:
    for path in (folder / RUN, folder / ROWS, folder / COSTS):
        if path.is_symlink():
            raise UserError(f"{path} is a link, and link targets are not published: replace it by the file.")


def _title(folder: Path, description: Json) -> str:
    """Return the name of the questions' file, or of its folder; of the folder above the run if no file is known."""
    path = (description.get("paths") or {}).get("questions")
    if path is None:
        name = folder.resolve().parent.name
    else:
        stem, above = Path(path).name.partition(".")[0], Path(path).parent.name
        name = above if stem.lower() in _NOT_TITLES and above not in ("", "..") else stem
    return one_line(name, _LONGEST_TITLE) or "questions"


def _board(title: str, found: Sequence[Read]) -> Board:
    ordered = sorted(found, key=lambda each: each[1]["program"]["name"] != REFERENCE)  # stable: the first rag
    runs = [_without_keys(run) for run in runs_of(ordered)]
    _check_finished(runs)
    comparison = compared(runs)
    metric = main_score(comparison.metrics) or next(iter(comparison.metrics))
    return Board(title, comparison, metric, _differences(runs))


def _without_keys(run: Run) -> Run:
    """Return a run whose LM can be published: a stranger's settings may hold a key that no run writes."""
    return replace(run, description={**run.description, "lm": in_texts(redacted(run.description["lm"]), without_keys)})


def _check_finished(runs: Sequence[Run]) -> None:
    for run in runs:
        if reason := _missing(run.folder, run.description, len(run.rows) + sum(map(len, run.others))):
            raise UserError(reason)
    for run in runs:
        if run.others:
            raise UserError(
                f"rows.jsonl of {run.folder} answers questions that other runs do not have, although run.json names "
                "the same questions (questions.sha256): restore the file, or leave the run out."
            )


def _differences(runs: Sequence[Run]) -> list[Difference]:
    """Return in what runs differ beside their programs; what a run could search that reads nothing does not matter."""
    described = {run.label: run.description for run in runs}
    reading = {run.label: run.description for run in runs if not reads_nothing(run.rows)}
    searched = next((own["corpus"] for own in reading.values() if not is_foreign(own)), {"fingerprint": None})
    alike = {label: own if label in reading else {**own, "corpus": searched} for label, own in described.items()}
    weights = {label: own["lm"].get("weights_hash") for label, own in described.items() if not is_foreign(own)}
    indexed = {label: own["index"]["corpus_hash"] for label, own in reading.items() if own.get("index")}
    split = {label: own["questions"].get("split_sha256") for label, own in described.items()}
    return [
        *(each for each in differences(alike) if not each.of_program and each.setting != JUDGE),
        *_judges(described),
        *differing("SHA-256 of the weights", weights),
        *differing("hash of the corpus", indexed),
        *differing("SHA-256 of the split", {label: digest for label, digest in split.items() if digest}),
        *(each for name in _GOLD for each in _other_gold(runs, name)),
        *_other_files(described),
        *_definitions(described),
    ]


def _judges(described: Mapping[str, Json]) -> list[Difference]:
    """Return the judge LMs of runs with the same judged metric, if they differ; what else was scored needs no judge."""
    found: dict[str, str] = {}
    for name in dict.fromkeys(name for own in described.values() for name in own["metrics"] if name in JUDGED):
        judges = {label: judge_of(own) for label, own in described.items() if name in own["metrics"]}
        found |= judges if differing(JUDGE, judges) else {}
    return differing(JUDGE, found)


def _other_gold(runs: Sequence[Run], name: str) -> list[Difference]:
    """Return whether rows of the same questions have other gold, as a hash of all; runs without any are left out."""
    known = {
        run.label: [sorted({json.dumps(row.get(name) or []) for row in rows}) for rows in run.questions]
        for run in runs
        if any(row.get(name) for row in run.rows)
    }
    return differing(_GOLD[name], {label: sha256_text(json.dumps(gold))[:16] for label, gold in known.items()})


def _other_files(described: Mapping[str, Json]) -> list[Difference]:
    """Return which metrics that were added or replaced later (`verihop score`) have their gold from another file."""
    later = {label: _scored_from(own) for label, own in described.items()}
    metrics: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for name in dict.fromkeys(name for files in later.values() for name in files):
        files = {
            label: later[label].get(name) or (own.get("paths") or {}).get("questions_file_sha256")
            for label, own in described.items()
            if name in own["metrics"]
        }
        known = tuple((label, digest[:16]) for label, digest in files.items() if digest)
        metrics.setdefault(known, []).append(name)
    named = {f"gold answers of {some(names)}": dict(known) for known, names in metrics.items()}
    return [each for setting, values in named.items() for each in differing(setting, values)]


def _scored_from(description: Json) -> dict[str, str | None]:
    """Return metric -> SHA-256 of the file of questions by which it was scored last, after the run."""
    found: dict[str, str | None] = {}
    for entry in description.get("scored", []):
        names = [*entry.get("added", []), *entry.get("replaced", []), *entry.get("completed", [])]
        found |= dict.fromkeys(names, entry.get("questions_file_sha256"))
    return found


def _definitions(described: Mapping[str, Json]) -> list[Difference]:
    """Return which metrics are defined differently; one that a run lacks is not compared."""
    metrics: dict[str, dict[str, Any]] = {}
    for label, own in described.items():
        for name, definition in own["metrics"].items():
            metrics.setdefault(name, {})[label] = definition
    return [each for name, values in metrics.items() for each in differing(f"definition of {name}", values)]


def check_comparable(boards: Sequence[Board]) -> list[str]:
    """Return which scores and costs of runs cannot be computed again.

    Raises:
        UserError: Runs of a board cannot be compared, or contradict themselves (`experiments.analysis.sound_runs`), or
            boards of one title have other questions.
    """
    problems = [f"{board.title}: {each}" for board in boards for each in board.differences]
    checks = [(run.label, *checked(run)) for board in boards for run in board.runs]
    problems += [each for _, contradictions, _ in checks for each in contradictions]
    for title in dict.fromkeys(board.title for board in boards):
        asked = {
            board.questions["sha256"][:16]: some([run.label for run in board.runs])
            for board in boards
            if board.title == title
        }
        if len(asked) > 1:
            problems.append(f"{title}: Different questions: {'; '.join(f'{one} ({of})' for one, of in asked.items())}.")
    if problems:
        raise UserError(f"These rows are not comparable. {' '.join(problems)} Evaluate them alike, or leave some out.")
    uncomputed = dict.fromkeys((label, ", ".join(names)) for label, _, names in checks if names)
    return merge_notes((label, f"Not computed again: {names}.") for label, names in uncomputed)
