"""`verihop index triples`: the triples of passages by an LM, of which `--retriever graph` makes its graph."""

from pathlib import Path
from typing import Annotated

import typer

from experiments.cli.shared import options
from experiments.cli.shared.console import emit, next_step, note, resumable, say
from experiments.cli.shared.next_commands import command
from experiments.cli.shared.options import with_option_groups
from programs.lms.spec import LMSpec
from signatures.common.errors import UserError


@with_option_groups
def triples(
    corpus: Annotated[Path, typer.Argument(help="passages.jsonl, also .gz or .zst.")],
    lm: LMSpec,
    execution: options.Execution,
    limits: options.Limits,
    output: options.Output,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the triples.", rich_help_panel="Output")],
) -> None:
    """Let an LM write what each passage states as triples, one call a passage.

    --budget limits what that takes, and --resume goes on with another.
    """
    from experiments.pipeline import setup
    from experiments.pipeline.triples import ROWS, extract_triples

    connection = setup.open_lm(lm.for_threads(execution.threads), limits.budget())
    with resumable():
        found = extract_triples(
            corpus,
            connection=connection,
            out=out,
            threads=execution.threads,
            resume=execution.resume,
            progress=not output.quiet,
        )
    if output.as_json:
        emit({"triples": str(out / ROWS), **found.as_dict()})
    else:
        say(f"{found.triples} triples of {found.passages} passages, {found.without} of which have none")
        if found.parse_failures or found.ill_formed:
            note(f"{found.parse_failures} replies could not be read; {found.ill_formed} lines were no triple.")
        say(f"Written: {out / ROWS}")
    if not found.triples:
        raise UserError(f"{connection.id} returned no triple that could be read: name another LM with --lm.")
    if not output.as_json:
        next_step(command("verihop", "index", corpus, "--retriever", "graph", "--triples", out / ROWS))
