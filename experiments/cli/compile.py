"""`verihop compile`: optimize a program and freeze it."""

from pathlib import Path
from typing import Annotated

import typer

from experiments.cli import options
from experiments.cli.console import emit, next_step, resumable, say


def compile_(
    questions: Annotated[Path, typer.Argument(help="questions.jsonl to learn from.")],
    program: Annotated[str, typer.Option(help="Name of the program; `verihop programs` lists them.")],
    out: Annotated[Path, typer.Option(help="Folder for the artifact.")],
    index: options.Index = None,
    retriever: options.Retriever = None,
    lm: options.LM = "embedded",
    api_base: options.ApiBase = None,
    api_key_env: options.ApiKeyEnv = None,
    model_type: options.ModelType = "chat",
    temperature: options.Temperature = None,
    max_tokens: options.MaxTokens = None,
    context_size: options.ContextSize = None,
    optimizer: Annotated[str, typer.Option(help="bootstrap (own successes) or labeled (gold steps).")] = "bootstrap",
    metric: Annotated[str, typer.Option(help="What better means.")] = "em",
    accept: Annotated[float, typer.Option(min=0.001, max=1, help="Lowest score that makes a demonstration.")] = 1.0,
    max_demos: Annotated[int, typer.Option(min=0, max=64, help="Demonstrations per predictor at most.")] = 4,
    split: options.Split = None,
    limit: options.Limit = None,
    val: Annotated[Path | None, typer.Option(help="Questions to score the compiled program on.")] = None,
    val_split: Annotated[str | None, typer.Option(help="Use only this split of --val.")] = None,
    val_limit: Annotated[int | None, typer.Option(min=1, help="Use only the first N of --val.")] = None,
    preset: options.Preset = "paper",
    settings: options.Set = None,
    seed: options.Seed = 0,
    threads: options.Threads = 8,
    budget_calls: options.BudgetCalls = None,
    budget_tokens: options.BudgetTokens = None,
    budget_usd: options.BudgetUsd = None,
    budget_seconds: options.BudgetSeconds = None,
    resume: options.Resume = False,
    overwrite: options.Overwrite = False,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Optimize a program on training questions and freeze it into an artifact."""
    from experiments.pipeline import setup
    from experiments.pipeline.compile import compile_program
    from optimizers.metrics.catalog import get_metric

    chosen = get_metric(metric)
    trainset = setup.open_questions(questions, split=split, limit=limit)
    valset = setup.open_questions(val, split=val_split, limit=val_limit) if val else []
    retrieve = setup.open_retriever(index, retriever)
    connection = setup.open_lm(
        lm,
        setup.LMOptions(api_base, api_key_env, model_type, temperature, max_tokens, context_size),
        calls=budget_calls,
        tokens=budget_tokens,
        usd=budget_usd,
        seconds=budget_seconds,
    )
    student = setup.open_ready(connection, retrieve, program=program, preset=preset, settings=settings)
    with resumable():
        artifact = compile_program(
            student,
            trainset,
            valset,
            connection=connection,
            metric=chosen,
            out=out,
            optimizer=optimizer,
            accept=accept,
            max_demos=max_demos,
            seed=seed,
            threads=threads,
            index=index,
            provenance={"train_path": str(questions), "val_path": str(val or "")},
            resume=resume,
            overwrite=overwrite,
            progress=not quiet,
        )
    if as_json:
        emit({"artifact": str(out), **artifact.model_dump(mode="json")})
        return
    found = artifact.optimizer
    demos = ", ".join(f"{count} for {name.removesuffix('.predict')}" for name, count in found["accepted"].items())
    say(f"Compiled {program} with {optimizer}: {found['tried']} questions tried, demonstrations: {demos}.")
    say(f"Cost: {found['cost']['calls']:.0f} LM calls, {found['cost']['seconds']} s.")
    if artifact.metric.get("mean") is not None:
        mean, low, high = (100 * artifact.metric[name] for name in ("mean", "low", "high"))
        n = artifact.metric["n"]
        say(f"{metric} on {n} validation questions: {mean:.1f} % (95 % interval {low:.1f} to {high:.1f})")
    say(f"Frozen: {out}")
    next_step(
        f'verihop ask --artifact {out} "your question"', f"verihop eval QUESTIONS --artifact {out} --out runs/..."
    )
