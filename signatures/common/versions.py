"""Versions of installed libraries, recorded with indexes, runs and artifacts."""

import functools
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version

# Libraries whose files or numbers an index contains, and those an answer depends on.
RETRIEVAL = ("bm25s", "faiss-cpu", "numpy", "sentence-transformers", "tantivy")
ANSWERING = ("verihop", "dspy", "openvino-genai", "xllamacpp", *RETRIEVAL)


def installed_versions(packages: Iterable[str]) -> dict[str, str]:
    """Return name -> version of those among `packages` that are installed."""
    return {package: found for package in packages if (found := _version(package)) is not None}


@functools.cache  # all metadata of a package is parsed for it
def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
