"""Speed of `verihop compare` and of the page that it writes, on generated runs.

    python -m experiments.benchmarks.speed.analysis [--checkout DIR] [--out FILE]

Every command is a process of its own, so that start-up, imports and peak memory count. With `--checkout`, the folder of
an older revision, both revisions take turns in every round and the ratio of their medians is given. The page is opened
in headless Chromium, where there is one: from the start of navigation until the page has loaded and lists questions.
"""

import contextlib
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer

from experiments.benchmarks.speed.generated_runs import generate_runs
from experiments.runs.files import write_json
from experiments.runs.provenance import portable, provenance
from signatures.common.errors import UserError

OUT = Path("experiments/results/analysis_speed.json")
ROOT = Path(__file__).parents[3]
# The client of the tests: a benchmark runs in a checkout, and a second client would have to be kept in step.
BROWSER = ROOT / "tests/experiments/browser.py"
LISTED = "document.querySelector('.q > summary')"

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, help=__doc__)


def timed(checkout: Path, arguments: Sequence[Path | str]) -> dict[str, float]:
    """Run `verihop compare` of a checkout; return its seconds and the peak of its resident set in MB.

    Raises:
        UserError: The command failed.
    """
    command = [sys.executable, "-m", "experiments.cli.main", "compare", *map(str, arguments)]
    start = time.perf_counter()
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(command, cwd=checkout, stdout=subprocess.DEVNULL, stderr=errors)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.perf_counter() - start
        if process.returncode:
            errors.seek(0)
            lines = errors.read().decode(errors="replace").splitlines()
            raise UserError(f"compare failed in {checkout.name}: {lines[-1] if lines else 'no message'}")
    return {"seconds": seconds, "cpu_seconds": usage.ru_utime + usage.ru_stime, "peak_mb": usage.ru_maxrss / 1024}


def spread(values: Sequence[float]) -> dict[str, float]:
    """Return the smallest, the median and the largest value."""
    return {"min": round(min(values), 2), "median": round(median(values), 2), "max": round(max(values), 2)}


def opened(page: Path) -> dict[str, float] | None:
    """Open a report in a new browser; return seconds until its questions are listed and until a trace is shown.

    Returns:
        None without Chromium, or without the tests that contain its client; empty if the browser gave up for 30 s.
    """
    if not BROWSER.exists():
        return None
    spec = importlib.util.spec_from_file_location("browser", BROWSER)
    assert spec is not None
    assert spec.loader is not None
    browsing = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(browsing)
    program = browsing.chromium()
    if program is None:
        return None
    with tempfile.TemporaryDirectory() as profile, contextlib.closing(browsing.Browser(program, Path(profile))) as tab:
        tab.size(1280, 900)
        try:
            start = time.perf_counter()
            tab.open(page.as_uri())
            tab.wait(f"{LISTED}?.getClientRects().length")
            tab.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))")
            listed = time.perf_counter() - start
            start = time.perf_counter()
            tab.click(LISTED)
            tab.wait("document.querySelector('.q[open] .answer')?.getClientRects().length")
        except TimeoutError:
            return {}
        return {"listed": listed, "trace": time.perf_counter() - start}


def measure(cases: dict[str, list[Path]], checkouts: dict[str, Path], folder: Path, rounds: int) -> dict[str, Any]:
    """Return seconds, peak memory and sizes of every case, by revision; rounds are interleaved.

    Args:
        cases: Name -> runs; a name that ends in "html" also writes the page.
        checkouts: Name of a revision -> folder of its checkout.
        folder: Where pages are written.
        rounds: How often each is measured.
    """
    taken: dict[str, dict[str, list[dict[str, float]]]] = {case: {arm: [] for arm in checkouts} for case in cases}
    pages: dict[str, dict[str, list[dict[str, float]]]] = {}
    sizes: dict[tuple[str, str], float] = {}
    for turn in range(rounds):
        for case, runs in cases.items():
            # The order changes from round to round, so that neither revision always comes first.
            for arm in list(checkouts)[:: 1 if turn % 2 == 0 else -1]:
                page = folder / f"{arm}.html"
                html = case.endswith("html")
                written: list[Path | str] = ["--html", page] if html else []
                result = timed(checkouts[arm], [*runs, *written])
                taken[case][arm].append(result)
                print(f"{case:24} {arm:6} {result['seconds']:6.2f} s {result['peak_mb']:6.0f} MB", file=sys.stderr)
                if html:
                    sizes[case, arm] = page.stat().st_size / 1e6
                    if (sight := opened(page)) is not None:
                        pages.setdefault(case, {}).setdefault(arm, []).append(sight)
    found: dict[str, Any] = {}
    for case, arms in taken.items():
        found[case] = {}
        for arm, results in arms.items():
            own: dict[str, Any] = {name: spread([result[name] for result in results]) for name in results[0]}
            if (case, arm) in sizes:
                own["page_mb"] = round(sizes[case, arm], 1)
            seen = pages.get(case, {}).get(arm, [])
            if seen and not all(seen):
                own["opened"] = "the browser gave no sign for 30 s"
            elif seen:
                own |= {f"seconds_until_{name}": spread([of[name] for of in seen]) for name in seen[0]}
            found[case][arm] = own
        if len(arms) > 1:
            found[case]["times_as_fast"] = {
                name: round(found[case]["old"][name]["median"] / found[case]["new"][name]["median"], 2)
                for name in ("seconds", "cpu_seconds")
            }
    return found


@app.command()
def main(
    checkout: Annotated[Path | None, typer.Option(help="Checkout of an older revision, to compare with.")] = None,
    rows: Annotated[int, typer.Option(help="Questions of the three large runs.", min=2)] = 8000,
    pages: Annotated[int, typer.Option(help="Questions of the five runs whose page is opened.", min=2)] = 2000,
    many: Annotated[int, typer.Option(help="Number of runs in the case of many.", min=5)] = 12,
    rounds: Annotated[int, typer.Option(help="How often each command runs.", min=1)] = 3,
    out: Annotated[Path, typer.Option(help="Result file.")] = OUT,
) -> None:
    """Generate runs, measure, print and write the result file."""
    load = os.getloadavg()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        large = generate_runs(folder / "large", runs=3, rows=rows)
        several = generate_runs(folder / "several", runs=many, rows=pages, seed=1)
        cases = {
            f"3 x {rows}": large,
            f"3 x {rows}, html": large,
            f"5 x {pages}": several[:5],
            f"5 x {pages}, html": several[:5],
            f"{many} x {pages}": several,
        }
        checkouts = {**({"old": checkout.resolve()} if checkout else {}), "new": ROOT}
        found = measure(cases, checkouts, folder, rounds)
        row_bytes = (large[0] / "rows.jsonl").stat().st_size / rows
    record = {
        **portable(provenance("experiments.benchmarks.speed.analysis")),
        "what": "verihop compare as a process: wall and CPU seconds, peak resident set, page, and its opening",
        "old_revision": _revision(checkout),
        "row_bytes": round(row_bytes),
        "rounds": rounds,
        "load_average": {"start": [round(value, 2) for value in load], "end": [round(v, 2) for v in os.getloadavg()]},
        "cases": found,
    }
    write_json(out, record)
    print(f"Wrote {out}.")


def _revision(checkout: Path | None) -> str | None:
    if checkout is None:
        return None
    git = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    return subprocess.run(git, cwd=checkout, capture_output=True, text=True, check=False).stdout.strip() or None


if __name__ == "__main__":
    app()
