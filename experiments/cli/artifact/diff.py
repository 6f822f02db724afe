"""`verihop artifact diff`: what differs between two compiled programs."""

import json
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from experiments.cli.shared import options
from experiments.cli.shared.console import emit, next_step, say
from experiments.cli.shared.next_commands import QUESTION, command, naming
from experiments.cli.shared.options import OwnPrograms

if TYPE_CHECKING:
    from experiments.analysis.statistics import Paired
    from programs.artifacts.difference import ArtifactDifference, Demos

_WIDTH = 110


def diff(
    first: Annotated[Path, typer.Argument(help="Folder of an artifact.")],
    second: Annotated[Path, typer.Argument(help="Folder of another one.")],
    as_json: options.Json = False,
    own_programs: OwnPrograms = None,
) -> None:
    """Show which instructions, demonstrations, knobs and settings differ, and which artifact scored better.

    Lines with - are of the first artifact, lines with + of the second. Scores are compared question by question, where
    both artifacts hold those of the same metric on the same questions.
    """
    from experiments.analysis.compare import paired_scores
    from programs.artifact import read_artifact
    from programs.artifacts.difference import difference

    found = difference(first, second)
    records = [read_artifact(folder) for folder in (first, second)]
    scores = paired_scores(*records)
    means = [record.metric.get("mean") for record in records]
    if as_json:
        emit({**found.as_dict(), "means": means, "scores": None if scores is None else scores.as_dict()})
        return
    say(f"--- {first}")
    say(f"+++ {second}")
    for line in _lines(found):
        say(line)
    say(_scores(scores, means))
    worse = scores is not None and scores.difference is not None and scores.difference < 0
    better, record = (first, records[0]) if worse else (second, records[1])
    if record.data.get("index") or record.corpus is None:
        next_step(command("verihop", "ask", "--artifact", better, *naming(*own_programs or ()), QUESTION))


def _lines(found: "ArtifactDifference") -> Iterator[str]:
    if found.same:
        yield "Instructions, demonstrations and knobs are the same."
    for name, (old, new) in {**found.settings, **{f"knob {knob}": pair for knob, pair in found.knobs.items()}}.items():
        yield f"{name}: {_value(old)} -> {_value(new)}"
    for place, names in found.only_in.items():
        yield from (f"{'-' if place == 'first' else '+'} predictor {name}" for name in names)
    for name, one in found.predictors.items():
        yield ""
        yield f"Predictor {name}"
        if one.instructions:
            yield "  instructions"
            yield from (f"    {line}" for line in one.instructions)
        for field, lines in one.fields.items():
            yield f"  field {field}"
            yield from (f"    {line}" for line in lines)
        yield from _demos(one.demos, "  demonstrations")
    if not found.pool.same:
        yield ""
        yield from _demos(found.pool, "Pool of demonstrations")


def _demos(demos: "Demos", title: str) -> Iterator[str]:
    if demos.same:
        return
    if demos.reordered:
        yield f"{title}: the same in another order"
        return
    yield f"{title}: {len(demos.added)} added, {len(demos.removed)} removed, {len(demos.changed)} changed"
    yield from (f"    - {_demo(demo)}" for demo in demos.removed)
    yield from (f"    + {_demo(demo)}" for demo in demos.added)
    for old, new in demos.changed:
        outputs = [name for name in dict.fromkeys((*old, *new)) if old.get(name) != new.get(name)]
        yield f"    ~ {_demo({name: value for name, value in old.items() if name not in outputs})}"
        for name in outputs:
            yield f"        - {name}: {_value(old.get(name))}"
            yield f"        + {name}: {_value(new.get(name))}"


def _demo(demo: dict[str, Any]) -> str:
    named = [f"{name}: {_value(value)}" for name, value in demo.items() if name not in ("question", "augmented")]
    return textwrap.shorten(" | ".join([str(demo.get("question", "")), *named]), _WIDTH, placeholder=" ...")


def _value(value: Any) -> str:
    if value is None:
        return "none"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return textwrap.shorten(text, _WIDTH, placeholder=" ...")


def _scores(scores: "Paired | None", means: list[Any]) -> str:
    known = [f"{mean:.3f}" if isinstance(mean, int | float) else "unknown" for mean in means]
    line = f"\nScore: {known[0]} -> {known[1]}"
    if scores is None or scores.difference is None:
        return f"{line} (not comparable: the artifacts hold no scores of one metric on the same questions)"
    spread = "" if scores.low is None else f" [{scores.low:+.3f}, {scores.high:+.3f}]"
    p = "" if scores.p is None else f", p = {scores.p:.3g} ({scores.test})"
    notice = f" {scores.notice}" if scores.notice else ""
    return f"{line}; paired difference {scores.difference:+.3f}{spread} on {scores.n} questions{p}.{notice}"
