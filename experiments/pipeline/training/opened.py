"""A training run opened for commands and plans alike: its examples, its LM, and what is measured on the way."""

import shlex
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optimizers.distill.training.settings import TrainingSettings
from signatures.common.errors import UserError, one_line

if TYPE_CHECKING:
    from experiments.pipeline.training.program_scores import ProgramScores
    from optimizers.distill.training.log import TrainingStep
    from optimizers.distill.training.train import Training

_PLOT_SECONDS = 60.0  # of training between two drawings


@dataclass(frozen=True)
class OpenedTraining:
    """A run that can start.

    Args:
        training: The run.
        unserved: Why our runtime cannot serve what is trained; None if it can.
        asked: The programs that are asked at each measurement.
        note: Is told what a user should know.
    """

    training: "Training"
    unserved: str | None
    asked: "Sequence[ProgramScores]"
    note: Callable[[str], None] = lambda text: None

    def run(self, *, resume: bool, shown: bool, plotted: Callable[[], None] | None = None) -> dict[str, Any]:
        """Train to the end with a progress bar, and return the description; see `Training.run` for errors.

        Args:
            resume: Continue from the checkpoint in the folder.
            shown: False prints nothing.
            plotted: Draws the curves: called now and then, after each measurement, and at the end; by default those
                of this run, into its folder.
        """
        from experiments.pipeline.progress import TrainingProgress

        training, drawn = self.training, _Throttled(plotted or self._plot, self.note)
        with TrainingProgress(training, shown=shown, asked="; ".join(map(str, self.asked))) as progress:
            training.before_measuring = progress.measuring

            def report(step: "TrainingStep") -> None:
                progress.add(step)
                drawn(step.seconds, len(training.measured))

            description = training.run(
                resume=resume, report=report, about={"served": self.unserved is None, **_about()}
            )
        drawn.act()
        return description

    def _plot(self) -> None:
        from experiments.analysis.training_curves import PLOT, draw_curves, read_curves

        folder, measured = self.training.folder, self.training.measured
        draw_curves(read_curves([folder], {folder: measured}), [folder.name], folder / PLOT)


class _Throttled:
    """Draws when something was measured, or a minute of training has passed; an error of it ends no training."""

    def __init__(self, draw: Callable[[], None], note: Callable[[str], None]):
        self._draw, self._note, self._seconds, self._measured = draw, note, 0.0, 0

    def __call__(self, seconds: float, measured: int) -> None:
        if measured > self._measured or seconds - self._seconds >= _PLOT_SECONDS:
            self._seconds, self._measured = seconds, measured
            self.act()

    def act(self) -> None:
        """Draw."""
        try:
            self._draw()
        except (OSError, UserError) as error:
            self._note(f"Note: the curves could not be drawn: {one_line(error)}.")


def open_training(
    examples: Path,
    settings: TrainingSettings,
    out: Path,
    *,
    metric_examples: int = 20,
    asked: "Sequence[ProgramScores]" = (),
    note: Callable[[str], None] = lambda text: None,
    quiet: bool = True,
) -> OpenedTraining:
    """Return a run that can start; the LM is loaded after all that can be checked without it.

    Args:
        examples: Folder with examples.jsonl, or the file.
        settings: All settings.
        out: Folder for the adapter or weights.
        metric_examples: Examples of each skill answered at each measurement; 0 for the loss alone.
        asked: Programs that are asked at each measurement.
        note: Is told what a user should know.
        quiet: Leaves out notes of what is being done.

    Raises:
        UserError: Examples, LM, program or questions cannot be opened, or a metric will not be measured.
    """
    from optimizers.distill.training.data import encode_examples, open_examples
    from optimizers.distill.training.lm.base_model import load_base, require_packages, why_not_served
    from optimizers.distill.training.results import NONE_HELD_BACK
    from optimizers.distill.training.scoring import all_scores, check_metric, reply_scores
    from optimizers.distill.training.train import Training

    opened = open_examples(examples, settings)
    of_programs = [name for each in asked for name in each.metrics]
    if settings.keep_best:
        check_metric(settings.keep_best, opened.held_back, metric_examples, of_programs)
    require_packages()
    evaluated: dict[str, Any] = {"metric_examples": metric_examples}
    for each in asked:
        described, notes = each.open()
        evaluated |= described
        for text in notes:
            note(f"Note: {text}")
    if not asked and not opened.held_back:
        note(f"Note: nothing will be measured: {NONE_HELD_BACK}")
    if not quiet:
        note(f"Loading {settings.base} ...")
    base = load_base(settings.base)
    data = encode_examples(opened, base.tokenizer, settings)
    if data.left_out:
        lost = ", ".join(f"{count} of {skill}" for skill, count in data.left_out.items())
        note(f"Longer than {settings.max_tokens} tokens and left out: {lost}.")
    unserved = why_not_served(base)
    for each in asked:
        if unserved:
            raise UserError(f"{settings.base!r} cannot be asked by a program: omit it, or train another LM. {unserved}")
        each.check(data.train_examples)
    if settings.keep_best:  # of the validation examples, those that are too long are left out
        check_metric(settings.keep_best, data.validation_examples, metric_examples, of_programs)
    training = Training(base, data, settings, out, evaluated=evaluated)
    replies = metric_examples and data.validation
    scores = [reply_scores(training.student, data, metric_examples)] if replies else []
    training.evaluate = all_scores(*scores, *asked) if scores or asked else None
    if unserved and not quiet:
        note(f"Note: it can be trained, but --lm embedded:{out} will not serve it. {unserved}")
    return OpenedTraining(training, unserved, asked, note)


def _about() -> dict[str, Any]:
    from experiments.runs.config import portable
    from experiments.runs.files import git_revision

    return {
        "command": shlex.join(portable(["verihop", *sys.argv[1:]])),
        "revision": git_revision(),
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
