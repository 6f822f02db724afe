"""`verihop demo`: index, compile, evaluate and ask on the demo corpus."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from experiments.cli.shared import options
from experiments.cli.shared.console import emit, next_step, note, say, show
from experiments.cli.shared.next_commands import command, used
from experiments.cli.shared.options import with_option_groups
from programs.lms.spec import LMSpec
from signatures.common.specs import Field


@dataclass(frozen=True, kw_only=True)
class DemoOutput(options.Output):
    """Where the demo writes, and what is printed."""

    out: Annotated[Path, Field("Folder for the demo's files.", "--out -o")] = Path("runs/demo")


@with_option_groups
def demo(lm: LMSpec, limits: options.Limits, output: DemoOutput, threads: options.Threads = 8) -> None:
    """Index, evaluate, compile, evaluate again, answer: in a few minutes, offline with the embedded LM.

    An LM named in the settings is used, within their budget; one budget limits all steps together.
    """
    from experiments.cli.ask import show_answer
    from experiments.pipeline.demo import QUESTION, run_demo

    def on_step(text: str) -> None:
        if not output.quiet:
            note(f"\n== {text}")

    note("The demo corpus is about an invented archipelago, so that no LM knows the answers from training.")
    done = run_demo(
        output.out,
        lm.for_threads(threads),
        budget=limits.budget(),
        threads=threads,
        on_step=on_step,
        progress=not output.quiet,
    )
    if output.as_json:
        answered = {"question": QUESTION, "answer": done.prediction.answer}
        files = {"artifact": str(done.artifact), "report": str(done.report)}
        emit({**answered, **files, "comparison": done.comparison.as_dict()})
        return
    if not output.quiet:
        show(done.comparison.as_table())
    say(f"\nQuestion: {QUESTION}")
    show_answer(done.prediction)
    say("\nThe same question, hop by hop:\n")
    show_answer(done.by_hops)
    say(f"\nArtifact: {done.artifact}")
    say(f"Report:   {done.report}")
    next_step(
        command("verihop", "ask", "--artifact", done.artifact, *used(lm), "Another question about the Tarrowind Isles"),
        "verihop programs",
        "verihop data list",
    )
