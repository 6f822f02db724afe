"""Merged weights for other runtimes: a folder of transformers (which vLLM reads too), or GGUF for llama.cpp and Ollama.

The tokenizer that transformers makes from a GGUF file joins some spaces and digits otherwise than the embedded LM (two
spaces before a number); the one written here splits text as the embedded LM does.
"""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from programs.lms.weights import choice
from programs.lms.weights.choice import DESCRIPTION, folder_of, load, parse, run_folder
from programs.lms.weights.gguf_files import FileType, read_metadata, write_gguf
from programs.lms.weights.llama import Shape
from programs.lms.weights.sources import ModelTensors
from signatures.common.errors import UserError
from signatures.common.files import share
from signatures.common.work import new_folder

Float = Literal["float16", "bfloat16"]
GGUF_FILE = "model.gguf"
MODELFILE = "Modelfile"
_CARD = "README.md"
_CONTROL = 3  # type of a token that structures prompts (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md)


def export_gguf(weights: Path | str, output: Path | str, *, file_type: FileType = "q8_0") -> Path:
    """Write `model.gguf` and a `Modelfile` (https://docs.ollama.com/modelfile) into a new folder, and return the first.

    Args:
        weights: Folder of an adapter or of merged weights; or `embedded` for the LM that is used by default, `base` for
            the untrained one.
        output: The new folder; it appears when it is complete.
        file_type: `q8_0` (8 bits, half the size) or `f16`.

    Raises:
        UserError: `weights` names none that can be served, or `output` exists.
    """
    folder = _folder(weights)
    source = load(folder)

    def write(new: Path) -> None:
        write_gguf(new / GGUF_FILE, source, choice.weights_path(), file_type)
        (new / MODELFILE).write_text(modelfile(source.shape.context), encoding="utf-8")

    return _write_folder(folder, Path(output), write) / GGUF_FILE


def export_transformers(weights: Path | str, output: Path | str, *, dtype: Float = "float16") -> Path:
    """Write a folder that transformers and vLLM load, and return it.

    Args:
        weights: Folder of an adapter or of merged weights; or `embedded` for the LM that is used by default, `base` for
            the untrained one.
        output: The new folder; it appears when it is complete.
        dtype: Of the weights; float16 rounds them less.

    Raises:
        UserError: `weights` names none that can be served, or `output` exists.
    """
    folder = _folder(weights)
    source = load(folder)

    def write(new: Path) -> None:
        _write_safetensors(new / "model.safetensors", source, dtype)
        template, first, last, unknown = read_metadata(
            choice.weights_path(),
            "tokenizer.chat_template",
            "tokenizer.ggml.bos_token_id",
            "tokenizer.ggml.eos_token_id",
            "tokenizer.ggml.unknown_token_id",
        )
        tokens = tokenizer()
        tokens.save(str(new / "tokenizer.json"))
        (new / "chat_template.jinja").write_text(template, encoding="utf-8")
        special = {"bos_token_id": first, "eos_token_id": last, "pad_token_id": last}
        names = {"bos_token": first, "eos_token": last, "pad_token": last, "unk_token": unknown}
        _write_json(new / "config.json", {**_config(source.shape, dtype), **special})
        _write_json(new / "generation_config.json", {**special, "do_sample": False})
        _write_json(
            new / "tokenizer_config.json",
            {
                "tokenizer_class": "PreTrainedTokenizerFast",
                "model_max_length": source.shape.context,
                "clean_up_tokenization_spaces": False,
                "chat_template": template,
                **{name: tokens.id_to_token(number) for name, number in names.items()},
            },
        )

    return _write_folder(folder, Path(output), write)


