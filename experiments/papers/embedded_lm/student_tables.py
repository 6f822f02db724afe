"""The tables of the trained student: the runs of each, their differences, and the published numbers."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.papers.embedded_lm.student_sets import COSTS, HOTPOTQA, METRICS, TWO_WIKI, WHOLE, Asked, Runs

COMPARED = ("em", "f1[hotpot]", "acc[substring]")
F1 = "f1[hotpot]"

TARGETS = {
    "rag, gold passages": Asked("rag", gold=True),
    "rag": Asked("rag"),
    "multihop": Asked("multihop"),
    "genground": Asked("genground"),
    "cov_rag": Asked("cov_rag"),
    "self_completion": Asked("self_completion"),
    "rag, no reranker": Asked("rag", rerank="none"),
    "rag, untrained": Asked("rag", "untrained"),
    "genground, untrained": Asked("genground", "untrained"),
}
# One call a question, so that many questions are cheap.
READING = {name: run for name, run in TARGETS.items() if run.program == "rag"}
# Name of a difference -> the run compared against, and the other one.
_TARGET_PAIRS = {
    "genground against rag": ("rag", "genground"),
    "rag, trained against untrained": ("rag, untrained", "rag"),
    "genground, trained against untrained": ("genground, untrained", "genground"),
    "rag, reranker own against none": ("rag, no reranker", "rag"),
}
_MIXED = "trained answers, untrained verification"
_COV_RAG_NOTE = (
    "No verification: it is switched off when asked. The paper's ablation trains without verification data; nearest to "
    f"it is {_MIXED!r}: the LM that verifies never saw any."
)
TABLE3 = {
    "GenGround, student": Asked("genground"),
    "GenGround, untrained": Asked("genground", "untrained"),
    "DSPy (multihop), untrained": Asked("multihop", "untrained"),
    "GRG, untrained": Asked("grg", "untrained"),
    "RetGen (iter_retgen), untrained": Asked("iter_retgen", "untrained"),
    "SearChain, untrained": Asked("searchain", "untrained"),
}
# GenGround (https://arxiv.org/abs/2406.14891), Table 3: Mistral-7B, accuracy (the gold answer occurs in the answer).
PUBLISHED = {
    HOTPOTQA: {
        "GenGround, student": 42.08,
        "GenGround, untrained": 38.31,
        "DSPy (multihop), untrained": 36.41,
        "GRG, untrained": 32.56,
        "RetGen (iter_retgen), untrained": 26.52,
        "SearChain, untrained": 24.62,
    },
    TWO_WIKI: {
        "GenGround, student": 32.69,
        "GenGround, untrained": 29.45,
        "DSPy (multihop), untrained": 28.31,
        "GRG, untrained": 25.63,
        "RetGen (iter_retgen), untrained": 24.13,
        "SearChain, untrained": 26.53,
    },
}
# Heading -> counts of a run that every table shows.
_FAULTS = {"errors": "errors", "unparsed": "parse_failures", "cut": "truncated", "abstained": "abstentions"}
_NEVER = (("revise", "never"),)
COV_RAG = {
    "verification, trained": Asked("cov_rag"),
    "no verification, trained": Asked("cov_rag", knobs=_NEVER),
    _MIXED: Asked("cov_rag", untrained=("verifying",)),
    "verification, untrained": Asked("cov_rag", "untrained"),
    "no verification, untrained": Asked("cov_rag", "untrained", knobs=_NEVER),
}


def targets(runs: Runs) -> dict[str, Any]:
    """Return the programs with the trained LM, two with the untrained one, and their paired differences."""
    asked = {name: runs.ask(run) for name, run in TARGETS.items()}
    best = max(("multihop", "genground", "cov_rag", "self_completion"), key=lambda name: asked[name][F1]["mean"] or 0.0)
    pairs = {f"best ({best}) against rag": ("rag", best), **_TARGET_PAIRS}
    return {
        "runs": asked,
        "differences": {name: differences(runs, TARGETS[old], TARGETS[new]) for name, (old, new) in pairs.items()},
        "notes": ["The best program is chosen by its F1 on the same questions."],
    }


def reading(runs: Runs) -> dict[str, Any]:
    """Return `rag` alone: trained and untrained, with gold passages, and without the reranker."""
    pairs = {name: pair for name, pair in _TARGET_PAIRS.items() if set(pair) <= set(READING)}
    return {
        "runs": {name: runs.ask(run) for name, run in READING.items()},
        "differences": {name: differences(runs, READING[old], READING[new]) for name, (old, new) in pairs.items()},
    }


def table3(runs: Runs) -> dict[str, Any]:
    """Return GenGround's Table 3, the student against each other row, and the published accuracy."""
    student = TABLE3["GenGround, student"]
    return {
        "runs": {name: runs.ask(run) for name, run in TABLE3.items()},
        "differences": {
            f"student against {name}": differences(runs, other, student)
            for name, other in TABLE3.items()
            if other != student
        },
        "published accuracy of Mistral-7B, %": PUBLISHED.get(WHOLE.get(runs.of.name, runs.of.name), {}),
        "notes": [
            "The student is trained on gold replies of all programs; that of the paper on a teacher's grounding alone. "
            "Every row has its own knobs: the preset small.",
        ],
    }


