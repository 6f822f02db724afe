"""Candidates of a compilation on disk, one line each, written as soon as they are scored."""

import json
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.analysis.statistics import mean_of
from experiments.runs.files import complete_lines, writing
from signatures.common.strict_json import parse_strict_json

if TYPE_CHECKING:
    import dspy

    from optimizers.teleprompters.recording import Candidate

_FILE = "candidates.jsonl"


class CandidateLog:
    """The candidates of a compilation and of its earlier sessions.

    Args:
        folder: Of the checkpoint.
        student: What the candidates are versions of. Those that are made of several programs are not read again.
    """

    def __init__(self, folder: Path, student: "dspy.Module"):
        self._path = folder / _FILE
        self._student = student

    def add(self, candidate: "Candidate") -> None:
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
        with writing(self._path), open(self._path, "ab") as file:
            if file.tell() and not self._path.read_bytes().endswith(b"\n"):
                file.write(b"\n")  # a killed session left half a line
            file.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")

    def read(self) -> "dict[str, Candidate]":
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

    def _parsed(self, line: Any) -> "Candidate | None":
        from optimizers.teleprompters.recording import Candidate
        from programs.artifacts.state import apply_state

        if line["state"] is None:
            return None
        program = self._student.deepcopy()
        apply_state(program, line["state"])
        scores = {str(name): float(score) for name, score in line["scores"].items()}
        calls, label = int(line["n_calls"]), str(line["label"])
        return Candidate(program, scores, calls, label, bool(line["complete"]), errors=int(line["errors"]))


def candidate_rows(candidates: "Sequence[Candidate]") -> list[dict[str, Any]]:
    """Return label, mean with its 95 % interval, number of questions and LM calls until then, of each candidate."""
    rows = []
    for candidate in candidates:
        mean = mean_of(list(candidate.scores.values()))
        spread = {name: mean.as_dict()[name] for name in ("mean", "low", "high", "n")}
        counts = {"calls": candidate.n_calls, "complete": candidate.complete, "errors": candidate.errors}
        rows.append({"label": candidate.label, **spread, **counts})
    return rows


def scores_of(candidate: "Candidate | None", undefined: Collection[str] = ()) -> dict[str, Any]:
    """Return mean, interval and per-question scores of a candidate as an artifact records them; {} without one.

    Args:
        candidate: A complete one.
        undefined: Ids of questions for which the metric is undefined.
    """
    if candidate is None:
        return {}
    scores = {name: None if name in undefined else score for name, score in candidate.scores.items()}
    return {**mean_of(list(scores.values())).as_dict(), "errors": candidate.errors, "scores": scores}
