"""`verihop keyfacts`: build key facts, the statements that a complete answer must contain."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from experiments.cli.shared import options
from experiments.cli.shared.app import App
from experiments.cli.shared.console import emit, next_step, note, resumable, say
from experiments.cli.shared.next_commands import command, new_path, reviewer
from experiments.cli.shared.options import with_option_groups
from experiments.runs.specs import Selection
from programs.lms.spec import LMSpec
from signatures.common.errors import UserError
from signatures.common.specs import Field

if TYPE_CHECKING:
    from experiments.annotation.build_keyfacts import Built

HELP = "Key facts: statements that a complete answer must contain."
keyfacts = App(help=HELP)


@dataclass(frozen=True)
class Checks:
    """How key facts are checked."""

    PANEL: ClassVar[str] = "Checks"
    oracle: Annotated[
        str, Field("Entailment oracle: lexical, semantic, calibrated, lm, seq2seq:MODEL, cross-encoder:MODEL.")
    ] = "lexical"
    drop: Annotated[bool, Field("Omit facts that fail a check.", "--drop")] = False


@keyfacts.callback(help=HELP)
def main() -> None:
    """Make Typer treat `keyfacts` as a group although it has a single command."""


@keyfacts.command()
@with_option_groups
def build(
    questions: Annotated[Path, typer.Argument(help="questions.jsonl with answers and gold ids.")],
    passages: Annotated[Path, typer.Option(help="passages.jsonl with the gold passages.")],
    lm: LMSpec,
    checks: Checks,
    selection: Selection,
    execution: options.Execution,
    limits: options.Limits,
    output: options.Output,
    out: Annotated[
        Path,
        typer.Option("--out", "-o", help="Folder for the rows and the new questions.jsonl.", rich_help_panel="Output"),
    ],
) -> None:
    """Derive two to four key facts per question from its answer and gold passages, and check them."""
    from corpora.passages import read_passages
    from experiments.annotation.build_keyfacts import QUESTIONS, build_key_facts
    from experiments.pipeline import setup
    from optimizers.metrics.entailment.catalog import open_oracle
    from optimizers.metrics.entailment.oracle import describe

    oracle = open_oracle(checks.oracle, cache=lm.cache)
    selected = setup.open_questions(questions, split=selection.split, limit=selection.limit)
    connection = setup.open_lm(lm.for_threads(execution.threads), limits.budget())
    with resumable():
        built = build_key_facts(
            selected,
            {passage.id: passage for passage in read_passages(passages)},
            connection=connection,
            oracle=oracle,
            out=out,
            threads=execution.threads,
            resume=execution.resume,
            drop=checks.drop,
            progress=not output.quiet,
        )
    if output.as_json:
        emit(asdict(built))
    else:
        _print(built, describe(oracle), out / QUESTIONS)
    if not built.facts:
        raise UserError(f"{connection.id} returned no key fact that could be parsed: name another LM with --lm.")
    if not output.as_json:
        review = new_path(out.with_name(f"{out.name}-review"))
        words = ("--passages", passages, "--out", review, "--reviewer", reviewer())
        next_step(command("verihop", "review", "keyfacts", out / QUESTIONS, *words))


def _print(built: "Built", oracle: str, path: Path) -> None:
    say(f"{built.facts} key facts for {built.questions} questions")
    say(f"Checks by {oracle}")
    say(f"  {built.unsupported} not entailed by the references, {built.duplicates} repeat another")
    say(f"  {built.too_few} questions have fewer than two, {built.surplus} facts beyond four were omitted")
    if built.parse_failures or built.left_out:
        note(f"{built.parse_failures} replies were unparseable; {built.left_out} questions lack an answer or gold.")
    say(f"Written: {path}")
