"""The quirks of each stand-in; sources beside the same facts in `programs/lms/servers/dialects.py`."""

from typing import Any

import dspy

from experiments.world.generate import records
from signatures.types import Passage
from tests.programs.lms.servers import standin

Quirks, MODEL = standin.Quirks, standin.MODEL

_TEMPLATE_OFF = {"chat_template_kwargs.enable_thinking": False}
_SGLANG = {"/get_server_info": {"version": "0.5.6", "tokenizer_path": MODEL, "context_length": 32768}}
_PROPS = {
    "default_generation_settings": {"n_ctx": 16384},
    "total_slots": 4,
    "build_info": "b8681-abc",
    "chat_template": "{{ messages }}",
}
_OLLAMA = {"/api/version": {"version": "0.40.12"}, "/api/ps": {"models": [{"name": MODEL, "context_length": 16384}]}}

# The dialect that is to be found, and the quirks.
SERVERS = {
    "vllm": ("vllm", Quirks(owner="vllm", entry={"max_model_len": 32768}, gets={"/version": {"version": "0.32.0"}})),
    "vllm with a reasoning parser": (
        "vllm",
        Quirks(
            owner="vllm", entry={"max_model_len": 32768}, gets={"/version": {"version": "0.32.0"}},
            thinks="hybrid", off=_TEMPLATE_OFF, thinking_at="reasoning", logprobs="all", null_content=True,
        ),
    ),
    "vllm without its reasoning parser": (
        "vllm",
        Quirks(owner="vllm", entry={"max_model_len": 32768}, thinks="always", thinking_at="closing tag"),
    ),
    "sglang": ("sglang", Quirks(owner="sglang", entry={"max_model_len": 32768}, gets=_SGLANG)),
    "sglang with a reasoning parser": (
        "sglang",
        Quirks(owner="sglang", gets=_SGLANG, thinks="hybrid", off=_TEMPLATE_OFF, logprobs="none", null_content=True),
    ),
    "llama.cpp": ("llamacpp", Quirks(owner="llamacpp", gets={"/props": _PROPS})),
    "llama.cpp, thinking": (
        "llamacpp",
        Quirks(
            owner="llamacpp", gets={"/props": {**_PROPS, "chat_template": "{% if enable_thinking %}<think>"}},
            thinks="hybrid", off=_TEMPLATE_OFF,
        ),
    ),
    "ollama": (
        "ollama",
        Quirks(owner="library", gets=_OLLAMA, posts={"/api/show": {"capabilities": ["completion"]}}),
    ),
    "ollama, thinking": (
        "ollama",
        Quirks(
            owner="library", gets=_OLLAMA, posts={"/api/show": {"capabilities": ["completion", "thinking"]}},
            thinks="hybrid", off={"reasoning_effort": "none"}, thinking_at="reasoning",
        ),
    ),
    "ollama before 0.12.11, thinking": (
        "ollama",
        Quirks(
            owner="library", gets={"/api/version": {"version": "0.12.6"}}, thinks="hybrid",
            off={"reasoning_effort": "none"}, thinking_at="reasoning", logprobs="none",
        ),
    ),
    "lm studio, thinking": (
        "lmstudio",
        Quirks(
            thinks="always", thinking_at="tags", logprobs="none",
            gets={"/api/v0/models": {"data": [
                {"id": MODEL, "compatibility_type": "gguf", "loaded_context_length": 16384},
                {"id": "other", "compatibility_type": "mlx", "max_context_length": 4096},
            ]}},
        ),
    ),
    "openvino model server": (
        "ovms",
        Quirks(
            owner="OVMS", base="/v3", gets={"/v2": {"name": "OpenVINO Model Server", "version": "2026.4"}},
            logprobs="chosen",
        ),
    ),
    "openai": ("openai", Quirks()),
    "refuses what it does not know": (
        "openai",
        Quirks(refuses=("response_format", "seed", "reasoning_effort", "chat_template_kwargs"), most_logprobs=5),
    ),
    "ignores what it does not know": ("openai", Quirks(ignores_schema=True, logprobs="none")),
}  # fmt: skip


class IsRelevant(dspy.Signature):
    """Decide whether the passages help to answer the question."""

    question: str = dspy.InputField()
    passages: list[Passage] = dspy.InputField()
    relevant: bool = dspy.OutputField()


def question_and_passages(most: int | None = None) -> dict[str, Any]:
    """Return a question of the simulated world and the passages it needs, or the first of them."""
    passages, questions = records(8, seed=0)
    question = next(item for item in questions if item["type"] == "bridge-2")
    named = {item["id"]: item for item in passages}
    found = [Passage(id=key, title=named[key]["title"], text=named[key]["text"]) for key in question["gold_ids"]]
    return {"question": question["question"], "passages": found[:most]}
