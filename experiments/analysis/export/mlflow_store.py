"""An MLflow store (extra `mlflow`) for as long as something is written to it; what is wrong with it is one line."""

import contextlib
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from signatures.common.errors import UserError, needing, one_line
from signatures.common.secrets import redact, register_address, without_userinfo

if TYPE_CHECKING:
    from mlflow import MlflowClient

EXPERIMENT = "verihop"
_FILE = "sqlite"
_DATABASES = ("postgresql", "mysql", "mssql", _FILE)


@contextlib.contextmanager
def using_store(store: str, experiment: str) -> "Iterator[tuple[MlflowClient, str]]":
    """Yield a client of a store, which is that of this process from now on, and the id of an experiment in it.

    Args:
        store: Address, such as `sqlite:///mlflow.db` or `http://localhost:5000`.
        experiment: Made if there is none of that name.

    Raises:
        UserError: The extra is not installed, or the store cannot be used, also in the block.
    """
    register_address(store)
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # what is logged is between the user and the store
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    with needing("mlflow", "Export to MLflow"):
        import mlflow
        from mlflow.exceptions import MlflowException
    logging.getLogger("mlflow").setLevel(logging.WARNING)
    try:
        _check_database(store)
        mlflow.set_tracking_uri(store)
        client = mlflow.MlflowClient(tracking_uri=store)
        found = client.get_experiment_by_name(experiment)
        yield client, client.create_experiment(experiment) if found is None else found.experiment_id
    except ImportError as error:
        cure = f"install the Python package {error.name}" if error.name else one_line(error)
        raise UserError(f"The MLflow store {without_userinfo(store)} cannot be used: {cure}.") from error
    except (MlflowException, OSError, _database_error()) as error:
        raise UserError(
            f"The MLflow store {without_userinfo(store)} cannot be used: {redact(one_line(error))}. Name a database "
            "such as sqlite:///mlflow.db, or the URL of a running server."
        ) from error


def _check_database(store: str) -> None:
    """Connect to a database once: MLflow would try for minutes, with a traceback in the end."""
    kind = urlsplit(store).scheme.partition("+")[0]
    if kind not in _DATABASES:
        return
    import sqlalchemy

    engine = sqlalchemy.create_engine(store)
    try:
        file = engine.url.database if kind == _FILE else None
        if file and not file.startswith(("file:", ":memory:")):
            Path(file).parent.mkdir(parents=True, exist_ok=True)  # as MLflow does
        with engine.connect() as connection:
            if kind == _FILE:
                connection.exec_driver_sql("BEGIN IMMEDIATE")
                connection.exec_driver_sql("CREATE TABLE verihop_writable (n INTEGER)")  # never committed
                connection.rollback()
    finally:
        engine.dispose()


def _database_error() -> type[Exception]:
    try:
        from sqlalchemy.exc import SQLAlchemyError
    except ImportError:  # a server needs none, and nothing raises it
        return OSError
    return SQLAlchemyError
