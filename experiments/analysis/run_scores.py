"""The scores that exist for a whole run only, by the names that summaries show them under."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from experiments.runs.files import Row


@dataclass(frozen=True)
class RunScore:
    """A score of a run.

    Args:
        definition: What is scored; it stands for the name of a metric that is 0 or 1, such as em.
        source: URL of the published definition.
        needs: What the run must have.
        higher_is_better: The direction of improvement.
    """

    definition: str
    source: str
    needs: str
    higher_is_better: bool = True


RUN_SCORES = {
    "pass@k[metric]": RunScore(
        "Probability that one of k answers to a question is right, estimated without bias from all its repeats.",
        "https://arxiv.org/abs/2107.03374",
        "repeats",
    ),
    "majority[metric]": RunScore(
        "Score of the answer that most repeats of a question gave (equal after normalising; the earliest of equals).",
        "https://arxiv.org/abs/2203.11171",
        "repeats",
    ),
    "ece[metric]": RunScore(
        "Expected calibration error: distance of confidence and accuracy in 10 intervals of confidence, weighted by "
        "their answers. Accuracy is the run's first metric of em, acc[...] and own ones that is always 0 or 1.",
        "https://arxiv.org/abs/1706.04599",
        "a confidence in the program's details (retro_rag)",
        higher_is_better=False,
    ),
    "selective[metric]@50, @80": RunScore(
        "Mean score of the 50 or 80 percent of the answers with the highest confidence, by the metric of ece.",
        "https://jmlr.org/papers/v11/el-yaniv10a.html",
        "a confidence in the program's details (retro_rag)",
    ),
    "confidence[known]": RunScore(
        "Share of the answers with a confidence; ece and selective leave the others out.",
        "",
        "a confidence in the program's details (retro_rag)",
    ),
    "trajectory_rouge1, rouge2, rouge_l": RunScore(
        "Similarity of the trajectories (hops) of a question's repeats: ROUGE F1, mean over pairs of repeats.",
        "https://aclanthology.org/W04-1013",
        "repeats, and hops",
    ),
    "keyfacts_f1[of means]": RunScore(
        "Harmonic mean of the means of keyfacts_precision and keyfacts_recall, which some tables print as F1.",
        'https://hotpotqa.github.io (its questions; "How Credible Is an Answer From Retrieval-Augmented LLMs?")',
        "keyfacts_precision and keyfacts_recall",
    ),
}


_FORMS = {
    "pass@k[metric]": r"pass@(k|[1-9]\d*)\[.+\]",
    "majority[metric]": r"majority\[.+\]",
    "ece[metric]": r"ece\[.+\]",
    "selective[metric]@50, @80": r"selective\[.+\](@(50|80))?",
    "confidence[known]": r"confidence\[known\]",
    "trajectory_rouge1, rouge2, rouge_l": r"trajectory_rouge(1|2|_l)",
}


def family_of(name: str) -> str | None:
    """Return the key in `RUN_SCORES` of a name that summaries print, such as `ece[em]`; None for any other name."""
    if name in RUN_SCORES:
        return name
    return next((family for family, form in _FORMS.items() if re.fullmatch(form, name)), None)


def binary(rows: Sequence[Row], metrics: Iterable[str]) -> list[str]:
    """Return the metrics of the answer whose scores in these rows are all 0 or 1 (and not all undefined)."""
    answers = [name for name in metrics if name == "em" or name.startswith("acc[") or ":" in name]
    scores = {name: {row["scores"].get(name) for row in rows} - {None} for name in answers}
    return [name for name, values in scores.items() if values and values <= {0, 1}]
