"""How many answers each metric scored, and what the others lack."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from experiments.pipeline.scoring.rebuild import Rebuilt
from experiments.pipeline.scoring.score_config import ScoreConfig
from optimizers.metrics.metric import Metric
from optimizers.metrics.needs import OF_CORPUS, OF_QUESTION, Need


@dataclass(frozen=True)
class Coverage:
    """How many answers a metric scored.

    Args:
        scored: Answers with a score.
        undefined: Answers that have what the metric needs, but for which it is undefined.
        lacking: What is missing -> number of answers that lack it.
    """

    scored: int
    undefined: int
    lacking: dict[str, int]

    def __str__(self) -> str:
        """Return the counts in one line."""
        total = self.scored + self.undefined + sum(self.lacking.values())
        parts = [f"{count} lack {need}" for need, count in self.lacking.items()]
        parts += [f"{self.undefined} undefined"] if self.undefined else []
        return f"{self.scored} of {total} answers scored" + (f"; {', '.join(parts)}" if parts else "")


_SCORED, _UNDEFINED = "scored", "undefined"


def outcome_of(metric: Metric, item: Rebuilt, scores: Mapping[str, float | None]) -> str:
    """Return what became of a metric on a row with these scores: its score, undefined, or what is missing."""
    if scores.get(metric.name) is not None:
        return _SCORED
    return next((need.value for need in metric.needs if need in item.lacks), _UNDEFINED)


def coverage_of(counted: Counter[str]) -> Coverage:
    """Return the counts of `outcome_of` as a record."""
    lacking = {name: count for name, count in counted.items() if name not in (_SCORED, _UNDEFINED)}
    return Coverage(counted[_SCORED], counted[_UNDEFINED], lacking)


def why_nothing(coverage: Coverage, name: str, config: ScoreConfig) -> str:
    """Return why a metric scored no answer, with the cure."""
    if not coverage.lacking:
        return f"{name} is undefined for all {coverage.undefined} answers."
    need = max(coverage.lacking, key=lambda each: coverage.lacking[each])
    return f"{name} needs {need}, which {coverage.lacking[need]} answers lack{_cure(Need(need), config)}."


def _cure(need: Need, config: ScoreConfig) -> str:
    if need in OF_QUESTION and config.questions is None:
        return ": name the file of the questions (questions)"
    if need is Need.FACTS:
        return ": no answer quotes evidence, so omit the metric"
    if need in OF_CORPUS and not config.corpus.named:
        return ": name the index or the passages of the corpus (index, passages)"
    if need in OF_CORPUS:
        return ": the corpus named has not all of these passages"
    return ""


def hints(coverage: Mapping[str, Coverage], config: ScoreConfig) -> list[str]:
    """Return what to name so that answers which lack something can be scored; nothing for metrics without a score."""
    needs = {Need(need) for found in coverage.values() if found.scored for need in found.lacking}
    return [f"Some answers lack {need}{cure}." for need in sorted(needs) if (cure := _cure(need, config))]
