"""What differs between compared runs besides their scores: LM, corpus, knobs and other settings."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from experiments.runs.files import Json

_ABSENT = "default"
SPLIT = "split by rule"
"""How sentences are counted in the passages of a run that says nothing else (`sentences` in its `run.json`)."""


@dataclass(frozen=True)
class Difference:
    """A setting in which runs differ.

    Args:
        setting: Its name.
        values: Label of a run -> its value as text.
    """

    setting: str
    values: dict[str, str]

    def __str__(self) -> str:
        runs_of: dict[str, list[str]] = {}
        for label, value in self.values.items():
            runs_of.setdefault(value, []).append(label)
        parts = (f"{value} ({', '.join(labels)})" for value, labels in runs_of.items())
        return f"Different {self.setting}: {'; '.join(parts)}."


def differences(descriptions: Mapping[str, Json]) -> list[Difference]:
    """Return the settings in which runs differ, in a fixed order.

    Threads, versions and paths are no settings. Knobs that only one of two programs has are not compared, and the
    demonstrations of different programs neither.

    Args:
        descriptions: Label of a run -> the content of its `run.json`.
    """
    by_run = {label: _settings(description) for label, description in descriptions.items()}
    same_program = _one(settings["program"] for settings in by_run.values())
    same_lm = _one(settings["LM"] for settings in by_run.values())
    found = []
    for name in dict.fromkeys(name for settings in by_run.values() for name in settings):
        if (name == _STATE and not same_program) or (name == _MODEL and not same_lm):
            continue
        optional = name.startswith("knob ") and not same_program
        values = {
            label: _text(settings.get(name)) for label, settings in by_run.items() if name in settings or not optional
        }
        if not _one(values.values()):
            found.append(Difference(name, values))
    return found


_STATE, _MODEL = "instructions or demonstrations", "weights or server of the LM"


def _settings(description: Json) -> dict[str, Any]:
    """Return the settings of a run by name."""
    program, lm = description["program"], description["lm"]
    compiled = "compiled" if program.get("artifact_sha256") else "uncompiled"
    judge, given = description.get("judge"), description.get("given")
    return {
        "program": program["name"],
        _STATE: f"{compiled} {str(program.get('state_sha256'))[:8]}",
        **{f"knob {name}": value for name, value in program.get("knobs", {}).items()},
        "LM": lm["id"],
        _MODEL: lm.get("model"),
        "adapter": lm.get("adapter"),
        "source of P(yes)": lm.get("probability_mode"),
        **{f"{name.replace('_', ' ')} of the LM": value for name, value in lm.get("settings", {}).items()},
        "corpus or retriever": description.get("corpus", {}).get("fingerprint") or "none",
        "fixed contexts": _contexts(given) if given else "none",
        "judge LM": f"{judge['id']} ({judge.get('model')})" if judge else "none",
        "repeats": description.get("repeats", 1),
        "seed": description.get("seed"),
    }


def _contexts(given: Json) -> str:
    of = f"{given.get('n')} passages, seed {given.get('seed')}, SHA-256 {str(given.get('sha256'))[:8]}"
    return f"{given.get('knowledge')}, {of}"


def _one(values: Any) -> bool:
    """Return whether all values are equal."""
    return len({json.dumps(value, sort_keys=True, default=str) for value in values}) <= 1


def _text(value: Any) -> str:
    if value is None:
        return _ABSENT
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def sentence_notices(descriptions: Mapping[str, Json], compared: Sequence[str]) -> list[str]:
    """Return which compared metrics number sentences differently in the runs.

    Args:
        descriptions: Label of a run -> the content of its `run.json`.
        compared: Names of metrics.
    """
    notices: dict[str, list[str]] = {}
    for name in compared:
        named = [(label, description.get("sentences")) for label, description in descriptions.items()]
        values = {label: str(own.get(name, SPLIT)) if isinstance(own, dict) else SPLIT for label, own in named}
        if not _one(values.values()):
            notices.setdefault(str(Difference("sentences", values)), []).append(name)
    return [f"{', '.join(names)}: {text} Their numbers may differ." for text, names in notices.items()]


def metric_notices(definitions: Sequence[Mapping[str, str]], compared: Sequence[str]) -> list[str]:
    """Return which metrics are omitted: not in every run, or in every run with different definitions."""
    omitted = sorted({name for metrics in definitions for name in metrics} - set(compared))
    redefined = [name for name in omitted if all(name in metrics for metrics in definitions)]
    absent = [name for name in omitted if name not in redefined]
    notices = [f"Not in every run, so omitted: {', '.join(absent)}."] if absent else []
    if redefined:
        notices.append(f"Defined differently in the runs, so omitted: {', '.join(redefined)}.")
    return notices
