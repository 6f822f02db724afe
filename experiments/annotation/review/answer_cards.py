"""Cards for rating the answers of runs: the run is hidden, and the order is shuffled."""

from collections.abc import Sequence
from pathlib import Path

from corpora.passages import PassageRecord
from corpora.questions import Question, read_questions
from experiments.annotation.review.cards import (
    STEPWISE,
    Card,
    Item,
    ReasoningStep,
    Reference,
    Scale,
    opaque_id,
    reference,
)
from experiments.annotation.review.keyfact_cards import gold_references, pick_passages
from experiments.annotation.review.review_folder import Review, ReviewedFile, start_review
from experiments.runs.files import RUN, Json, Row, read_rows, read_run
from experiments.runs.sources import evidence_line
from signatures.citation_marks import citation_numbers, renumber_citations
from signatures.common.errors import UserError
from signatures.common.files import sha256_text
from signatures.text import split_sentences
from signatures.types import Passage

_EMPTY = {"sentence": "answers without a sentence", "answer": "empty answers", "hop": "answers without a hop"}


def run_labels(folders: Sequence[Path]) -> list[str]:
    """Return a label for each run: its folder's name, with the parent's if two names are equal.

    Raises:
        UserError: The same folder occurs twice.
    """
    resolved = [folder.resolve() for folder in folders]
    if len(set(resolved)) < len(resolved):
        raise UserError("The same run is named twice. Name each folder once.")
    names = [folder.name for folder in resolved]
    if len(set(names)) < len(names):
        return [f"{folder.parent.name}/{folder.name}" for folder in resolved]
    return names


def text_of(row: Row) -> str:
    """Return the text to rate: the response if the program wrote one, else the answer."""
    return str(row.get("response") or row.get("answer") or "").strip()


def _numbers(row: Row) -> dict[str, int]:
    """Return the ids of the passages that the marks of an answer refer to, each with its number from 1."""
    referenced = (row.get("details") or {}).get("references")
    ids = (row.get("passage_ids") or []) if referenced is None else referenced
    return {name: number for number, name in enumerate(ids, start=1)}


def _shown_numbers(row: Row) -> dict[str, int]:
    """Return these numbers if a text that is shown has marks; empty if none has, because they would mean nothing."""
    texts = [text_of(row), *(str(hop.get("answer") or "") for hop in row.get("hops") or [])]
    return _numbers(row) if any(citation_numbers(text) for text in texts) else {}


def _hop_answer(hop: Json, row: Row) -> str:
    """Return the answer of a hop with marks that number the passages as those of the whole answer do."""
    text, ids = str(hop.get("answer") or "none"), hop.get("passage_ids") or []
    if "verifications" not in (row.get("details") or {}):  # only CoV-RAG's hops number their own passages
        return text
    numbers = _numbers(row)

    def number_of(mark: int) -> int:
        own = numbers.get(ids[mark - 1]) if 1 <= mark <= len(ids) else None
        return own or mark + len(numbers)  # a mark of no passage stays one

    return renumber_citations(text, number_of)


def _hop_details(hop: Json, row: Row) -> list[tuple[str, str]]:
    draft = hop.get("draft")
    lines = [] if draft is None else [("First answer", str(draft) or "none")]
    lines.append(("Answer", _hop_answer(hop, row)))
    evidence = hop.get("evidence")
    return [*lines, ("Evidence", evidence_line(str(evidence), hop.get("match")))] if evidence else lines


