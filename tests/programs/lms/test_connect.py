"""From an id to something that answers, and one clear line where that cannot be."""

import contextlib
import socket
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor

import dspy
import pytest

from programs.lms import embedded, gguf
from programs.lms.adapter import ChatForm, JsonForm
from programs.lms.calls.budget import Budget
from programs.lms.calls.metered import LMUnavailable
from programs.lms.calls.transport import Transport
from programs.lms.connect import ModelTraits, connect
from programs.lms.embedded import EmbeddedEngine
from programs.parts.meter import metered
from signatures.common.errors import UserError
from signatures.common.files import sha256_file

SAMPLED = ModelTraits(probability_mode="samples")


@pytest.mark.parametrize("lm_id", ["gpt4", "", "/x", "openai/", "embedde"])
def test_an_unknown_id_lists_the_forms(lm_id: str) -> None:
    with pytest.raises(UserError, match=r"embedded.*gguf:<path>.*api-base"):
        connect(lm_id)


def test_a_known_provider_needs_no_server_to_connect() -> None:
    connection = connect("openai/gpt-4o-mini")
    assert isinstance(connection.adapter, JsonForm)
    assert connection.probability_mode == "logprobs"


def test_the_window_of_a_known_model_is_known_without_asking(monkeypatch) -> None:
    monkeypatch.setattr("httpx.Client.send", lambda *args, **kwargs: pytest.fail("asked the network"))
    assert connect("openai/gpt-4o-mini").adapter.context_size == 128_000
    assert connect("openai/gpt-4o-mini", traits=ModelTraits(context_size=5000)).context_size == 5000
    assert connect("openai/made-up-model").context_size is None


def test_a_reasoning_model_keeps_its_default_temperature_and_reply_length() -> None:
    connection = connect("openai/gpt-5-mini")
    settings = connection.lm.kwargs
    assert settings.get("temperature") is settings.get("max_tokens") is settings.get("max_completion_tokens") is None
    assert connection.probability_mode == "samples"
    assert not connection.adapter.short_replies


def test_a_reasoning_model_refuses_a_short_limit_in_one_line() -> None:
    with pytest.raises(UserError, match=r"^LM 'openai/gpt-5-mini' refuses these settings: .*16000"):
        connect("openai/gpt-5-mini", max_tokens=100)
    assert connect("openai/gpt-5-mini", max_tokens=20_000).lm.kwargs["max_completion_tokens"] == 20_000


@pytest.mark.parametrize(("word", "sent"), [("off", "none"), ("low", "low"), ("high", "high"), ("auto", None)])
def test_reasoning_of_a_provider_is_its_effort(word, sent) -> None:
    connection = connect("openai/gpt-5-mini", traits=ModelTraits(reasoning=word))
    assert connection.lm.kwargs.get("reasoning_effort") == sent
    assert connection.probability_mode == "samples"


def test_reasoning_of_a_provider_gets_tokens_and_no_short_replies() -> None:
    connection = connect("anthropic/claude-sonnet-4-5", traits=ModelTraits(reasoning="low", thinking_tokens=3000))
    assert connection.lm.kwargs["max_tokens"] == 256 + 3000
    assert not connection.adapter.short_replies


@pytest.mark.parametrize(
    "traits", [ModelTraits(reasoning="low"), ModelTraits(thinking_tokens=9), ModelTraits(server="vllm")]
)
def test_settings_of_servers_are_refused_for_an_lm_in_this_process(traits) -> None:
    with pytest.raises(UserError, match="server"):
        connect("embedded", traits=traits)


def test_a_reasoning_model_on_a_server_is_sampled_without_a_probe(server) -> None:
    assert connect("gpt-5", api_base=server.base).probability_mode == "samples"
    assert server.seen == []


@pytest.mark.parametrize("base", ["localhost:8000", "ftp://x/v1", "http://"])
def test_an_address_that_is_none_is_refused(base: str) -> None:
    with pytest.raises(UserError, match="api-base"):
        connect("m", api_base=base)


