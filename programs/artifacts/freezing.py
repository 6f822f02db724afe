"""Write a program, or several that are combined, to a folder that `load` can read."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dspy

from programs.artifacts import state as states
from programs.artifacts.folder import replacing
from programs.artifacts.record import Artifact, digest_of
from programs.catalog import PROGRAMS, build_class, check_importable, why_no_program
from programs.parts.knobs import knob_values
from signatures.common.errors import UserError, one_line
from signatures.common.files import atomic_write, sha256_text
from signatures.common.strict_json import parse_strict_json
from signatures.common.versions import ANSWERING, installed_versions

CHILDREN = "children"  # folder of the artifacts that an artifact consists of
DEEPEST = 4  # artifacts within artifacts


def check_freezable(program: dspy.Module) -> None:
    """Raise UserError unless `load` can rebuild the program: `catalog.name_of` knows it, or it combines such."""
    _check_freezable(program, depth=1)


def _check_freezable(program: dspy.Module, depth: int) -> None:
    kind = states.kind_of(program)
    if kind is None:
        reason = why_no_program(type(program))
        raise UserError(
            f"{type(program).__name__} is not in the catalog of programs and {reason}: it cannot be frozen."
        )
    if kind == states.SINGLE and type(program) not in PROGRAMS.values():
        check_importable(type(program))
    if depth > DEEPEST:
        raise UserError(f"Programs are combined {depth} levels deep; an artifact has at most {DEEPEST}.")
    check_no_lms(program)
    for child in states.KINDS[kind].take_apart(program).children.values() if kind in states.KINDS else ():
        _check_freezable(child, depth + 1)


def check_no_lms(program: dspy.Module) -> None:
    """Raise UserError if a predictor has its own LM."""
    if own := [name for name, predictor in program.named_predictors() if predictor.lm is not None]:
        raise UserError(
            f"Predictor {own[0]} has an LM of its own, which an artifact never holds: call set_lm(None) on the program "
            "and name the LM when it is loaded."
        )


def freeze(program: dspy.Module, folder: Path | str, *, overwrite: bool = False, **provenance: Any) -> Artifact:
    """Write a program to a folder that `load` can read; the folder appears complete or not at all.

    Temporary folders of a killed call are removed, and an artifact that it had moved away is restored.

    Args:
        program: A program of the catalog or of the user, compiled or not, or a combination of such programs
            (`Ensemble`, `NearestDemos` and the other classes of `programs.artifacts.state.KINDS`).
        folder: The folder of the artifact.
        overwrite: Replace an existing artifact.
        provenance: Values for the fields `lm`, `corpus`, `data`, `optimizer`, `metric`, `revision` of `Artifact`.

    Raises:
        UserError: The folder exists, the program cannot be loaded by its name or has its own LM, a demonstration
            is not one of its signature, the program would not be the same when it is loaded, or another process is
            writing to the folder.
    """
    check_freezable(program)
    files: dict[str, str] = {}
    artifact, _ = _add(program, "", files, provenance)
    write_texts(Path(folder), files, overwrite=overwrite)
    return artifact


def _add(
    program: dspy.Module, place: str, files: dict[str, str], provenance: Mapping[str, Any]
) -> tuple[Artifact, str]:
    """Add the texts of a program's files to `files`, below the folder `place`; return its record and digest."""
    kind = states.kind_of(program) or states.SINGLE
    fields: dict[str, Any] = {"kind": kind, "program": states.program_name(program), "knobs": knob_values(program)}
    if kind == states.SINGLE:
        state = _state_text(program)
        files[f"{place}program.json"] = state
        fields |= {"signatures": states.signature_fields(program), "state_sha256": sha256_text(state)}
        fields["similarity"] = getattr(getattr(program, "similarity", None), "fingerprint", None)
    else:
        parts = states.KINDS[kind].take_apart(program)
        fields["children"] = {
            name: _add(child, f"{place}{CHILDREN}/{name}/", files, _of_child(child, provenance))[1]
            for name, child in parts.children.items()
        }
        if parts.pool is not None:
            pool = _pool_text(parts)
            files[f"{place}pool.json"] = pool
            fields |= {"pool_sha256": sha256_text(pool), "similarity": getattr(parts.similarity, "fingerprint", None)}
    artifact = Artifact(**fields, versions=installed_versions(ANSWERING), **provenance)
    files[f"{place}artifact.json"], digest = sealed(artifact)
    return artifact, digest


def _of_child(child: dspy.Module, provenance: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is known of a child: its own retriever, and the LM and revision of the whole."""
    corpus = getattr(getattr(child, "retrieve", None), "fingerprint", None)
    return {"corpus": corpus, **{name: provenance.get(name) for name in ("lm", "revision")}}


def _state_text(program: dspy.Module) -> str:
    """Return the text of `program.json`, which was loaded into a new program for a trial."""
    states.check_visible(program)
    try:
        state = states.dump_state(program)
    except UserError as error:
        raise UserError(f"The program cannot be frozen: {error}. Remove or correct that demonstration.") from None
    name = states.program_name(program)
    loaded = build_class(type(program), **knob_values(program))
    states.check_signatures(name, states.signature_fields(program), loaded)
    states.apply_state(loaded, state)
    ours, theirs = dict(program.named_predictors()), dict(loaded.named_predictors())
    for predictor in ours:
        if ours[predictor].config != theirs[predictor].config:
            raise UserError(
                f"The program cannot be frozen: predictor {predictor} has the call settings "
                f"{one_line(ours[predictor].config, 100)}, which {name} does not give it and an artifact does not "
                "hold. Set them on the LM."
            )
    if states.dump_state(loaded) != state:
        raise UserError(f"The program cannot be frozen: a {name} loaded from its state differs from it.")
    return json.dumps(state, ensure_ascii=False, indent=1)


def _pool_text(parts: states.Parts) -> str:
    (program,) = parts.children.values()
    try:
        rows = states.dump_pool(parts.pool or (), program)
    except UserError as error:
        raise UserError(f"The pool cannot be frozen: {error}. Remove or correct that demonstration.") from None
    return json.dumps(rows, ensure_ascii=False, indent=1)


def sealed(artifact: Artifact) -> tuple[str, str]:
    """Return the text of `artifact.json` and its digest."""
    text = json.dumps(artifact.model_dump(mode="json"), ensure_ascii=False)
    record = parse_strict_json(text.encode("utf-8", "replace"))  # as it is read back; a path may not be valid Unicode
    digest = digest_of(record)
    return json.dumps({**record, "digest": digest}, indent=1), digest


def write_texts(folder: Path, texts: Mapping[str, str], *, overwrite: bool) -> None:
    """Write the files of an artifact, given by their paths in it; the folder appears complete or not at all."""
    with replacing(folder, overwrite=overwrite) as temporary:
        for name, text in texts.items():
            dump(temporary / name, text)


def dump(path: Path, text: str) -> None:
    """Write the text of a file of an artifact."""
    with atomic_write(path, "wb") as file:
        file.write(text.encode())


# A module that is no program of verihop: its artifact is its state, since it cannot say how the module is made.


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
    texts = {**(files or {}), "program.json": state, "artifact.json": sealed(artifact)[0]}
    write_texts(Path(folder), texts, overwrite=overwrite)
    return artifact
