"""The checkpoint of a compilation: which request was stopped, and whether an artifact is its finished result."""

import contextlib
import json
import shutil
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from weakref import WeakKeyDictionary

from experiments.analysis.statistics import mean_of
from experiments.runs.files import read_json, read_rows, write_json
from programs.lms.calls.budget import PAID
from programs.lms.calls.control import controlled
from programs.parts.meter import Meter, metered
from signatures.common.costs import Costs
from signatures.common.errors import UserError
from signatures.common.files import exclusive_lock, refuse_links, sha256_file, sha256_text
from signatures.common.strict_json import parse_strict_json
from signatures.common.work import AppendedFile, complete_lines, difference

if TYPE_CHECKING:
    import dspy

    from optimizers.teleprompters.task import ScoredProgram
    from programs.lms.calls.budget import Budget


# What a budget of this process has counted of each compilation, so that sessions with one budget count once.
_COUNTED: "WeakKeyDictionary[Budget, dict[str, Costs]]" = WeakKeyDictionary()


class Spending:
    """Counts what earlier runs have spent in the budgets of this one.

    Args:
        lms: The LMs by what they do; those that share a budget are counted once.
        folder: Of the checkpoint, which tells compilations apart.
        earlier: What `spent` returned at the end of the session before.
    """

    def __init__(self, lms: Mapping[str, Any], folder: Path, earlier: Mapping[str, Mapping[str, float]]):
        self._folder, self._earlier = str(folder.resolve()), {name: Costs(spent) for name, spent in earlier.items()}
        self._budgets: dict[str, Budget] = {}
        for name, lm in lms.items():
            budget = getattr(lm, "budget", None)
            if budget is not None and all(budget is not other for other in self._budgets.values()):
                self._budgets[name] = budget
        for name, budget in self._budgets.items():
            known = _COUNTED.get(budget, {}).get(self._folder, Costs())
            budget.carry(**known.left_of(self._earlier.get(name, Costs()).of(PAID)))
        self._start = {name: budget.spent for name, budget in self._budgets.items()}

    def spent(self) -> dict[str, Costs]:
        """Return calls, tokens and usd of all sessions, for each budget."""
        found = dict(self._earlier)
        for name, budget in self._budgets.items():
            found[name] = (self._earlier.get(name, Costs()) + budget.spent - self._start[name]).of(PAID)
            _COUNTED.setdefault(budget, {})[self._folder] = found[name]
        return found


_STOPPED_COSTS = "costs.json"
_BUDGETS = "budgets"  # in that file: what was spent from them


@dataclass
class Checkpoint:
    """What is kept of a compilation while it is not finished.

    Args:
        out: Folder of the artifact.
        meter: Counts the LM calls of this run.
        spending: What all sessions have spent from the budgets.
        replaces: Whether the artifact is to replace one of another request.
        continues: Whether the artifact is to replace one of this request whose budget was spent.
        kept: Set it if the compilation has to go on in another session, so that the folder stays.
    """

    out: Path
    folder: Path
    meter: Meter
    earlier: dict[str, float]
    spending: Spending
    replaces: bool = False
    continues: bool = False
    kept: bool = False
    started: float = field(default_factory=time.monotonic)
    _saved: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def save(self, *, every: float = 0.0) -> None:
        """Write the cost so far, unless that was done less than `every` seconds ago; a killed session loses no more."""
        with self._lock:
            if time.monotonic() - self._saved < every:
                return
            self._saved = time.monotonic()
            write_json(self.folder / _STOPPED_COSTS, {**self.cost(), _BUDGETS: self.spending.spent()})

    def cost(self) -> dict[str, float]:
        """Return the cost of all sessions."""
        now = Costs(self.meter.counts(), seconds=round(time.monotonic() - self.started, 1))
        return (now + self.earlier).of(now).rounded()


@contextlib.contextmanager
def compile_checkpoint(
    out: Path, request: dict[str, Any], *, resume: bool, overwrite: bool, lms: Mapping[str, Any]
) -> Iterator[Checkpoint | None]:
    """Keep a checkpoint next to `out` while compiling; it remains if the compilation stops after its first reply.

    It does not remain if a UserError that is not of an LM, such as one of the metric, leaves no scored candidate.

    Args:
        out: Folder of the artifact.
        request: Everything that decides the result.
        resume: Continue a stopped compilation.
        overwrite: Replace an existing artifact.
        lms: Those of the compilation by what they do. Their budgets count what earlier sessions have spent, too.

    Yields:
        The checkpoint; None if `out` is the finished artifact of this request already.

    Raises:
        UserError: Another process compiles into `out`, or `out` or the checkpoint belongs to another request.
    """
    from programs.artifacts.folder import clean_up

    folder = out.parent / f".{out.name}.compiling"
    busy = f"Another process is compiling into {out}: wait for it or choose another folder."
    with exclusive_lock(out.parent / f".{out.name}.compiling.lock", busy), metered() as meter, controlled() as control:
        clean_up(out)
        refuse_links(folder)
        done = _done(out, folder, request) if resume else None
        if done == "finished":
            shutil.rmtree(folder, ignore_errors=True)
            yield None
            return
        _open_checkpoint(out, folder, request, resume=resume, overwrite=overwrite or done == "stopped")
        costs = folder / _STOPPED_COSTS
        earlier = read_json(costs) if costs.exists() else {}
        spending = Spending(lms, folder, earlier.pop(_BUDGETS, {}))
        replaces = out.exists() and done is None
        checkpoint = Checkpoint(out, folder, meter, earlier, spending, replaces, done == "stopped")
        try:
            yield checkpoint
        except BaseException as error:
            # Without a reply or a row there is nothing to resume, and another request may start.
            answered = meter.cached_calls or control.any_answers
            if not (earlier or (answered and not _to_mend(error, folder)) or read_rows(folder / "val")):
                shutil.rmtree(folder)
            else:
                checkpoint.save()
            raise
        if checkpoint.kept:
            checkpoint.save()
        else:
            shutil.rmtree(folder)


