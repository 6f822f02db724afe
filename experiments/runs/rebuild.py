"""The question and the prediction that a row of a run was made from, as far as the row still has them.

Rows have the short answer, the response, hops and the ids of all passages read, but only the texts of those cited. What
a row does not say is left out of the prediction, and `lacks` names it, so that no metric scores it as 0.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dspy

from experiments.runs.files import Row
from optimizers.metrics.metric import Need, lacking
from signatures.types import Hop, Passage, make_passage

UNKNOWN = "unknown"
"""Key of a row of another system's predictions: the fields of the prediction that the file did not state."""
IDS = "ids"
"""Among the unknown fields: passages were given as texts, whose ids are not known."""


@dataclass(frozen=True)
class Rebuilt:
    """What one row is scored by.

    Args:
        lacks: What metrics need and the two do not have.
    """

    row: Row
    example: Any
    prediction: Any
    lacks: frozenset[Need]


def rebuild(rows: Sequence[Row], examples: Mapping[str, Any], corpus: Mapping[str, Passage]) -> list[Rebuilt]:
    """Return what each row is scored by.

    Args:
        examples: Question id -> example with its gold; a row without one is scored by its own accepted answers.
        corpus: Passages by id.
    """
    # A program that quotes nothing anywhere predicts no supporting facts; one that does may quote none here.
    quotes = any(hop.get("evidence") for row in rows for hop in row.get("hops") or [])
    rebuilt = []
    for row in rows:
        example, prediction = _example(row, examples), prediction_of(row, corpus)
        lacks = lacking(example, prediction)
        left_out = any(hop.get("match") and not hop.get("evidence") for hop in row.get("hops") or [])  # a quote
        if (left_out or not quotes) and getattr(prediction, "supporting_facts", None) is None:
            lacks |= {Need.FACTS}
        if IDS in (row.get(UNKNOWN) or []):
            lacks |= {Need.PASSAGES, Need.TITLES}
        rebuilt.append(Rebuilt(row, example, prediction, lacks))
    return rebuilt


def _example(row: Row, examples: Mapping[str, Any]) -> Any:
    example = examples.get(row["id"])
    if example is not None and example.question == row["question"]:
        return example
    fields = {name: row.get(name) for name in ("id", "question", "answers", "type")}
    return dspy.Example(**fields).with_inputs("question")


def prediction_of(row: Row, corpus: Mapping[str, Passage]) -> Any:
    """Return the prediction of a row; a passage whose text is not known has an empty one."""
    texts = [*row.get("cited_passages", []), *row.get("read_passages", [])]
    known = {each["id"]: make_passage({"title": "", "text": "", **each, "score": None}) for each in texts}
    passages = [corpus.get(id) or known.get(id) or Passage(id=id, text="") for id in row.get("passage_ids") or []]
    fields = {
        "answer": row.get("answer") or "",
        "response": row.get("response") or row.get("answer") or "",
        "abstained": bool(row.get("abstained")),
        "citations": list(row.get("citations") or []),
        "hops": [Hop.model_validate(hop) for hop in row.get("hops") or []],
        "passages": passages,
        "details": row.get("details") or {},
    }
    unknown = row.get(UNKNOWN) or []
    if row.get("supporting_facts") is not None:
        fields["supporting_facts"] = [tuple(fact) for fact in row["supporting_facts"]]
    return dspy.Prediction(**{name: value for name, value in fields.items() if name not in unknown})


def ids_needed(rows: Sequence[Row]) -> set[str]:
    """Return the ids of all passages that rows name."""
    return {id for row in rows for id in row.get("passage_ids") or []}
