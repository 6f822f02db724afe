"""Models in the format of the runtime, kept in the cache folder: converted once, checked by hash when opened."""

import functools
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import signatures.common.openvino_core  # noqa: F401 - before OpenVINO itself: without telemetry
from programs.lms.caches import cache_dir
from signatures.common.files import sha256_file, temporary_folder

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
    import openvino_genai

    folder = cache_dir() / "openvino" / f"{name}-{openvino_genai.__version__.replace('/', '_')}"
    if not is_whole(folder, weights_hash):
        import filelock

        folder.parent.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(folder.parent / ".merging.lock"):
            is_whole.cache_clear()
            if not is_whole(folder, weights_hash):
                _make(folder, weights_hash, write)
                is_whole.cache_clear()
    return folder


def convert_into(folder: Path, write: Callable[[Path], None]) -> None:
    """Write a converted model into a folder that is not there yet; nothing is checked, and nothing kept.

    Args:
        folder: Of the model.
        write: As for `convert`.
    """
    import openvino_genai

    folder.mkdir(parents=True)
    path = folder / "model.gguf"
    write(path)
    openvino_genai.LLMPipeline(str(path), "CPU", enable_save_ov_model=True)
    path.unlink()


def _make(folder: Path, weights_hash: str, write: Callable[[Path], None]) -> None:
    with temporary_folder(folder.parent, ".merging-") as temporary:
        model = temporary / "model"
        convert_into(model, write)
        files = {file.name: sha256_file(file) for file in sorted(model.iterdir())}
        manifest = {"weights_hash": weights_hash, "files": files}
        (model / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
        if folder.exists():  # damaged
            shutil.rmtree(folder)
        model.rename(folder)  # complete or absent


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
