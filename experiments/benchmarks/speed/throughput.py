"""How much of a server's speed clients use: calls x latency / (width x seconds), at a fixed latency on loopback.

    python -m experiments.benchmarks.speed.throughput

Variants (all by default): `raw` (asyncio, equal requests: what machine and server allow), for each program and
retriever `eval` (the command, without reply cache), and for each program over BM25 `dspy.Evaluate` (our program and LM
under DSPy's runner), `dspy` (DSPy's native client and JSON adapter under its runner) and `litellm` (the same adapter
through LiteLLM). Names are `raw` and `CLIENT PROGRAM RETRIEVER`, e.g. `eval genground hybrid`.

Compare settings of `eval`, or revisions, in the same rounds:

    python -m experiments.benchmarks.speed.throughput --only eval \\
        --eval-args "two processes=--processes 2" --checkout "before=../old,python"

Each variant runs in processes of its own, rounds interleaved, each on a fresh server. `ratio` counts from the first
request to the last reply, so without start-up; `middle_ratio` counts between the first 10 % and the first 80 % of the
replies, so without the end, where the last questions leave threads idle. CPU is that of the client and its child
processes between the first and the last reply. The questions are those of the simulated world, unless others are named.
"""

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.benchmarks.speed.loopback import server, stats_of
from experiments.runs.config import portable, provenance
from experiments.runs.files import write_json

MODULE = "experiments.benchmarks.speed.throughput"
RESULT = Path("experiments/results/throughput.json")
PROGRAMS, RETRIEVERS = ("rag", "genground"), ("bm25", "hybrid")
OTHERS = ("dspy.Evaluate", "dspy", "litellm")
_LOOK = 0.1  # seconds between looks at the server and the client


@dataclass(frozen=True)
class Variant:
    """A client to measure.

    Args:
        name: In the result.
        command: Returns the command for the base URL of a server and an output folder that does not exist.
        folder: Where it runs.
    """

    name: str
    command: Callable[[str, Path], list[str]]
    folder: Path


@dataclass(frozen=True)
class Corpus:
    """What is asked of what.

    Args:
        questions: File.
        indexes: Folder of the index by retriever.
        count: Questions by program.
    """

    questions: Path
    indexes: dict[str, Path]
    count: dict[str, int]


@dataclass(frozen=True)
class Checkout:
    """A revision of this project: its folder, the Python that runs it, and a label (empty for this one)."""

    label: str
    folder: Path
    python: str


def prepare(folder: Path, given: argparse.Namespace) -> Corpus:
    """Write the questions and build the indexes in a folder."""
    from corpora.index.build import build_index
    from experiments.world.generate import generate

    count = {"rag": given.questions_rag, "genground": given.questions_genground}
    passages, questions = given.corpus, given.questions
    if (passages is None) != (questions is None):
        sys.exit("Name both --corpus and --questions, or neither.")
    if passages is None:
        passages, questions = generate(folder / "world", questions=max(count.values()))
    with questions.open() as lines:
        available = sum(1 for line in lines if line.strip())
    indexes = {retriever: folder / retriever for retriever in given.retrievers}
    for retriever, index in indexes.items():
        build_index(passages, index, retriever=retriever)
    return Corpus(questions.resolve(), indexes, {name: min(wanted, available) for name, wanted in count.items()})


def variants(corpus: Corpus, given: argparse.Namespace) -> list[Variant]:
    """Return the variants that were chosen."""
    here = Path.cwd()
    own = Checkout("", here, sys.executable)
    settings = [("", ""), *(_labelled(text) for text in given.eval_args)]
    found = [_raw(given, here)]
    for program in given.programs:
        for retriever in given.retrievers:
            name = f"{program} {retriever}"
            for label, words in settings:
                found.append(_eval(own, label, program, retriever, shlex.split(words), corpus, given))
            for checkout in given.checkout:
                found.append(_eval(checkout, checkout.label, program, retriever, [], corpus, given))
            for client in OTHERS if retriever in given.others_on else ():
                found.append(_other(client, name, program, corpus.indexes[retriever], corpus, given))
    if not given.only:
        return found
    chosen = [variant for variant in found if any(variant.name.startswith(start) for start in given.only)]
    return chosen or sys.exit(f"No variant begins with {' or '.join(given.only)}: {[item.name for item in found]}")


def _raw(given: argparse.Namespace, here: Path) -> Variant:
    words = ["raw", "--width", str(given.width), "--count", str(given.questions_rag)]
    module = [sys.executable, "-m", "experiments.benchmarks.speed.throughput_clients"]
    return Variant("raw", lambda base, out: [*module, *words, "--base", base], here)


def _eval(
    checkout: Checkout,
    label: str,
    program: str,
    retriever: str,
    words: Sequence[str],
    corpus: Corpus,
    given: argparse.Namespace,
) -> Variant:
    command = [checkout.python, "-m", "experiments.cli.main", "eval", str(corpus.questions), "--program", program]
    command += ["--index", str(corpus.indexes[retriever]), "--limit", str(corpus.count[program]), "--lm", "loopback"]
    command += ["--threads", str(given.width), "--no-cache", "--quiet", "--json", *words]
    name = " ".join(["eval", program, retriever, *([f"[{label}]"] if label else [])])
    return Variant(name, lambda base, out: [*command, "--api-base", base, "--out", str(out)], checkout.folder)


def _other(client: str, name: str, program: str, index: Path, corpus: Corpus, given: argparse.Namespace) -> Variant:
    count = max(1, round(corpus.count[program] * (given.share_of_litellm if client == "litellm" else 1)))
    words = [client, "--width", str(given.width), "--count", str(count), "--program", program]
    words += ["--index", str(index), "--questions", str(corpus.questions)]
    module = [sys.executable, "-m", "experiments.benchmarks.speed.throughput_clients"]
    return Variant(f"{client} {name}", lambda base, out: [*module, *words, "--base", base], Path.cwd())


