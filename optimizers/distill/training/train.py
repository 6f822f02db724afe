"""The training loop: steps until the data, the steps or the time end; checkpoints and a log on the way."""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from optimizers.distill.training import checkpoints, results
from optimizers.distill.training.data import TrainingData
from optimizers.distill.training.divergence import Diverged, Skips, check_losses, check_weights
from optimizers.distill.training.interrupts import terminable, uninterrupted
from optimizers.distill.training.lm.base_model import BaseModel
from optimizers.distill.training.lm.device import choose_device
from optimizers.distill.training.lm.student import Student
from optimizers.distill.training.log import LOG, Step, cut_log, write_step
from optimizers.distill.training.order import BatchOrder
from optimizers.distill.training.schedule import learning_rate
from optimizers.distill.training.settings import EXECUTION, TrainingSettings
from optimizers.distill.training.validation import validation_losses
from signatures.common.errors import UserError, one_line
from signatures.common.files import exclusive_lock, refuse_links

Evaluate = Callable[[Path], dict[str, float]]
BEST = checkpoints.BEST
LAST = "last"  # weights of the last checkpoint of a run that diverged


class Training:
    """A training run in a folder.

    Args:
        base: The LM; it is changed.
        data: The examples.
        settings: All settings.
        folder: Where weights, log, checkpoints and description are written.
        evaluate: Measures the weights in a folder on tasks; its values are kept beside the losses. Called at the end,
            and every `settings.evaluate_every` steps.
        evaluated: What its values depend on, as JSON; a run is resumed with the same alone.
        clock: Seconds, for tests.
    """

    def __init__(
        self,
        base: BaseModel,
        data: TrainingData,
        settings: TrainingSettings,
        folder: Path,
        *,
        evaluate: Evaluate | None = None,
        evaluated: dict[str, Any] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ):
        import torch

        if settings.threads:
            torch.set_num_threads(settings.threads)
        self.data, self.settings, self.folder, self.clock = data, settings, folder, clock
        self.student = Student(base, settings, choose_device(settings.device, settings.precision))
        self.order = BatchOrder(data.train, settings)
        self.total = self.order.steps()
        weights = list(self.student.weights.values())
        self.optimizer = torch.optim.AdamW(
            weights, lr=settings.learning_rate, weight_decay=settings.weight_decay, fused=True
        )
        self.evaluate, self.evaluated = evaluate, evaluated or {}
        self.before_measuring: Callable[[], None] = lambda: None
        self.step, self.tokens, self._spent = 0, 0, 0.0
        self.measured: list[dict[str, Any]] = []
        self.skips = Skips(settings.learning_rate)
        self._changing = False  # whether an error has left weights that are only partly changed

    # --- one step -------------------------------------------------------------------------------------------------

    def train_step(self, log: IO[str]) -> Step:
        """Train on the next batch, write the step to the log and return it.

        Raises:
            Diverged: The losses of many steps in a row were not numbers.
        """
        import torch

        rate = learning_rate(
            self.settings.learning_rate,
            self.step,
            progress=self.progress(),
            warmup_steps=self.settings.warmup_steps,
            decay=self.settings.decay,
        )
        rows = self.student.rows(self.order.batch(self.step))
        loss = 0.0
        try:
            for row in rows:
                part, _ = self.student.losses(row)
                part.backward()
                loss += part.item()
            weights = list(self.student.weights.values())
            gradient = torch.nn.utils.clip_grad_norm_(weights, self.settings.clip).item()
            with uninterrupted():
                skipped = self.skips.add(self.step + 1, loss, gradient)
                if not skipped:
                    self._change_weights(rate)
                self.step += 1
                tokens = sum(len(row.tokens) for row in rows)
                self.tokens += tokens
                shown = (None, None) if skipped else (loss, gradient)
                done = Step(self.step, shown[0], rate, tokens, self.seconds(), self.progress(), shown[1])
                write_step(log, done)
        finally:
            self.optimizer.zero_grad(set_to_none=True)
        return done

    def _change_weights(self, rate: float) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self._changing = True
        self.optimizer.step()
        self._changing = False

    def progress(self) -> float:
        """Return the share of the run that is done: of its steps, or of its time if that is shorter."""
        by_steps = self.step / self.total if self.total else 0.0
        by_time = self.seconds() / (self.settings.hours * 3600) if self.settings.hours else 0.0
        return min(max(by_steps, by_time), 1.0)

    def seconds(self) -> float:
        """Return the training time so far, all sessions together."""
        return self._spent + (self.clock() - self._started if hasattr(self, "_started") else 0.0)

    # --- a run ----------------------------------------------------------------------------------------------------

    def run(
        self,
        *,
        resume: bool = False,
        report: Callable[[Step], None] = lambda step: None,
        about: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Train to the end, write the weights and the description, and return the description.

        Args:
            resume: Continue from the checkpoint in the folder.
            report: Called after every step.
            about: Added to the description, such as the revision.

        Raises:
            UserError: The folder has another run, or there is nothing to resume, or what is resumed has changed.
            Diverged: The losses or weights are no numbers any more; the last checkpoint is kept.
            KeyboardInterrupt: Ctrl-C or SIGTERM; a checkpoint has been written.
            Exception: Any other error after a step; a checkpoint has been written if it could be.
        """
        busy = f"Another process trains into {str(self.folder)!r}. Wait for it, or choose another folder."
        refuse_links(self.folder)
        with exclusive_lock(self.folder / ".lock", busy), terminable():
            self._open(resume)
            try:
                self._steps(report)
                check_weights(self.student.weights, self.step, self.settings.learning_rate)
                with uninterrupted():
                    self.student.save(self.folder)
                self._checkpoint()  # measuring may take long, and be interrupted
                self.measure()
            except KeyboardInterrupt:
                self._checkpoint()
                raise
            except Diverged as error:
                raise Diverged(f"{error}.{self._keep_last()}") from error
            except Exception as error:
                self._rescue(error)
                raise
            description = results.describe(self, about or {})
            results.write(self.folder, description)
            checkpoints.remove_checkpoints(self.folder)
        return description

    def _rescue(self, error: Exception) -> None:
        """Write a checkpoint after an error; before the first step there is nothing to keep."""
        if not self.step or self._changing:
            return
        try:
            self._checkpoint()
        except (OSError, RuntimeError, ValueError) as second:  # perhaps for the same reason, such as a full disk
            error.add_note(f"No checkpoint could be written: {one_line(second)}")

    def _keep_last(self) -> str:
        """Write the weights of the last checkpoint as a run's result, to go on from, and return a sentence on them."""
        checkpoint = checkpoints.newest(self.folder)
        if checkpoint is None or (step := checkpoints.read_state(checkpoint)["step"]) >= self.step:
            return ""
        checkpoints.restore_weights(checkpoint, self.student)
        try:
            self.student.save(self.folder / LAST)
        except Diverged:  # before they were not numbers they were too large
            return ""
        return f" The weights of step {step} are in {str(self.folder / LAST)!r}: go on from them."

    def _open(self, resume: bool) -> None:
        checkpoints.remove_leftovers(self.folder)
        checkpoint = checkpoints.newest(self.folder)
        if resume:
            if checkpoint is None and (self.folder / results.DESCRIPTION).is_file():
                raise UserError(f"The training run in {str(self.folder)!r} is complete. Choose another folder.")
            if checkpoint is None:
                raise UserError(f"{str(self.folder)!r} holds no checkpoint to resume. Start without resuming.")
            state = checkpoints.read_state(checkpoint)
            checkpoints.check_unchanged(state, self._state())
            checkpoints.restore(checkpoint, self.student, self.optimizer)
            self.step, self.tokens, self._spent = state["step"], state["tokens"], state["seconds"]
            self.measured = state["measured"]
            self.skips.total = state.get("skipped", 0)
            cut_log(self.folder, self.step)
        elif checkpoint is not None or (self.folder / results.DESCRIPTION).is_file():
            raise UserError(f"{str(self.folder)!r} holds a training run already. Resume it, or choose another folder.")
        else:
            checkpoints.check_no_weights(self.folder)
            checkpoints.remove_unstarted(self.folder)
        self._started = self.clock()
        self._last_checkpoint = self._started

    def _steps(self, report: Callable[[Step], None]) -> None:
        with open(self.folder / LOG, "a", encoding="utf-8") as log:
            while not self._finished():
                if self.settings.evaluate_every and self.step % self.settings.evaluate_every == 0:
                    self.measure()
                report(self.train_step(log))
                if self.clock() - self._last_checkpoint >= self.settings.checkpoint_minutes * 60:
                    self._checkpoint()

    def _finished(self) -> bool:
        if self.total is not None and self.step >= self.total:
            return True
        return self.settings.hours is not None and self.seconds() >= self.settings.hours * 3600

    def _state(self) -> dict[str, Any]:
        settings = self.settings.model_dump(mode="json")
        return {
            "step": self.step,
            "tokens": self.tokens,
            "seconds": self.seconds(),
            "measured": self.measured,
            "skipped": self.skips.total,
            "data": self.data.sha256,
            "base": self.student.base.sha256,
            "settings": {name: value for name, value in settings.items() if name not in EXECUTION},
            "evaluated": self.evaluated,
        }

    def _checkpoint(self) -> None:
        """Write a checkpoint; while steps are skipped, the one from before them is kept."""
        if self.skips.in_a_row and checkpoints.newest(self.folder):
            return
        check_weights(self.student.weights, self.step, self.settings.learning_rate)
        with uninterrupted():
            checkpoints.write_checkpoint(self.folder, self.student, self.optimizer, self._state())
        self._last_checkpoint = self.clock()

    def measure(self) -> None:
        """Measure loss and metrics on the validation examples, unless this step has been measured.

        Raises:
            UserError: There is no metric of the name `settings.keep_best`.
            Diverged: A loss is not a number.
        """
        if self.measured and self.measured[-1]["step"] == self.step:
            return
        if self.data.validation or self.evaluate:
            self.before_measuring()
        losses = validation_losses(self.student, self.data.first(self.settings.validation_examples))
        check_losses(losses, self.step, self.settings.learning_rate)
        metrics: dict[str, float] = {}
        if self.evaluate:
            with tempfile.TemporaryDirectory(dir=self.folder, prefix=checkpoints.MEASURED) as name:
                self.student.save(Path(name))
                metrics = self.evaluate(Path(name))
        self.measured.append({"step": self.step, "losses": losses, "metrics": metrics})
        if self.settings.keep_best and results.best(self.measured, self.settings.keep_best)["step"] == self.step:
            with uninterrupted():
                checkpoints.replace_best(self.folder, self.student)
