"""The adapters that tables compare, and what each was trained on."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from signatures.common.errors import UserError

EXAMPLES = {"verification_data": "with=FOLDER --adapters without=FOLDER", "scale": "1000=FOLDER"}
WITH, WITHOUT = "with", "without"
VERIFICATION = ("verification", "revision")  # skills of the verification task


@dataclass(frozen=True)
class Adapters:
    """Adapters by name, as LM ids.

    Args:
        sizes: By number of examples, ascending.
        tasks: With and without verification data; empty, or both.
        training: What `training.json` says of the latter.
    """

    sizes: dict[str, str] = field(default_factory=dict)
    tasks: dict[str, str] = field(default_factory=dict)
    training: dict[str, Any] = field(default_factory=dict)


def read_adapters(given: list[str]) -> Adapters:
    """Return the adapters of options NAME=FOLDER; in place of a folder, the id of an LM.

    Raises:
        UserError: A name or folder is wrong or there twice, one of two is missing, or they were not trained as named.
    """
    found: dict[str, str] = {}
    for text in given:
        name, _, folder = text.partition("=")
        if not ((name.isdecimal() and name.isascii()) or name in (WITH, WITHOUT)) or not folder:
            raise UserError(f"--adapters {text!r} must be NAME=FOLDER, e.g. {' or '.join(EXAMPLES.values())}.")
        name = str(int(name)) if name.isdecimal() else name
        if name in found:
            raise UserError(f"--adapters names {name} twice. Name each once.")
        found[name] = f"embedded:{folder}" if Path(folder).is_dir() else folder
    sizes = {name: found[name] for name in sorted(filter(str.isdecimal, found), key=int)}
    tasks = {name: found[name] for name in (WITH, WITHOUT) if name in found}
    if len(tasks) == 1:
        raise UserError(f"Both adapters are needed: --adapters {EXAMPLES['verification_data']}.")
    training = {name: _training(id) for name, id in tasks.items() if id.startswith("embedded:")}
    _check_tasks(training)
    return Adapters(sizes, tasks, training)


def _training(lm_id: str) -> dict[str, Any]:
    """Return what says how an adapter was trained; empty if its folder does not say it."""
    from experiments.runs.files import read_json
    from programs.lms.weights.choice import DESCRIPTION

    path = Path(lm_id.removeprefix("embedded:")) / DESCRIPTION
    if not path.is_file():
        return {}
    said = read_json(path)
    names = ("base", "data_sha256", "examples", "resume_adapter_sha256", "steps", "tokens", "hours")
    weights = said["settings"]["weights"]
    return {**{name: said.get(name) for name in names}, "weights": weights, "epochs": said["settings"]["epochs"]}


def _check_tasks(training: dict[str, Any]) -> None:
    for name, said in training.items():
        learnt = [skill for skill in VERIFICATION if said.get("examples", {}).get(skill)]
        if said and bool(learnt) != (name == WITH):
            seen = f"examples of {', '.join(learnt)}" if learnt else "no examples of verification"
            raise UserError(f"The adapter {name!r} was trained on {seen}: name the other one so, or train another.")
    bases = {said["base"] for said in training.values() if said}
    if len(bases) > 1:
        raise UserError(f"The adapters have different bases: {', '.join(sorted(bases))}. Train both on one.")
