"""The manifest of a folder of examples: where every example comes from, and why others were rejected."""

from collections import Counter
from collections.abc import Mapping, Sequence

from experiments.pipeline.synthesis.sources import Seeds
from experiments.runs.costs import COUNTED
from experiments.runs.files import Json, Row
from experiments.runs.provenance import portable
from optimizers.distill.examples import Example
from optimizers.distill.mixture import counts_of

MANIFEST = "manifest.json"


def manifest_of(
    description: Json,
    seeds: Seeds,
    rows: Sequence[Row],
    examples: Sequence[Example],
    *,
    sha256: str,
    left_out: Mapping[str, int],
    validation: float,
) -> Json:
    """Return the manifest.

    Args:
        description: What decided the examples (`run.json` of the rows).
        seeds: The questions, and what was refused of their files.
        rows: Of the questions that are finished.
        examples: As written.
        sha256: Of `examples.jsonl`.
        left_out: Reason -> examples of the rows that are not among those written.
        validation: Share of the questions held back.
    """
    kinds: Counter[str] = Counter()
    rejected: dict[str, Counter[str]] = {"trajectories": Counter(), "examples": Counter()}
    for row in rows:
        kinds.update(row["kinds"])
        for kind, counter in rejected.items():
            counter.update(row[f"rejected_{kind}"])
    rejected["examples"].update({reason: count for reason, count in left_out.items() if count})
    errors = [row for row in rows if row["error"] is not None]
    return portable(
        {
            **description,
            "sources": seeds.files,
            "refused_questions": dict(seeds.refused),
            "complete": len(rows) == len(seeds.seeds),
            "asked": len(rows),
            "trajectories": sum(row["trajectories"] for row in rows),
            "overridden_replies": sum(row["overridden"] for row in rows),
            "rejected": {kind: dict(sorted(counter.items())) for kind, counter in rejected.items()},
            "errors": len(errors),
            "first_error": errors[0]["error"] if errors else None,
            "validation": validation,
            "counts": counts_of(examples),
            **({"kinds": dict(sorted(kinds.items()))} if kinds else {}),
            "cost": {name: sum(row[name] or 0 for row in rows) for name in COUNTED},
            "files": {"examples.jsonl": sha256},
        }
    )
