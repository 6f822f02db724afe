"""Titles and texts of passages that rows name by their ids, from the corpus file or from an index."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from corpora.passages import read_passages
from experiments.runs.files import Row
from optimizers.metrics.evidence.context import EVIDENCE_METRICS
from signatures.common.errors import UserError

if TYPE_CHECKING:
    from signatures.types import Passage

FACT_METRICS = frozenset(metric.name for metric in EVIDENCE_METRICS)
STATED, OF_FILE = "stated by the predictions", "of the passages file"


@dataclass(frozen=True)
class Corpus:
    """Where the texts of passages are found.

    Args:
        index: Folder of an index; None for none.
        passages: A `passages.jsonl`, which also has the sentences that gold sentence numbers count; None for none.

    Raises:
        UserError: Both are named.
    """

    index: Path | None = None
    passages: Path | None = None

    def __post_init__(self) -> None:
        if self.index is not None and self.passages is not None:
            raise UserError("The texts of the passages are taken from one place: name the index or the passages.")

    @property
    def named(self) -> bool:
        """Whether there is one."""
        return self.index is not None or self.passages is not None

    def find(self, ids: Iterable[str]) -> "dict[str, Passage]":
        """Return the passages with these ids by id; those that the corpus lacks are left out.

        Raises:
            UserError: The corpus cannot be read.
        """
        wanted = set(ids)
        if self.passages is not None:
            return {passage.id: passage for passage in read_passages(self.passages) if passage.id in wanted}
        return {} if self.index is None else _of_index(self.index, wanted)

    def fingerprints(self) -> set[str]:
        """Return the fingerprints that the index can have; empty without an index."""
        from experiments.pipeline.setup import fingerprints_of

        return set() if self.index is None else fingerprints_of(self.index)


def _of_index(folder: Path, wanted: set[str]) -> "dict[str, Passage]":
    import numpy as np

    from corpora.index.manifest import read_info
    from corpora.index.replace import complete_index
    from corpora.retrievers.store import PassageStore
    from corpora.web.recording import is_recording
    from corpora.web.retriever import open_web

    if is_recording(folder):
        return {passage.id: passage for passage in open_web(folder, None).passages(wanted)}
    folder = complete_index(folder)
    store = PassageStore.listed(folder, read_info(folder).files)
    rows = np.array(sorted(store.rows_of(wanted).values()), dtype=np.int64)
    found = store.passages(rows, np.zeros(len(rows))) if len(rows) else []
    return {passage.id: passage.model_copy(update={"score": None}) for passage in found}


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