def test_a_missing_file_is_named_and_one_of_another_kind_is_refused(tmp_path) -> None:
    with pytest.raises(UserError, match=r"nowhere\.gguf"):
        connect("gguf:nowhere.gguf")
    (tmp_path / "x.gguf").write_bytes(b"text")
    with pytest.raises(UserError, match="not a GGUF file"):
        connect(f"gguf:{tmp_path / 'x.gguf'}")


def test_weights_are_hashed_once_until_the_file_changes(tmp_path, monkeypatch) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(b"GGUF one")
    read = []
    monkeypatch.setattr("programs.lms.gguf.sha256_file", lambda file: read.append(file) or sha256_file(file))
    first = connect(f"gguf:{path}")
    again = connect(f"gguf:{path}")
    assert (again.lm.model, again.lm.engine) == (first.lm.model, first.lm.engine)
    assert len(read) == 1
    path.write_bytes(b"GGUF another")
    changed = connect(f"gguf:{path}")
    assert changed.weights_hash != first.weights_hash
    assert changed.lm.engine is not first.lm.engine  # it may have loaded the weights that were there before
    assert len(read) == 2


@pytest.mark.parametrize("kind", ["embedded", "gguf"])
def test_cached_replies_end_with_the_runtime_that_gave_them(kind, tmp_path, monkeypatch) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(b"GGUF")
    lm_id = "embedded" if kind == "embedded" else f"gguf:{path}"
    rules = {"embedded": embedded.rules, "gguf": gguf.rules}[kind]
    names = []
    for version in ("1", "2"):
        rules.cache_clear()
        monkeypatch.setattr("signatures.common.versions.installed_version", lambda package, version=version: version)
        names.append(connect(lm_id).lm.model)
    rules.cache_clear()
    assert names[0] != names[1]


def test_threads_that_connect_together_share_one_engine(monkeypatch) -> None:
    made, together = [], threading.Barrier(4)

    class Slow(EmbeddedEngine):
        def __init__(self, **settings) -> None:
            made.append(self)
            with contextlib.suppress(threading.BrokenBarrierError):
                late.wait(0.05)  # long enough for another thread to start building, where it can
            super().__init__(**settings)

    late = threading.Barrier(2)
    monkeypatch.setattr("programs.lms.connect.EmbeddedEngine", Slow)
    monkeypatch.setattr("programs.lms.connect._embedded_engines", {})

    def join(number: int) -> object:
        together.wait()
        return connect("embedded").lm.engine

    with ThreadPoolExecutor(4) as pool:
        engines = list(pool.map(join, range(4)))
    assert len(made) == 1
    assert all(engine is made[0] for engine in engines)


def test_a_server_with_logprobs_is_detected(server) -> None:
    connection = connect("openai/m", api_base=server.base)
    assert connection.probability_mode == connection.adapter.probability_mode == "logprobs"
    assert connection.context_size == 4096
    assert isinstance(connection.adapter, JsonForm)


@pytest.mark.parametrize("change", [{"top": None}, {"failures": [400]}])
def test_a_server_without_logprobs_or_that_refuses_them_is_sampled(server, change) -> None:
    vars(server).update(change)
    assert connect("m", api_base=server.base).probability_mode == "samples"


def test_a_given_mode_asks_nothing(server) -> None:
    traits = ModelTraits(probability_mode="verbalised")
    assert connect("m", api_base=server.base, traits=traits).probability_mode == "verbalised"
    assert server.seen == []


def test_a_program_runs_on_a_server_and_is_metered(server) -> None:
    server.text = '{"answer": "Paris"}'
    connection = connect("hosted_vllm/org/model", api_base=server.base)
    with connection.use(), metered() as meter:
        assert dspy.Predict("question -> answer")(question="Capital of France?").answer == "Paris"
    assert (meter.calls, meter.prompt_tokens, meter.completion_tokens) == (1, 7, 1)
    path, _, body = server.seen[-1]
    assert path == "/v1/chat/completions"
    assert body["model"] == "org/model"
    assert body["response_format"]["type"] == "json_schema"


