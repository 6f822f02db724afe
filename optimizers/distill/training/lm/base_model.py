"""The LM to train: the embedded one, a GGUF file, or a Hugging Face causal LM; and its device."""

import contextlib
import io
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from programs.lms.weights import choice
from programs.lms.weights.adapter import CONFIG
from programs.lms.weights.choice import exists
from programs.lms.weights.export import tokenizer
from programs.lms.weights.gguf_files import check_tokens, read_metadata
from programs.lms.weights.llama import check_blocks, shape_of
from signatures.common.errors import UserError, one_line, unknown
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
        UserError: There is no such LM, it is damaged or lacks weights, needs its own code, or has no chat template.
    """
    require_packages()
    with quiet():
        return _load_gguf(name) if name == "embedded" or name.startswith("gguf:") else _load_hugging_face(name)


def why_not_served(base: BaseModel) -> str | None:
    """Return why our runtime cannot serve what is trained from this LM; None if it can."""
    try:
        shape = shape_of(base.model.config.to_dict(), base.name)
        check_tokens(base.tokenizer.get_vocab(), shape.vocabulary, choice.weights_path(), base.name)
        check_blocks(shape, base.name)
    except UserError as error:
        return str(error)
    return None


def _load_gguf(name: str) -> BaseModel:
    import torch
    from transformers import AutoTokenizer

    path = choice.weights_path() if name == "embedded" else Path(name.removeprefix("gguf:"))
    if not path.is_file():
        raise UserError(f"No GGUF file {str(path)!r}. Check the path after gguf:.")
    file = {"gguf_file": path.name}
    try:
        tokenizer = embedded_tokenizer() if _is_embedded(path) else AutoTokenizer.from_pretrained(path.parent, **file)
        model, report = _read_model(path.parent, dtype=torch.float32, **file)
    except Exception as error:  # the readers raise errors of many kinds for a damaged file
        raise UserError(f"{str(path)!r} cannot be loaded for training: {one_line(error)}.") from error
    _check_complete(name, report)
    # The weights are ordinary tensors now; these marks would make transformers refuse to save them.
    for owner, mark in ((model, "hf_quantizer"), (model, "is_quantized"), (model.config, "quantization_config")):
        if hasattr(owner, mark):
            delattr(owner, mark)
    return _checked(BaseModel(model, tokenizer, name, sha256_file(path)))


def _load_hugging_face(name: str) -> BaseModel:
    from transformers import AutoTokenizer

    if exists(Path(name) / CONFIG, Path.is_file):
        raise _is_adapter(name)
    try:
        tokenizer = AutoTokenizer.from_pretrained(name, trust_remote_code=False)
        model, report = _read_model(name, dtype="auto", use_safetensors=True)
    except Exception as error:  # the readers raise errors of many kinds for a damaged file
        raise UserError(
            f"No LM {name!r} to train: {one_line(error)}. Name a folder or model in Hugging Face format, embedded, "
            "or gguf:PATH."
        ) from error
    if getattr(model, "peft_config", None):  # transformers loads the base of an adapter, too
        raise _is_adapter(name)
    _check_complete(name, report)
    return _checked(BaseModel(model, tokenizer, name, _weights_hash(name)))


def _is_adapter(name: str) -> UserError:
    return UserError(
        f"{name!r} is an adapter, not an LM. Train its base and start from the adapter (resume_adapter), or export the "
        "merged weights and train those."
    )


def _read_model(name: str | Path, **options: Any) -> tuple[Any, dict[str, Any]]:
    """Return a causal LM, and which of its weights the files lack or have in other shapes."""
    from transformers import AutoModelForCausalLM

    # A folder may hold code of its own, which transformers would offer to run.
    model, report = cast(
        Any,
        AutoModelForCausalLM.from_pretrained(
            name, trust_remote_code=False, output_loading_info=True, ignore_mismatched_sizes=True, **options
        ),
    )
    return model, report


def _check_complete(name: str, report: dict[str, Any]) -> None:
    """Check what transformers reports: it fills weights that a file lacks with random numbers.

    Raises:
        UserError: Weights are missing, or have other shapes.
    """
    if missing := sorted(report["missing_keys"]):
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise UserError(
            f"The weights of {name!r} lack {missing[0]}{more}. Save or copy it again, or choose a causal LM."
        )
    if other := sorted(str(key[0] if isinstance(key, tuple) else key) for key in report["mismatched_keys"]):
        raise UserError(
            f"The weights of {name!r} are of other shapes than its config.json says: {other[0]}. Save or copy it again."
        )


def _is_embedded(path: Path) -> bool:
    try:
        return sha256_file(path) == choice.smollm_hash()
    except UserError:  # it is not installed
        return False


def embedded_tokenizer() -> Any:
    """Return the embedded LM's tokenizer for transformers.

    The one that transformers reads from the GGUF file splits some blanks, line breaks and digits otherwise than the
    embedded LM does when it serves.
    """
    from transformers import PreTrainedTokenizerFast

    template, first, last, unknown, pad = read_metadata(
        choice.weights_path(),
        "tokenizer.chat_template",
        "tokenizer.ggml.bos_token_id",
        "tokenizer.ggml.eos_token_id",
        "tokenizer.ggml.unknown_token_id",
        "tokenizer.ggml.padding_token_id",
    )
    tokens = tokenizer()
    names = {"bos_token": first, "eos_token": last, "unk_token": unknown, "pad_token": pad}
    return PreTrainedTokenizerFast(
        tokenizer_object=tokens,
        chat_template=template,
        clean_up_tokenization_spaces=False,
        model_max_length=choice.CONTEXT_SIZE,
        **{name: tokens.id_to_token(number) for name, number in names.items()},
    )


def _checked(base: BaseModel) -> BaseModel:
    if not base.tokenizer.chat_template:
        raise UserError(f"The tokenizer of {base.name!r} has no chat template. Choose an instruction-tuned model.")
    return base


def _weights_hash(name: str) -> str:
    """Return the hash of the weights files."""
    folder = Path(name)
    if not folder.is_dir():
        from transformers.utils import cached_file

        folder = Path(str(cached_file(name, "config.json"))).parent
    return choice.weights_sha256(folder)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence the progress bars and advice of transformers, and the hub's lines on retries, while the block runs.

    What the user needs to know of them is in the error that follows.
    """
    from transformers.utils import logging as of_transformers

    # By its logger: the hub's handler writes to the standard error of its import, not to the one redirected below.
    hub = logging.getLogger("huggingface_hub")
    level, of_hub, bars = of_transformers.get_verbosity(), hub.level, of_transformers.is_progress_bar_enabled()
    of_transformers.set_verbosity_error()
    hub.setLevel(logging.ERROR)
    of_transformers.disable_progress_bar()
    try:
        # The reader of GGUF files has a progress bar of its own, which cannot be turned off.
        with contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        of_transformers.set_verbosity(level)
        hub.setLevel(of_hub)
        if bars:
            of_transformers.enable_progress_bar()


