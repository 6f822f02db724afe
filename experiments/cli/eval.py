"""`verihop eval`: a program's scores on questions with gold answers."""

from pathlib import Path
from typing import Annotated, Any

import typer

from experiments.cli import options
from experiments.cli.console import emit, next_step, note, say

DEFAULT_METRICS = "em,f1[hotpot],recall@5,all_gold@5"


def eval_(
    questions: Annotated[Path, typer.Argument(help="questions.jsonl with gold answers.")],
    out: Annotated[Path, typer.Option(help="Folder for the run.")],
    program: Annotated[str | None, typer.Option(help="An uncompiled program by name.")] = None,
    artifact: Annotated[Path | None, typer.Option(help="A compiled program.")] = None,
    index: options.Index = None,
    retriever: options.Retriever = None,
    lm: options.FrozenLM = None,
    api_base: options.ApiBase = None,
    api_key_env: options.ApiKeyEnv = None,
    model_type: options.ModelType = "chat",
    temperature: options.Temperature = None,
    max_tokens: options.MaxTokens = None,
    context_size: options.ContextSize = None,
    metrics: Annotated[str, typer.Option(help="Names, separated by commas.")] = DEFAULT_METRICS,
    oracle: Annotated[
        str | None,
        typer.Option(
            help="What decides keyfacts_*, sc[*] and *\\[alce]: calibrated (default), semantic, lexical, likelihood, "
            "lm, lm:LM, seq2seq:MODEL or cross-encoder:MODEL.",
            show_default=False,
        ),
    ] = None,
    judge_lm: Annotated[
        str | None, typer.Option(help="LM that decides acc\\[judge] and hallucination\\[halluqa].", show_default=False)
    ] = None,
    judge_api_base: Annotated[
        str | None, typer.Option(help="Address of the judge's server.", show_default=False)
    ] = None,
    judge_api_key_env: Annotated[
        str | None, typer.Option(help="Environment variable that holds its key.", show_default=False)
    ] = None,
    repeats: Annotated[
        int, typer.Option(min=1, help="Ask each question so often, with fresh samples; needs --temperature above 0.")
    ] = 1,
    references: Annotated[
        str | None,
        typer.Option(
            help="Do not retrieve, give chosen passages: closed (none), partial, complete, or balanced (half each).",
            show_default=False,
        ),
    ] = None,
    passages: Annotated[
        Path | None, typer.Option(help="passages.jsonl that --references chooses from.", show_default=False)
    ] = None,
    n_references: Annotated[int, typer.Option(min=1, help="How many --references gives, gold and noise.")] = 5,
    seed: options.Seed = 0,
    split: options.Split = None,
    limit: options.Limit = None,
    preset: options.Preset = "paper",
    settings: options.Set = None,
    threads: options.Threads = 8,
    budget_calls: options.BudgetCalls = None,
    budget_tokens: options.BudgetTokens = None,
    budget_usd: options.BudgetUsd = None,
    budget_seconds: options.BudgetSeconds = None,
    resume: options.Resume = False,
    report: Annotated[bool, typer.Option("--report", help="Write report.html into the run's folder, too.")] = False,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Ask a program every question of a file and score its answers."""
    from experiments.pipeline import setup
    from experiments.pipeline.evaluate import evaluate
    from signatures.common.errors import UserError

    wanted, entailment = setup.open_metrics(metrics, oracle)
    lm_id, index = setup.frozen_defaults(artifact, lm, index, api_base=api_base)
    chosen = setup.open_questions(questions, split=split, limit=limit)
    asked, given = setup.open_references(chosen, references, passages, n=n_references, seed=seed)
    if left_out := len(chosen) - len(asked):
        note(f"{left_out} of {len(chosen)} questions are left out: they lack gold or noise, or a partner.")
    retrieve = setup.open_retriever(index, retriever)
    connection = setup.open_lm(
        lm_id,
        setup.LMOptions(api_base, api_key_env, model_type, temperature, max_tokens, context_size),
        calls=budget_calls,
        tokens=budget_tokens,
        usd=budget_usd,
        seconds=budget_seconds,
    )
    judge = setup.open_judge(judge_lm, connection, api_base=judge_api_base, api_key_env=judge_api_key_env)
    ready = setup.open_ready(
        connection,
        retrieve,
        program=program,
        artifact=artifact,
        preset=preset,
        settings=settings,
        given=given is not None,
    )
    summary = evaluate(
        ready,
        asked,
        connection=connection,
        metrics=wanted,
        folder=out,
        threads=threads,
        resume=resume,
        progress=not quiet,
        artifact=artifact,
        questions_path=questions,
        judge=judge,
        repeats=repeats,
        given=given,
        seed=seed,
        resume_command="the same command with --resume",
    )
    if report:
        from experiments.analysis.report.html import write_report

        note(f"Report: {write_report([out], out / 'report.html')}")
    if entailment:
        (note if as_json else say)(entailment)
    told = _told_apart(out) if given is not None and given.knowledge == "balanced" else None
    if as_json:
        emit({**summary.as_dict(), **({"reflection": told} if told else {})})
    else:
        from rich.console import Console

        Console().print(summary.as_table())
        if told:
            from experiments.runs.fixed_contexts import told_apart_text

            say(told_apart_text(told))
        say(f"Written: {out}")
        next_step(f"verihop compare {out} OTHER_RUN")
    if summary.errors == summary.answered > 0:
        from experiments.runs.files import read_rows

        first = read_rows(out)[0]["error"]
        raise UserError(f"All {summary.errors} questions ended in an error; the first: {' '.join(first.split())[:300]}")
    if summary.stopped:
        raise typer.Exit(3)  # the rows are kept, but the run is not whole: scripts must see that


def _told_apart(out: Path) -> dict[str, Any]:
    from experiments.runs.files import read_rows
    from experiments.runs.fixed_contexts import told_apart

    return told_apart(read_rows(out))
