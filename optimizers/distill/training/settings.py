"""The settings of a training run."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from signatures.common.errors import UserError, first_problem
from signatures.common.files import expanded

# What may differ when a run is resumed: it changes neither the data nor the order of the steps.
EXECUTION = frozenset({"device", "threads", "checkpoint_minutes"})
LEARNING_RATES = {"lora": 1e-3, "full": 2e-5}


class TrainingSettings(BaseModel):
    """All settings of a training run; those not in `EXECUTION` must be the same when it is resumed.

    Args:
        base: The LM to train: "embedded" (without its adapter), "gguf:PATH", or a Hugging Face causal LM by name or
            folder.
        method: "lora" trains low-rank updates of the linear maps, "full" all weights.
        rank: Rank of the LoRA matrices.
        alpha: LoRA updates are multiplied by alpha / rank.
        first_layer: The layers from this one on are trained (the first is 0); the ones below stay frozen, which saves
            their half of the backward pass.
        learning_rate: The highest of the schedule; by default 1e-3 for LoRA, 2e-5 for full fine-tuning.
        warmup_steps: Steps over which the learning rate rises from 0.
        decay: How the learning rate falls to 0 at the end of the run.
        weight_decay: Of AdamW.
        clip: Longest gradient.
        epochs: Passes over the training examples; 1 by default, unlimited if only `max_steps` or `hours` is given.
        max_steps: Stop after this many steps.
        hours: Stop after this time; the learning rate reaches 0 then.
        batch_size: Examples of a step.
        row_tokens: Most tokens that are computed at once; a batch is cut into rows of this size.
        max_tokens: Longer examples are left out, and counted.
        packing: Whether examples share a row and the tokens that their prompts begin with; else a row is padded.
        loss: "tokens" weighs all reply tokens of a batch the same, "examples" all replies.
        weights: How often the examples of a skill are used in an epoch; 1 by default, 0.5 is every second one.
        seed: Of the initial weights of LoRA and of the order of the examples.
        resume_adapter: Folder of the LoRA adapter to start from; "embedded" is that of the embedded LM.
        device: "auto", "cpu", "cuda" or "mps".
        precision: Of matrix products: "auto" is bfloat16 where the processor has instructions for it.
        threads: Of the CPU; all by default.
        checkpoint_minutes: Time between checkpoints.
        evaluate_every: Steps between two measurements on the validation examples, the first before training; by
            default they are measured only at the end.
        validation_examples: Validation examples of each skill whose loss is measured, the first of the file.
        keep_best: Metric by which the best weights measured are kept in the folder `best`, such as "f1" (higher is
            better) or "loss" (lower is better).
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    base: str = "embedded"
    method: Literal["lora", "full"] = "lora"
    rank: int = Field(16, ge=1)
    alpha: int = Field(32, ge=1)
    first_layer: int = Field(0, ge=0)
    learning_rate: float = Field(default_factory=lambda data: LEARNING_RATES.get(data.get("method"), 1e-3), gt=0)
    warmup_steps: int = Field(10, ge=0)
    decay: Literal["linear", "cosine", "none"] = "linear"
    weight_decay: float = Field(0.0, ge=0)
    clip: float = Field(1.0, gt=0)
    epochs: float | None = Field(None, gt=0, le=1e9)
    max_steps: int | None = Field(None, ge=1)
    hours: float | None = Field(None, gt=0)
    batch_size: int = Field(8, ge=1)
    row_tokens: int = Field(2048, ge=1)
    max_tokens: int = Field(2048, ge=2)
    packing: bool = True
    loss: Literal["tokens", "examples"] = "tokens"
    weights: dict[str, float] = Field(default_factory=dict)
    seed: int = 0
    resume_adapter: str | None = None
    device: str = "auto"
    precision: Literal["auto", "bfloat16", "float32"] = "auto"
    threads: int | None = Field(None, ge=1)
    checkpoint_minutes: float = Field(10.0, gt=0)
    evaluate_every: int | None = Field(None, ge=1)
    validation_examples: int = Field(50, ge=1)
    keep_best: str | None = None


def make_settings(**values: Any) -> TrainingSettings:
    """Return validated settings.

    Args:
        values: Settings by name; a learning rate of None is the default. Folders and files of the base and the adapter
            become absolute, with the home folder for `~`, so that what is trained is served, and resumed, from any
            folder.

    Raises:
        UserError: A value is out of its range, settings contradict each other, or there is no home folder for `~`.
    """
    if values.get("learning_rate", 0.0) is None:
        del values["learning_rate"]
    for name in ("base", "resume_adapter"):
        if isinstance(values.get(name), str):
            values[name] = _located(values[name])
    try:
        settings = TrainingSettings(**values)
    except ValidationError as error:
        raise UserError(f"Training setting {first_problem(error)}.") from error
    if negative := [skill for skill, weight in settings.weights.items() if weight < 0]:
        raise UserError(f"The weight of skill {negative[0]!r} is negative. Use 0 to leave a skill out.")
    if settings.keep_best and not settings.evaluate_every:
        raise UserError(f"To keep the best weights by {settings.keep_best!r}, say after how many steps to measure.")
    if settings.method == "full" and settings.resume_adapter:
        raise UserError("An adapter can be continued with method 'lora' only. Merge it first, or use method 'lora'.")
    return settings


def _located(name: str) -> str:
    """Return the name of an LM or adapter with an absolute path where it is one that exists, or begins with `~`."""
    path = name.removeprefix("gguf:")
    place = expanded(path)
    try:
        there = name != "embedded" and path != "" and (path.startswith("~") or place.exists())
    except (OSError, ValueError):  # too long for a path, or with a character that none has
        there = False
    return name.removesuffix(path) + str(place.absolute()) if there else name
