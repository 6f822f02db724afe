"""The training loop: steps until the data, the steps or the time end; checkpoints and a log on the way."""

import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import ujson

from optimizers.distill.training import checkpoints, results
from optimizers.distill.training.data import TrainingData
from optimizers.distill.training.interrupts import uninterrupted
from optimizers.distill.training.lm.base_model import BaseModel
from optimizers.distill.training.lm.device import choose_device
from optimizers.distill.training.lm.student import Student
from optimizers.distill.training.order import BatchOrder
from optimizers.distill.training.schedule import learning_rate
from optimizers.distill.training.settings import EXECUTION, TrainingSettings
from optimizers.distill.training.validation import validation_losses
from signatures.common.errors import UserError
from signatures.common.files import atomic_write, exclusive_lock

LOG = "training.jsonl"
Evaluate = Callable[[Path], dict[str, float]]
BEST = "best"


@dataclass(frozen=True)
class Step:
    """One finished step.

    Args:
        step: Its number, from 1.
        loss: Mean of the batch, weighed as the settings say.
        learning_rate: That it used.
        tokens: Computed in it.
        seconds: Training time up to its end, all sessions together.
        progress: Share of the run that is done, in [0, 1].
        gradient: Length of the gradient, before it was clipped.
    """

    step: int
    loss: float
    learning_rate: float
    tokens: int
    seconds: float
    progress: float
    gradient: float


