"""Versions of installed libraries, recorded with indexes, runs and artifacts."""

from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version

# Libraries whose files or numbers an index contains, and those an answer depends on.
RETRIEVAL = ("bm25s", "faiss-cpu", "numpy", "sentence-transformers", "tantivy")
ANSWERING = ("verihop", "dspy", "openvino-genai", "xllamacpp", *RETRIEVAL)


def installed_versions(packages: Iterable[str]) -> dict[str, str]:
    """Return name -> version of those among `packages` that are installed."""
    versions = {}
    for package in packages:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions
