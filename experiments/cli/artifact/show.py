"""`verihop artifact show`: what a compiled program is, and how it was made and tested."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from experiments.cli.shared import options
from experiments.cli.shared.console import FAULTY, emit, next_step, note, say
from experiments.cli.shared.next_commands import command, naming
from experiments.cli.shared.options import OwnPrograms
from signatures.common.errors import UserError

if TYPE_CHECKING:
    import dspy

    from programs.artifact import Artifact

_WIDTH = 110
_LONGEST = 200  # characters of one value
_MOST_ROWS = 50


def show(
    folder: Annotated[Path, typer.Argument(metavar="ARTIFACT", help="Folder of the artifact.")],
    instructions: Annotated[
        bool, typer.Option("--instructions/--no-instructions", help="Print the instructions of each predictor.")
    ] = True,
    as_json: options.Json = False,
    own_programs: OwnPrograms = None,
) -> None:
    """Print program, knobs, LM, corpus, optimizer, scores, and the instructions and demonstrations of each predictor.

    The artifact is checked first, as `verihop artifact verify` does.
    """
    from programs.artifacts.loading import load_unbound

    program = load_unbound(folder)
    if as_json:
        emit(described(folder, program))
        return
    for line in _lines(folder, program, instructions=instructions):
        say(line)
    following = [command("verihop", "artifact", "export", folder, *naming(*own_programs or ()), "--out", "prompts")]
    if (other := _other(folder)) is not None:
        following.append(command("verihop", "artifact", "diff", other, folder, *naming(*own_programs or ())))
    next_step(*following)


def _other(folder: Path) -> Path | None:
    """Return the artifact beside this one that was written last; None if there is none."""
    records = [path for path in folder.resolve().parent.glob("*/artifact.json") if path.parent != folder.resolve()]
    newest = max(records, key=lambda path: path.stat().st_mtime, default=None)
    return None if newest is None else folder.parent / newest.parent.name


def described(folder: Path, program: "dspy.Module") -> dict[str, Any]:
    """Return the record of an artifact with its predictors and knobs that differ from the defaults, parts included."""
    from programs.artifact import children_of, read_artifact
    from programs.artifacts.folder import complete_artifact
    from programs.artifacts.freezing import CHILDREN

    inside = complete_artifact(folder) / CHILDREN
    return {
        "artifact": str(folder),
        **read_artifact(folder).model_dump(mode="json"),
        "changed_knobs": changed_knobs(program),
        "max_calls": program.max_calls(),
        "pool_questions": len(getattr(program, "pool", ())),
        "predictors": {} if children_of(program) else _predictors(program),
        "parts": {name: described(inside / name, child) for name, child in children_of(program).items()},
    }


def changed_knobs(program: "dspy.Module") -> dict[str, dict[str, Any]]:
    """Return the knobs of a program that differ from their defaults, with both values."""
    from programs.parts.knobs import knob_values, knobs_of

    values = knob_values(program)
    return {
        name: {"value": values[name], "default": knob.default}
        for name, knob in knobs_of(program).items()
        if values[name] != knob.default
    }


def _predictors(program: "dspy.Module") -> dict[str, Any]:
    return {
        name: {
            "instructions": predictor.signature.instructions,
            "demos": len(predictor.demos),
            "bootstrapped": sum(bool(demo.get("augmented")) for demo in predictor.demos),
            "inputs": list(predictor.signature.input_fields),
            "outputs": list(predictor.signature.output_fields),
        }
        for name, predictor in program.named_predictors()
    }


def _lines(folder: Path, program: "dspy.Module", *, instructions: bool, path: str = "") -> Iterator[str]:
    from programs.artifact import children_of, read_artifact
    from programs.artifacts.folder import complete_artifact
    from programs.artifacts.freezing import CHILDREN

    record = read_artifact(folder)
    name = record.program if record.kind == "program" else f"{record.kind} of {len(record.children)}"
    yield f"{f'Part {path}' if path else str(folder)}: {name} (at most {program.max_calls()} LM calls a question)"
    yield from _indented(_about(record, program, part=bool(path)))
    if not record.children:
        yield "  Predictors:"
        for predictor, one in _predictors(program).items():
            made = f", {one['bootstrapped']} of them bootstrapped" if one["bootstrapped"] else ""
            fields = f"{', '.join(one['inputs'])} -> {', '.join(one['outputs'])}"
            yield f"    {predictor}: {fields}; {one['demos']} demos{made}"
            if instructions:
                yield from _wrapped(one["instructions"], "        ")
    for child, part in children_of(program).items():
        yield ""
        inside = complete_artifact(folder) / CHILDREN / child
        yield from _lines(inside, part, instructions=instructions, path=f"{path}{child}/")


def _about(record: "Artifact", program: "dspy.Module", *, part: bool) -> Iterator[tuple[str, str]]:
    knobs = changed_knobs(program)
    yield (
        "Knobs",
        ", ".join(f"{name}={one['value']} (default {one['default']})" for name, one in knobs.items())
        or ("all as by default" if record.knobs else "none"),
    )
    if record.pool_sha256 is not None:
        yield "Pool", f"{len(program.pool)} training questions, chosen by {record.similarity}"
    if record.lm is not None:
        lm = record.lm
        weights = f", weights {lm.weights_hash[:12]}" if lm.weights_hash else ""
        yield "LM", f"{lm.id}{weights}; adapter {lm.adapter}, P(yes) from {lm.probability_mode}"
    if record.corpus is not None:
        yield "Corpus", record.corpus
    for name, value in record.data.items():
        yield from _recorded(f"Data, {name}", value, levels=0)
    yield from _optimizer(record.optimizer)
    if record.metric:
        yield "Metric", _metric(record.metric) + (", before it was changed" if record.optimizer.get("changed") else "")
    if part:
        return
    yield "Made with", ", ".join(f"{name} {version}" for name, version in record.versions.items()) or "unknown"
    if record.revision is not None:
        yield "Revision", record.revision


def _optimizer(optimizer: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield name, settings, costs and tables of the optimizer; what it writes differs from one to the next."""
    if not optimizer:
        return
    yield "Optimizer", str(optimizer.get("name", "unknown"))
    for name, value in optimizer.items():
        if name != "name":
            yield from _recorded(f"Optimizer, {name}", value, levels=2)


