"""What OpenAI-compatible servers do differently, as data: one `Dialect` a server, each deviation with its source.

`detect` reads the fields listed here and explains results with them, and `chat` writes requests accordingly.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

Body = Mapping[str, Any]


@dataclass(frozen=True)
class ReplyField:
    """A field of a GET reply in which a server states something about itself.

    Args:
        path: Asked with GET. One that starts with a slash is below the server's root, any other below its base URL.
        keys: Dotted keys of the JSON reply, `[]` for the entry of the model in a list.
    """

    path: str
    keys: str


@dataclass(frozen=True)
class Fingerprint:
    """A field, and the value in it, by which a dialect is recognized; None if any value is enough."""

    field: ReplyField
    value: str | None = None


def _efforts(*, off: Body, on: Body) -> Mapping[str, Body]:
    """Return the fields of a request for each setting, where the level is the word in `reasoning_effort`."""
    return MappingProxyType(
        {"off": off, **{word: {"reasoning_effort": word, **on} for word in ("low", "medium", "high")}}
    )


_TEMPLATE_OFF = MappingProxyType({"chat_template_kwargs": {"enable_thinking": False, "thinking": False}})
_TEMPLATE_ON = MappingProxyType({"chat_template_kwargs": {"enable_thinking": True, "thinking": True}})
_EFFORT_WORDS = _efforts(off={"reasoning_effort": "none"}, on={})
_OWNER = ReplyField("models", "data.[].owned_by")


@dataclass(frozen=True)
class Dialect:
    """How one kind of server deviates.

    Args:
        title: The server's name, for messages.
        fingerprints: Each alone identifies this dialect.
        version: Where the server states its version; the first field found counts, here and below.
        context: Where it states the tokens of prompt and reply together, for one request.
        slots: Where it states how many requests it answers at a time; more of them wait.
        reasoning: Fields of a request by setting.
        continues: Fields of a request whose last message the model is to continue; empty where it does so without.
        max_tokens: The field that limits a reply, thinking included.
        top_logprobs: The most alternatives that may be requested for a token.
        no_logprobs: Why no alternatives come from this server, if it is known.
        no_thinking: What a refusal says if a model that cannot think is to think; None if none is known.
        off_fails: Why thinking may go on although it is turned off, if that is known.
    """

    title: str
    fingerprints: tuple[Fingerprint, ...] = ()
    version: tuple[ReplyField, ...] = ()
    context: tuple[ReplyField, ...] = (ReplyField("models", "data.[].max_model_len"),)
    slots: ReplyField | None = None
    reasoning: Mapping[str, Body] = dataclasses.field(default_factory=lambda: _EFFORT_WORDS)
    continues: Body = dataclasses.field(default_factory=lambda: MappingProxyType({}))
    max_tokens: str = "max_tokens"
    top_logprobs: int = 20
    no_logprobs: str | None = None
    no_thinking: str | None = None
    off_fails: str | None = None


DIALECTS: Mapping[str, Dialect] = MappingProxyType(
    {
        # SGLang also answers Ollama's paths, so it stands before it.
        # https://github.com/sgl-project/sglang/blob/main/python/sglang/srt/entrypoints/ollama/README.md
        "sglang": Dialect(
            title="SGLang",
            fingerprints=(
                # https://github.com/sgl-project/sglang/blob/main/python/sglang/srt/entrypoints/openai/protocol.py
                Fingerprint(_OWNER, "sglang"),
                # https://docs.sglang.io/docs/basic_usage/native_api "Get Server Info"; the second is the older path
                Fingerprint(ReplyField("/server_info", "tokenizer_path")),
                Fingerprint(ReplyField("/get_server_info", "tokenizer_path")),
            ),
            version=(ReplyField("/server_info", "version"), ReplyField("/get_server_info", "version")),
            context=(
                ReplyField("models", "data.[].max_model_len"),
                ReplyField("/server_info", "context_length"),
                ReplyField("/get_server_info", "context_length"),
            ),
            # Hybrid Qwen 3 reads enable_thinking, DeepSeek V3.1 reads thinking; a template ignores the other word.
            # https://docs.sglang.io/docs/advanced_features/separate_reasoning
            reasoning=_efforts(off=_TEMPLATE_OFF, on=_TEMPLATE_ON),
            # The protocol named above: ChatCompletionRequest
            continues=MappingProxyType({"continue_final_message": True}),
            # Log-probabilities of a reply cover its thinking too: https://github.com/sgl-project/sglang/issues/25055
            # (`thinking.answer_tokens` cuts it off); some versions give none with a reasoning or tool parser:
            no_logprobs="SGLang may give none with a reasoning or tool-call parser "
            "(https://github.com/sgl-project/sglang/issues/28456)",
        ),
        "vllm": Dialect(
            title="vLLM",
            # https://github.com/vllm-project/vllm/blob/main/vllm/entrypoints/openai/engine/protocol.py ModelCard
            fingerprints=(Fingerprint(_OWNER, "vllm"),),
            # https://docs.vllm.ai/en/stable/api/vllm/entrypoints/openai/api_server/ show_version
            version=(ReplyField("/version", "version"),),
            # Templates have their own word: https://docs.vllm.ai/en/stable/features/reasoning_outputs/. The effort
            # "none" sets it since https://github.com/vllm-project/vllm/pull/43401, so the word itself is sent.
            reasoning=_efforts(off=_TEMPLATE_OFF, on=_TEMPLATE_ON),
            # https://github.com/vllm-project/vllm/blob/main/vllm/entrypoints/openai/chat_completion/protocol.py
            continues=MappingProxyType({"continue_final_message": True, "add_generation_prompt": False}),
            # max_logprobs is 20 by default, and more is refused: https://docs.vllm.ai/en/stable/configuration/engine_args/
            # Log-probabilities are those before temperature and sampling (logprobs_mode raw_logprobs), same page.
            top_logprobs=20,
        ),
        "llamacpp": Dialect(
            title="llama.cpp server",
            # https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md "GET /props", also below
            fingerprints=(Fingerprint(_OWNER, "llamacpp"), Fingerprint(ReplyField("/props", "total_slots"))),
            version=(ReplyField("/props", "build_info"),),
            # That of one slot: the context of the server is divided among its slots.
            context=(
                ReplyField("/props", "default_generation_settings.n_ctx"),
                ReplyField("models", "data.[].meta.n_ctx"),
            ),
            slots=ReplyField("/props", "total_slots"),
            # Same page: "chat_template_kwargs ... {"enable_thinking": false}"; gpt-oss templates read the effort there.
            reasoning=MappingProxyType(
                {
                    "off": {"chat_template_kwargs": {"enable_thinking": False}},
                    **{
                        word: {"chat_template_kwargs": {"enable_thinking": True, "reasoning_effort": word}}
                        for word in ("low", "medium", "high")
                    },
                }
            ),
            # Log-probabilities are those before sampling, unless post_sampling_probs is sent (same page); any number.
            top_logprobs=20,
        ),
        "lmstudio": Dialect(
            title="LM Studio",
            # https://lmstudio.ai/docs/developer/rest/endpoints "GET /api/v0/models", also for the context
            fingerprints=(Fingerprint(ReplyField("/api/v0/models", "data.[].compatibility_type")),),
            # The context it was loaded with; max_context_length is what the model could have.
            context=(ReplyField("/api/v0/models", "data.[].loaded_context_length"),),
            # "none" and "medium", as its developers say: https://github.com/lmstudio-ai/lmstudio-bug-tracker/issues/2057
            reasoning=_EFFORT_WORDS,
            off_fails="LM Studio ignored it before 0.4.17, and does for some models since "
            "(https://github.com/lmstudio-ai/lmstudio-bug-tracker/issues/988)",
            # Requested ones are ignored in silence: https://github.com/lmstudio-ai/lms/issues/60
            no_logprobs="LM Studio's chat API gives none (https://github.com/lmstudio-ai/lms/issues/60)",
        ),
        "ovms": Dialect(
            title="OpenVINO Model Server",
            fingerprints=(
                # https://docs.openvino.ai/2025/model-server/ovms_docs_rest_api_kfs.html "Server Metadata"
                Fingerprint(ReplyField("/v2", "name"), "OpenVINO Model Server"),
                # https://github.com/openvinotoolkit/model_server/blob/main/docs/llm/quickstart.md
                Fingerprint(_OWNER, "OVMS"),
            ),
            version=(ReplyField("/v2", "version"),),
            context=(),
            # https://github.com/openvinotoolkit/model_server/blob/main/docs/model_server_rest_api_chat.md
            # "chat_template_kwargs": in builds with Python only
            reasoning=_efforts(off=_TEMPLATE_OFF, on=_TEMPLATE_ON),
            # Same page: "Only info about selected tokens is returned", and top_logprobs is not supported.
            no_logprobs="OpenVINO Model Server gives them for the chosen token only, without alternatives "
            "(https://docs.openvino.ai/2025/model-server/ovms_docs_rest_api_chat.html)",
        ),
        "ollama": Dialect(
            title="Ollama",
            fingerprints=(
                # https://github.com/ollama/ollama/blob/main/openai/openai.go ToListCompletion
                Fingerprint(_OWNER, "library"),
                # https://docs.ollama.com/api/version
                Fingerprint(ReplyField("/api/version", "version")),
            ),
            version=(ReplyField("/api/version", "version"),),
            # That of the loaded model (https://docs.ollama.com/api/ps). A longer prompt is cut at its start in silence,
            # and requests through /v1 cannot change it (https://docs.ollama.com/context-length).
            context=(ReplyField("/api/ps", "models.[].context_length"),),
            # https://github.com/ollama/ollama/blob/main/openai/openai.go FromChatRequest: "none" becomes think=false.
            reasoning=_EFFORT_WORDS,
            # Both: https://github.com/ollama/ollama/blob/main/server/routes.go ChatHandler ("between 0 and 20")
            no_thinking="does not support thinking",
            top_logprobs=20,
            no_logprobs="Ollama gives them from version 0.12.11 on "
            "(https://github.com/ollama/ollama/releases/tag/v0.12.11)",
        ),
        # Any other server or gateway, as https://platform.openai.com/docs/api-reference/chat/create describes them.
        "openai": Dialect(title="OpenAI-compatible server"),
    }
)
# Some servers and gateways allow 5 alternatives only; they refuse more, and are asked again with 5.
# https://learn.microsoft.com/azure/ai-foundry/openai/reference "top_logprobs"
FEW_LOGPROBS = 5
