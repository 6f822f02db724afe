"""The training loop: steps until the data, the steps or the time end; checkpoints and a log on the way."""

import contextlib
import math
import signal
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Literal

from optimizers.distill.training import checkpoints, results
from optimizers.distill.training.data import EncodedExample, Row, TrainingData, batches, epoch_size
from optimizers.distill.training.divergence import Diverged, Skips, check_losses, check_weights
from optimizers.distill.training.lm.base_model import BaseModel, choose_device
from optimizers.distill.training.lm.student import Student
from optimizers.distill.training.log import LOG, TrainingStep, cut_log, write_step
from optimizers.distill.training.settings import TrainingSettings
from signatures.common.errors import UserError, one_line
from signatures.common.interrupts import handled
from signatures.common.specs import deciding
from signatures.common.work import locked_folder


class BatchOrder:
    """The batches of a run by step; the same for the same examples and settings. Every epoch has as many.

    Only the epoch of the last step asked for is kept.

    Args:
        examples: For training.
        settings: Batch size, epochs, seed and weights of skills.
    """

    def __init__(self, examples: Sequence[EncodedExample], settings: TrainingSettings):
        self._examples, self._settings = examples, settings
        self._per_epoch = math.ceil(epoch_size(examples, settings.weights) / settings.batch_size)
        self._epoch, self._batches = -1, list[list[int]]()

    def batch(self, step: int) -> list[EncodedExample]:
        """Return the examples of a step."""
        settings = self._settings
        epoch, place = divmod(step, self._per_epoch)
        if epoch != self._epoch:
            self._batches = batches(self._examples, settings.batch_size, settings.weights, settings.seed, epoch)
            self._epoch = epoch
        return [self._examples[number] for number in self._batches[place]]

    def epochs_until(self, step: int) -> float:
        """Return how many passes over the examples the first `step` steps are."""
        return step / self._per_epoch

    def steps(self) -> int | None:
        """Return the steps of the whole run; None if only the time ends it."""
        settings = self._settings
        epochs = settings.epochs
        if epochs is None and settings.max_steps is None and settings.hours is None:
            epochs = 1.0
        if epochs is None:
            return settings.max_steps
        steps = max(round(epochs * self._per_epoch), 1)
        return min(steps, settings.max_steps or steps)


_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def _interrupt(number: int, frame: Any) -> None:
    raise KeyboardInterrupt


