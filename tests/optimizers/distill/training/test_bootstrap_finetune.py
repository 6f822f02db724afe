"""DSPy's weight optimizers train with our trainer, on prompts of our adapter, and the returned LM answers."""

import json
from pathlib import Path
from typing import Any

import dspy
import pytest
from dspy.lm15 import Message, Request, Response, TextPart, Usage

from optimizers.distill.bootstrap_finetune import of_connection, to_examples, trainable_lm
from optimizers.distill.examples import read_examples
from optimizers.distill.training.lm.base_model import load_base
from optimizers.distill.training.settings import make_settings
from optimizers.teleprompters.compile import compile
from optimizers.teleprompters.task import Task
from programs.closed_book.standard import Standard
from programs.lms.adapter import JsonForm
from programs.lms.calls.metered import metered_lm
from programs.lms.connect import Connection
from programs.lms.embedded import EmbeddedEngine
from programs.lms.gguf import GgufEngine
from programs.lms.requests import turns
from programs.lms.weights import choice
from signatures.common.errors import UserError
from tests.conftest import ScriptedEngine
from tests.programs.lms.weights.made import SHAPE, make_adapter, make_model
from tests.tiny_llama import write_tiny_llama

COLOURS = {"sky": "blue", "grass": "green", "blood": "red"}
TRAINSET = [dspy.Example(question=thing, answer=colour).with_inputs("question") for thing, colour in COLOURS.items()]


class TorchEngine:
    """Generates with transformers from the weights in a folder, with an adapter or merged."""

    free = True
    supports_response_schema = True
    supported_params = ("temperature", "max_tokens", "response_format")

    def __init__(self, folder: Path, base: Path):
        from peft import PeftModel

        adapter = (folder / "adapter_config.json").exists()
        loaded = load_base(str(base if adapter else folder))
        self.tokenizer = loaded.tokenizer
        self.model = PeftModel.from_pretrained(loaded.model, str(folder)) if adapter else loaded.model

    def __deepcopy__(self, memo: dict[int, Any]) -> "TorchEngine":
        return self

    def complete(self, request: Request) -> Response:
        text = self.tokenizer.apply_chat_template(turns(request), tokenize=False, add_generation_prompt=True)
        tokens = self.tokenizer(text, return_tensors="pt", add_special_tokens=False).input_ids
        made = self.model.generate(input_ids=tokens, max_new_tokens=40, do_sample=False, pad_token_id=2)
        reply = self.tokenizer.decode(made[0, tokens.shape[1] :], skip_special_tokens=True)
        message = Message.assistant([TextPart(reply)])
        return Response(id=None, model=request.model, message=message, finish_reason="stop", usage=Usage())


@pytest.fixture(scope="module")
def tiny_bytes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny_bytes")
    write_tiny_llama(folder, characters=True)
    return folder


@pytest.fixture
def connection(tiny_bytes: Path) -> Connection:
    lm = metered_lm("tiny/llama", engine=TorchEngine(tiny_bytes, tiny_bytes), cache=False, temperature=0.0)
    return Connection("tiny", lm, JsonForm(), None, "samples")


def teacher() -> dspy.Module:
    program = dspy.Predict("question -> answer")
    engine = ScriptedEngine(
        lambda system, user: {"answer": next(colour for thing, colour in COLOURS.items() if thing in user)}
    )
    program.set_lm(metered_lm("scripted/teacher", engine=engine, cache=False))
    return program


def right(example: Any, prediction: Any, trace: Any = None) -> bool:
    return bool(example.answer == prediction.answer)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["lora", "full"])
def test_bootstrap_finetune_returns_a_program_on_the_trained_lm(
    connection: Connection, tiny_bytes: Path, tmp_path: Path, method: str
) -> None:
    settings = make_settings(base=str(tiny_bytes), method=method, learning_rate=1e-2, epochs=40, precision="float32")
    lm = trainable_lm(
        connection, tmp_path / "out", settings, open_engine=lambda folder: TorchEngine(folder, tiny_bytes)
    )
    student = dspy.Predict("question -> answer")
    student.set_lm(lm)
    with connection.use():
        optimizer = dspy.BootstrapFinetune(metric=right, adapter=connection.adapter, num_threads=2)
        trained = optimizer.compile(student, trainset=TRAINSET, teacher=teacher())
        answers = [trained(question=thing).answer for thing in COLOURS]
    assert answers == list(COLOURS.values())
    examples = read_examples(tmp_path / "out" / "01" / "examples.jsonl")
    expected = connection.adapter.format(student.signature, [], {"question": "sky"})
    assert [message.model_dump() for message in examples[0].messages][:1] == expected[:1]
    assert sorted(example.completion for example in examples) == [
        '{"answer": "blue"}', '{"answer": "green"}', '{"answer": "red"}'
    ]  # fmt: skip
    assert trained.lm.model.startswith("tiny/llama@")
    assert lm.model == "tiny/llama"


