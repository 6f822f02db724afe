"""Small valid contents, an LM, a retriever and an embedder that need no model, and a model of random weights."""

import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from dspy.lm15 import Message, Request, Response, Usage

from corpora.questions import Question
from corpora.retrievers.embedder import Embedder
from programs.lms.adapter import ChatForm
from programs.lms.calls.metered import metered_lm
from programs.lms.connect import Connection
from signatures.types import Passage

_WORDS = "amber brook cedar delta ember fjord grove harbor inlet jetty knoll lagoon meadow north oasis prairie".split()
_PASSAGES = 80
QUERIES = ["amber brook lagoon", "cedar", "which meadow lies north of the oasis"]


def _hashed(texts: list[str]) -> np.ndarray:
    """Embed texts by the words in them, so that no model is loaded."""
    rows = [np.full(64, 1e-3)]
    for text in texts:
        words = (np.random.default_rng(zlib.crc32(word.encode())).normal(size=64) for word in text.lower().split())
        rows.append(sum(words, start=np.full(64, 1e-3)))
    return np.array(rows[1:]).reshape(len(texts), 64)


EMBEDDER = Embedder("hashed words", encode=_hashed)


class Engine:
    """Answers every prompt with every field that any of our programs asks for."""

    supports_response_schema = False

    def __init__(self) -> None:
        self.prompts: list[str] = []

    def __deepcopy__(self, memo: dict[int, object]) -> "Engine":
        return self

    def complete(self, request: Request) -> Response:
        """Answer the request."""
        self.prompts.append(f"{request.system}\n{[message.text for message in request.messages]}")
        fields = {"answer": "amber", "finished": "yes", "sub_question": "Where?", "response": "It is amber [1]."}
        text = "".join(f"[[ ## {name} ## ]]\n{value}\n\n" for name, value in fields.items())
        usage = Usage(input_tokens=10, output_tokens=5, total_tokens=15)
        message = Message.assistant(text)
        return Response(id=None, model=request.model, message=message, finish_reason="stop", usage=usage)


def connection() -> tuple[Connection, Engine]:
    """Return a connection to a new engine, and the engine."""
    engine = Engine()
    lm = metered_lm("mutations/fixed", engine=engine, cache=False)
    return Connection("fixed", lm, ChatForm(), None, "samples"), engine


class Fixed:
    """Retrieves the same passages for every query."""

    fingerprint = "fixed"

    def __call__(self, query: str, k: int) -> list[Passage]:
        """Return `k` passages."""
        return [Passage(id=f"p{n}", title="Title", text=f"Text {n}.", score=1.0) for n in range(k)]

    def many(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        """Return the same for every query."""
        return [self(query, k) for query in queries]

    def __deepcopy__(self, memo: dict[int, object]) -> "Fixed":
        return self


def passages() -> list[Passage]:
    """Return a small corpus, the same each time."""
    rng = np.random.default_rng(0)
    return [
        Passage(id=f"p{n}", title=" ".join(rng.choice(_WORDS, 2)), text=" ".join(rng.choice(_WORDS, 12)) + ".")
        for n in range(_PASSAGES)
    ]


def questions() -> list[Question]:
    """Return a few questions with gold, the same each time."""
    return [
        Question(
            id=f"q{n}",
            question=f"Question {n}?",
            answers=["amber", "the amber"] if n % 2 else ["cedar"],
            gold_ids=[f"p{n}", f"p{n + 1}"],
            key_facts=[f"Fact {n}."],
            type="bridge",
        )
        for n in range(5)
    ]


def write_tiny_gguf(path: Path, architecture: str = "llama") -> None:
    """Write a model of one layer with random weights, whose tokens are bytes: 150 kB that llama.cpp serves."""
    import gguf
    from tokenizers.pre_tokenizers import ByteLevel

    width, inner, tokens = 64, 32, ["<unk>", "<s>", "</s>", *sorted(ByteLevel.alphabet()), "he"]
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(1)
    writer.add_context_length(2048)
    writer.add_embedding_length(width)
    writer.add_feed_forward_length(inner)
    writer.add_head_count(2)
    writer.add_head_count_kv(1)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([3, 3, 3, *[1] * (len(tokens) - 3)])
    writer.add_token_merges(["h e"])
    writer.add_eos_token_id(2)
    writer.add_chat_template("{% for m in messages %}{{ m['content'] }}</s>{% endfor %}")
    shapes = {"token_embd": (len(tokens), width), "output_norm": (width,)}
    layer = {"attn_norm": (width,), "ffn_norm": (width,), "attn_q": (width, width), "attn_k": (width // 2, width)}
    layer |= {"attn_v": (width // 2, width), "attn_output": (width, width), "ffn_gate": (inner, width)}
    layer |= {"ffn_up": (inner, width), "ffn_down": (width, inner)}
    rng = np.random.default_rng(0)
    for name, shape in {**shapes, **{f"blk.0.{part}": size for part, size in layer.items()}}.items():
        writer.add_tensor(f"{name}.weight", rng.normal(0, 0.3, shape).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