def _parts(scale: Scale, row: Row) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return the (text, details) of each item to rate in one answer; empty if it has no such unit."""
    text = text_of(row)
    if scale.unit == "sentence":
        return [(sentence, []) for sentence in split_sentences(text)]
    if scale.unit == "hop":
        return [(str(hop["question"]), _hop_details(hop, row)) for hop in row.get("hops") or []]
    return [(text, [])] if text else []


def _references(row: Row, question: Question | None, passages: dict[str, PassageRecord]) -> list[Reference]:
    numbers = _shown_numbers(row)
    gold = gold_references(question, passages, numbers) if question else []
    shown = set(question.gold_ids) & passages.keys() if question else set()
    cited = [Passage.model_validate(passage) for passage in row.get("cited_passages") or []]
    others = sorted((passage for passage in cited if passage.id not in shown), key=lambda one: numbers.get(one.id, 0))
    return [*gold, *(reference(passage, gold=False, number=numbers.get(passage.id)) for passage in others)]


def _card(
    scale: Scale, run: str, row: Row, seed: int, question: Question | None, passages: dict[str, PassageRecord]
) -> Card | None:
    parts = _parts(scale, row)
    if not parts:
        return None
    key = (seed, scale.name, run, row["id"])
    return Card(
        id=opaque_id("card", *key),
        question_id=row["id"],
        question=row["question"],
        golds=row["answers"],
        # On other scales they would reveal the program, or be the items themselves.
        steps=[_step(hop, row) for hop in row.get("hops") or []] if scale is STEPWISE else [],
        response=text_of(row),
        references=_references(row, question, passages),
        run=run,
        items=[
            Item(id=opaque_id(*key, part), part=part, text=text, details=details)
            for part, (text, details) in enumerate(parts)
        ],
    )


def _step(hop: Json, row: Row) -> ReasoningStep:
    draft = hop.get("draft")
    changed = draft is not None and draft != hop.get("answer")
    before = f"{draft or 'none'} \N{RIGHTWARDS ARROW} " if changed else ""
    return ReasoningStep(question=str(hop["question"]), answer=f"{before}{_hop_answer(hop, row)}")


def _shared_questions(rows: Sequence[Sequence[Row]], limit: int | None, seed: int) -> list[str]:
    """Return the ids that every run answered without an error, shuffled by `seed` and cut to `limit`."""
    answered = [{row["id"] for row in own if not row["error"]} for own in rows]
    shared = sorted(set.intersection(*answered), key=lambda name: (sha256_text(f"{seed}:{name}"), name))
    return shared[:limit]


def _rows_with_answers(run: Path) -> list[Row]:
    rows = read_rows(run)
    if not rows:
        raise UserError(f"{run} contains no answers. Name the folder of a run.")
    if (run / RUN).exists():  # rows are enough
        read_run(run)
    return rows


def review_answers(
    runs: Sequence[Path],
    folder: Path,
    scale: Scale,
    *,
    questions: Path | None = None,
    passages: Path | None = None,
    limit: int | None = None,
    seed: int = 0,
    raters: int | None = None,
) -> Review:
    """Start or resume a review of the answers of runs.

    Args:
        runs: Run folders; questions that one of them did not answer are skipped and counted.
        folder: Folder of the review.
        scale: The scale to rate on.
        questions: The questions of the runs, which name the gold passages; None shows only cited passages.
        passages: The corpus with the gold passages.
        limit: Maximum number of questions, drawn by `seed`.
        seed: Seed of the draw and of the order.
        raters: Reviewers per item; None for the scale's default.

    Raises:
        UserError: There is nothing to rate, a folder contains no run, or `folder` contains something else.
    """
    labels, rows = run_labels(runs), [_rows_with_answers(run) for run in runs]
    chosen = _shared_questions(rows, limit, seed)
    everything = {row["id"] for own in rows for row in own}
    gold = {question.id: question for question in read_questions(questions)} if questions else {}
    named = (passage for name in chosen if name in gold for passage in gold[name].gold_ids)
    available = pick_passages(passages, named)
    by_id = [{row["id"]: row for row in own} for own in rows]
    candidates = [
        _card(scale, label, own[name], seed, gold.get(name), available)
        for name in chosen
        for label, own in zip(labels, by_id, strict=True)
    ]
    # Ids are seeded hashes, so sorting by id shuffles.
    cards = sorted((card for card in candidates if card), key=lambda card: card.id)
    failed = len(everything) - len(_shared_questions(rows, None, seed))
    wanted = [name for question in gold.values() if question.id in chosen for name in question.gold_ids]
    left_out = {
        "questions not answered by all runs": failed,
        "questions of the runs not in the file of questions": sum(name not in gold for name in chosen) if gold else 0,
        "gold passages not in the corpus": sum(name not in available for name in wanted),
        _EMPTY[scale.unit]: len(candidates) - len(cards),
    }
    return start_review(
        folder,
        scale,
        cards,
        [ReviewedFile(label=label, path=str(run)) for label, run in zip(labels, runs, strict=True)],
        raters=raters,
        left_out={reason: count for reason, count in left_out.items() if count},
    )