def measure(variant: Variant, out: Path, *, latency: float, width: int) -> dict[str, float]:
    """Run a variant once.

    Raises:
        SystemExit: It failed.
    """
    began = time.perf_counter()
    with server(latency) as base, tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(variant.command(base, out), cwd=variant.folder, stdout=said, stderr=said)
        seen = _watch(process, base)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        wall = time.perf_counter() - began
        if process.returncode not in (0, 1):  # 1: replies that were not parsed
            said.seek(0)
            sys.exit(f"{variant.name} failed with {process.returncode}:\n{said.read()[-2000:]}")
        stats = stats_of(base, replies=True)
    calls, asking = stats["calls"], stats["ended"] - stats["began"]
    (first, cpu_first), (last, cpu_last) = seen[0], seen[-1]
    early, late = sorted(stats["replies"])[calls // 10], sorted(stats["replies"])[calls * 8 // 10]
    return {
        "calls": calls,
        "widest": stats["widest"],
        "wall_seconds": wall,
        "asking_seconds": asking,
        "cpu_seconds": used.ru_utime + used.ru_stime,
        "cpu_ms_per_call": 1000 * (cpu_last - cpu_first) / max(1, last - first),
        "ratio": calls * latency / (width * asking),
        "middle_ratio": (calls * 8 // 10 - calls // 10) * latency / (width * (late - early)),
    }


def _watch(process: "subprocess.Popen[Any]", base: str) -> list[tuple[int, float]]:
    """Return the calls and the CPU seconds of a running client whenever the calls had changed, until it ends."""
    import psutil

    client = psutil.Process(process.pid)
    seen: list[tuple[int, float]] = []
    while not os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
        calls = stats_of(base)["calls"]
        if calls and (not seen or calls != seen[-1][0]):
            seen.append((calls, _cpu(client)))
        time.sleep(_LOOK)
    return seen or [(0, 0.0)]


def _cpu(client: Any) -> float:
    """Return the CPU seconds of a process and its children so far."""
    import psutil

    used = 0.0
    for process in [client, *client.children(recursive=True)]:
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        used += times.user + times.system
        used += times.children_user + times.children_system if process is client else 0.0
    return used


def summary(rounds: Sequence[dict[str, float]]) -> dict[str, dict[str, float]]:
    """Return the minimum, the median and the maximum of each figure."""
    columns = {name: [one[name] for one in rounds] for name in rounds[0]}
    return {
        name: {
            "min": round(min(values), 4),
            "median": round(statistics.median(values), 4),
            "max": round(max(values), 4),
        }
        for name, values in columns.items()
    }


def _labelled(text: str) -> tuple[str, str]:
    label, _, rest = text.partition("=")
    return label, rest


def _checkout(text: str) -> Checkout:
    label, rest = _labelled(text)
    folder, _, python = rest.partition(",")
    return Checkout(label, Path(folder).resolve(), python or sys.executable)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, default=64, help="Threads, and calls that the server is ready for.")
    parser.add_argument("--latency", type=float, default=0.2, help="Seconds that the server takes.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--programs", nargs="+", default=PROGRAMS, choices=PROGRAMS)
    parser.add_argument("--retrievers", nargs="+", default=RETRIEVERS, choices=RETRIEVERS)
    parser.add_argument("--only", nargs="+", default=[], help="Variants whose names begin so.")
    parser.add_argument("--others-on", nargs="*", default=RETRIEVERS[:1], choices=RETRIEVERS, help="Not eval.")
    parser.add_argument("--questions-rag", type=int, default=960)
    parser.add_argument("--questions-genground", type=int, default=192)
    parser.add_argument("--share-of-litellm", type=float, default=0.5, help="Share of the questions that it gets.")
    parser.add_argument("--corpus", type=Path, help="passages.jsonl in place of the simulated world.")
    parser.add_argument("--questions", type=Path, help="questions.jsonl in place of the simulated world.")
    parser.add_argument("--eval-args", action="append", default=[], metavar="LABEL=ARGS", help="Another eval.")
    parser.add_argument(
        "--checkout", action="append", default=[], type=_checkout, metavar="LABEL=DIR[,PYTHON]", help="Its eval, too."
    )
    parser.add_argument("--out", type=Path, default=RESULT)
    return parser


def main() -> None:
    """Measure all variants in interleaved rounds and write the result."""
    given = _parser().parse_args()
    load = os.getloadavg()
    rounds: dict[str, list[dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        corpus = prepare(Path(temporary), given)
        chosen = variants(corpus, given)
        for number in range(1, given.rounds + 1):
            for place, variant in enumerate(chosen):
                out = Path(temporary) / f"run-{number}-{place}"
                found = measure(variant, out, latency=given.latency, width=given.width)
                rounds.setdefault(variant.name, []).append(found)
                figures = ", ".join(
                    f"{name} {found[name]:.3g}" for name in ("ratio", "middle_ratio", "cpu_ms_per_call")
                )
                print(f"round {number}: {variant.name}: {figures}, {found['calls']} calls", file=sys.stderr)
        record = {
            **provenance(MODULE),
            "width": given.width,
            "latency": given.latency,
            "rounds": given.rounds,
            "questions": corpus.count,
            "load": {"before": load, "after": os.getloadavg()},
            "variants": {name: summary(found) for name, found in rounds.items()},
        }
    write_json(given.out, portable(record))
    print(json.dumps({name: found["ratio"] for name, found in record["variants"].items()}, indent=2))


if __name__ == "__main__":
    main()