@pytest.mark.slow
def test_better_together_trains_twice_from_the_same_weights_on(
    connection: Connection, tiny_bytes: Path, tmp_path: Path
) -> None:
    settings = make_settings(base=str(tiny_bytes), learning_rate=1e-2, precision="float32")
    lm = trainable_lm(
        connection, tmp_path / "out", settings, open_engine=lambda folder: TorchEngine(folder, tiny_bytes)
    )
    student = dspy.Predict("question -> answer")
    student.set_lm(lm)
    weights = dspy.BootstrapFinetune(
        metric=right, adapter=connection.adapter, num_threads=2, train_kwargs={"epochs": 20}
    )
    with connection.use():
        trained = dspy.BetterTogether(metric=right, w=weights).compile(
            student, trainset=TRAINSET, valset=TRAINSET, teacher=teacher(), strategy="w -> w"
        )
    assert [one["strategy"] for one in trained.candidate_programs if one["strategy"] == ""] == [""]
    assert len(trained.candidate_programs) == 3
    assert not trained.flag_compilation_error_occurred
    assert trained.candidate_programs[0]["score"] == 100.0
    assert '"resume_adapter": "' + str(tmp_path / "out" / "01") in (tmp_path / "out/02/training.json").read_text()


@pytest.mark.slow
def test_compiling_trains_weights_as_a_step(connection: Connection, tiny_bytes: Path, tmp_path: Path) -> None:
    settings = make_settings(base=str(tiny_bytes), learning_rate=1e-2, epochs=60, precision="float32")
    lm = trainable_lm(
        connection, tmp_path / "out", settings, open_engine=lambda folder: TorchEngine(folder, tiny_bytes)
    )
    valset = [dspy.Example(question=f"{thing}s", answer=COLOURS[thing]).with_inputs("question") for thing in COLOURS]
    task = Task(
        TRAINSET,
        lambda example, prediction: float(bool(prediction.answer.strip())),
        valset=valset,
        teacher_lm=teacher().lm,
        options={"strategy": "w"},
    )
    with connection.use(), dspy.context(lm=lm):
        compiled = compile(Standard(), task, optimizer="better_together")
    before, after = compiled.candidates
    assert before.lm is None
    assert after.lm is not None
    assert after.lm.model.startswith("tiny/llama@")
    assert [predictor.lm for predictor in after.program.predictors()] == [None]
    with connection.use(), dspy.context(lm=after.lm):
        assert [after.program(thing).answer for thing in COLOURS] == list(COLOURS.values())


def embedded(source: str) -> Connection:
    lm = metered_lm("embedded/made", engine=EmbeddedEngine(source=source), cache=False)
    return Connection(f"embedded:{source}", lm, JsonForm(), None, "logprobs")


def test_training_goes_on_from_the_weights_that_answer(tmp_path: Path) -> None:
    settings = of_connection(embedded(""), make_settings(epochs=2))
    assert (settings.base, settings.resume_adapter) == ("embedded", str(choice.DEFAULT_ADAPTER))
    assert (settings.rank, settings.alpha, settings.first_layer, settings.epochs) == (32, 64, 0, 2)
    assert of_connection(embedded(""), make_settings(base="embedded", first_layer=0)).first_layer == 0
    for source in ("base", "base-8bit"):
        settings = of_connection(embedded(source), make_settings(method="full"))
        assert (settings.base, settings.resume_adapter, settings.learning_rate) == ("embedded", None, 2e-5)
    assert of_connection(embedded("base"), make_settings(rank=4)).rank == 4
    (tmp_path / "x.gguf").write_bytes(b"GGUF")
    lm = metered_lm("gguf/x", engine=GgufEngine(str(tmp_path / "x.gguf")), cache=False)
    connection = Connection("gguf:x", lm, JsonForm(), None, "logprobs")
    assert of_connection(connection, make_settings()).base == f"gguf:{tmp_path / 'x.gguf'}"


def test_training_goes_on_from_merged_weights_and_from_adapters_of_them(tmp_path: Path) -> None:
    merged = make_model(tmp_path / "merged", SHAPE)
    assert of_connection(embedded(str(merged)), make_settings()).base == str(merged)
    adapter = make_adapter(tmp_path / "adapter", SHAPE, base_model_name_or_path=str(merged))
    settings = of_connection(embedded(str(adapter)), make_settings(base=str(merged)))
    assert (settings.base, settings.resume_adapter) == (str(merged), str(adapter))
    assert settings.rank == json.loads((adapter / "adapter_config.json").read_text())["r"]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"base": "gguf:other.gguf"}, "answers with base = 'embedded'"),
        ({"resume_adapter": "other"}, "answers with resume_adapter = "),
        ({"rank": 8}, "answers with rank = 32, so it is not to be trained with 8. Leave rank out"),
        ({"method": "full"}, "can be continued with method 'lora' only"),
    ],
)
def test_other_weights_than_those_that_answer_are_refused(values: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=message):
        trainable_lm(embedded(""), tmp_path, make_settings(**values))


def test_nothing_to_train_on_is_an_error() -> None:
    with pytest.raises(UserError, match="No trace passed the metric"):
        to_examples([])


def test_an_lm_on_a_server_cannot_be_trained(tmp_path: Path) -> None:
    remote = Connection("openai/gpt-x", metered_lm("openai/gpt-x", api_key="none"), JsonForm(), None, "samples")
    with pytest.raises(UserError, match=r"'openai/gpt-x' cannot be trained here"):
        trainable_lm(remote, tmp_path, make_settings())
