"""Versions of installed libraries, recorded with indexes, runs and artifacts."""

import functools
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version

# Libraries whose files or numbers an index contains, and those an answer depends on.
RETRIEVAL = ("bm25s", "faiss-cpu", "numpy", "sentence-transformers", "tantivy")
ANSWERING = ("verihop", "dspy", "openvino-genai", "xllamacpp", *RETRIEVAL)


def installed_versions(packages: Iterable[str]) -> dict[str, str]:
    """Return name -> version of those among `packages` that are installed."""
    return {package: found for package in packages if (found := installed_version(package)) is not None}


@functools.cache  # all metadata of a package is parsed for it
def installed_version(package: str) -> str | None:
    """Return the version of a library; None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
