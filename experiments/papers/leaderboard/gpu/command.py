"""The real boards of the leaderboard with the embedded LM decoded on a GPU, all programs side by side.

    python -m experiments.papers.leaderboard.gpu --data ../shared/data --work ../leaderboard

28 programs on three boards of 100 questions make 70,000 LM calls: hours on a laptop, 7 minutes on one H200 with 16
cores. Rows and run folders are those of `experiments.papers.leaderboard.leaderboard`, and a recorded row is not
measured again; their `session` says that they were decoded here. Weights are those that the embedded LM computes with,
products are of 16 bits and rounded otherwise: 96 of 100 answers of `rag` are the same. Seconds are those of 240
questions at a time. Needs `verihop[gpu]`.
"""

import multiprocessing
import os
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Annotated

import typer

from experiments.papers.command import help_of, names, say
from experiments.papers.leaderboard.boards import SIZES, WORLD, Board, open_board
from experiments.papers.leaderboard.leaderboard import RESULTS, ROWS_FILE, WORK, cheap_first, write_tables
from experiments.papers.leaderboard.measure import F1, Record, Records, measure
from signatures.common.errors import UserError, needing

REAL = tuple(board for board in SIZES if board != WORLD)
OFFICIAL = REAL[:3]  # near the official mix of questions
SHORT, LONG = 2048, 8192  # tokens of a sequence
ROWS = {SHORT: 128, LONG: 48}  # sequences decoded together
Sockets = tuple[tuple[Path, int], ...]

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command(help=help_of(__doc__))
def gpu(
    data: Annotated[Path, typer.Option(help="Folder with the official files.")] = Path("../shared/data"),
    work: Annotated[Path, typer.Option(help="Folder for converted files, indexes and runs.")] = WORK,
    boards: Annotated[str, typer.Option(help="Separated by commas.")] = ",".join(OFFICIAL),
    programs: Annotated[str, typer.Option(help="Separated by commas; all by default.", show_default=False)] = "",
    questions: Annotated[
        int | None, typer.Option(help="Questions of each board; 100 by default.", min=2, show_default=False)
    ] = None,
    results: Annotated[Path, typer.Option(help="Folder for the records, the tables and the plot.")] = RESULTS,
    workers: Annotated[int, typer.Option(help="Processes that ask questions.", min=1)] = 12,
    threads: Annotated[int, typer.Option(help="Questions that each of them asks in parallel.", min=1)] = 20,
    decoders: Annotated[int, typer.Option(help="Processes that decode, beside one for long prompts.", min=1)] = 2,
    device: Annotated[str, typer.Option(help="cuda, or cpu to try it.")] = "cuda",
) -> None:
    """Start the decoders and the workers, and write the tables after each row."""
    named = names("board", boards, REAL)
    for board in named:  # converted and indexed once
        preset = open_board(board, data=data, work=work, questions=questions).preset
    jobs = [(board, program) for program in reversed(cheap_first(programs, preset)) for board in named]
    spawn = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(prefix="verihop-gpu-") as folder:
        sockets = start_decoders(Path(folder), decoders, device)
        # The workers embed with the CPU, a thread each.
        os.environ.update(CUDA_VISIBLE_DEVICES="", OMP_NUM_THREADS="1")
        told = f"decoded in 16 bits by {MODULE} on {_name_of(device)}"
        with ProcessPoolExecutor(workers, spawn) as pool:
            asked = [pool.submit(row, *job, sockets, data, work, questions, results, threads, told) for job in jobs]
            for done in as_completed(asked):
                try:
                    found = done.result()
                except BaseException:
                    pool.shutdown(wait=False, cancel_futures=True)
                    raise
                say(f"{found.key}: F1 {100 * (found.means[F1]['mean'] or 0):.1f}")
                write_tables(Records(results / ROWS_FILE), results)


MODULE = "experiments.papers.leaderboard.gpu"


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
            raise UserError("A decoder has ended; its error is above. Less memory is needed with --decoders 1.")
        time.sleep(0.2)
    return sockets


def decode(path: Path, socket: Path, length: int, device: str) -> None:
    """Decode what is asked for at a socket, for good."""
    import torch

    from experiments.papers.leaderboard.gpu.decoder import Decoder, serve
    from experiments.papers.leaderboard.gpu.model import BatchedLlama

    dtype = torch.float16 if device == "cuda" else torch.float32
    decoder = Decoder(BatchedLlama(path, ROWS[length] if device == "cuda" else 4, length, device, dtype))
    serve(decoder, socket)
    decoder.run()


def row(
    board: str,
    program: str,
    sockets: Sockets,
    data: Path,
    work: Path,
    questions: int | None,
    results: Path,
    threads: int,
    told: str,
) -> Record:
    """Return the row of a program on a board, measured in this process."""
    opened = _board(board, data, work, questions, sockets)
    folder = work / "runs" / board / program
    return measure(program, opened, Records(results / ROWS_FILE), folder, threads=threads, decoder=told)


@cache
def _board(name: str, data: Path, work: Path, questions: int | None, sockets: Sockets) -> Board:
    """Return a board whose LM is decoded at the sockets."""
    from experiments.papers.leaderboard.gpu.engine import SharedEngine
    from programs.lms.connect import MAX_TOKENS, local_connection
    from programs.lms.servers.connection import ModelTraits

    board = open_board(name, data=data, work=work, questions=questions)
    settings = {"temperature": 0.0, "max_tokens": MAX_TOKENS, "cache": False}
    engine = SharedEngine(sockets)
    engine.load()
    return replace(board, connection=local_connection("embedded", engine, settings, ModelTraits()))


def _require(device: str) -> None:
    with needing("gpu", "Decoding on a GPU"):
        import torch
        import xgrammar  # noqa: F401
    if device == "cuda" and not torch.cuda.is_available():
        raise UserError("torch sees no GPU here. --device cpu tries everything, at the speed of a CPU.")


def _name_of(device: str) -> str:
    import torch

    return torch.cuda.get_device_name() if device == "cuda" else device
