"""`verihop export`: a run for MLflow or Inspect, a compiled program for MLflow."""

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from experiments.cli.shared import options
from experiments.cli.shared.console import counter, emit, note, say
from experiments.cli.shared.next_commands import command, used
from experiments.cli.shared.options import with_option_groups
from signatures.common.errors import UserError

TARGETS = ("mlflow", "inspect")


@dataclass(frozen=True)
class AsModel:
    """How an artifact becomes a model of MLflow."""

    PANEL: ClassVar[str] = "An artifact as a model of MLflow"
    index: Annotated[
        Path | None,
        typer.Option(help="Index of the model; by default the artifact's.", show_default=False),
    ] = None
    copy_index: Annotated[bool, typer.Option("--copy-index", help="Copy the index into the model.")] = False
    register: Annotated[str | None, typer.Option(help="Also register it under this name.", show_default=False)] = None


@with_option_groups
def export(
    run: Annotated[
        Path, typer.Argument(help="A run folder of `verihop eval`; for mlflow also the folder of an artifact.")
    ],
    *,
    to: Annotated[str, typer.Option(help="mlflow, or inspect.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="inspect: the log to write, FILE.eval.", show_default=False)
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(
            help="mlflow: store, e.g. sqlite:///mlflow.db or http://localhost:5000; by default MLFLOW_TRACKING_URI.",
            show_default=False,
        ),
    ] = None,
    experiment: Annotated[
        str | None, typer.Option(help="mlflow: name of the experiment.", show_default="verihop")
    ] = None,
    traces: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="mlflow: number of questions, from the first, whose LM calls become traces.",
            show_default="100",
        ),
    ] = None,
    model: AsModel,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Write a run for other tools: to an MLflow store, or as a log of Inspect; or an artifact as a model of MLflow.

    MLflow gets parameters, metrics with 95 % intervals, run.json, summary.json, rows.jsonl, a report if there is one,
    and traces. Inspect gets a sample per question with its model events. A model of MLflow is loaded by
    mlflow.pyfunc.load_model; its index is referenced, or copied into it.
    """
    if to not in TARGETS:
        raise UserError(f"Unknown export {to!r}. Choose from: {', '.join(TARGETS)}.")
    if to == "inspect":
        given = {"--store": store, "--experiment": experiment, "--traces": traces}
        if named := [*(name for name, value in given.items() if value is not None), *used(model)[::2]]:
            raise UserError(f"An export to inspect is a file, --out: leave out {', '.join(named)}.")
        _to_inspect(run, out, as_json=as_json)
        return
    if out is not None:
        raise UserError("An export to mlflow goes to a store: name --store instead of --out.")
    where = store or os.environ.get("MLFLOW_TRACKING_URI")
    if not where:
        raise UserError("Name the MLflow store: --store sqlite:///mlflow.db, or the URL of a server.")
    if (run / "artifact.json").exists():
        _model_to_mlflow(run, where, experiment, model, as_json=as_json)
        return
    if named := used(model):
        raise UserError(f"{run} is not an artifact: leave out {named[0]}, or name the folder of an artifact.")
    _to_mlflow(run, where, experiment, traces, quiet=quiet or as_json, as_json=as_json)


def _to_inspect(run: Path, out: Path | None, *, as_json: bool) -> None:
    from experiments.analysis.export.inspect_log import write_inspect_log

    if out is None:
        raise UserError("An export to inspect is a file: name it, e.g. --out run.eval.")
    written = write_inspect_log(run, out)
    if as_json:
        emit({"to": "inspect", "out": str(out), **written._asdict()})
        return
    say(f"Written: {out} ({written.samples} samples)")
    _note_lost(written.not_kept)
    note(f"Open: {command('inspect', 'view', 'start', '--log-dir', out.parent)}")


def _model_to_mlflow(artifact: Path, store: str, experiment: str | None, model: AsModel, *, as_json: bool) -> None:
    from experiments.analysis.export.mlflow_store import EXPERIMENT
    from experiments.service.mlflow_model import log_model

    logged = log_model(
        artifact,
        store,
        index=model.index,
        copy_index=model.copy_index,
        experiment=EXPERIMENT if experiment is None else experiment,
        registered=model.register,
    )
    if as_json:
        emit({"to": "mlflow", **asdict(logged)})
        return
    say(f"Logged: {logged.uri} in run {logged.run_id} of the experiment {logged.experiment}")
    say(f"Index: {logged.index or 'none'}")
    note(f'Load: mlflow.set_tracking_uri("{logged.store}"); mlflow.pyfunc.load_model("{logged.uri}")')


def _to_mlflow(
    run: Path, store: str, experiment: str | None, traces: int | None, *, quiet: bool, as_json: bool
) -> None:
    from experiments.analysis.export.mlflow_run import EXPERIMENT, TRACES, log_run

    with counter("Traces", shown=not quiet) as count:
        logged = log_run(
            run,
            store,
            experiment=EXPERIMENT if experiment is None else experiment,
            traces=TRACES if traces is None else traces,
            on_trace=count,
        )
    if as_json:
        emit({"to": "mlflow", **logged._asdict()})
        return
    say(f"Logged: run {logged.run_id} of the experiment {logged.experiment}, with {logged.traces} traces")
    say(f"Files: {logged.files}")
    _note_lost(logged.not_kept)
    scheme, _, _ = logged.store.partition("://")
    if scheme in ("http", "https"):
        note(f"Open: {logged.store} in a browser")
    elif logged.store != store:
        note("Open: mlflow ui, with the whole address of the store as --backend-store-uri (pip install mlflow)")
    elif not scheme.startswith("databricks"):
        note(f"Open: {command('mlflow', 'ui', '--backend-store-uri', store)} (pip install mlflow)")


def _note_lost(answers: int) -> None:
    if answers:
        note(f"Note: The LM calls of {answers} answers were not kept, so they are not in the export.")