@dataclass(frozen=True)
class Device:
    """Device and precision.

    Args:
        name: "cpu", "cuda" or "mps".
        bfloat16: Whether matrices are multiplied in bfloat16; else in single precision.
    """

    name: str
    bfloat16: bool

    @property
    def precision(self) -> Any:
        """Return the dtype of matrix products."""
        import torch

        return torch.bfloat16 if self.bfloat16 else torch.float32


def choose_device(name: str = "auto", precision: str = "auto") -> Device:
    """Return the device by name; "auto" is the first of cuda, mps and cpu that is there.

    Args:
        name: "auto", "cuda", "mps" or "cpu".
        precision: "auto", "bfloat16" or "float32".

    Raises:
        UserError: There is no such device.
    """
    import torch

    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if name == "auto":
        name = next(device for device, present in there.items() if present)
    if name not in there:
        raise unknown("device", name, ["auto", *there])
    if not there[name]:
        raise UserError(f"No {name} device found. Choose auto or cpu.")
    if precision != "auto":
        return Device(name, precision == "bfloat16")
    if name == "cuda":
        return Device(name, torch.cuda.is_bf16_supported())
    if name != "cpu" or not torch.backends.mkldnn.is_available():
        return Device(name, False)
    # Without instructions for it (AVX-512 BF16, AMX, Arm BF16), bfloat16 is slower than single precision.
    processor: Mapping[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()  # older versions of torch do not tell
    return Device(name, any(processor.get(each) for each in ("avx512_bf16", "amx_tile", "bf16")))
