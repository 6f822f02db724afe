"""Artifacts of any `dspy.Module`, which is no program of verihop: its state, for a module that the user brings.

Such an artifact cannot say how its module is made. Whoever loads it makes the module and passes it; instructions and
demonstrations are put into a copy, after the same checks as those of a program.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import dspy

from programs.artifacts import state as states
from programs.artifacts.folder import complete_artifact, replacing
from programs.artifacts.freezing import check_no_lms, dump, sealed
from programs.artifacts.loading import read_state
from programs.artifacts.record import Artifact, read_artifact
from signatures.common.errors import UserError
from signatures.common.files import sha256_text
from signatures.common.versions import ANSWERING, installed_versions

Module = TypeVar("Module", bound=dspy.Module)


def check_module(module: dspy.Module) -> None:
    """Raise UserError unless all that an optimizer may change in a module is kept in an artifact of it."""
    check_no_lms(module)
    states.check_visible(module)
    if not module.predictors():
        raise UserError(f"{type(module).__name__} has no predictor: there is nothing to optimize.")
    others = [name for name, each in module.named_parameters() if not isinstance(each, dspy.Predict)]
    if others:
        raise UserError(
            f"{type(module).__name__} has parameters that are not predictors ({', '.join(others)}), which an "
            "artifact does not keep."
        )


def freeze_module(
    module: dspy.Module,
    folder: Path | str,
    *,
    overwrite: bool = False,
    files: Mapping[str, str] | None = None,
    **provenance: Any,
) -> Artifact:
    """Write the state of a module to a folder that `load_module` can read; it appears complete or not at all.

    Args:
        module: Compiled or not.
        folder: The folder of the artifact.
        overwrite: Replace an existing artifact.
        files: Texts of further files, by name.
        provenance: As for `programs.artifact.freeze`.

    Raises:
        UserError: The folder exists, or the state cannot be written.
    """
    check_module(module)
    state = json.dumps(states.dump_state(module), ensure_ascii=False, indent=1)
    artifact = Artifact(
        kind=states.MODULE,
        program=states.module_name(module),
        knobs={},
        signatures=states.signature_fields(module),
        state_sha256=sha256_text(state),
        versions=installed_versions(ANSWERING),
        **provenance,
    )
    with replacing(Path(folder), overwrite=overwrite) as temporary:
        texts = {**(files or {}), "program.json": state, "artifact.json": sealed(artifact)[0]}
        for name, text in texts.items():
            dump(temporary / name, text)
    return artifact


def load_module(folder: Path | str, module: Module) -> Module:
    """Return a copy of a module with the instructions and demonstrations of an artifact of it.

    Args:
        folder: The folder written by `freeze_module`. It need not be trusted: nothing in it is executed.
        module: Constructed like the one that was compiled; it is not changed.

    Raises:
        UserError: The folder holds no artifact of a module, it is damaged, or this module has other predictors or
            fields.
    """
    complete = complete_artifact(Path(folder))
    artifact = read_artifact(complete)
    if artifact.kind != states.MODULE:
        raise UserError(f"{folder} holds the program {artifact.program}, not a module of your own: use verihop.load.")
    states.check_signatures(artifact.program, artifact.signatures, module)
    copy = module.deepcopy()
    states.apply_state(copy, read_state(complete / "program.json", artifact))
    return copy