def modelfile(context_size: int) -> str:
    """Return Ollama's description of the model: chat form, stop text, greedy decoding."""
    template = read_metadata(choice.weights_path(), "tokenizer.chat_template")[0]
    default = re.search(r"<\|im_start\|>system\n(.*?)<\|im_end\|>", template, re.DOTALL)
    system = f'SYSTEM """{default[1]}"""\n' if default else ""
    return (
        f"FROM ./{GGUF_FILE}\n"
        'TEMPLATE """{{ range .Messages }}<|im_start|>{{ .Role }}\n'
        "{{ .Content }}<|im_end|>\n"
        '{{ end }}<|im_start|>assistant\n"""\n'
        f"{system}"
        'PARAMETER stop "<|im_end|>"\n'
        "PARAMETER temperature 0\n"
        f"PARAMETER num_ctx {context_size}\n"
    )


def tokenizer() -> Any:
    """Return the embedded LM's tokenizer, of the package tokenizers; numbers are split into digits."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    texts, kinds, merges = read_metadata(
        choice.weights_path(), "tokenizer.ggml.tokens", "tokenizer.ggml.token_type", "tokenizer.ggml.merges"
    )
    pairs = [tuple(merge.split(" ")) for merge in merges]
    made = Tokenizer(models.BPE(vocab={text: number for number, text in enumerate(texts)}, merges=pairs))
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    made.decoder = decoders.ByteLevel()
    control = [text for text, kind in zip(texts, kinds, strict=True) if kind == _CONTROL]
    made.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in control])
    return made


def _folder(weights: Path | str) -> Path | None:
    """Return the folder that a name means, None for the base; a path is a folder, whatever its name."""
    if isinstance(weights, Path):
        return weights.expanduser()
    kind, _, source = weights.partition(":")
    return folder_of(parse(source)[1] if kind == "embedded" else weights)


def _write_folder(folder: Path | None, output: Path, write: Callable[[Path], None]) -> Path:
    """Fill a temporary folder beside `output`, with what describes `folder` if that is there, and rename it."""
    if output.exists():
        raise UserError(f"{str(output)!r} exists. Name a new folder.")
    with new_folder(output, f".{output.name}-") as new:
        new.mkdir()
        write(new)
        for path in _descriptions(folder) if folder is not None else ():
            shutil.copyfile(path, new / path.name)
    return output


def _descriptions(folder: Path) -> list[Path]:
    """Return the model card of weights, and what their training run wrote down: data, licences, settings."""
    said = (folder / DESCRIPTION, run_folder(folder) / DESCRIPTION)
    return [path for path in (folder / _CARD, next(filter(Path.is_file, said), said[0])) if path.is_file()]


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _config(shape: Shape, dtype: Float) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "num_hidden_layers": shape.layers,
        "hidden_size": shape.hidden,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "intermediate_size": shape.inner,
        "vocab_size": shape.vocabulary,
        "max_position_embeddings": shape.context,
        "rope_theta": shape.rope_base,
        "rms_norm_eps": shape.epsilon,
        "tie_word_embeddings": shape.tied,
        "attention_bias": False,
        "mlp_bias": False,
        "torch_dtype": dtype,
    }


def _write_safetensors(path: Path, source: ModelTensors, dtype: Float) -> None:
    import safetensors

    stored = {name: _rounded(source.read(name), dtype) for name in source.shape.tensors()}
    specs = {
        name: safetensors.TensorSpec(
            dtype=dtype, shape=list(array.shape), data_ptr=array.ctypes.data, data_len=array.nbytes
        )
        for name, array in stored.items()
    }
    safetensors.serialize_file(specs, str(path), metadata={"format": "pt"})
    share(path)  # the library gives 0600


def _rounded(array: NDArray[np.float32], dtype: Float) -> NDArray[Any]:
    """Return the numbers in 16 bits; bfloat16, which numpy does not have, as integers."""
    if dtype == "float16":
        limit = float(np.finfo(np.float16).max)
        return np.ascontiguousarray(np.clip(array, -limit, limit).astype(np.float16))
    bits = np.ascontiguousarray(array).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)  # to the nearest, halves to even
