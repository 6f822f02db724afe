"""`verihop export`: a run for MLflow, or for Inspect."""

from pathlib import Path
from typing import Annotated

import typer

from experiments.cli.shared import options
from experiments.cli.shared.console import counter, emit, note, say
from signatures.common.errors import UserError

TARGETS = ("mlflow", "inspect")


def export(
    run: Annotated[Path, typer.Argument(help="A run folder of `verihop eval`.")],
    to: Annotated[str, typer.Option(help="mlflow, or inspect.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="inspect: the log to write, FILE.eval.", show_default=False)
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(
            help="mlflow: where, e.g. sqlite:///mlflow.db or http://localhost:5000; by default MLFLOW_TRACKING_URI.",
            show_default=False,
        ),
    ] = None,
    experiment: Annotated[str, typer.Option(help="mlflow: name of the experiment.")] = "verihop",
    traces: Annotated[
        int, typer.Option(min=0, help="mlflow: of how many questions, the first ones, the LM calls become traces.")
    ] = 100,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Write a run for other tools: to an MLflow store, or as a log of Inspect.

    MLflow gets parameters, metrics with 95 % intervals, run.json, summary.json, rows.jsonl, a report if there is one,
    and traces. Inspect gets a sample per question with its model events.
    """
    if to not in TARGETS:
        raise UserError(f"There is no export to {to!r}. Choose from: {', '.join(TARGETS)}.")
    if to == "inspect":
        _to_inspect(run, out, as_json=as_json)
        return
    if out is not None:
        raise UserError("An export to mlflow goes to a store: name --store instead of --out.")
    _to_mlflow(run, store, experiment, traces, quiet=quiet or as_json, as_json=as_json)


def _to_inspect(run: Path, out: Path | None, *, as_json: bool) -> None:
    from experiments.analysis.export.inspect_log import write_inspect_log

    if out is None:
        raise UserError("An export to inspect is a file: name it, e.g. --out run.eval.")
    samples = write_inspect_log(run, out)
    if as_json:
        emit({"to": "inspect", "out": str(out), "samples": samples})
        return
    say(f"Written: {out} ({samples} samples)")
    note(f"Open: inspect view start --log-dir {out.parent}")


def _to_mlflow(run: Path, store: str | None, experiment: str, traces: int, *, quiet: bool, as_json: bool) -> None:
    import os

    from experiments.analysis.export.mlflow_run import log_run

    where = store or os.environ.get("MLFLOW_TRACKING_URI")
    if not where:
        raise UserError("Name the MLflow store: --store sqlite:///mlflow.db, or the URL of a server.")
    with counter("Traces", shown=not quiet) as count:
        logged = log_run(run, where, experiment=experiment, traces=traces, on_trace=count)
    if as_json:
        emit({"to": "mlflow", **logged._asdict()})
        return
    say(f"Logged: run {logged.run_id} of the experiment {logged.experiment}, with {logged.traces} traces")
    note(f"Open: mlflow ui --backend-store-uri {logged.store}")
