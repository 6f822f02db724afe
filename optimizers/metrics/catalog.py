"""All metrics by name. A name carries its definition, because the definitions give different numbers."""

from collections.abc import Callable, Iterable
from typing import Any

from optimizers.metrics import answer, judge, retrieval
from optimizers.metrics.answer import HOTPOT, MUSIQUE, SQUAD, TWO_WIKI, Definition
from optimizers.metrics.fields import answer_of, gold_ids_of, golds_of, response_of
from optimizers.metrics.groundedness import CITATION_METRICS
from optimizers.metrics.metric import Metric
from optimizers.metrics.retrieval_catalog import RETRIEVAL_METRICS
from optimizers.metrics.revisions import REVISION_METRICS
from optimizers.metrics.verification import VERIFICATION_METRICS
from programs.parts.meter import record
from signatures.common.errors import unknown


def _verdict(example: Any, prediction: Any) -> float | None:
    said = answer_of(prediction)
    value = answer.verdict_accuracy(said, golds_of(example))
    if value is not None and said and answer.yes_or_no(answer.final_part(said)) is None:
        record(parse_failures=1)
    return value


def _abstention(example: Any, prediction: Any) -> float:
    return float(bool(getattr(prediction, "abstained", False)) or not answer_of(prediction).strip())


def _on_answer(function: Callable[[str, list[str]], float | None]) -> Callable[[Any, Any], float | None]:
    return lambda example, prediction: function(answer_of(prediction), golds_of(example))


def _overlap(part: str, definition: Definition) -> Metric:
    def function(example: Any, prediction: Any) -> float | None:
        overlap = answer.token_overlap(answer_of(prediction), golds_of(example), definition)
        return None if overlap is None else float(getattr(overlap, part))

    rule = "a wrong yes, no or noanswer scores 0" if definition.yes_no_rule else "no rule for yes and no"
    text = f"Token {part} after normalising, best over the golds; {rule}; both sides empty: {definition.both_empty:g}."
    return Metric(f"{part}[{definition.name}]", text, function, definition.source)


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
    "acc[labels]": Metric(
        "acc[labels]",
        "1 when a gold is part of the response, case and ASCII punctuation aside, articles kept (CoV-RAG's accuracy); "
        "guards as in acc[substring].",
        lambda example, said: answer.cover_labels(response_of(said), golds_of(example)),
        "https://arxiv.org/abs/2410.05801",
    ),
    "acc[raw]": Metric(
        "acc[raw]",
        "1 when a gold stands in the response letter by letter (WebGLM); guards as in acc[substring].",
        lambda example, said: answer.cover_raw(response_of(said), golds_of(example)),
        "https://github.com/THUDM/WebGLM",
    ),
    "acc[yes_no]": Metric(
        "acc[yes_no]",
        "1 when the verdict that the answer begins with is the gold's (StrategyQA); no verdict is wrong and counted as "
        "unparsed; undefined where no gold is yes or no.",
        _verdict,
        "https://github.com/kojima-takeshi188/zero_shot_cot/blob/5ef330f/utils.py",
    ),
    "acc[judge]": Metric(
        "acc[judge]", judge.MATCH_DEFINITION, judge.answer_match, "https://arxiv.org/abs/2406.14891", judged=True
    ),
    "hallucination[halluqa]": Metric(
        "hallucination[halluqa]",
        judge.HALLUCINATION_DEFINITION,
        judge.hallucination,
        "https://github.com/OpenMOSS/HalluQA",
        higher_is_better=False,
        judged=True,
    ),
    "abstention": Metric(
        "abstention",
        "1 when the program declined or gave no answer; every score counts that as a wrong answer.",
        _abstention,
        "https://arxiv.org/abs/2406.14891",
        higher_is_better=False,
    ),
    **RETRIEVAL_METRICS,
    **VERIFICATION_METRICS,
    **REVISION_METRICS,
    **CITATION_METRICS,
    "support_f1": Metric(
        "support_f1",
        "F1 of cited against gold passages as sets; 0 when nothing is cited; undefined without gold ids.",
        lambda example, prediction: retrieval.support_f1(
            getattr(prediction, "citations", None) or [], gold_ids_of(example)
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
