"""Whether a storage holds a valid study: a file may be damaged, edited, or untrusted."""

import contextlib
import sqlite3
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import optuna
from optuna.storages import RDBStorage
from optuna.trial import FrozenTrial, TrialState
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Column, DateTime, Enum, Float, Integer, String, func, inspect, literal_column, not_, or_, select

from optimizers.tuning.optuna_private import TABLES
from optimizers.tuning.space import Space
from signatures.common.errors import UserError, one_line, with_causes

_Number = Annotated[float, Field(allow_inf_nan=False)]
# Of SQLite, which keeps in a column whatever it is given.
_TYPES: dict[Any, tuple[str, ...]] = {
    Integer: ("integer",), Float: ("real", "integer"), String: ("text",), DateTime: ("text",)
}  # fmt: skip


class _Record(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True)


class _Attributes(_Record):
    """What `optimizers.tuning.objective` keeps of a trial."""

    scores: list[_Number | None] = []
    costs: dict[str, list[_Number]] = {}
    spent: dict[str, _Number] = {}
    errors: int = 0
    unseen: int = 0
    baseline: bool = False
    surplus: bool = False


class _System(_Record):
    failed_trial: Annotated[int, Field(ge=0)] | None = None
    retry_history: list[int] = []
    process_deaths: int = 0
    fixed_params: dict[str, Any] = {}


@contextlib.contextmanager
def readable(study: str) -> Iterator[None]:
    """Raise UserError for whatever Optuna makes of a damaged storage in the block, but not for a full disk."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        if any(isinstance(each, sqlite3.OperationalError) and "disk" in str(each) for each in with_causes(error)):
            raise
        cure = "bring an undamaged copy back, or start another study (overwrite)"
        raise UserError(f"The study {study} cannot be read ({one_line(error, 200)}): {cure}.") from error


def check_database(storage: RDBStorage) -> None:
    """Raise ValueError unless an SQLite database has the tables of Optuna, with values of their types."""
    found = inspect(storage.engine)
    with storage.engine.connect() as connection:
        if (state := connection.exec_driver_sql("PRAGMA integrity_check").scalar()) != "ok":
            raise ValueError(f"{state}")
        for table in TABLES:
            unique = {frozenset(each["column_names"]) for each in found.get_unique_constraints(table.name)}
            wanted = {
                frozenset(each.columns.keys())
                for each in table.constraints
                if type(each).__visit_name__ == "unique_constraint"
            }
            keys = found.get_pk_constraint(table.name)["constrained_columns"]
            if keys != table.primary_key.columns.keys() or not wanted <= unique:
                raise ValueError(f"the table {table.name} has other keys")
            for column in table.columns:
                if connection.execute(select(func.count()).select_from(table).where(_strange(column))).scalar():
                    raise ValueError(f"{table.name}.{column.name} has a value of another type")


def _strange(column: "Column[Any]") -> Any:
    """Return the condition that a value is not of the type of its column."""
    kind = next(types for name, types in _TYPES.items() if isinstance(column.type, name))
    allowed = [func.typeof(column).in_(kind)]
    if isinstance(column.type, Enum):
        allowed = [literal_column(f'"{column.table.name}"."{column.name}"').in_(column.type.enums)]
    return not_(or_(*allowed, *([func.typeof(column) == "null"] if column.nullable else [])))


def check_trials(study: optuna.Study, space: Space, questions: int) -> None:
    """Check the trials of a study that exists.

    Raises:
        UserError: A trial is not one of this study's.
    """
    with readable(study.study_name):
        for place, trial in enumerate(study.get_trials()):
            if trial.number != place:
                raise ValueError(f"it has no trial {place}")
            _check_trial(trial, space, questions)


def _check_trial(trial: FrozenTrial, space: Space, questions: int) -> None:
    own = _Attributes.model_validate(trial.user_attrs)
    system = _System.model_validate(trial.system_attrs)
    if (system.failed_trial or 0) > trial.number or any(each > trial.number for each in system.retry_history):
        raise ValueError(f"trial {trial.number} repeats a later one")
    _check_setting(system.fixed_params, space)
    if trial.state in (TrialState.RUNNING, TrialState.WAITING):  # perhaps another process is about to write it
        return
    _check_setting(trial.params, space)
    sizes = {len(own.scores), *map(len, own.costs.values())}
    if len(sizes) > 1 or max(sizes) > questions or (trial.state == TrialState.COMPLETE and sizes != {questions}):
        raise ValueError(f"trial {trial.number} has scores of other questions")
    settled = {name: getattr(trial, name) for name in ("state", "values", "params", "distributions")}
    optuna.trial.create_trial(**settled, intermediate_values=trial.intermediate_values)  # checks that they agree
    asked = optuna.trial.FixedTrial({**space.present, **trial.params})
    space.suggest(asked)  # type: ignore[arg-type]
    for name, distribution in trial.distributions.items():
        optuna.distributions.check_distribution_compatibility(asked.distributions[name], distribution)


def _check_setting(setting: Mapping[str, Any], space: Space) -> None:
    dimensions = {dimension.name: dimension for dimension in space.dimensions}
    for name, value in setting.items():
        if not dimensions[name].contains(value):
            raise ValueError(f"{name}={value!r} is not searched")
