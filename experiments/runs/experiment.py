"""Whether two descriptions (`run.json`) are of the same experiment, so that a run can be resumed."""

from collections.abc import Iterable, Mapping
from typing import Any

from optimizers.metrics.names import with_current_names

Json = dict[str, Any]

# May differ between the sessions of one run: these describe the session, not the experiment.
SESSION = ("started", "finished", "git_revision", "versions", "machine")
_SESSION = frozenset(
    {*SESSION, "threads", "processes", "resumed", "merged", "paths", "notes", "server", "scored", "sentences"}
)


def as_asked(description: Json) -> Json:
    """Return the description of a run without what was scored after it had been asked (`scored`).

    Metrics have their present names.
    """
    metrics, scored = description.get("metrics"), description.get("scored")
    if not isinstance(metrics, Mapping):
        return description
    entries = [entry for entry in scored if isinstance(entry, Mapping)] if isinstance(scored, list) else []
    present = with_current_names(metrics)
    asked = {name: text for name, text in present.items() if not any(name in _names(each, "added") for each in entries)}
    for entry in reversed(entries):
        replaced = entry.get("replaced")
        asked.update(replaced if isinstance(replaced, Mapping) else {})
    judged_later = any("judge" in entry for entry in entries)
    kept = {name: value for name, value in description.items() if name != "judge" or not judged_later}
    return {**kept, "metrics": asked}


def _names(entry: Mapping[str, Any], key: str) -> list[str]:
    names = entry.get(key)
    return names if isinstance(names, list) else []


def _flat(value: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    for key, item in value.items():
        if isinstance(item, Mapping) and item:
            yield from _flat(item, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", item


def differing_field(old: Json, new: Json) -> str | None:
    """Return the first dotted field in which two experiments differ; None if they are the same."""
    first = dict(_flat({key: value for key, value in old.items() if key not in _SESSION}))
    second = dict(_flat({key: value for key, value in new.items() if key not in _SESSION}))
    return next((name for name in [*second, *first] if first.get(name) != second.get(name)), None)


def cure_of(field: str) -> str:
    """Return what to do if a run cannot be resumed because of a dotted field."""
    kind, _, name = field.partition(".")
    if kind == "metrics" and ":" in name:
        return (
            "The code of an own metric changed: restore it to resume, or choose another folder, omit the metric there "
            "and add it with `verihop score` once all is answered."
        )
    return "Resume it with the settings it was started with, or choose another folder."


def value_of(description: Json, field: str) -> str:
    """Return the value of a dotted field as text, cut to 80 characters."""
    text = repr(dict(_flat(description)).get(field))
    return text if len(text) <= 80 else f"{text[:77]}..."
