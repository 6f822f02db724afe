"""DSPy's weight optimizers on our trainer: `dspy.BootstrapFinetune`, and `dspy.BetterTogether` with it.

    connection = connect("embedded")
    lm = trainable_lm(connection, Path("trained"), make_settings(epochs=2))
    program.set_lm(lm)
    with connection.use():
        optimizer = dspy.BootstrapFinetune(metric=metric, adapter=connection.adapter)
        program = optimizer.compile(program, trainset=trainset, teacher=teacher)

The adapter of the connection renders the examples, so that what is trained is what is asked. The program then runs on
the trained weights, which are in `trained/01`; a further optimizer continues from them and writes `trained/02`.
Training continues from the weights that answer: `embedded` has the adapter of this package, `embedded:base` has none.
Training and serving of other LMs than the embedded one: `trainable_lm` takes the function that opens an engine.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import dspy
from dspy.clients.provider import Provider, TrainingJob
from dspy.lm15 import Request, Response

from optimizers.distill.examples import Example, Message, write_examples
from optimizers.distill.training.data import read_data
from optimizers.distill.training.lm.base_model import load_base
from optimizers.distill.training.settings import TrainingSettings, make_settings
from optimizers.distill.training.train import Training
from programs.lms.calls.metered import AsyncEngine
from programs.lms.connect import Connection
from programs.lms.embedded import EmbeddedEngine
from programs.lms.gguf import GgufEngine
from programs.lms.weights.adapter import CONFIG, Adapter
from programs.lms.weights.choice import find_base
from programs.lms.weights.llama import read_json
from signatures.common.errors import UserError
from signatures.common.files import sha256_file
from signatures.common.per_process import Uncopied

EXAMPLES = "examples.jsonl"
OpenEngine = Callable[[Path], Any]


def _open_embedded(folder: Path) -> EmbeddedEngine:
    return EmbeddedEngine(source=str(folder))


def trainable_lm(
    connection: Connection, folder: Path, settings: TrainingSettings, *, open_engine: OpenEngine = _open_embedded
) -> dspy.LM:
    """Return the LM of a connection, with DSPy's `finetune`.

    Args:
        connection: Of an LM in this process. Training continues from its weights, an adapter with its rank and layers.
        folder: Where each training writes a numbered folder with its examples and weights.
        settings: Of the training; `train_kwargs` of the optimizer are added to them. For an engine of another kind than
            ours, `base` must name its weights.
        open_engine: Returns the engine that answers with the weights in a folder.

    Raises:
        UserError: The LM does not run in this process, or the settings name other weights.
    """
    engine = connection.lm.engine
    if isinstance(engine, str):
        raise UserError(f"{connection.id!r} cannot be trained here: its weights are not in this process. Use embedded.")
    settings = of_connection(connection, settings)
    engines = TrainedEngines({connection.lm.model: engine})
    lm = connection.lm.copy(engine=engines, async_engine=AsyncEngine(engines))
    lm.provider = TrainingHere(folder, settings, engines, open_engine)
    return lm


def of_connection(connection: Connection, settings: TrainingSettings) -> TrainingSettings:
    """Return the settings with which training continues from the weights that a connection answers with.

    Raises:
        UserError: The settings name other weights.
    """
    engine = connection.lm.engine
    if isinstance(engine, EmbeddedEngine):
        given = _of_folder(engine.weights.folder)
    elif isinstance(engine, GgufEngine):
        given = {"base": f"gguf:{engine.path}", "resume_adapter": None}
    else:
        return settings
    chosen = settings.given
    for name in ("base", "resume_adapter", "rank", "alpha"):
        if name in given and name in chosen and not _same(chosen[name], given[name]):
            raise UserError(
                f"{connection.id!r} answers with {name} = {given[name]!r}, so it is not to be trained with "
                f"{chosen[name]!r}. Leave {name} out, or connect to the other LM."
            )
    return make_settings(**{**chosen, **given, **{name: chosen[name] for name in chosen if name == "first_layer"}})


def _of_folder(folder: Path | None) -> dict[str, Any]:
    """Return the settings that name the weights of the embedded LM: its base, merged weights, or an adapter."""
    if folder is None:
        return {"base": "embedded", "resume_adapter": None}
    if not (folder / CONFIG).is_file():
        return {"base": str(folder), "resume_adapter": None}
    config, base = read_json(folder / CONFIG), find_base(Adapter(folder))
    layers = config.get("layers_to_transform")
    return {
        "base": "embedded" if base is None else str(base) if base.is_dir() else f"gguf:{base}",
        "resume_adapter": str(folder),
        "rank": config.get("r"),
        "alpha": config.get("lora_alpha"),
        "first_layer": min(layers) if isinstance(layers, list) and layers else layers or 0,
    }


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, str) and isinstance(other, str):
        return one == other or Path(one).expanduser().resolve() == Path(other).expanduser().resolve()
    return bool(one == other)


class TrainedEngines(Uncopied):
    """Answers each request with the weights that its model string names, in which alone copies of an LM differ."""

    def __init__(self, engines: Mapping[str, Any]):
        self.engines = dict(engines)
        first = next(iter(self.engines.values()))
        self.free = getattr(first, "free", False)
        self.supports_response_schema = first.supports_response_schema
        self.supported_params = first.supported_params

    def complete(self, request: Request) -> Response:
        """Answer one request."""
        return self.engines[request.model].complete(request)


class TrainingHere(Provider):
    """Trains in this process.

    Args:
        folder: Where each training writes a numbered folder.
        settings: Of the training.
        engines: Gets the engine of the trained weights.
        open_engine: Returns that engine.
    """

    def __init__(self, folder: Path, settings: TrainingSettings, engines: TrainedEngines, open_engine: OpenEngine):
        super().__init__()
        self.finetunable = True
        self._folder, self._settings, self._engines, self._open_engine = folder, settings, engines, open_engine
        self._trained: dict[str, Path] = {}

    def finetune(
        self,
        job: TrainingJob,
        model: str,
        train_data: Sequence[dict[str, Any]],
        train_data_format: Any,
        train_kwargs: Mapping[str, Any] | None = None,
    ) -> str:
        """Train on conversations that end with the reply to learn, and return the model string of the new weights.

        Args:
            job: Not used.
            model: Model string of the LM; weights trained before are trained further.
            train_data: `{"messages": [...]}` each.
            train_data_format: Not used: `connection.adapter` makes conversations alone.
            train_kwargs: Settings of the training that replace those given before.

        Raises:
            UserError: There is no conversation, or a setting is wrong.
        """
        settings = make_settings(**{**self._settings.given, **self._further(model), **(train_kwargs or {})})
        examples = to_examples(train_data)
        folder = self._next_folder()
        write_examples(folder / EXAMPLES, examples)
        base = load_base(settings.base)
        Training(base, read_data(folder, base.tokenizer, settings), settings, folder).run()
        trained = f"{model.partition('@')[0]}@{_weights_hash(folder)}"
        self._engines.engines[trained] = self._open_engine(folder)
        self._trained[trained] = folder
        return trained

    def _further(self, model: str) -> dict[str, str]:
        """Return the settings with which training continues from weights trained here."""
        folder = self._trained.get(model)
        if folder is None:
            return {}
        return {"base" if self._settings.method == "full" else "resume_adapter": str(folder)}

    def _next_folder(self) -> Path:
        number = 1
        while (folder := self._folder / f"{number:02d}").exists():
            number += 1
        return folder


def _weights_hash(folder: Path) -> str:
    """Return the beginning of the hash of the weights, for the keys of the reply cache."""
    hashes = [sha256_file(path) for path in sorted(folder.glob("*.safetensors"))]
    return hashes[0][:16]


def to_examples(train_data: Sequence[dict[str, Any]]) -> list[Example]:
    """Return conversations in the form of DSPy's training data as examples, without repeats.

    Raises:
        UserError: There is none: no trace passed the metric.
    """
    examples: dict[str, Example] = {}
    for conversation in train_data:
        *prompt, reply = conversation["messages"]
        example = Example(
            messages=tuple(Message(role=message["role"], content=message["content"]) for message in prompt),
            completion=reply["content"],
            program="",
            predictor="",
            skill="finetune",
            question_id="",
            source="trainset",
            licence="that of the trainset",
            labels="teacher",
        )
        examples.setdefault(example.key, example)
    if not examples:
        raise UserError("No trace passed the metric, so there is nothing to train on. Use a better teacher.")
    return list(examples.values())