def _to_mend(error: BaseException, folder: Path) -> bool:
    """Return whether the user has to change the request, such as its metric, before anything could be scored."""
    from programs.lms.calls.metered import LMUnavailable

    scored = (folder / CANDIDATES).exists()
    return isinstance(error, UserError) and not isinstance(error, LMUnavailable) and not scored


def _done(out: Path, folder: Path, request: dict[str, Any]) -> Literal["finished", "stopped"] | None:
    """Return how far the request got: None if `out` is not its result, but one that it was to replace, or nothing."""
    from programs.artifact import read_artifact

    if not (out / "artifact.json").exists():
        return None
    record = read_artifact(out).optimizer
    if record.get("request_sha256") != request_hash(request):
        return None
    stored = folder / "request.json"
    if stored.exists() and read_json(stored).get("replaces") == sha256_file(out / "artifact.json"):
        return None
    return "stopped" if record.get("stopped") else "finished"


def _open_checkpoint(out: Path, folder: Path, request: dict[str, Any], *, resume: bool, overwrite: bool) -> None:
    """Write the request of a new compilation, or check that the stored one is the same."""
    stored = folder / "request.json"
    if stored.exists() and not resume and not overwrite:
        raise UserError(f"A compilation into {out} was stopped: resume it, or overwrite it to start again.")
    stopped = stored.exists() and resume
    before = read_json(stored).get("request", {}) if stopped else {}
    if stopped and (changed := difference(before, request)):
        raise UserError(
            f"The stopped compilation into {out} had another {changed.field} ({changed.stored}, now "
            f"{changed.asked}): resume it with the same settings, or overwrite it to start again."
        )
    if out.exists() and not overwrite:
        reason = "The finished artifact there is of another request: choose" if resume else "Choose"
        raise UserError(f"{out} exists already. {reason} another folder, or overwrite the artifact.")
    if stopped:
        return
    if folder.exists():
        shutil.rmtree(folder)
    replaced = out / "artifact.json"
    write_json(stored, {"request": request, "replaces": sha256_file(replaced) if replaced.exists() else None})


def request_hash(request: dict[str, Any]) -> str:
    """Return the hash that identifies a request in its finished artifact."""
    return sha256_text(json.dumps(request, sort_keys=True))


CANDIDATES = "candidates.jsonl"


class CandidateLog:
    """The candidates of a compilation and of its earlier sessions.

    Args:
        student: What the candidates are versions of. Those that are made of several programs are not read again.
    """

    def __init__(self, folder: Path, student: "dspy.Module"):
        self._path = folder / CANDIDATES
        self._student = student

    def add(self, candidate: "ScoredProgram") -> None:
        """Write a candidate.

        Raises:
            UserError: The disk is full or the folder cannot be written.
        """
        from programs.artifacts.state import dump_state

        plain = type(candidate.program) is type(self._student)
        line = {
            "label": candidate.label,
            "complete": candidate.complete,
            "n_calls": candidate.n_calls,
            "errors": candidate.errors,
            "scores": dict(candidate.scores),
            "state": dump_state(candidate.program) if plain else None,
        }
        with AppendedFile(self._path) as file:
            file.append(line)

    def read(self) -> "dict[str, ScoredProgram]":
        """Return the candidates of earlier sessions by label, the last of each; damaged lines are skipped."""
        found = {}
        for _, line in complete_lines(self._path):
            try:
                candidate = self._parsed(parse_strict_json(line))
            except (ValueError, KeyError, TypeError):  # half a line, or of a program that has changed
                continue
            if candidate is not None:
                found[candidate.label] = candidate
        return found

    def _parsed(self, line: Any) -> "ScoredProgram | None":
        from optimizers.teleprompters.task import ScoredProgram
        from programs.artifacts.state import apply_state

        if line["state"] is None:
            return None
        program = self._student.deepcopy()
        apply_state(program, line["state"])
        scores = {str(name): float(score) for name, score in line["scores"].items()}
        calls, label = int(line["n_calls"]), str(line["label"])
        return ScoredProgram(program, scores, calls, label, bool(line["complete"]), errors=int(line["errors"]))


def candidate_rows(candidates: "Sequence[ScoredProgram]") -> list[dict[str, Any]]:
    """Return label, mean with its 95 % interval, number of questions and LM calls until then, of each candidate."""
    rows = []
    for candidate in candidates:
        mean = mean_of(list(candidate.scores.values()))
        spread = {name: mean.as_dict()[name] for name in ("mean", "low", "high", "n")}
        counts = {"calls": candidate.n_calls, "complete": candidate.complete, "errors": candidate.errors}
        rows.append({"label": candidate.label, **spread, **counts})
    return rows


def scores_of(candidate: "ScoredProgram | None", undefined: Collection[str] = ()) -> dict[str, Any]:
    """Return mean, interval and per-question scores of a candidate as an artifact records them; {} without one.

    Args:
        undefined: Ids of questions for which the metric is undefined.
    """
    if candidate is None:
        return {}
    scores = {name: None if name in undefined else score for name, score in candidate.scores.items()}
    return {**mean_of(list(scores.values())).as_dict(), "errors": candidate.errors, "scores": scores}
