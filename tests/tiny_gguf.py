"""A model of one layer with random weights, whose tokens are bytes."""

from pathlib import Path

import numpy as np


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
