"""`verihop demo`: the whole road once, on the demo corpus."""

from pathlib import Path
from typing import Annotated

import typer

from experiments.cli import options
from experiments.cli.console import emit, next_step, note, say


def demo(
    out: Annotated[Path, typer.Option(help="Folder for what the demo makes.")] = Path("runs/demo"),
    lm: options.LM = "embedded",
    threads: options.Threads = 8,
    as_json: options.Json = False,
) -> None:
    """Index, compile, evaluate before and after, freeze, load, answer: everything in a few minutes, offline."""
    from rich.console import Console

    from experiments.cli.ask import show
    from experiments.pipeline.demo import run_demo

    note("The demo corpus tells of an invented archipelago, so that no LM knows the answers by heart.")
    result = run_demo(out, lm=lm, threads=threads, step=lambda text: note(f"\n== {text}"))
    if as_json:
        answered = {"question": result.question, "answer": result.prediction.answer}
        made = {"artifact": str(result.artifact), "report": str(result.report)}
        emit({**answered, **made, "comparison": result.comparison.as_dict()})
        return
    Console().print(result.comparison.as_table())
    say(f"\nQuestion: {result.question}")
    show(result.prediction)
    say(f"\nArtifact: {result.artifact}")
    say(f"Report:   {result.report}")
    next_step(
        f'verihop ask --artifact {result.artifact} "Another question about the Tarrowind Isles"',
        "verihop programs",
        "verihop data convert hotpotqa FILE --out data/hotpotqa",
    )
