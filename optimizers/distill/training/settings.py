"""The settings of a training run: each stated once, for the command, Python and the checkpoint.

A group of options stands in the panel of the class that declares it. Nothing heavy is imported: `--help` shows them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from signatures.common.errors import UserError, unknown
from signatures.common.files import expanded
from signatures.common.specs import Field, Range, fields_of

LEARNING_RATES = {"lora": 1e-3, "full": 2e-5}
_DECIDES = partial(Field, decides=True)
_POSITIVE = ("learning_rate", "clip", "epochs", "hours", "checkpoint_minutes")  # a range includes its ends


@dataclass(frozen=True, kw_only=True)
class Method:
    """What is trained."""

    PANEL: ClassVar[str] = "Method"
    base: Annotated[
        str,
        _DECIDES(
            "LM to train: embedded (untrained; to continue from its adapter, add --resume-adapter embedded), "
            "gguf:PATH, or a Hugging Face causal LM by name or folder."
        ),
    ] = "embedded"
    method: Annotated[Literal["lora", "full"], _DECIDES("lora (low-rank updates) or full (all weights).")] = "lora"
    rank: Annotated[int, Range(1), _DECIDES("Rank of the updates.")] = 16
    alpha: Annotated[int, Range(1), _DECIDES("Updates are multiplied by alpha / rank.")] = 32
    first_layer: Annotated[
        int,
        Range(0),
        _DECIDES("Number of the first layer that is trained, from 0; the ones below stay as they are.", "--layers"),
    ] = 0
    resume_adapter: Annotated[
        Path | str | None, _DECIDES("Folder of the LoRA adapter to start from; embedded is the shipped one.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """How long, in which steps."""

    PANEL: ClassVar[str] = "Schedule"
    epochs: Annotated[
        float | None, _DECIDES("Passes over the examples, more than 0; 1 unless --hours or --max-steps is given.")
    ] = None
    max_steps: Annotated[int | None, Range(1), _DECIDES("Stop after this many steps.")] = None
    hours: Annotated[
        float | None, _DECIDES("Stop after this time, more than 0; the learning rate falls to 0 by then.")
    ] = None
    batch_size: Annotated[int, Range(1), _DECIDES("Examples per step.")] = 8
    learning_rate: Annotated[
        float | None, _DECIDES("Highest learning rate; by default 1e-3 for lora, 2e-5 for full.")
    ] = None
    warmup_steps: Annotated[int, Range(0), _DECIDES("Steps in which the learning rate rises.")] = 10
    decay: Annotated[
        Literal["linear", "cosine", "none"], _DECIDES("How the learning rate falls: linear, cosine or none.")
    ] = "linear"
    weight_decay: Annotated[float, Range(0), _DECIDES("Weight decay of AdamW.")] = 0.0
    weights: Annotated[
        Mapping[str, float],
        _DECIDES(
            "How often a skill is used in an epoch, repeatable: reading=2.",
            "--weight",
            form=("skill=number", "reading=2"),
        ),
    ] = field(default_factory=dict)
    loss: Annotated[
        Literal["tokens", "examples"], _DECIDES("What has equal weight in a batch: tokens or examples.")
    ] = "tokens"
    seed: Annotated[int, Range(0), _DECIDES("Seed of every random choice.")] = 0


@dataclass(frozen=True, kw_only=True)
class Machine:
    """How it is computed."""

    PANEL: ClassVar[str] = "Machine"
    device: Annotated[str, Field("cuda, mps, cpu, or auto (the first of these that is available).")] = "auto"
    precision: Annotated[
        Literal["auto", "bfloat16", "float32"],
        _DECIDES("bfloat16, float32, or auto (bfloat16 where the processor has instructions for it)."),
    ] = "auto"
    threads: Annotated[int | None, Range(1), Field("Threads of the CPU; all by default.")] = None
    row_tokens: Annotated[int, Range(1), _DECIDES("Tokens computed at once; fewer need less memory.")] = 2048
    max_tokens: Annotated[int, Range(2), _DECIDES("Longer examples are left out.")] = 2048
    packing: Annotated[
        bool, _DECIDES("Compute the shared beginning of prompts once (default).", "--packing/--no-packing")
    ] = True
    checkpoint_minutes: Annotated[float, Field("Minutes between checkpoints.")] = 10.0


@dataclass(frozen=True, kw_only=True)
class Measuring:
    """What is measured on the validation examples."""

    PANEL: ClassVar[str] = "Validation"
    validation_examples: Annotated[int, Range(1), _DECIDES("Examples of each skill to measure the loss on.")] = 50
    evaluate_every: Annotated[
        int | None,
        Range(1),
        _DECIDES("Steps between two measurements, the first before training; by default only at the end."),
    ] = None
    keep_best: Annotated[
        str | None,
        _DECIDES(
            "Keep the weights with the best value of this metric in OUT/best: em, f1, em[SKILL], "
            "f1[SKILL], loss, program_em or program_f1."
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class TrainingSettings(Measuring, Machine, Schedule, Method):
    """All settings of a training run; what decides results must be the same when it is resumed.

    Args:
        first_layer: Freezing the layers below saves their half of the backward pass.
        epochs: Unlimited if only `max_steps` or `hours` is given.
        weights: 1 by default; 0.5 is every second example of a skill.
        clip: Longest gradient.
        given: What was stated, without defaults.

    Raises:
        UserError: A value is out of its range, or settings contradict each other.
    """

    resume_adapter: Annotated[str | None, _DECIDES()] = None
    learning_rate: Annotated[float, _DECIDES()] = LEARNING_RATES["lora"]
    clip: Annotated[float, _DECIDES()] = 1.0
    given: Annotated[Mapping[str, Any], Field()] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, setting in fields_of(self).items():
            value = getattr(self, name)
            try:
                setting.check(value)
                if name in _POSITIVE and value is not None and not 0 < value <= 1e9:
                    raise UserError(f"input should be greater than 0 and at most 1e9, got {value}.")
            except UserError as error:
                raise UserError(f"Training setting {name!r}: {error}") from None
        for skill, weight in self.weights.items():
            if weight < 0:
                raise UserError(f"The weight of skill {skill!r} is negative. Use 0 to leave a skill out.")
            if not weight <= 1e9:
                raise UserError(f"Training setting 'weights': that of {skill!r} should be a finite number.")
        if self.keep_best and not self.evaluate_every:
            raise UserError(f"To keep the best weights by {self.keep_best!r}, say after how many steps to measure.")
        if self.method == "full" and self.resume_adapter:
            raise UserError(
                "An adapter can be continued with method 'lora' only. Merge it first, or use method 'lora'."
            )

    def as_dict(self) -> dict[str, Any]:
        """Return all settings by name."""
        return {name: getattr(self, name) for name in fields_of(self) if name != "given"}


def make_settings(**values: Any) -> TrainingSettings:
    """Return validated settings.

    Args:
        values: Settings by name; a learning rate of None is the default. Folders and files of the base and the adapter
            become absolute, with the home folder for `~`, so that what is trained is served, and resumed, from any
            folder.

    Raises:
        UserError: There is no such setting, or no home folder for `~`; see `TrainingSettings`, too.
    """
    for name in values:
        if name not in fields_of(TrainingSettings):
            raise unknown("training setting", name, fields_of(TrainingSettings))
    for name in ("base", "resume_adapter"):
        if values.get(name) is not None:
            values[name] = _located(str(values[name]))
    if values.get("learning_rate") is None:
        values.pop("learning_rate", None)
    rate = LEARNING_RATES.get(values.get("method", TrainingSettings.method), TrainingSettings.learning_rate)
    return TrainingSettings(**{"learning_rate": rate, **values}, given=values)


def _located(name: str) -> str:
    """Return the name of an LM or adapter with an absolute path where it is one that exists, or begins with `~`."""
    path = name.removeprefix("gguf:")
    place = expanded(path)
    try:
        there = name != "embedded" and path != "" and (path.startswith("~") or place.exists())
    except (OSError, ValueError):  # too long for a path, or with a character that none has
        there = False
    return name.removesuffix(path) + str(place.absolute()) if there else name
