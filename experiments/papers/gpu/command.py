"""A table of `verihop reproduce` with the embedded LM decoded on a GPU, its cells side by side.

    python -m experiments.papers.gpu leaderboard --table 1 --data ../shared/data --work ../leaderboard --limit 100

27 programs on three sets of 100 questions made 58,000 LM calls: hours on a laptop, 7 minutes on one H200 with 16 cores.
Runs and tables have the form of those of `verihop reproduce`, and the same command goes on with what is not finished.
Weights are those that the embedded LM computes with, products are of 16 bits and rounded otherwise: 96 of 100 answers
of `rag` are the same. So the cells are those of another LM, `embedded:cuda`, which no other command opens, and their
seconds are those of 240 questions at a time. Needs `verihop[gpu]`.
"""

import multiprocessing
import os
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from experiments.papers.command import help_of, say
from experiments.papers.tables.asking import ask
from experiments.papers.tables.plan import Cell, Request, distinct, index_of
from experiments.papers.tables.run import plan, reproduce
from experiments.papers.tables.spec import Table, read_table
from programs.lms.spec import LMSpec
from signatures.common.errors import UserError, needing, undone_by_error

if TYPE_CHECKING:
    from programs.lms.connect import Connection

SHORT, LONG = 2048, 8192  # tokens of a sequence
ROWS = {SHORT: 128, LONG: 48}  # sequences decoded together
Sockets = tuple[tuple[Path, int], ...]

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command(help=help_of(__doc__))
def gpu(
    paper: Annotated[str, typer.Argument(help="As of `verihop reproduce`.")],
    table: Annotated[int, typer.Option(help="Number of the table.", min=1)] = 1,
    data: Annotated[Path, typer.Option(help="Folder of official or converted files.")] = Path("../shared/data"),
    work: Annotated[Path, typer.Option(help="Folder for converted files, indexes and runs.")] = Path("runs/reproduce"),
    limit: Annotated[int | None, typer.Option(help="Questions of each set.", min=2, show_default=False)] = None,
    workers: Annotated[int, typer.Option(help="Processes that ask questions, a cell each.", min=1)] = 12,
    threads: Annotated[int, typer.Option(help="Questions that each of them asks in parallel.", min=1)] = 20,
    decoders: Annotated[int, typer.Option(help="Processes that decode, beside one for long prompts.", min=1)] = 2,
    device: Annotated[str, typer.Option(help="cuda, one of several as cuda:1, or cpu to try it.")] = "cuda",
) -> None:
    """Start the decoders and the workers, and write the table of their runs."""
    made, kind = read_table(paper, f"table{table}"), _kind(device)
    request = Request(lm=LMSpec(id=_id(kind)), data=str(data), work=work, limit=limit, threads=threads, progress=False)
    planned = plan(made, request)
    for text in planned.missing:
        say(f"Missing: {text}")
    cells = list(distinct(planned.cells, work).values())[::-1]  # those with many calls first
    for cell in cells:
        index_of(cell, progress=True)  # built once
    with tempfile.TemporaryDirectory(prefix="verihop-gpu-") as folder:
        sockets = start_decoders(Path(folder), decoders, device)
        # The workers embed with the CPU, a thread each.
        os.environ.update(CUDA_VISIBLE_DEVICES="", OMP_NUM_THREADS="1")
        with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
            asked = [pool.submit(ask_cell, made, cell, request, sockets, kind) for cell in cells]
            with undone_by_error(lambda: pool.shutdown(wait=False, cancel_futures=True)):
                for done in as_completed(asked):
                    say(done.result())
    command = f"python -m {MODULE} {paper} --table {table}" + (f" --limit {limit}" if limit else "")
    written = reproduce(made, planned, replace(request, only_table=True), work / "tables", command=command)
    say(f"Written: {', '.join(map(str, written.paths))}")


MODULE = "experiments.papers.gpu"


def _kind(device: str) -> str:
    """Return the kind of a device of torch, which decides how it computes: "cuda" of "cuda:1"."""
    return device.partition(":")[0]


def _id(kind: str) -> str:
    """Return the id of the embedded LM on a kind of device, so that its cells are not those of `--lm embedded`."""
    return f"embedded:{kind}"


def start_decoders(folder: Path, count: int, device: str) -> Sockets:
    """Start processes that decode with the weights of the embedded LM, and return their sockets when all are ready.

    Args:
        folder: Of weights and sockets, of this user alone.
        count: Processes for sequences of at most `SHORT` tokens; there is one for longer ones.
        device: Of torch.

    Raises:
        UserError: There is no such device, a package is missing, or a process has ended.
    """
    from programs.lms.weights.choice import weights

    _require(device)
    path = folder / "model.gguf"
    weights().write(path)
    sockets = (*((folder / f"short{number}", SHORT) for number in range(count)), (folder / "long", LONG))
    spawn = multiprocessing.get_context("spawn")
    started = [spawn.Process(target=decode, args=(path, *each, device), daemon=True) for each in sockets]
    for process in started:
        process.start()
    while not all(socket.exists() for socket, _ in sockets):
        if not all(process.is_alive() for process in started):
            raise UserError("A decoder has ended; its error is above. --decoders 1 needs less memory.")
        time.sleep(0.2)
    return sockets


def decode(path: Path, socket: Path, length: int, device: str) -> None:
    """Decode what is asked for at a socket, for good."""
    import torch

    from experiments.papers.gpu.decoder import Decoder, serve
    from experiments.papers.gpu.model import BatchedLlama

    kind, rows, dtype = _kind(device), 4, torch.float32
    if kind == "cuda":
        torch.cuda.set_device(torch.device(device).index or 0)  # of tensors, streams and events that name none
        rows, dtype = ROWS[length], torch.float16
    decoder = Decoder(BatchedLlama(path, rows, length, kind, dtype))
    serve(decoder, socket)
    decoder.run()


def ask_cell(table: Table, cell: Cell, request: Request, sockets: Sockets, kind: str) -> str:
    """Ask a cell in this process, its replies decoded at the sockets, and return what was asked.

    Raises:
        UserError: It cannot be asked.
    """
    from experiments.pipeline import setup

    # The door by which every command opens an LM; this process asks no other.
    setup.open_lm = lambda *_: _connection(sockets, kind)
    ask(table, [cell], request, None, say=lambda text: None)
    return f"{cell.label}: {cell.asked} questions"


@cache
def _connection(sockets: Sockets, kind: str) -> "Connection":
    from experiments.papers.gpu.engine import SharedEngine
    from programs.lms.connect import MAX_TOKENS, local_connection
    from programs.lms.servers.connection import ModelTraits

    settings = {"temperature": 0.0, "max_tokens": MAX_TOKENS, "cache": False}
    engine = SharedEngine(sockets, kind)
    engine.load()
    # Not `_id`, which names cells alone: an artifact that is compiled here is asked on any device.
    return local_connection("embedded", engine, settings, ModelTraits())


def _require(device: str) -> None:
    with needing("gpu", "Decoding on a GPU"):
        import torch
        import xgrammar  # noqa: F401
    try:
        number = torch.device(device).index or 0
    except RuntimeError:
        raise UserError(f"{device!r} is not a torch device: choose cuda, one of several as cuda:1, or cpu.") from None
    if _kind(device) == "cuda" and number >= torch.cuda.device_count():
        raise UserError(f"torch sees no {device} here. --device cpu tries everything, at the speed of a CPU.")
