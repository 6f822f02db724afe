"""`verihop keyfacts`: benchmarks of what a long answer has to say."""

from pathlib import Path
from typing import Annotated

import typer

from experiments.cli import options
from experiments.cli.console import emit, next_step, note, resumable, say

keyfacts = typer.Typer(no_args_is_help=True, help="Key facts: what a long answer has to say.")

Oracle = Annotated[
    str, typer.Option(help="Entailment oracle: calibrated, lexical, semantic, lm, seq2seq:MODEL, cross-encoder:MODEL.")
]


@keyfacts.callback()
def main() -> None:
    """Key facts: what a long answer has to say."""


@keyfacts.command()
def build(
    questions: Annotated[Path, typer.Argument(help="questions.jsonl with answers and gold ids.")],
    passages: Annotated[Path, typer.Option(help="passages.jsonl that holds the gold passages.")],
    out: Annotated[Path, typer.Option(help="Folder for the work and the new questions.jsonl.")],
    lm: options.LM = "embedded",
    api_base: options.ApiBase = None,
    api_key_env: options.ApiKeyEnv = None,
    oracle: Oracle = "calibrated",
    drop: Annotated[bool, typer.Option("--drop", help="Leave out facts that a check turned down.")] = False,
    split: options.Split = None,
    limit: options.Limit = None,
    threads: options.Threads = 8,
    budget_calls: options.BudgetCalls = None,
    budget_usd: options.BudgetUsd = None,
    resume: options.Resume = False,
    as_json: options.Json = False,
) -> None:
    """Derive two to four key facts per question from its answer and gold passages, and check them."""
    from corpora.passages import read_passages
    from experiments.annotation.build_keyfacts import QUESTIONS, build_key_facts
    from experiments.pipeline import setup
    from optimizers.metrics.entailment.catalog import open_oracle
    from optimizers.metrics.entailment.oracle import describe
    from signatures.common.errors import UserError

    judge = open_oracle(oracle)
    chosen = setup.open_questions(questions, split=split, limit=limit)
    connection = setup.open_lm(lm, setup.LMOptions(api_base, api_key_env), calls=budget_calls, usd=budget_usd)
    with resumable():
        built = build_key_facts(
            chosen,
            {passage.id: passage for passage in read_passages(passages)},
            connection=connection,
            oracle=judge,
            out=out,
            threads=threads,
            resume=resume,
            drop=drop,
        )
    if as_json:
        emit(built.as_dict())
        return
    say(f"{built.facts} key facts for {built.questions} questions")
    say(f"Checks by {describe(judge)}")
    say(f"  {built.unsupported} not entailed by the references, {built.duplicates} repeat another")
    say(f"  {built.too_few} questions have fewer than two, {built.surplus} facts beyond four were left out")
    if built.parse_failures or built.left_out:
        note(f"{built.parse_failures} replies could not be read; {built.left_out} questions lack answer or gold.")
    say(f"Written: {out / QUESTIONS}")
    if not built.facts:
        raise UserError(f"{lm} gave no key fact that could be read. Name another LM with --lm.")
    next_step(f"verihop review keyfacts {out / QUESTIONS} --passages {passages} --out REVIEW --reviewer NAME")
