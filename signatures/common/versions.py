"""Versions of installed libraries, for everything that is written down to be compared later."""

from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version

# What an index holds files or numbers of, and what an answer depends on.
RETRIEVAL = ("bm25s", "faiss-cpu", "numpy", "sentence-transformers", "tantivy")
ANSWERING = ("verihop", "dspy", "openvino-genai", "xllamacpp", *RETRIEVAL)


def installed_versions(packages: Iterable[str]) -> dict[str, str]:
    """Return the versions of those among `packages` that are installed; an engine that is missing takes no part."""
    found = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
