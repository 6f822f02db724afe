"""`kill -9` at random moments in commands, each then run again: nothing that was complete may be lost or wrong.

    python -m experiments.benchmarks.campaigns.kills

The commands run as users run them, in processes of their own, on a small generated world, with the simulated LM;
`judge` and `keyfacts build` on a chat server of this process. Half of the kills come after a
random time from the first file on, half in front of a random change of a file (open for writing, rename, remove, make a
folder), which also hits the short moments between two renames. A command that ended before its kill is run again.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from experiments.benchmarks.campaigns.chat_server import MODEL, ChatServer
from experiments.benchmarks.campaigns.kill_cases import SHARDS, SMALL, Case, Materials, differing, names_of
from experiments.benchmarks.campaigns.kill_commands import CASES
from experiments.runs.files import write_json
from experiments.runs.provenance import portable, provenance

OUT = Path("experiments/results/campaign_kills.json")
LONGEST = 300.0  # seconds that a command may take
_TRIES = 20  # to hit a command before it ends

# Runs the command line, and kills itself in front of the n-th change of a file below a folder; 0 only counts them.
CHILD = """
import os, signal, sys
folder, last = sys.argv[1], int(sys.argv[2])
sys.argv[1:] = sys.argv[3:]
changes = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.chmod", "shutil.rmtree"}
count = 0
def hook(event, arguments):
    global count
    path = arguments[0] if arguments else None
    if event == "open":
        writes = isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
    elif event not in changes:
        return
    else:
        writes = True
    if writes and isinstance(path, (str, os.PathLike)) and os.fspath(path).startswith(folder):
        count += 1
        if count == last:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(hook)
from experiments.cli.main import main
try:
    main()
finally:
    if last == 0:
        sys.stderr.write(f"\\nchanges: {count}\\n")
"""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, help=__doc__)


class Trial:
    """One working folder, in which a command runs undisturbed, or is killed and resumed.

    Args:
        case: The command.
        work: The folder; it is made anew.
    """

    def __init__(self, case: Case, work: Path):
        self.case, self.work = case, work
        self.arguments = case.arguments(work)

    def reset(self) -> None:
        """Make the working folder as it is before the command."""
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True)
        self.case.prepare(self.work)

    def start(self, *, resume: bool = False, kill_at: int = -1) -> "subprocess.Popen[str]":
        """Start the command."""
        arguments = self.case.resumed(self.work) if resume else self.arguments
        command = [sys.executable, "-c", CHILD, str(self.work), str(kill_at), *arguments]
        environment = {**os.environ, "VERIHOP_CACHE_DIR": str(self.work / "cache"), "PYTHONPATH": str(Path.cwd())}
        pipes: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen(command, env=environment, **pipes)

    def finish(self, *, resume: bool = False, kill_at: int = -1) -> tuple[int, str]:
        """Run the command to its end; return its exit code and standard error."""
        process = self.start(resume=resume, kill_at=kill_at)
        _, error = process.communicate(timeout=LONGEST)
        return process.returncode, error

    def undisturbed(self) -> tuple[float, int]:
        """Run the command; return the seconds from its first file to its end, and its changes of files."""
        self.reset()
        process = self.start(kill_at=0)
        self._await_first_file(process)
        start = time.monotonic()
        _, error = process.communicate(timeout=LONGEST)
        if process.returncode != 0:
            raise RuntimeError(f"{' '.join(self.arguments)} failed: {error[-2000:]}")
        return time.monotonic() - start, int(error.rsplit("changes: ", 1)[1])

    def kill_after(self, seconds: float) -> bool:
        """Kill the command that long after its first file; return whether it was still running."""
        self.reset()
        process = self.start()
        self._await_first_file(process)
        time.sleep(seconds)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=LONGEST)
        return process.returncode == -signal.SIGKILL

    def kill_at(self, change: int) -> bool:
        """Kill the command in front of its n-th change of a file; return whether it got so far."""
        self.reset()
        return self.finish(kill_at=change)[0] == -signal.SIGKILL

    def _await_first_file(self, process: "subprocess.Popen[str]") -> None:
        before = names_of(self.work)
        while process.poll() is None and names_of(self.work) == before:
            time.sleep(0.005)


def kill_and_resume(
    trial: Trial, reference: Trial, draws: random.Random, *, by_clock: bool, span: Any
) -> dict[str, Any]:
    """Kill the command at a random moment and resume it; return what was found."""
    for _ in range(_TRIES):
        moment = draws.uniform(0, span[0]) if by_clock else draws.randint(1, span[1])
        if trial.kill_after(moment) if by_clock else trial.kill_at(int(moment)):
            break
    else:
        raise RuntimeError(f"{trial.arguments[0]} was never hit before it ended.")
    kept, missing = trial.case.parts(trial.work), trial.case.missing(trial.work)
    code, error = trial.finish(resume=True)
    found: dict[str, Any] = {
        "moment": round(moment, 3),
        "kind": "clock" if by_clock else "change",
        "kept": len(kept),
        "no_artifact": missing,
        "resume_failed": code != 0,
        "noisy": "Traceback" in error or "cannot be cached" in error,
    }
    if code != 0 or found["noisy"]:
        found["error"] = portable(error[-500:])
    if code == 0:
        lost = differing(kept, trial.case.parts(trial.work))
        leftovers = sorted(set(names_of(trial.work)) - set(names_of(reference.work)))
        wrong = trial.case.result(trial.work) != reference.case.result(reference.work)
        found.update(lost=len(lost), wrong=wrong, leftovers=leftovers)
        if lost:
            found["lost_parts"] = list(lost)[:5]
        if wrong:  # which parts, to look at
            found["differs"] = list(differing(reference.case.parts(reference.work), trial.case.parts(trial.work)))[:5]
    return found


def totals(kills: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the counts over all kills of a command."""
    faults = ("no_artifact", "resume_failed", "noisy", "wrong")
    return {
        "kills": len(kills),
        "complete_parts_on_disk": sum(kill["kept"] for kill in kills),
        "lost": sum(kill.get("lost", 0) for kill in kills),
        **{name: sum(bool(kill.get(name)) for kill in kills) for name in faults},
        "with_leftovers": sum(bool(kill.get("leftovers")) for kill in kills),
    }


def prepare(folder: Path, base: str, *, questions: int, seed: int) -> Materials:
    """Generate a world, and build the index, runs and artifact that the commands read."""
    from experiments.world.generate import generate

    materials = Materials(folder, base, MODEL)
    passages, asked = generate(materials.world, questions=questions, seed=seed)
    lines = passages.read_text(encoding="utf-8").splitlines(keepends=True)
    half = asked.read_text(encoding="utf-8").splitlines(keepends=True)
    for name, some in {
        "few": lines[:120], "more": lines[120:200], "train": half[: questions // 2], "val": half[questions // 2 :]
    }.items():  # fmt: skip
        (materials.world / f"{name}.jsonl").write_text("".join(some), encoding="utf-8")
    (materials.world / "documents").mkdir()
    for number in range(20):
        texts = [json.loads(line) for line in lines[10 * number : 10 * number + 10]]
        document = "\n\n".join(f"## {text['title']}\n\n{text['text']}" for text in texts)
        (materials.world / "documents" / f"{number}.md").write_text(document, encoding="utf-8")
    index = ["--index", str(folder / "index"), "--lm", f"simulated:{seed}", "--quiet"]
    commands = [["index", str(passages), "--retriever", "bm25", "--out", str(folder / "index"), "--quiet"]]
    for name, retriever in zip(SMALL, ("bm25s", "hybrid"), strict=True):
        few = str(materials.world / "few.jsonl")
        commands.append(["index", few, "--retriever", retriever, "--out", str(folder / name), "--quiet"])
    for number, name in enumerate(SHARDS, start=1):
        shard = ["--shard", f"{number}/{len(SHARDS)}", "--out", str(folder / name)]
        commands.append(["eval", str(asked), "--program", "rag", *shard, *index])
    for program in ("rag", "genground"):
        commands.append(["eval", str(asked), "--program", program, "--out", str(folder / program), *index])
    commands.append(["compile", str(asked), "--program", "genground", "--limit", "10", "--max-demos", "1",
                     "--out", str(folder / "artifact"), *index])  # fmt: skip
    for command in commands:
        environment = {**os.environ, "VERIHOP_CACHE_DIR": str(folder / "cache")}
        subprocess.run([sys.executable, "-m", "experiments.cli.main", *command], env=environment, check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    return materials


@app.command()
def kills(
    each: Annotated[int, typer.Option(help="Kills per command.", min=1)] = 20,
    commands: Annotated[str, typer.Option(help="Commands, separated by commas.")] = ",".join(CASES),
    questions: Annotated[int, typer.Option(help="Questions of the world.", min=40)] = 150,
    seed: Annotated[int, typer.Option(help="Seed of the world and of the moments.")] = 0,
    out: Annotated[Path, typer.Option(help="The result file.")] = OUT,
) -> None:
    """Kill, resume and compare."""
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, ChatServer(seed) as server:
        materials = prepare(Path(folder) / "given", server.base, questions=questions, seed=seed)
        for name in commands.split(","):
            found = _campaign(name, materials, Path(folder), each=each, seed=seed)
            results[name] = {**totals(found), "found": _notable(found)}
            typer.echo(f"{name}: {json.dumps(totals(found))}")
            head = provenance("experiments.benchmarks.campaigns.kills")
            write_json(out, {**head, "seed": seed, "commands": results})  # after each: a campaign takes a while
    typer.echo(f"Written: {out}")


def _campaign(name: str, materials: Materials, folder: Path, *, each: int, seed: int) -> list[dict[str, Any]]:
    case, found = CASES[name], []
    draws = random.Random(f"{seed}:{name}")
    for variant in range(case.variants):
        reference = Trial(case(materials, variant), folder / "reference")
        span = reference.undisturbed()
        trial = Trial(case(materials, variant), folder / "killed")
        for number in range(variant, each, case.variants):
            by_clock = number // case.variants % 2 == 0
            found.append(kill_and_resume(trial, reference, draws, by_clock=by_clock, span=span))
    return found


def _notable(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Return how the kills were made, and those after which something was not as it should be."""
    bad = ("lost", "no_artifact", "resume_failed", "noisy", "wrong", "leftovers")
    kinds = Counter(kill["kind"] for kill in found)
    return {"kinds": dict(kinds), "bad": [kill for kill in found if any(kill.get(name) for name in bad)]}


if __name__ == "__main__":
    app()
