"""The source of LiteLLM, read for the names of its providers; `tests/programs/lms/test_providers.py` pins its form."""

import ast
import contextlib
import functools
import importlib.util
import re
import sys
from pathlib import Path


@functools.cache
def litellm_providers() -> frozenset[str]:
    """Return the providers of LiteLLM, none where it is not installed.

    Its import takes seconds, so that they are read in its source where possible.
    """
    spec = importlib.util.find_spec("litellm")
    if spec is None:  # an installation of the server alone
        return frozenset()
    if spec.origin is not None and "litellm" not in sys.modules:
        with contextlib.suppress(OSError, SyntaxError):
            source = (Path(spec.origin).parent / "types" / "utils.py").read_text(encoding="utf-8")
            if names := enumerated(source, "LlmProviders"):
                return names
    import litellm

    return frozenset(getattr(provider, "value", provider) for provider in litellm.provider_list)


def enumerated(source: str, name: str) -> frozenset[str]:
    """Return the texts of an enumeration in Python source; none if there is no enumeration of texts only."""
    block = re.search(rf"^class {name}\(.*\n(?:[ \t].*\n|\n)*", source, re.MULTILINE)
    parsed = ast.parse(block[0]).body[0] if block else None
    members = [node.value for node in getattr(parsed, "body", ()) if isinstance(node, ast.Assign)]
    texts = [member.value for member in members if isinstance(member, ast.Constant) and isinstance(member.value, str)]
    return frozenset(texts if len(texts) == len(members) else ())