def _recorded(name: str, value: Any, *, levels: int) -> Iterator[tuple[str, str]]:
    """Yield a value that an optimizer recorded: lists of records as tables, also within `levels` of other records."""
    if value in (None, "", {}, []):
        return
    if _is_table(value):
        yield name, "\n".join(_table(value))
    elif isinstance(value, dict) and _has_table(value, levels):
        for inner, one in value.items():
            yield from _recorded(f"{name}, {inner}", one, levels=levels - 1)
    else:
        yield name, _short(value, zeros=not name.endswith("cost"))


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) for row in value)


def _has_table(value: Any, levels: int) -> bool:
    if _is_table(value) or not isinstance(value, dict):
        return _is_table(value)
    return levels > 0 and any(_has_table(one, levels - 1) for one in value.values())


def _metric(metric: Mapping[str, Any]) -> str:
    mean, low, high = (metric.get(name) for name in ("mean", "low", "high"))
    if not isinstance(mean, int | float):
        return f"{metric.get('name')}, not scored on validation questions"
    spread = f" [{low:.3f}, {high:.3f}]" if isinstance(low, int | float) and isinstance(high, int | float) else ""
    errors = f", {metric['errors']} errors" if metric.get("errors") else ""
    return f"{metric.get('name')} {mean:.3f}{spread} on {metric.get('n')} validation questions{errors}"


def _table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    names = [name for name in dict.fromkeys(name for row in rows for name in row) if name not in ("scores", "state")]
    cells = [names, *([_cell(row.get(name)) for name in names] for row in rows[:_MOST_ROWS])]
    widths = [max(len(line[place]) for line in cells) for place in range(len(names))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells]
    return lines if len(rows) <= _MOST_ROWS else [*lines, f"... and {len(rows) - _MOST_ROWS} more"]


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else textwrap.shorten(str(value), 60, placeholder="...")


def _short(value: Any, *, zeros: bool = True) -> str:
    if isinstance(value, dict):
        named = [f"{name}={one}" for name, one in value.items() if one is not None and (zeros or one != 0)]
        return textwrap.shorten(", ".join(named), _LONGEST, placeholder=" ...") or "none"
    return textwrap.shorten(str(value), _LONGEST, placeholder=" ...")


def _indented(about: Iterator[tuple[str, str]]) -> Iterator[str]:
    for name, text in about:
        first, *rest = text.splitlines() or [""]
        yield f"  {name}: {first}" if not rest else f"  {name}:"
        yield from (f"    {line}" for line in ([first, *rest] if rest else ()))


def _wrapped(text: str, indent: str) -> Iterator[str]:
    for line in text.splitlines():
        yield textwrap.indent(textwrap.fill(line, _WIDTH - len(indent)), indent) if line.strip() else ""


def verify(
    folders: Annotated[list[Path], typer.Argument(metavar="ARTIFACT", help="Folders of artifacts.")],
    as_json: options.Json = False,
    own_programs: OwnPrograms = None,
) -> None:
    """Check that artifacts can be loaded: schema, hashes, signatures, demonstrations, knobs and parts.

    Nothing is executed, and no LM, index or network is needed. The first fault of each artifact is printed with its
    file and field; the exit code is then 2. Hashes show damage, not who wrote the files.
    """
    from programs.artifact import verify as check

    found = []
    for folder in folders:
        try:
            record = check(folder)
            found.append({"artifact": str(folder), "valid": True, "kind": record.kind, "program": record.program})
        except UserError as error:
            found.append({"artifact": str(folder), "valid": False, "fault": str(error)})
    if as_json:
        emit({"valid": all(one["valid"] for one in found), "artifacts": found})
    for one in () if as_json else found:
        if one["valid"]:
            say(f"{one['artifact']}: valid ({one['program']})")
        else:
            note(f"verihop: {one['fault']}")
    if not all(one["valid"] for one in found):
        raise typer.Exit(FAULTY)
    if not as_json:
        next_step(command("verihop", "artifact", "show", folders[0], *naming(*own_programs or ())))
