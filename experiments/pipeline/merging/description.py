"""Whether parts are of one run, and the `run.json` of the whole."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from experiments.pipeline.merging.parts import Part
from experiments.runs.experiment import SESSION, differing_field, value_of
from experiments.runs.files import Json
from signatures.common.errors import UserError

MERGED = "merged"
_OF_PART = (*SESSION, "threads", "processes", "resumed", "server", "paths", "scored", MERGED)
_DIFFERENT = "Its parts differ in code or library versions; those of each are in run.json (merged)."


def check_same_run(parts: Sequence[Part]) -> None:
    """Raise UserError if parts differ in program, LM, metrics, corpus, questions or anything else but the session."""
    first = parts[0]
    for part in parts[1:]:
        descriptions = [_experiment(first), _experiment(part)]
        field = differing_field(*descriptions)
        if field is not None:
            values = [value_of(description, field) for description in descriptions]
            raise UserError(
                f"{part.folder} is not a part of the run in {first.folder}: {field} is {values[1]}, there {values[0]}. "
                f"{_cure(field)}"
            )


def _experiment(part: Part) -> Json:
    """Return what all parts of a run have in common, with the hash of all its questions."""
    description = {name: value for name, value in part.description.items() if name != "shard"}
    return {**description, "questions": part.questions, "sentence_source": part.description.get("sentences")}


def _cure(field: str) -> str:
    if field.partition(".")[0] in ("metrics", "judge", "sentence_source"):
        return "Score the parts by the same metrics and texts, or merge them before metrics are added."
    return "Name only parts that were made by the same command."


def check_shards(parts: Sequence[Part]) -> None:
    """Raise UserError if the parts are shards of different numbers of shards."""
    of: dict[int, Part] = {part.shard.of: part for part in parts if part.shard}
    if len(of) > 1:
        (one, first), (other, second) = list(of.items())[:2]
        raise UserError(
            f"{first.folder} is one of {one} shards, {second.folder} one of {other}. Name only shards of one number."
        )


def missing_shards(parts: Sequence[Part]) -> list[str]:
    """Return the shards that are not among the parts, as i/n; none if a part is a run on all questions."""
    shards = [part.shard for part in parts if part.shard]
    if not shards or len(shards) < len(parts):
        return []
    found = {shard.index for shard in shards}
    of = shards[0].of
    return [f"{index}/{of}" for index in range(1, of + 1) if index not in found]


def merged_description(parts: Sequence[Part], *, complete: bool) -> Json:
    """Return the `run.json` of the whole: as of a run in one piece, with what it was merged from (`merged`).

    What describes a session (revision, versions, machine ...) is at the top only where it is the same in all parts.

    Args:
        parts: Of one run.
        complete: Whether all questions are there; if not, the ids of shards are kept, which say their order.
    """
    descriptions = [part.description for part in parts]
    first = descriptions[0]
    whole: Json = {name: value for name, value in first.items() if name not in ("shard", "resumed", "finished", MERGED)}
    whole["questions"] = parts[0].questions
    for name in ("git_revision", "versions", "machine", "server", "threads", "processes", "paths"):
        if any(description.get(name) != first.get(name) for description in descriptions):
            whole[name] = _common(description.get(name) for description in descriptions)
            if whole[name] is None and name != "git_revision":
                del whole[name]
    code = [(description.get("git_revision"), description.get("versions")) for description in descriptions]
    notes = [note for description in descriptions for note in description.get("notes") or []]
    notes = list(dict.fromkeys([*notes, *([_DIFFERENT] if any(each != code[0] for each in code) else [])]))
    scored = [entry for description in descriptions for entry in description.get("scored") or []]
    scored = [entry for place, entry in enumerate(scored) if entry not in scored[:place]]
    whole |= {"notes": notes} if notes else {}
    whole |= {"scored": scored} if scored else {}
    starts = [str(description["started"]) for description in descriptions if "started" in description]
    ends = [str(description["finished"]) for description in descriptions if "finished" in description]
    whole |= {"started": min(starts)} if starts else {}
    whole |= {"finished": max(ends)} if len(ends) == len(parts) else {}
    whole[MERGED] = {
        "seconds": round(sum(part.seconds for part in parts), 4),
        "wall_seconds": wall_seconds(whole),
        "parts": [_record(part, complete=complete) for part in parts],
    }
    return whole


def _common(values: Iterable[Any]) -> Any:
    """Return what values have in common: the equal entries of objects, else None."""
    items = list(values)
    if not all(isinstance(item, dict) for item in items):
        return items[0] if all(item == items[0] for item in items) else None
    shared = {name: value for name, value in items[0].items() if all(item.get(name) == value for item in items)}
    return shared or None


def wall_seconds(description: Json) -> float | None:
    """Return the seconds from the first start to the last end, by the clocks of the machines; None if not recorded."""
    try:
        started, finished = (datetime.fromisoformat(description[name]) for name in ("started", "finished"))
        return (finished - started).total_seconds()
    except (KeyError, TypeError, ValueError):  # killed, or of an earlier version
        return None


def _record(part: Part, *, complete: bool) -> Json:
    """Return what is kept of a part."""
    shard = part.description.get("shard")
    kept = {name: part.description[name] for name in _OF_PART if name in part.description}
    return {
        "folder": part.folder.name,
        **({} if shard is None else {"shard": {**_number(shard), **({} if complete else {"ids": shard["ids"]})}}),
        "rows": len(part.rows),
        "seconds": round(part.seconds, 4),
        "wall_seconds": wall_seconds(part.description),
        **kept,
    }


def _number(shard: Json) -> Json:
    return {name: shard[name] for name in ("index", "of")}
