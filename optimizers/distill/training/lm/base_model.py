"""The LM to train: the embedded one, a GGUF file, or a Hugging Face causal LM."""

import contextlib
import hashlib
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from signatures.common.errors import UserError, one_line
from signatures.common.files import sha256_file

INSTALL = "Training needs more packages. Run: pip install 'verihop[train]'"


@dataclass(frozen=True)
class BaseModel:
    """A loaded LM.

    Args:
        model: A `transformers` causal LM, in the precision of its files.
        tokenizer: Its tokenizer, with a chat template.
        name: As it was asked for.
        sha256: Hash of the weights files.
    """

    model: Any
    tokenizer: Any
    name: str
    sha256: str


def require_packages() -> None:
    """Check that the packages for training are installed.

    Raises:
        UserError: One is missing.
    """
    try:
        import accelerate  # noqa: F401
        import gguf  # noqa: F401
        import peft  # noqa: F401
        import safetensors  # noqa: F401
        import torch  # noqa: F401
        import transformers  # noqa: F401
    except ImportError as error:
        raise UserError(f"{INSTALL} ({one_line(error)})") from error


def load_base(name: str) -> BaseModel:
    """Return the LM by name.

    Args:
        name: "embedded", "gguf:PATH", a folder in Hugging Face format, or a name on the Hugging Face hub; its
            weights must be safetensors, since other formats can run code.

    Raises:
        UserError: There is no such LM, or it has no chat template.
    """
    require_packages()
    with quiet():
        return _load_gguf(name) if name == "embedded" or name.startswith("gguf:") else _load_hugging_face(name)


def _load_gguf(name: str) -> BaseModel:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from programs.lms import smollm

    path = smollm.weights_path() if name == "embedded" else Path(name.removeprefix("gguf:"))
    if not path.is_file():
        raise UserError(f"No GGUF file {str(path)!r}. Check the path after gguf:.")
    try:
        tokenizer = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
        model = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32)
    except (OSError, ValueError, KeyError) as error:
        raise UserError(f"{str(path)!r} cannot be loaded for training: {one_line(error)}.") from error
    # The weights are ordinary tensors now; these marks would make transformers refuse to save them.
    for owner, mark in ((model, "hf_quantizer"), (model, "is_quantized"), (model.config, "quantization_config")):
        if hasattr(owner, mark):
            delattr(owner, mark)
    return _checked(BaseModel(model, tokenizer, name, sha256_file(path)))


def _load_hugging_face(name: str) -> BaseModel:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(name)
        model = AutoModelForCausalLM.from_pretrained(name, dtype="auto", use_safetensors=True)
    except (OSError, ValueError, KeyError) as error:
        raise UserError(
            f"No LM {name!r} to train: {one_line(error)}. Name a folder or model in Hugging Face format, embedded, "
            "or gguf:PATH."
        ) from error
    return _checked(BaseModel(model, tokenizer, name, _weights_hash(name)))


def _checked(base: BaseModel) -> BaseModel:
    if not base.tokenizer.chat_template:
        raise UserError(f"The tokenizer of {base.name!r} has no chat template. Choose an instruction-tuned model.")
    return base


def _weights_hash(name: str) -> str:
    """Return the hash of the weights files; of several files, the hash of their hashes."""
    folder = Path(name)
    if not folder.is_dir():
        from transformers.utils import cached_file

        folder = Path(str(cached_file(name, "config.json"))).parent
    hashes = [sha256_file(path) for path in sorted(folder.glob("*.safetensors"))]
    return hashes[0] if len(hashes) == 1 else hashlib.sha256("".join(hashes).encode()).hexdigest()


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence the progress bars and advice of transformers while the block runs."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        # The reader of GGUF files has a progress bar of its own, which cannot be turned off.
        with contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
