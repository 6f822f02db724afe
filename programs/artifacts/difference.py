"""What differs between two artifacts: instructions, demonstrations, knobs, and what they were made and tested with."""

import difflib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import dspy

from programs.artifacts.loading import load_unbound
from programs.artifacts.record import Artifact, read_artifact
from programs.artifacts.state import all_parts, children_of, dump_state, program_name, strategies_of
from programs.nearest_demos import NearestDemos
from programs.parts.knobs import knob_values

Json = dict[str, Any]


@dataclass(frozen=True)
class Demos:
    """Demonstrations of one predictor, or of one training question, as JSON values.

    Args:
        added: Only in the second artifact.
        removed: Only in the first.
        changed: Pairs with the same inputs and other outputs.
        reordered: They are the same in another order.
    """

    added: list[Json] = field(default_factory=list)
    removed: list[Json] = field(default_factory=list)
    changed: list[tuple[Json, Json]] = field(default_factory=list)
    reordered: bool = False

    @property
    def same(self) -> bool:
        """Whether nothing differs."""
        return not (self.added or self.removed or self.changed or self.reordered)


@dataclass(frozen=True)
class PredictorDifference:
    """What differs in one predictor.

    Args:
        instructions: Lines of a unified diff of the instructions; empty if they are the same.
        fields: Field -> lines of a unified diff of its prefix and description.
        demos: Its demonstrations.
    """

    instructions: list[str]
    fields: dict[str, list[str]]
    demos: Demos


@dataclass(frozen=True)
class ArtifactDifference:
    """What differs between two artifacts.

    Args:
        settings: Name of a setting -> its values in both, None where one has none: program, LM, adapter, probability
            mode, corpus, similarity, optimizer, metric, question sets.
        knobs: Knob, with the path of its program in front -> both values.
        predictors: Predictor -> what differs; those that are the same are left out.
        only_in: "first" and "second" -> predictors that the other one does not have.
        pool: Training question -> what differs in its demonstrations; "" for the whole of questions added or removed.
    """

    settings: dict[str, tuple[Any, Any]]
    knobs: dict[str, tuple[Any, Any]]
    predictors: dict[str, PredictorDifference]
    only_in: dict[str, list[str]]
    pool: Demos

    @property
    def same(self) -> bool:
        """Whether both artifacts send the same prompts with the same knobs, whatever they were tested with."""
        return not (self.knobs or self.predictors or any(self.only_in.values())) and self.pool.same

    def as_dict(self) -> Json:
        """Return everything as JSON values."""
        return {"same": self.same, **asdict(self)}


def difference(first: Path | str, second: Path | str) -> ArtifactDifference:
    """Compare two artifacts, which need not be of the same program.

    Raises:
        UserError: `load` would refuse one of them.
    """
    programs = [load_unbound(folder) for folder in (first, second)]
    records = [read_artifact(folder) for folder in (first, second)]
    before, after = (_predictors(program) for program in programs)
    found = {name: _compare(before[name], after[name]) for name in before if name in after}
    return ArtifactDifference(
        settings=_changed(*(_settings(record, program) for record, program in zip(records, programs, strict=True))),
        knobs=_changed(*(_knobs(program) for program in programs)),
        predictors={
            name: each for name, each in found.items() if each.instructions or each.fields or not each.demos.same
        },
        only_in={
            "first": [name for name in before if name not in after],
            "second": [name for name in after if name not in before],
        },
        pool=_compare_demos(*(_pool(program) for program in programs), inputs={"question", "predictor"}),
    )


def _changed(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    names = dict.fromkeys((*first, *second))
    return {name: (first.get(name), second.get(name)) for name in names if first.get(name) != second.get(name)}


def _settings(record: Artifact, program: dspy.Module) -> dict[str, Any]:
    lm, metric = record.lm, record.metric
    return {
        "kind": record.kind,
        "programs": ", ".join(f"{path}{program_name(each)}" for path, each in strategies_of(program).items()),
        "LM": lm and lm.id,
        "model": lm and lm.model,
        "weights of the LM": lm and lm.weights_hash,
        "adapter": lm and lm.adapter,
        "P(yes) from": lm and lm.probability_mode,
        "corpus": record.corpus,
        "similarity": record.similarity,
        "optimizer": record.optimizer.get("name"),
        "optimizer's arguments": record.optimizer.get("arguments"),
        "metric": metric.get("name"),
        "metric's definition": metric.get("definition"),
        "training questions": _questions(record, "train"),
        "validation questions": _questions(record, "val"),
    }


def _questions(record: Artifact, name: str) -> str | None:
    described = record.data.get(name)
    if not isinstance(described, dict) or "sha256" not in described:
        return None
    return f"{described.get('n')} ({str(described['sha256'])[:12]})"


def _knobs(program: dspy.Module, path: str = "") -> dict[str, Any]:
    own = {f"{path}{name}": value for name, value in knob_values(program).items()}
    for name, child in children_of(program).items():
        own |= _knobs(child, f"{path}{name}/")
    return own


def _predictors(program: dspy.Module) -> dict[str, Json]:
    """Return the state of each predictor, and the names of its input fields."""
    return {
        path + name: {**state, "inputs": set(predictor.signature.input_fields)}
        for path, strategy in strategies_of(program).items()
        for (name, predictor), state in zip(strategy.named_predictors(), dump_state(strategy).values(), strict=True)
    }


def _pool(program: dspy.Module) -> list[Json]:
    """Return the demonstrations to choose from as one list, each with its training question and predictor."""
    return [
        {"question": entry.question, "predictor": name, "demos": [dict(demo) for demo in demos]}
        for each in all_parts(program)
        if isinstance(each, NearestDemos)
        for entry in each.pool
        for name, demos in entry.demos.items()
    ]


def _compare(first: Json, second: Json) -> PredictorDifference:
    before, after = ({str(one["name"]): one for one in state["signature"]["fields"]} for state in (first, second))
    texts = {
        name: _diff(_texts(before.get(name)), _texts(after.get(name))) for name in dict.fromkeys((*before, *after))
    }
    return PredictorDifference(
        instructions=_diff(first["signature"]["instructions"], second["signature"]["instructions"]),
        fields={name: lines for name, lines in texts.items() if lines},
        demos=_compare_demos(first["demos"], second["demos"], inputs=first["inputs"] | second["inputs"]),
    )


def _texts(state: Json | None) -> str:
    return "" if state is None else f"{state['prefix']}\n{state['description']}"


def _diff(first: str, second: str) -> list[str]:
    """Return the lines of a unified diff without its two headings."""
    return list(difflib.unified_diff(first.splitlines(), second.splitlines(), lineterm=""))[2:]


def _compare_demos(first: Sequence[Json], second: Sequence[Json], *, inputs: set[str]) -> Demos:
    """Compare demonstrations; two with the same `inputs` are one that changed."""
    first, second = ([_plain(demo) for demo in demos] for demos in (first, second))
    removed = [demo for demo in first if demo not in second]
    added = [demo for demo in second if demo not in first]
    changed = []
    for old in list(removed):
        new = next((demo for demo in added if _part(demo, inputs) == _part(old, inputs)), None)
        if new is not None:
            changed.append((old, new))
            removed.remove(old)
            added.remove(new)
    return Demos(added, removed, changed, not (added or removed or changed) and first != second)


def _plain(demo: Json) -> Json:
    plain: Json = json.loads(json.dumps(demo, default=str))
    return plain


def _part(demo: Json, names: set[str]) -> Json:
    return {name: value for name, value in demo.items() if name in names}