def test_no_key_of_another_service_is_sent(server, monkeypatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    connection = connect("openai/m", api_base=server.base)
    connection.lm("hello")
    assert "sk-secret" not in str(server.seen)


def test_only_the_named_key_is_sent_and_never_saved(server, monkeypatch) -> None:
    monkeypatch.setenv("LAB_KEY", "lab-secret")
    connection = connect("openai/m", api_base=server.base, api_key_env="LAB_KEY")
    connection.lm("hello")
    assert server.seen[-1][1]["Authorization"] == "Bearer lab-secret"
    assert "lab-secret" not in str(connection.lm.engine.dump_state())


def test_a_key_that_is_not_set_is_named(server, monkeypatch) -> None:
    monkeypatch.delenv("LAB_KEY", raising=False)
    with pytest.raises(UserError, match="LAB_KEY"):
        connect("openai/m", api_base=server.base, api_key_env="LAB_KEY")


def test_a_provider_without_its_key_names_the_variable(monkeypatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(LMUnavailable, match="^LM openai/gpt-4o-mini needs a key: set OPENAI_API_KEY, then"):
        connect("openai/gpt-4o-mini").lm("hello")


def test_a_server_that_is_not_there_is_one_line() -> None:
    with socket.socket() as bound:  # which no other process takes, and which does not listen
        bound.bind(("127.0.0.1", 0))
        with pytest.raises(LMUnavailable, match="does not answer") as caught:
            connect("m", api_base=f"http://127.0.0.1:{bound.getsockname()[1]}/v1")
    assert "\n" not in str(caught.value)
    assert "server-" not in str(caught.value)  # what the library is told to call it
    assert "".join(traceback.format_exception(caught.value)).count("Traceback") == 1


def test_garbage_is_one_line(server) -> None:
    connection = connect("m", api_base=server.base, transport=Transport(retries=1), traits=SAMPLED)
    server.garbage = True
    with pytest.raises(LMUnavailable, match="does not answer"):
        connection.lm("hello")


def test_two_servers_never_share_cached_replies(server) -> None:
    one = connect("m", api_base=server.base, traits=SAMPLED)
    other = connect("m", api_base=server.base.replace("/v1", "/v2"), traits=SAMPLED)
    assert one.lm.model != other.lm.model


def test_two_keys_on_one_address_are_kept_separate(server, monkeypatch) -> None:
    connections = []
    for name in ("ONE_KEY", "OTHER_KEY"):
        monkeypatch.setenv(name, f"{name}-secret")
        connections.append(connect("m", api_base=server.base, api_key_env=name, traits=SAMPLED))
    for connection in connections:
        connection.lm("hello")
    sent = [headers["Authorization"] for _, headers, _ in server.seen]
    assert sent == ["Bearer ONE_KEY-secret", "Bearer OTHER_KEY-secret"]


@pytest.mark.parametrize("model_type", ["chat", "text"])
def test_a_server_that_fails_is_named_by_its_address(server, model_type) -> None:
    connection = connect("org/m", api_base=server.base, traits=SAMPLED, model_type=model_type)
    server.failures = [401]
    with pytest.raises(LMUnavailable, match=f"^LM org/m at {server.base} does not answer"):
        connection.lm("hello")


def test_a_budget_in_usd_does_not_pass_for_kept_on_a_completions_server(server) -> None:
    connection = connect("m", api_base=server.base, model_type="text", budget=Budget(usd=1.0))
    with pytest.raises(UserError, match="no price"):
        connection.lm("hello")


def test_a_completion_style_model_gets_one_text(server) -> None:
    server.text = "[[ ## answer ## ]]\nParis"
    connection = connect("m", api_base=server.base, model_type="text")
    assert isinstance(connection.adapter, ChatForm)
    with connection.use(), metered() as meter:
        assert dspy.Predict("question -> answer")(question="Capital of France?").answer == "Paris"
    path, _, body = server.seen[-1]
    assert path == "/v1/completions"
    assert body["prompt"].endswith("Answer:\n")
    assert meter.prompt_tokens == 7


@pytest.mark.parametrize("trouble", [429, 500, 404, "garbage"])
def test_a_completion_style_server_in_trouble_is_one_line(server, trouble) -> None:
    connection = connect(
        "m", api_base=server.base, model_type="text", transport=Transport(retries=0, retry_timeout=0.0)
    )
    server.garbage, server.failures = trouble == "garbage", [] if trouble == "garbage" else [trouble]
    with pytest.raises(LMUnavailable):
        connection.lm("hello")