class Training:
    """A training run in a folder.

    Args:
        base: The LM; it is changed.
        data: The examples.
        settings: All settings.
        folder: Where weights, log, checkpoints and description are written.
        evaluate: Measures the weights in a folder on tasks; its values are kept beside the losses. Called at the end,
            and every `settings.evaluate_every` steps.
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
        self.evaluate = evaluate
        self.before_measuring: Callable[[], None] = lambda: None
        self.step, self.tokens, self._spent = 0, 0, 0.0
        self.measured: list[dict[str, Any]] = []

    # --- one step -------------------------------------------------------------------------------------------------

    def train_step(self) -> tuple[float, int, float, float]:
        """Train on the next batch and return its loss, tokens, learning rate and length of the gradient."""
        import torch

        rate = learning_rate(
            self.settings.learning_rate,
            self.step,
            progress=self.progress(),
            warmup_steps=self.settings.warmup_steps,
            decay=self.settings.decay,
        )
        rows = self.student.rows(self.order.batch(self.step))
        total = 0.0
        try:
            for row in rows:
                loss, _ = self.student.losses(row)
                loss.backward()
                total += loss.item()
            weights = list(self.student.weights.values())
            gradient = torch.nn.utils.clip_grad_norm_(weights, self.settings.clip).item()
            for group in self.optimizer.param_groups:
                group["lr"] = rate
            with uninterrupted():
                self.optimizer.step()
                self.step += 1
        finally:
            self.optimizer.zero_grad(set_to_none=True)
        return total, sum(len(row.tokens) for row in rows), rate, gradient

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
            KeyboardInterrupt: Ctrl-C; a checkpoint has been written.
        """
        busy = f"Another process trains into {str(self.folder)!r}. Wait for it, or choose another folder."
        with exclusive_lock(self.folder / ".lock", busy):
            self._open(resume)
            try:
                self._steps(report)
            except KeyboardInterrupt:
                self._checkpoint()
                raise
            with uninterrupted():
                self.student.save(self.folder)
            self._checkpoint()  # measuring may take long, and be interrupted
            self.measure()
            description = results.describe(self, about or {})
            results.write(self.folder, description)
            checkpoints.remove_checkpoints(self.folder)
        return description

    def _open(self, resume: bool) -> None:
        checkpoints.remove_leftovers(self.folder)
        checkpoint = checkpoints.newest(self.folder)
        if resume:
            if checkpoint is None and (self.folder / results.DESCRIPTION).is_file():
                raise UserError(f"The training run in {str(self.folder)!r} is complete. Choose another folder.")
            if checkpoint is None:
                raise UserError(f"{str(self.folder)!r} holds no checkpoint to resume. Start without resuming.")
            state = checkpoints.read_state(checkpoint)
            self._check_unchanged(state)
            checkpoints.restore(checkpoint, self.student, self.optimizer)
            self.step, self.tokens, self._spent = state["step"], state["tokens"], state["seconds"]
            self.measured = state["measured"]
            self._cut_log()
        elif checkpoint is not None or (self.folder / LOG).exists():
            raise UserError(f"{str(self.folder)!r} holds a training run already. Resume it, or choose another folder.")
        self._started = self.clock()
        self._last_checkpoint = self._started

    def _check_unchanged(self, state: dict[str, Any]) -> None:
        if state["data"] != self.data.sha256:
            raise UserError("The examples have changed since the checkpoint was written. Start a new run.")
        if state["base"] != self.student.base.sha256:
            raise UserError("The base LM's weights have changed since the checkpoint was written. Start a new run.")
        for name, value in self._fixed_settings().items():
            if state["settings"].get(name) != value:
                raise UserError(
                    f"The checkpoint was written with {name} = {state['settings'].get(name)!r}, not {value!r}. Resume "
                    "with the same settings, or start a new run."
                )

    def _fixed_settings(self) -> dict[str, Any]:
        values = self.settings.model_dump(mode="json")
        return {name: value for name, value in values.items() if name not in EXECUTION}

    def _cut_log(self) -> None:
        """Drop the lines of steps that were taken after the checkpoint."""
        path = self.folder / LOG
        if not path.exists():
            return
        lines = path.read_text(encoding="utf-8").splitlines()[: self.step]
        with atomic_write(path) as file:
            file.write("".join(f"{line}\n" for line in lines))

    def _steps(self, report: Callable[[Step], None]) -> None:
        with open(self.folder / LOG, "a", encoding="utf-8") as log:
            while not self._finished():
                if self.settings.evaluate_every and self.step % self.settings.evaluate_every == 0:
                    self.measure()
                loss, tokens, rate, gradient = self.train_step()
                with uninterrupted():
                    self.tokens += tokens
                    done = Step(self.step, loss, rate, tokens, self.seconds(), self.progress(), gradient)
                    log.write(ujson.dumps(asdict(done)) + "\n")
                    log.flush()
                report(done)
                if self.clock() - self._last_checkpoint >= self.settings.checkpoint_minutes * 60:
                    self._checkpoint()

    def _finished(self) -> bool:
        if self.total is not None and self.step >= self.total:
            return True
        return self.settings.hours is not None and self.seconds() >= self.settings.hours * 3600

    def _checkpoint(self) -> None:
        state = {
            "step": self.step,
            "tokens": self.tokens,
            "seconds": self.seconds(),
            "measured": self.measured,
            "data": self.data.sha256,
            "base": self.student.base.sha256,
            "settings": self._fixed_settings(),
        }
        with uninterrupted():
            checkpoints.write_checkpoint(self.folder, self.student, self.optimizer, state)
        self._last_checkpoint = self.clock()

    def measure(self) -> None:
        """Measure loss and metrics on the validation examples, unless this step has been measured.

        Raises:
            UserError: There is no metric of the name `settings.keep_best`.
        """
        if self.measured and self.measured[-1]["step"] == self.step:
            return
        if self.data.validation or self.evaluate:
            self.before_measuring()
        losses = validation_losses(self.student, self.data.first(self.settings.validation_examples))
        metrics: dict[str, float] = {}
        if self.evaluate:
            with tempfile.TemporaryDirectory(dir=self.folder, prefix=checkpoints.MEASURED) as name:
                self.student.save(Path(name))
                metrics = self.evaluate(Path(name))
        self.measured.append({"step": self.step, "losses": losses, "metrics": metrics})
        if self.settings.keep_best and results.best(self.measured, self.settings.keep_best) == self.step:
            with uninterrupted():
                self.student.save(self.folder / BEST)