def cov_rag(runs: Runs) -> dict[str, Any]:
    """Return CoV-RAG with and without verification, trained and untrained, and what the second search changed."""
    asked = {name: runs.ask(run) for name, run in COV_RAG.items()}
    second, compared = {}, {}
    for lm in ("trained", "untrained"):
        once, twice = COV_RAG[f"no verification, {lm}"], COV_RAG[f"verification, {lm}"]
        second[lm] = second_search(runs.folder(once), runs.folder(twice))
        compared[f"verification against none, {lm}"] = differences(runs, once, twice)
    second[_MIXED] = second_search(runs.folder(COV_RAG["no verification, trained"]), runs.folder(COV_RAG[_MIXED]))
    trained, untrained = COV_RAG["verification, trained"], COV_RAG["verification, untrained"]
    compared["verification, trained against untrained"] = differences(runs, untrained, trained)
    compared["trained answers, verification trained against untrained"] = differences(runs, COV_RAG[_MIXED], trained)
    return {"runs": asked, "second_search": second, "differences": compared, "notes": [_COV_RAG_NOTE]}


def differences(runs: Runs, old: Asked, new: Asked) -> dict[str, Any]:
    """Return the paired difference of each score, new minus old, on the questions that both runs answered."""
    from experiments.analysis.compare import load_runs
    from experiments.analysis.repeats import question_values
    from experiments.analysis.statistics import paired

    first, second = load_runs([runs.folder(old), runs.folder(new)])

    def values(run: Any, name: str) -> list[float | None]:
        return question_values(run.questions, lambda row: row["scores"].get(name))

    return {name: paired(values(first, name), values(second, name)).as_dict() for name in COMPARED}


def second_search(once: Path, twice: Path) -> dict[str, int]:
    """Return how many answers CoV-RAG's second search repaired and broke, by exact match, and raised and lowered by F1.

    Args:
        once: Run that answers once and verifies nothing.
        twice: Run on the same questions that verifies and may search again.
    """
    from experiments.runs.files import read_rows

    before = {row["id"]: row["scores"] for row in read_rows(once)}
    rows = [row for row in read_rows(twice) if row["id"] in before]
    again = [row for row in rows if row["details"].get("revised")]

    def changed(name: str, sign: int, of: Sequence[Mapping[str, Any]]) -> int:
        return sum(sign * ((row["scores"][name] or 0) - (before[row["id"]][name] or 0)) > 0 for row in of)

    others = [row for row in rows if not row["details"].get("revised")]
    return {
        "questions": len(rows),
        "searched_again": len(again),
        "repaired": changed("em", 1, again),
        "broken": changed("em", -1, again),
        "f1_raised": changed(F1, 1, again),
        "f1_lowered": changed(F1, -1, again),
        # Not the second search: replies of the embedded LM may differ a little with the calls at the same time.
        "changed_without_search": changed("em", 1, others) + changed("em", -1, others),
        "unreadable_verifications": sum(row["details"].get("verification_failures", 0) for row in rows),
    }


def as_text(name: str, table: str, record: Mapping[str, Any]) -> str:
    """Return a plain table of one set: a line per run, then the differences, in percent with 95 % intervals."""
    published = record.get("published accuracy of Mistral-7B, %", {})
    lines = [f"\n{table}, {name}, {record['questions']} questions"]
    headings = [*METRICS, "calls", "rounds", "tokens", "n", *_FAULTS, *(["published acc"] if published else [])]
    lines.append("  ".join([f"{'':30}", *(f"{heading:>18}" for heading in headings)]))
    for label, run in record["runs"].items():
        scores = [score_text(run.get(metric)) for metric in METRICS]
        costs = [f"{run[cost]['mean']:.1f}" if run[cost]["mean"] is not None else "-" for cost in COSTS]
        faults = [str(run[key]) for key in _FAULTS.values()]
        cells = [*scores, *costs, str(run["n"]), *faults, *([str(published.get(label, ""))] if published else [])]
        lines.append("  ".join([f"{label:30}", *(f"{cell:>18}" for cell in cells)]))
    for label, scores_of in record.get("differences", {}).items():
        lines.append(f"{label}: " + "; ".join(f"{metric} {signed_text(scores_of[metric])}" for metric in COMPARED))
    for lm, counts in record.get("second_search", {}).items():
        lines.append(f"second search, {lm}: " + ", ".join(f"{key} {value}" for key, value in counts.items()))
    return "\n".join([*lines, *(f"Note: {note}" for note in record.get("notes", []))])


def score_text(mean: Mapping[str, Any] | None) -> str:
    """Return a mean share as percent with its interval, "-" without one."""
    if mean is None or mean["mean"] is None:
        return "-"
    spread = "" if mean["low"] is None else f" [{100 * mean['low']:.1f}, {100 * mean['high']:.1f}]"
    return f"{100 * mean['mean']:.1f}{spread}"


def signed_text(result: Mapping[str, Any]) -> str:
    """Return a paired difference as percent with its interval, "-" without one."""
    if result["difference"] is None:
        return "-"
    spread = "" if result["low"] is None else f" [{100 * result['low']:+.1f}, {100 * result['high']:+.1f}]"
    return f"{100 * result['difference']:+.1f}{spread}"
