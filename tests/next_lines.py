"""The lines that commands print as "Next:", and whether they parse."""

import shlex

from experiments.cli.main import app

FIRST, FURTHER = "Next: ", "      "


def next_lines(err: str) -> list[list[str]]:
    """Return the words of each command after "Next:" in what a command printed on standard error."""
    found: list[list[str]] = []
    inside = False
    for line in err.splitlines():
        inside = line.startswith(FIRST) or (inside and line.startswith(FURTHER))
        if inside:
            found.append(shlex.split(line[len(FIRST) :]))
    return found


def check_parses(words: list[str]) -> None:
    """Fail unless a line is a command of ours whose options and arguments parse, or one of another program."""
    program, *rest = words
    if program != "verihop":
        assert program in ("ollama", "vllm"), words
        return
    context = app.tree.make_context("verihop", rest)
    while hasattr(context.command, "commands"):
        name, command, rest = context.command.resolve_command(context, [*context._protected_args, *context.args])
        context = command.make_context(name, rest, parent=context)
