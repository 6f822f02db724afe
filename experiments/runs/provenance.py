"""The provenance that result files record: command, revision, LM, prompts and machine, without local paths."""

import json
import os
import platform
import re
import sys
from typing import TYPE_CHECKING, Any

from signatures.common.files import sha256_text

if TYPE_CHECKING:
    import dspy

    from programs.lms.connect import Connection

# At the start of a text, or after a space, "=" or ":" (but not in an address, where a second slash follows).
_ABSOLUTE = re.compile(r"(?:(?<=^)|(?<=[\s=:]))(?:/[^\s/]+){2,}")


def portable(value: Any) -> Any:
    """Return a JSON value with absolute paths in its texts shortened to their last part."""
    if isinstance(value, dict):
        return {name: portable(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [portable(item) for item in value]
    return _ABSOLUTE.sub(lambda match: match[0].rsplit("/", 1)[1], value) if isinstance(value, str) else value


def provenance(module: str, connection: "Connection | None" = None) -> dict[str, Any]:
    """Return the current command, revision, LM and machine, for the head of a result file.

    Args:
        module: Module of the command, as in `python -m MODULE`.
        connection: The LM that the results are of; None if there is none.
    """
    from experiments.runs.files import git_revision
    from programs.artifact import lm_record

    return {
        "command": " ".join([f"python -m {module}", *sys.argv[1:]]),
        "revision": git_revision(),
        "lm": lm_record(connection).model_dump() if connection else None,
        "machine": machine(),
    }


def machine() -> dict[str, Any]:
    """Return the cores, Python and system of this machine, without its name."""
    return {"cores": os.cpu_count(), "python": platform.python_version(), "system": platform.system()}


def prompts_hash(program: "dspy.Module") -> str:
    """Return the SHA-256 of the instructions and demonstrations of a program."""
    from programs.artifact import shown_state

    return sha256_text(json.dumps(shown_state(program), sort_keys=True, ensure_ascii=False, default=str))
