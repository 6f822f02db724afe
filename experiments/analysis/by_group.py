"""Compare runs by groups of questions: by type, number of hops, or any other recorded field."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from experiments.analysis.closed_book import row_kind
from experiments.analysis.compare import Line, Run, RunComparison, caption_against, part_of, score_lines, score_table
from experiments.analysis.statistics import SMALL
from experiments.runs.files import Json, Row
from optimizers.metrics.groundedness import oracles_of
from signatures.common.errors import UserError, unknown

if TYPE_CHECKING:
    from rich.console import Group

MAX_GROUPS = 20  # groups; more suggest a continuous value, for which a table is of no use
NONE = "(none)"
GOLD_HOPS, TAKEN_HOPS, KIND, UNKNOWN = "hops", "hops_taken", "kind", "unknown"


@dataclass(frozen=True)
class Groups:
    """Scores of several runs by groups of the questions they share.

    Args:
        field: The field that questions are grouped by.
        recorded_by: Label of the run whose rows provide the values.
        scores: Group -> metric name -> one line per run, differences against the first run.
        sizes: Group -> number of questions.
        about_runs: How the runs differ, and the notes of each.
        notices: Warnings about the groups.
    """

    field: str
    recorded_by: str
    scores: dict[str, dict[str, list[Line]]]
    sizes: dict[str, int]
    about_runs: list[str]
    notices: list[str]

    def as_dict(self) -> Json:
        """Return everything as JSON values."""
        return {
            "field": self.field,
            "recorded_by": self.recorded_by,
            "groups": {
                group: {
                    "questions": self.sizes[group],
                    "metrics": {
                        name: {line.run: line.as_dict() for line in lines} for name, lines in self.scores[group].items()
                    },
                }
                for group in self.scores
            },
            "notices": self.notices,
        }

    def as_table(self) -> "Group":
        """Return a table per group, then the notices."""
        from rich.console import Group
        from rich.text import Text

        lines = next(iter(next(iter(self.scores.values())).values()))
        first, runs = lines[0].run, len(lines)
        tables = [
            score_table(
                f"{self.field} = {group}: {size} questions; scores in percent with 95 % intervals",
                self.scores[group],
                size,
                caption=caption_against(first, runs),
            )
            for group, size in self.sizes.items()
        ]
        notices = [*self.about_runs, *self.notices]
        return Group(*tables, *(Text(f"Note: {notice}", style="yellow") for notice in notices))


def field_value(row: Row, field: str) -> Any:
    """Return the value of a row's field by its dotted name, None if the row has no such field.

    A name that is not a field of the row is looked up among the question's other fields (`about`). The value of a list
    is its length. `kind` is composed or comparison, as the question states or from its type. `hops` is the number of
    gold hops, and `hops_taken` the number of hops that the program took.
    """
    if field == GOLD_HOPS:
        return _gold_hops(row)
    if field == KIND:
        return row_kind(row)
    field = GOLD_HOPS if field == TAKEN_HOPS else field
    parts = field.split(".")
    value: Any = row if parts[0] in row else row.get("about") or {}
    for part in parts:
        value = value.get(part) if isinstance(value, dict) else None
    return len(value) if isinstance(value, list) else value


def _gold_hops(row: Row) -> int | str:
    """Return the number of gold hops that the question's file states, else of sub-questions, else of gold passages."""
    about = row.get("about") or {}
    counts = [about.get(name) for name in ("hops", "sub_questions", "gold_ids")]
    return next((count for count in counts if isinstance(count, int) and count > 0), UNKNOWN)


def _label(value: Any) -> str:
    if value is None or value == "":
        return NONE
    return "yes" if value is True else "no" if value is False else str(value)


def _fields(row: Row, prefix: str = "") -> list[str]:
    """Return the names of all fields of a row that can be grouped by."""
    names = []
    for name, value in row.items():
        if isinstance(value, dict):
            names.extend(_fields(value, "" if name == "about" and not prefix else f"{prefix}{name}."))
        elif isinstance(value, str | int | float | bool | list):
            names += [GOLD_HOPS, TAKEN_HOPS] if prefix + name == GOLD_HOPS else [prefix + name]
    return names


def _order(group: str) -> tuple[bool, float, str]:
    """Return the sort key of a group: numbers by value, then text, (none) last."""
    try:
        return False, float(group), ""
    except ValueError:
        return True, float(group in (NONE, UNKNOWN)), group


def compare_by(comparison: RunComparison, field: str) -> Groups:
    """Return the scores of a comparison for each value of `field`.

    Fields that a strategy records (`details.inferential_evidence`, `hops_taken`) differ between runs. The first
    run that records the field decides for all runs, so that each group has the same questions in every run. For a
    question with repeats, the first answer decides.

    Args:
        comparison: Of two or more runs.
        field: A dotted field of a row, or another field of the question such as `level`.

    Raises:
        UserError: No run records the field, or it has more than 20 values.
    """
    chosen = next((run for run in comparison.runs if _records(run, field)), None)
    if chosen is None:
        known = {name for run in comparison.runs for rows in run.questions for name in _fields(rows[0])}
        raise unknown("field", field, known)
    members: dict[str, list[int]] = {}
    for place, rows in enumerate(chosen.questions):
        members.setdefault(_label(field_value(rows[0], field)), []).append(place)
    if len(members) > MAX_GROUPS:
        groups_text = f"{len(members)} groups of {comparison.questions} questions"
        raise UserError(f"Grouping by {field} makes {groups_text}; at most {MAX_GROUPS}.")
    groups = sorted(members, key=_order)
    names = list(comparison.metrics)
    return Groups(
        field=field,
        recorded_by=chosen.label,
        scores={
            group: score_lines([part_of(run, members[group]) for run in comparison.runs], names) for group in groups
        },
        sizes={group: len(members[group]) for group in groups},
        about_runs=comparison.about_runs,
        notices=_notices(field, chosen, comparison, [group for group in groups if len(members[group]) < SMALL]),
    )


def _records(run: Run, field: str) -> bool:
    return any(field_value(rows[0], field) is not None for rows in run.questions)


def _notices(field: str, chosen: Run, comparison: RunComparison, small: Sequence[str]) -> list[str]:
    what = f"{field} as recorded by {chosen.label}"
    if field == GOLD_HOPS:
        what = "the questions' gold hops (sub-questions, else gold passages; for the program's hops name hops_taken)"
    notices = [f"Groups are by {what}; p-values are not corrected for several groups."]
    definitions = comparison.runs[0].description["metrics"]
    notices += oracles_of({name: definitions[name] for name in comparison.metrics})
    if chosen is not comparison.runs[0]:
        notices.append(f"{comparison.runs[0].label} does not record {field}.")
    if small:
        notices.append(f"Fewer than {SMALL} questions in {', '.join(small)}: read intervals and p-values as rough.")
    return notices
