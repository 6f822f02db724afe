"""All metrics by name. A name carries its definition, because the definitions give different numbers."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from optimizers.metrics import answer, retrieval
from optimizers.metrics.answer import HOTPOT, MUSIQUE, SQUAD, TWO_WIKI, Definition
from signatures.errors import unknown


@dataclass(frozen=True)
class Metric:
    """A score of one question.

    Args:
        name: As it stands in tables, with the definition in brackets where there are several.
        definition: What is scored, in one or two sentences; stored with every run.
        function: Takes an example with gold fields and a prediction and returns a score, None where the question
            lacks the gold that the metric needs. It never takes a mean: `experiments/statistics.py` does.
        source: Where the definition is published.
        higher_is_better: The direction of improvement.
    """

    name: str
    definition: str
    function: Callable[[Any, Any], float | None]
    source: str
    higher_is_better: bool = True

    def __call__(self, example: Any, prediction: Any) -> float | None:
        """Return the score of one question."""
        return self.function(example, prediction)


def answer_of(prediction: Any) -> str:
    """Return the short answer of a prediction; "" where it has none, which every evaluator scores as a wrong answer."""
    said = getattr(prediction, "answer", None)
    return "" if said is None else str(said)


def golds_of(example: Any) -> list[str]:
    """Return the accepted answers of an example; [] where it has none."""
    return getattr(example, "answers", None) or []


def _gold_ids(example: Any) -> list[str]:
    return getattr(example, "gold_ids", None) or []


def _read_ids(prediction: Any) -> list[str]:
    return [passage.id for passage in getattr(prediction, "passages", None) or []]


def _on_answer(function: Callable[[str, list[str]], float | None]) -> Callable[[Any, Any], float | None]:
    return lambda example, prediction: function(answer_of(prediction), golds_of(example))


def _overlap(part: str, definition: Definition) -> Metric:
    def function(example: Any, prediction: Any) -> float | None:
        overlap = answer.token_overlap(answer_of(prediction), golds_of(example), definition)
        return None if overlap is None else float(getattr(overlap, part))

    rule = "a wrong yes, no or noanswer scores 0" if definition.yes_no_rule else "no rule for yes and no"
    text = f"Token {part} after normalising, best over the golds; {rule}; both sides empty: {definition.both_empty:g}."
    return Metric(f"{part}[{definition.name}]", text, function, definition.source)


def _recall(k: int) -> Metric:
    return Metric(
        f"recall@{k}",
        f"Share of the gold passages among the first {k} different passages read; undefined without gold ids.",
        lambda example, prediction: retrieval.recall_at(_read_ids(prediction), _gold_ids(example), k),
        "https://github.com/OSU-NLP-Group/HippoRAG",
    )


def _all_gold(k: int) -> Metric:
    return Metric(
        f"all_gold@{k}",
        f"1 when all gold passages are among the first {k} different passages read; undefined without gold ids.",
        lambda example, prediction: retrieval.all_gold_at(_read_ids(prediction), _gold_ids(example), k),
        "https://github.com/OSU-NLP-Group/HippoRAG",
    )


METRICS: dict[str, Metric] = {
    "em": Metric(
        "em",
        "1 when the answer equals a gold after normalising (the same in all evaluators).",
        _on_answer(answer.exact_match),
        HOTPOT.source,
    ),
    "f1[hotpot]": _overlap("f1", HOTPOT),
    "f1[2wiki]": _overlap("f1", TWO_WIKI),
    "f1[squad]": _overlap("f1", SQUAD),
    "f1[musique]": _overlap("f1", MUSIQUE),
    "precision[hotpot]": _overlap("precision", HOTPOT),
    "precision[2wiki]": _overlap("precision", TWO_WIKI),
    "precision[squad]": _overlap("precision", SQUAD),
    "precision[musique]": _overlap("precision", MUSIQUE),
    "recall[hotpot]": _overlap("recall", HOTPOT),
    "recall[2wiki]": _overlap("recall", TWO_WIKI),
    "recall[squad]": _overlap("recall", SQUAD),
    "recall[musique]": _overlap("recall", MUSIQUE),
    "acc[substring]": Metric(
        "acc[substring]",
        "1 when a normalised gold is part of the normalised answer. A gold that normalises to nothing is scored by "
        "exact match, a yes/no gold by the verdict the answer begins with.",
        _on_answer(answer.cover_substring),
        "https://github.com/RUC-NLPIR/FlashRAG/blob/1ee5249/flashrag/evaluator/metrics.py",
    ),
    "acc[token]": Metric(
        "acc[token]",
        "1 when a gold's tokens (lower case, articles and marks included) stand side by side in the answer. A gold "
        "that normalises to nothing is scored by exact match, a yes/no gold by the verdict the answer begins with.",
        _on_answer(answer.cover_tokens),
        "https://github.com/facebookresearch/DPR/blob/main/dpr/data/qa_validation.py",
    ),
    "recall@2": _recall(2),
    "recall@5": _recall(5),
    "recall@10": _recall(10),
    "recall@20": _recall(20),
    "all_gold@2": _all_gold(2),
    "all_gold@5": _all_gold(5),
    "all_gold@10": _all_gold(10),
    "all_gold@20": _all_gold(20),
    "support_f1": Metric(
        "support_f1",
        "F1 of cited against gold passages as sets; 0 when nothing is cited; undefined without gold ids.",
        lambda example, prediction: retrieval.support_f1(
            getattr(prediction, "citations", None) or [], _gold_ids(example)
        ),
        "https://github.com/hotpotqa/hotpot/blob/3635853/hotpot_evaluate_v1.py (there on sentences)",
    ),
}


def get_metric(name: str) -> Metric:
    """Return the metric of that name.

    Raises:
        UserError: There is none; the message lists the names.
    """
    if name not in METRICS:
        raise unknown("metric", name, METRICS)
    return METRICS[name]


def get_metrics(names: Iterable[str]) -> list[Metric]:
    """Return the metrics of those names in that order, each once.

    Raises:
        UserError: A name is not in the catalog.
    """
    return [get_metric(name) for name in dict.fromkeys(names)]
