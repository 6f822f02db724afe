"""Answers of one or more runs as cards to be rated: whose answer it is stays hidden, and the order is shuffled."""

from collections.abc import Sequence
from pathlib import Path

from corpora.passages import PassageRecord
from corpora.questions import Question, read_questions
from experiments.annotation.review.cards import Card, Item, Reference, Step, opaque_id, reference
from experiments.annotation.review.folder import Review, Source, create
from experiments.annotation.review.keyfacts import gold_references, pick_passages
from experiments.annotation.review.scales import STEPWISE, Scale
from experiments.runs.files import RUN, Json, Row, check_holds_answers, read_rows
from signatures.common.errors import UserError
from signatures.common.files import sha256_text
from signatures.text import split_sentences
from signatures.types import Passage

_EMPTY = {"sentence": "answers without a sentence", "answer": "empty answers", "hop": "answers without a hop"}


def run_labels(folders: Sequence[Path]) -> list[str]:
    """Return a name for each run: its folder's, with the parent's where two are alike.

    Raises:
        UserError: The same folder is given twice.
    """
    resolved = [folder.resolve() for folder in folders]
    if len(set(resolved)) < len(resolved):
        raise UserError("The same run is given twice. Name each folder once.")
    names = [folder.name for folder in resolved]
    if len(set(names)) < len(names):
        return [f"{folder.parent.name}/{folder.name}" for folder in resolved]
    return names


def text_of(row: Row) -> str:
    """Return what a person rates: the response where the program wrote one, else the answer."""
    return str(row.get("response") or row.get("answer") or "").strip()


def _hop_details(hop: Json) -> list[tuple[str, str]]:
    draft = hop.get("draft")
    lines = [] if draft is None else [("First answer", str(draft) or "none")]
    lines.append(("Answer", str(hop.get("answer") or "none")))
    return [*lines, ("Evidence", str(hop["evidence"]))] if hop.get("evidence") else lines


def _parts(scale: Scale, row: Row) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return what is rated of one answer, each with its details; [] where it has nothing of the kind."""
    text = text_of(row)
    if scale.unit == "sentence":
        return [(sentence, []) for sentence in split_sentences(text)]
    if scale.unit == "hop":
        return [(str(hop["question"]), _hop_details(hop)) for hop in row.get("hops") or []]
    return [(text, [])] if text else []


def _references(row: Row, question: Question | None, passages: dict[str, PassageRecord]) -> list[Reference]:
    gold = gold_references(question, passages) if question else []
    known = set(question.gold_ids) & passages.keys() if question else set()
    cited = [Passage.model_validate(passage) for passage in row.get("cited_passages") or []]
    return [*gold, *(reference(passage, gold=False) for passage in cited if passage.id not in known)]


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
        # Elsewhere they would give away which program it is, or be the items themselves.
        steps=[_step(hop) for hop in row.get("hops") or []] if scale is STEPWISE else [],
        response=text_of(row),
        references=_references(row, question, passages),
        run=run,
        items=[
            Item(id=opaque_id(*key, part), part=part, text=text, details=details)
            for part, (text, details) in enumerate(parts)
        ],
    )


def _step(hop: Json) -> Step:
    draft = hop.get("draft")
    changed = draft is not None and draft != hop.get("answer")
    before = f"{draft or 'none'} \N{RIGHTWARDS ARROW} " if changed else ""
    return Step(question=str(hop["question"]), answer=f"{before}{hop.get('answer') or 'none'}")


def _shared_questions(rows: Sequence[Sequence[Row]], limit: int | None, seed: int) -> list[str]:
    """Return the ids that every run answered without an error, shuffled and cut; the same for the same seed."""
    answered = [{row["id"] for row in own if not row["error"]} for own in rows]
    shared = sorted(set.intersection(*answered), key=lambda name: (sha256_text(f"{seed}:{name}"), name))
    return shared[:limit]


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
    """Start or go on with a review of the answers of runs.

    Args:
        runs: Their folders; questions that one of them did not answer are left out and counted.
        folder: Of the review.
        scale: What is rated.
        questions: The questions of the runs, which name the gold passages; None shows only what answers cite.
        passages: The corpus that holds the gold passages.
        limit: So many questions, drawn by `seed`.
        seed: Of the draw and of the order.
        raters: People per item; None for the scale's own number.

    Raises:
        UserError: Nothing is to be rated, a folder holds no run, or `folder` holds something else.
    """
    labels, rows = run_labels(runs), [read_rows(run) for run in runs]
    for run, own in zip(runs, rows, strict=True):
        if not own:
            raise UserError(f"{run} holds no answers. Name the folder of a run.")
        if (run / RUN).exists():  # rows alone will do
            check_holds_answers(run)
    chosen = _shared_questions(rows, limit, seed)
    everything = {row["id"] for own in rows for row in own}
    gold = {question.id: question for question in read_questions(questions)} if questions else {}
    named = (passage for name in chosen if name in gold for passage in gold[name].gold_ids)
    at_hand = pick_passages(passages, named)
    by_id = [{row["id"]: row for row in own} for own in rows]
    made = [
        _card(scale, label, own[name], seed, gold.get(name), at_hand)
        for name in chosen
        for label, own in zip(labels, by_id, strict=True)
    ]
    cards = sorted((card for card in made if card), key=lambda card: card.id)  # ids are hashes: a seeded shuffle
    failed = len(everything) - len(_shared_questions(rows, None, seed))
    left_out = {
        "questions not answered by all runs": failed,
        _EMPTY[scale.unit]: len(made) - len(cards),
    }
    return create(
        folder,
        scale,
        cards,
        [Source(label=label, path=str(run)) for label, run in zip(labels, runs, strict=True)],
        raters=raters,
        left_out={reason: count for reason, count in left_out.items() if count},
    )
