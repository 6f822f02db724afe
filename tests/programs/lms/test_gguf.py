"""Headers of GGUF files: what llama.cpp would end the process over, or fail at without a reason, is refused before."""

import struct

import pytest

from programs.lms import gguf
from programs.lms.gguf import GgufEngine, read_header
from programs.lms.weights.sources import gguf_header
from signatures.common.errors import UserError
from tests.tiny_gguf import write_tiny_gguf


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    write_tiny_gguf(path)
    read_header(path)
    return path.read_bytes()


def place(content, name):
    """Return where what follows a name begins: the type of a value, the number of dimensions of a tensor."""
    stated = struct.pack("<Q", len(name)) + name.encode()
    return content.index(stated) + len(stated)


def put(content, start, form, value):
    packed = struct.pack(f"<{form}", value)
    return content[:start] + packed + content[start + len(packed) :]


VALUES = [  # name, bytes after its type, format, value
    ("llama.block_count", 0, "I", 0),
    ("llama.block_count", 0, "I", 100_000),
    ("llama.context_length", 0, "I", 0),
    ("llama.context_length", 0, "I", 2**32 - 1),
    ("llama.embedding_length", 0, "I", 2**32 - 1),
    ("llama.attention.layer_norm_rms_epsilon", 0, "f", float("nan")),
    ("llama.attention.layer_norm_rms_epsilon", 0, "f", -1.0),
    ("llama.block_count", -4, "I", 77),
    ("general.architecture", 0, "Q", 2**62),
    ("tokenizer.ggml.tokens", 0, "I", 9),
    ("tokenizer.ggml.tokens", 4, "Q", 2**60),
    ("tokenizer.ggml.tokens", 4, "Q", 0),
    ("tokenizer.ggml.tokens", 12, "Q", 2**40),
    ("tokenizer.ggml.token_type", 4, "Q", 3),
]
TENSORS = [  # bytes after the number of dimensions, format, value; of a tensor of two dimensions
    (-4, "I", 0),
    (-4, "I", 2**32 - 1),
    (0, "Q", 0),
    (0, "Q", 2**63),
    (0, "Q", 128),
    (16, "I", 99),
    (16, "I", 26),
    (16, "I", 12),
    (20, "Q", 1),
    (20, "Q", 2**64 - 32),
]
FIRST = [(0, "I", 0), (4, "I", 1), (4, "I", 99), (8, "Q", 0), (8, "Q", 2**63), (16, "Q", 2**63), (16, "Q", 0)]


def changed(content):
    """Yield what was done and the content with it."""
    for start, form, value in FIRST:
        yield f"{value} at {start}", put(content, start, form, value)
    for name, after, form, value in VALUES:
        yield f"{name} {value}", put(content, place(content, name) + 4 + after, form, value)
    for after, form, value in TENSORS:
        begin = place(content, "token_embd.weight")
        yield f"tensor {after} {value}", put(content, begin + 4 + after, form, value)
    for size in (0, 3, 5, 24, 1000, len(content) - 1000):
        yield f"{size} bytes", content[:size]
    yield "a token twice", content.replace(b"\x01\x00\x00\x00\x00\x00\x00\x00A", b"\x01\x00\x00\x00\x00\x00\x00\x00B")
    yield "a tensor twice", content.replace(b"blk.0.attn_k", b"blk.0.attn_v")
    yield (
        "a value twice",
        content.replace(b"llama.block_count\x04", b"llama.block_count\x04").replace(
            b"tokenizer.ggml.pre", b"tokenizer.ggml.pr\xc3"
        )[: -len(content) // 2],
    )
    for name in ("general.architecture", "llama.context_length", "tokenizer.ggml.tokens"):
        yield f"no {name}", content.replace(name.encode(), name[:-1].encode() + b"X")


def test_a_wrong_header_is_refused_in_a_line_before_llama_cpp_sees_it(content, tmp_path, monkeypatch):
    monkeypatch.setattr("xllamacpp.Server", lambda parameters: pytest.fail("llama.cpp was asked"))
    path = tmp_path / "x.gguf"
    cases = dict(changed(content))
    assert len(cases) > 32
    for what, wrong in cases.items():
        assert wrong != content, what
        path.write_bytes(wrong)
        for read in (lambda: GgufEngine(str(path)).load(), lambda: gguf_header(path)):
            with pytest.raises(UserError, match="x.gguf.*GGUF file") as caught:
                read()
            assert str(caught.value).isprintable(), what


def test_what_llama_cpp_cannot_load_is_an_error_of_the_user(content, tmp_path, monkeypatch):
    def fail(parameters):
        raise RuntimeError("Failed to init server")

    monkeypatch.setattr("xllamacpp.Server", fail)
    (tmp_path / "x.gguf").write_bytes(content)
    with pytest.raises(UserError, match=r"x.gguf.*llama.cpp cannot load it.*Fetch or convert it again"):
        GgufEngine(str(tmp_path / "x.gguf")).load()


def test_a_long_vocabulary_is_no_reason_to_refuse(content, tmp_path, monkeypatch):
    (tmp_path / "x.gguf").write_bytes(content + b"what follows is ignored")
    read_header(tmp_path / "x.gguf")
    monkeypatch.setattr(gguf, "_LONGEST_ARRAY", 10)
    with pytest.raises(UserError, match="an array of 260 values"):
        read_header(tmp_path / "x.gguf")


def test_a_model_is_loaded_once_its_loop_answers(content, tmp_path, monkeypatch):
    """To free a server of llama.cpp whose loop had not begun waited for ever, one time in four."""
    asked = []

    class Server:
        def __init__(self, parameters):
            assert parameters.endpoint_metrics  # else it answers without its loop

        def handle_metrics(self):
            asked.append(self)

    monkeypatch.setattr("xllamacpp.Server", Server)
    (tmp_path / "x.gguf").write_bytes(content)
    engine = GgufEngine(str(tmp_path / "x.gguf"))
    engine.load()
    assert len(asked) == 1
