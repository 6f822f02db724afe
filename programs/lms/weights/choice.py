"""Which weights the embedded LM has: from its id to a converted model.

| id | weights |
|---|---|
| `embedded` | the adapter in the package if there is one, else the base |
| `embedded:base` | SmolLM2-135M-Instruct, untrained, with 4 bits as shipped |
| `embedded:base-8bit` | the same weights stored as an adapter's are: the control for what training gained |
| `embedded:FOLDER` | those of a folder: an adapter, or merged weights |
| `embedded:exact`, and `embedded:exact:` before any of the others | the same weights, computed in float32 |

The runtime reads 4 bits (Q4_1) inexactly: its most likely token is that of the stored weights at 57 % of the positions
of a prompt, with 8 bits at 98 %. So a trained model is to be compared with `base-8bit`.
"""

import functools
from dataclasses import dataclass
from pathlib import Path

from programs.lms import smollm
from programs.lms.gguf import weights_hash
from programs.lms.weights import adapter, conversion
from programs.lms.weights.adapter import Adapter
from programs.lms.weights.bases import exists, find_base, home
from programs.lms.weights.gguf_files import FileType, write_gguf
from programs.lms.weights.llama import check_blocks
from programs.lms.weights.sources import Source, folder_source, gguf_source
from programs.lms.weights.vocabulary import check_vocabulary
from signatures.common.errors import UserError
from signatures.common.files import sha256_text

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
        if self.hash == smollm.weights_hash():
            return smollm.converted()
        name = f"{smollm.weights_hash()[:16]}-{self.hash[:16]}-{FILE_TYPE}"
        return conversion.convert(name, self.hash, self._write)

    def convert_into(self, folder: Path) -> Path:
        """Return a folder that the model is written into, in the format of the runtime, whatever the cache has.

        Raises:
            UserError, OSError: As for `converted`.
        """
        conversion.convert_into(folder, self._write)
        return folder

    def _write(self, path: Path) -> None:
        """Write the model as GGUF, which is kept under the hash: files that are other ones by now must not be."""
        write_gguf(path, load(self.folder), smollm.weights_path(), FILE_TYPE)
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
        return Weights(smollm.NAME, sha256_text(f"{MERGE}\n{smollm.weights_hash()}"), smollm.CONTEXT_SIZE)
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
        return Weights(smollm.NAME, smollm.weights_hash(), smollm.CONTEXT_SIZE)
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


def load(folder: Path | None) -> Source:
    """Return the tensors of the base (None) or of a folder; an adapter is merged.

    Raises:
        UserError: A file is missing or damaged, or an adapter does not fit.
    """
    if folder is None or not (_checked(folder) / adapter.CONFIG).is_file():
        return _load_whole(folder)
    tensors = Adapter(folder)
    return _load_whole(find_base(tensors)).with_adapter(tensors)


def _load_whole(path: Path | None) -> Source:
    if path is None:
        return gguf_source(smollm.weights_path())
    source = folder_source(path) if path.is_dir() else gguf_source(path)
    check_vocabulary(path, source.shape.vocabulary, smollm.weights_path())
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
