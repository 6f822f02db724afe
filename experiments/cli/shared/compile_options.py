"""The options of `verihop compile`: optimizer, other LMs, validation questions."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from experiments.cli.shared.options import parse_knobs
from optimizers.metrics.names import COMPILED
from signatures.common.errors import UserError

if TYPE_CHECKING:
    from corpora.questions import Question
    from experiments.runs.config import LMConfig
    from programs.lms.connect import Connection


@dataclass(frozen=True)
class Optimization:
    """How the program is optimized."""

    PANEL: ClassVar[str] = "Optimizer"
    optimizer: Annotated[
        str,
        typer.Option(help="How; `verihop optimizers` says what each does, which options it has and what it fits."),
    ] = "bootstrap"
    arguments: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            help="An argument of the optimizer as name=value, repeatable, e.g. candidates=4.",
            show_default=False,
        ),
    ] = None
    metric: Annotated[str, typer.Option(help="The metric to optimize.")] = COMPILED
    accept: Annotated[
        float, typer.Option(min=0.001, max=1, help="Minimum score of a training question to become a demonstration.")
    ] = 1.0
    max_demos: Annotated[int, typer.Option(min=0, max=64, help="Maximum number of demonstrations per predictor.")] = 4

    def options(self) -> dict[str, Any]:
        """Return the arguments of the optimizer by name."""
        return parse_knobs(self.arguments, flag="--option", example="--option candidates=4")


@dataclass(frozen=True)
class OtherLMs:
    """LMs other than the one that answers; their calls count in the same budget."""

    PANEL: ClassVar[str] = "Other LMs"
    teacher: Annotated[
        str | None, typer.Option(help="LM that makes the demonstrations; by default --lm.", show_default=False)
    ] = None
    teacher_api_base: Annotated[
        str | None, typer.Option(help="Base URL of the teacher's server.", show_default=False)
    ] = None
    teacher_api_key_env: Annotated[
        str | None,
        typer.Option(help="Environment variable that contains the key of the teacher's server.", show_default=False),
    ] = None
    prompt_lm: Annotated[
        str | None, typer.Option(help="LM that writes the instructions; by default --lm.", show_default=False)
    ] = None
    prompt_api_base: Annotated[str | None, typer.Option(help="Base URL of its server.", show_default=False)] = None
    prompt_api_key_env: Annotated[
        str | None, typer.Option(help="Environment variable that contains its key.", show_default=False)
    ] = None

    def opened(self, task_lm: "LMConfig", connection: "Connection") -> "dict[str, Connection]":
        """Return the connections by their fields in the configuration; they share the budget of `connection`."""
        from experiments.pipeline.setup import open_lm
        from experiments.runs.config import LMConfig

        found = {}
        roles = {
            "teacher": (self.teacher, self.teacher_api_base, self.teacher_api_key_env),
            "prompt": (self.prompt_lm, self.prompt_api_base, self.prompt_api_key_env),
        }
        for role, (lm_id, api_base, key) in roles.items():
            if lm_id is not None:
                calling = LMConfig(lm_id, api_base, key, **task_lm.calling())
                found[role] = open_lm(calling, connection.lm.budget)
            elif api_base or key:
                flag = "--teacher" if role == "teacher" else "--prompt-lm"
                raise UserError(f"A URL or key of another LM needs its name: add {flag}.")
        return found


@dataclass(frozen=True)
class Validation:
    """Questions that candidates are compared on and the result is scored on."""

    PANEL: ClassVar[str] = "Validation"
    val: Annotated[
        Path | None,
        typer.Option(
            help="Questions to compare candidates on, and to score the result on. By default half of the training "
            "questions, at most 200, if the optimizer compares candidates, else none.",
            show_default=False,
        ),
    ] = None
    val_split: Annotated[str | None, typer.Option(help="Use only this split of --val.", show_default=False)] = None
    val_limit: Annotated[
        int | None, typer.Option(min=1, help="Use only the first N questions of --val.", show_default=False)
    ] = None

    def questions(self) -> "list[Question]":
        """Return the validation questions; empty without --val."""
        from experiments.pipeline.setup import open_questions

        if self.val is None:
            if self.val_split is not None or self.val_limit is not None:
                raise UserError("--val-split and --val-limit select questions of --val: name that file, too.")
            return []
        return open_questions(self.val, split=self.val_split, limit=self.val_limit)