@contextlib.contextmanager
def terminable() -> Iterator[None]:
    """Treat SIGTERM, which ends a job whose time is over, like Ctrl-C while the block runs.

    Raises:
        KeyboardInterrupt: One of the two was sent.
    """
    with handled({signal.SIGTERM: _interrupt}):
        yield


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Delay Ctrl-C and SIGTERM until the block has ended, or the outermost of several.

    Raises:
        KeyboardInterrupt: After the block, if Ctrl-C was pressed in it.
    """
    sent: list[int] = []
    with handled(dict.fromkeys(_SIGNALS, lambda number, frame: sent.append(number))):
        yield
    if sent:
        handler = signal.getsignal(sent[0])
        if callable(handler):
            handler(sent[0], None)
        else:  # as without the block: ignored, or the end of the process
            signal.raise_signal(sent[0])


def learning_rate(
    highest: float, step: int, *, progress: float, warmup_steps: int, decay: Literal["linear", "cosine", "none"]
) -> float:
    """Return the learning rate of a step.

    Args:
        highest: After the warm-up.
        step: Number of the step, from 0.
        progress: How much of the run is done, in [0, 1]: of its steps, or of its time if that is shorter.
        warmup_steps: Steps in which it rises.
        decay: How it falls.
    """
    progress = min(max(progress, 0.0), 1.0)
    rise = min((step + 1) / (warmup_steps + 1), 1.0)
    fall = {"linear": 1 - progress, "cosine": (1 + math.cos(math.pi * progress)) / 2, "none": 1.0}[decay]
    return highest * rise * fall


def validation_losses(student: Student, examples: Sequence[EncodedExample]) -> dict[str, float]:
    """Return the mean loss of the reply tokens of each skill, and of all as "all"; empty without examples."""
    import torch

    sums: dict[str, float] = defaultdict(float)
    counts: dict[str, int] = defaultdict(int)
    with torch.no_grad():
        for start in range(0, len(examples), 16):
            batch = examples[start : start + 16]
            for row in student.rows(batch):
                _, losses = student.losses(row)
                for (_, _, _, member), loss in zip(row.targets, losses.tolist(), strict=True):
                    for name in (batch[member].skill, "all"):
                        sums[name] += loss
                        counts[name] += 1
    return {name: sums[name] / counts[name] for name in sorted(sums)}


Evaluate = Callable[[Path], dict[str, float]]  # measures the weights in a folder on tasks
LAST = "last"  # weights of the last checkpoint of a run that diverged


class Training:
    """A training run in a folder.

    Args:
        base: The LM; it is changed.
        data: The examples.
        settings: All settings.
        folder: Where weights, log, checkpoints and description are written.
        evaluated: What the values of `evaluate` depend on, as JSON; a run is resumed with the same alone.
        clock: Seconds, for tests.
    """

    def __init__(
        self,
        base: BaseModel,
        data: TrainingData,
        settings: TrainingSettings,
        folder: Path,
        *,
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
        self.evaluate: Evaluate | None = None  # is called at the end, and every `settings.evaluate_every` steps
        self.evaluated = evaluated or {}
        self.before_measuring: Callable[[], None] = lambda: None
        self.step, self.tokens, self._spent = 0, 0, 0.0
        self.measured: list[dict[str, Any]] = []
        self.skips = Skips(settings.learning_rate)
        self._packed: tuple[int, list[Row]] = -1, []  # a step and its rows
        self._changing = False  # whether an error has left weights that are only partly changed

    # --- one step -------------------------------------------------------------------------------------------------

    def train_step(self, log: IO[str]) -> TrainingStep:
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
        rows = self._rows(self.step)
        try:
            parts = []
            for row in rows:
                part, _ = self.student.losses(row)
                part.backward()
                parts.append(part.detach())
            if self.step + 1 != self.total:
                self._rows(self.step + 1)  # while a GPU computes: its results are waited for below
            loss = sum(part.item() for part in parts)
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
                done = TrainingStep(self.step, shown[0], rate, tokens, self.seconds(), self.progress(), shown[1])
                write_step(log, done)
        finally:
            self.optimizer.zero_grad(set_to_none=True)
        return done

    def _rows(self, step: int) -> list[Row]:
        """Return the rows of a step, which are kept until those of another are asked for."""
        if step != self._packed[0]:
            self._packed = step, self.student.rows(self.order.batch(step))
        return self._packed[1]

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
        report: Callable[[TrainingStep], None] = lambda step: None,
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
        with locked_folder(self.folder, ".lock", busy), terminable():
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
        """Write the weights of the last checkpoint as a run's result to continue from, and return a note on them."""
        checkpoint = checkpoints.newest(self.folder)
        if checkpoint is None or (step := checkpoints.read_state(checkpoint)["step"]) >= self.step:
            return ""
        checkpoints.restore_weights(checkpoint, self.student)
        try:
            self.student.save(self.folder / LAST)
        except Diverged:  # before they were not numbers they were too large
            return ""
        return f" The weights of step {step} are in {str(self.folder / LAST)!r}: continue from them."

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
            raise UserError(f"{str(self.folder)!r} contains a training run. Resume it, or choose another folder.")
        else:
            checkpoints.check_no_weights(self.folder)
            checkpoints.remove_unstarted(self.folder)
        self._started = self.clock()
        self._last_checkpoint = self._started

    def _steps(self, report: Callable[[TrainingStep], None]) -> None:
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
        return {
            "step": self.step,
            "tokens": self.tokens,
            "seconds": self.seconds(),
            "measured": self.measured,
            "skipped": self.skips.total,
            "data": self.data.sha256,
            "base": self.student.base.sha256,
            "settings": deciding(TrainingSettings, self.settings),
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
