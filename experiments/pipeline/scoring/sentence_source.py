"""Where the numbers of predicted supporting facts come from, because other sentences have other numbers."""

from collections.abc import Sequence

from experiments.pipeline.scoring.passage_texts import Corpus
from experiments.runs.files import Row
from optimizers.metrics.evidence.context import EVIDENCE_METRICS

FACT_METRICS = frozenset(metric.name for metric in EVIDENCE_METRICS)
STATED, OF_FILE = "stated by the predictions", "of the passages file"


def sentence_source(rows: Sequence[Row], corpus: Corpus) -> str:
    """Return what counts the sentences: the predictions, the passages file, or `split_sentences`.

    Args:
        corpus: Has the texts; a passages file may also have their sentences.
    """
    from experiments.analysis.compare import SPLIT

    if any("supporting_facts" in row for row in rows):
        return STATED
    if corpus.passages is None:
        return SPLIT
    wanted = {id for row in rows for id in row.get("passage_ids") or []}
    return OF_FILE if any(getattr(each, "sentences", None) for each in corpus.find(wanted).values()) else SPLIT
