"""Options of `verihop distill synthesize` that would do nothing: the others that are given decide that."""

from collections.abc import Iterator, Mapping
from dataclasses import fields

import typer

from experiments.cli.distill.synthesis_options import Recipe, Teacher
from experiments.pipeline.synthesis.synthesize import GOLD_TEACHER
from experiments.runs.specs import Filters
from signatures.common.errors import UserError

_GROUNDING = ("batch_passages", "empty_share")
_VERIFICATION = ("answer_share", "negatives", "means", "verdicts", "show_gold", "strict", "n_references")
_RIGHT = ("metric", "accept")


def typed_in(context: typer.Context) -> dict[str, str]:
    """Return the options that the user has typed, by the name of their parameter."""
    return {
        option.name: option.opts[0]
        for option in context.command.params
        if option.name and (source := context.get_parameter_source(option.name)) and source.name == "COMMANDLINE"
    }


def refuse_unused(
    typed: Mapping[str, str], recipe: Recipe, teacher: str, filters: Filters, *, program_is_named: bool
) -> None:
    """Refuse what the user has typed but nothing would read; defaults are no matter.

    Args:
        recipe: What is made of a question.
        teacher: Id of the teacher.
        filters: Which trajectories are kept.
        program_is_named: Whether a program or an artifact is given.

    Raises:
        UserError: An option would do nothing; the message says why.
    """
    for name, why in _unused(recipe, teacher, filters, program_is_named):
        if name in typed:
            raise UserError(f"{typed[name]} does nothing {why}: leave it out.")


def _unused(recipe: Recipe, teacher: str, filters: Filters, program_is_named: bool) -> Iterator[tuple[str, str]]:
    if teacher == GOLD_TEACHER:
        asks_none = "with --teacher gold, which asks no LM and writes right replies"
        of_teacher = (one.name for one in fields(Teacher) if one.name != "id")
        for name in (*_GROUNDING, *_VERIFICATION, *_RIGHT, *of_teacher):
            yield name, asks_none
        if program_is_named and filters.predictors:
            yield "recipe", "with --teacher gold where program and --predictors are named, which it would choose"
        return
    if recipe.recipe != "genground":
        for name in _GROUNDING:
            yield name, "without --recipe genground"
    if recipe.recipe != "cov_rag":
        for name in _VERIFICATION:
            yield name, "without --recipe cov_rag"
    else:
        for name in _RIGHT:
            yield name, "with --recipe cov_rag, which learns from right and wrong responses"
        if not recipe.negatives:
            yield "means", "with --negatives 0"
        if recipe.verdicts == "gold":
            yield "show_gold", "with --verdicts gold: the teacher verifies nothing"
        if recipe.verdicts == "teacher":
            yield "strict", "with --verdicts teacher: gold judges nothing"
    if recipe.recipe != "program":
        yield "predictors", f"with --recipe {recipe.recipe}, which decides what is learnt"
