"""Definitions of the metrics that an LM decides."""

from optimizers.metrics.judges import answer_judge
from optimizers.metrics.judges.answer_judge import RUNS, VOTES
from optimizers.metrics.metric import Metric
from optimizers.metrics.needs import Need

_GENGROUND = "https://arxiv.org/abs/2406.14891"

JUDGED_METRICS = (
    Metric(
        "acc[judge]",
        "1 when the judge LM says that the answer implies one of the golds, all shown in one prompt; the mean of "
        f"{RUNS} runs where the judge samples, one run at temperature 0 or with log-probabilities (P(yes) of 0.5 and "
        "above). A verdict that cannot be read is wrong and counted as unparsed.",
        answer_judge.answer_match,
        _GENGROUND,
        judged=True,
        needs=(Need.ANSWERS, Need.JUDGE),
    ),
    Metric(
        "hallucination[halluqa]",
        "1 when the judge LM says that the response hallucinates, given the correct answers: yes is wrong. The "
        f"majority of {VOTES} runs where the judge samples, one run at temperature 0 or with log-probabilities. A "
        "verdict that cannot be read, a tie and an empty response count as wrong (1); the first is counted as "
        "unparsed. The accuracy that papers print is 1 minus the mean.",
        answer_judge.hallucination,
        "https://github.com/OpenMOSS/HalluQA",
        higher_is_better=False,
        judged=True,
        needs=(Need.ANSWERS, Need.JUDGE),
    ),
)
