"""Compares the answers of several runs by an LM judge, question by question, on CoV-RAG's criteria.

The output folder contains `run.json` (configuration) and `rows.jsonl`, one line per question: `scores` (criterion ->
run -> score), `rankings` (criterion -> runs, best first, as the judge ordered them), `reasons` (criteria -> the judge's
reason), `shown` (runs in the order in which the judge saw their answers), `misordered` (rankings that contradict their
own scores, which then hold), `revisions` (run -> score of its revised question), `unread` (unparseable replies) and
`moved` (scores outside [0, 1], which are clamped).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.annotation.judgement_results import Judgement, summarise_judgements
from experiments.annotation.review.answer_cards import run_labels
from experiments.pipeline.map_rows import map_rows
from experiments.pipeline.setup import refuse_simulated
from experiments.runs.config import describe_lm
from experiments.runs.files import SCHEMA, Row, git_revision, read_rows
from signatures.common.errors import UserError

if TYPE_CHECKING:
    from optimizers.metrics.judges.listwise_judge import ComparedAnswers
    from programs.lms.connect import Connection
    from signatures.types import Passage

SharedRows = dict[str, dict[str, Row]]
"""Question id -> run label -> row."""


def judge_runs(
    folders: Sequence[Path],
    corpus: "Mapping[str, Passage]",
    *,
    connection: "Connection",
    out: Path,
    threads: int = 8,
    resume: bool = False,
    seed: int = 0,
    progress: bool = True,
) -> Judgement:
    """Judge the answers of two to four runs to the questions that all of them answered.

    Args:
        folders: Run folders.
        corpus: Passages by id, to resolve citation marks; if empty, citations are not judged.
        connection: The judge.
        out: Folder for the judgements.
        threads: Questions judged in parallel.
        resume: Continue with the rows in `out`.
        seed: Seed of the order in which answers are shown.
        progress: Show a bar on stderr.

    Raises:
        UserError: There are fewer than two or more than four runs, they share no question, the corpus contains none of
            their passages, the judge is the simulated LM, nothing can be judged, or `out` contains other
            files.
        KeyboardInterrupt: After Ctrl-C; all finished rows are kept.
    """
    from optimizers.metrics.judges.listwise_judge import MAX_ANSWERS, MIN_ANSWERS

    if not MIN_ANSWERS <= len(folders) <= MAX_ANSWERS:
        raise UserError(f"{len(folders)} runs cannot be compared by the judge: name {MIN_ANSWERS} to {MAX_ANSWERS}.")
    labels = run_labels(folders)
    shared, left_out = _shared_rows(dict(zip(labels, folders, strict=True)))
    _check_corpus(shared, corpus)
    refuse_simulated(connection, "compare answers")
    notices = _not_judged(shared, corpus)
    description = {
        "schema": SCHEMA,
        "kind": "judgements",
        "runs": labels,
        "lm": describe_lm(connection),
        "seed": seed,
        "questions": sorted(shared),
        "git_revision": git_revision(),
    }
    judged = map_rows(
        list(shared),
        _judging(shared, corpus, seed),
        id_of=str,
        description=description,
        connection=connection,
        out=out,
        threads=threads,
        resume=resume,
        progress=progress,
    )
    _check_judged(judged, labels, out)
    return replace(summarise_judgements(labels, judged, left_out), notices=notices)


def _not_judged(shared: SharedRows, corpus: "Mapping[str, Passage]") -> list[str]:
    """Return notices on questions without gold answers, and on those where an answer has no references.

    Raises:
        UserError: No question has either, so that nothing can be judged.
    """
    questions = [comparison_of(rows, corpus) for rows in shared.values()]
    golds = sum(bool(question.golds) for question in questions)
    answers = [bool(found) for question in questions for found in question.references.values()]
    total = len(questions)
    condition = "an answer must have references, and the corpus (passages) must contain them"
    if not golds and not any(answers):
        raise UserError(f"Nothing can be judged: no question has gold answers, and for citations {condition}.")
    notices = []
    if not all(answers):
        notices.append(f"Citations are judged of {sum(answers)} of {len(answers)} answers: {condition}.")
    if golds < total:
        notices.append(
            f"The other criteria are judged on {golds} of {total} questions: the others have no gold answer."
        )
    return notices


def _check_judged(rows: Sequence[Row], labels: Sequence[str], out: Path) -> None:
    """Raise UserError for a row, read again from `out`, that lacks a criterion or a run."""
    from optimizers.metrics.judges.answer_judge import CRITERIA

    for row in rows:
        if any(label not in row["scores"].get(criterion, {}) for criterion in CRITERIA for label in labels):
            raise UserError(f"The row of question {row['id']!r} in {out} lacks scores. Delete that line and resume.")


def _check_corpus(shared: SharedRows, corpus: "Mapping[str, Passage]") -> None:
    """Raise UserError if the corpus contains none of the passages that the runs read."""
    rows = [row for by_run in shared.values() for row in by_run.values()]
    read = {id for row in rows for id in row.get("passage_ids") or []}
    if corpus and read and not read & corpus.keys():
        raise UserError("The corpus contains none of the passages that the runs read: name the passages of the runs.")


def _judging(shared: SharedRows, corpus: "Mapping[str, Passage]", seed: int) -> Callable[[str], Row]:
    """Return a function that judges the question of an id and returns its row."""
    from optimizers.metrics.judges.listwise_judge import ListwiseJudge
    from optimizers.metrics.judges.revision_judge import RevisionJudge

    judge, revision_judge = ListwiseJudge(seed=seed), RevisionJudge()

    def judge_question(id: str) -> Row:
        rows = shared[id]
        verdict = judge(comparison_of(rows, corpus))
        revisions = {label: revision_judge(row, corpus) for label, row in rows.items() if revision_judge.verifies(row)}
        return {
            "id": id,
            "question": next(iter(rows.values()))["question"],
            "scores": verdict.scores,
            "rankings": verdict.rankings,
            "reasons": verdict.reasons,
            "shown": verdict.shown,
            "misordered": verdict.misordered,
            "revisions": {label: revision.score for label, revision in revisions.items()},
            "unread": verdict.unparsed + sum(revision.unparsed for revision in revisions.values()),
            "moved": verdict.clamped + sum(revision.clamped for revision in revisions.values()),
        }

    return judge_question


def comparison_of(rows: Mapping[str, Row], corpus: "Mapping[str, Passage]") -> "ComparedAnswers":
    """Return the answers of several runs to one question as the judge's input."""
    from optimizers.metrics.judges.listwise_judge import ComparedAnswers

    first = next(iter(rows.values()))
    return ComparedAnswers(
        id=first["id"],
        question=first["question"],
        golds=first["answers"],
        responses={label: str(row.get("response") or row["answer"]) for label, row in rows.items()},
        references={label: references_of(row, corpus) for label, row in rows.items()},
    )


def references_of(row: Row, corpus: "Mapping[str, Passage]") -> "list[Passage]":
    """Return the passages that the citation marks of a row refer to, in order; empty if the corpus lacks one."""
    referenced = (row.get("details") or {}).get("references")
    ids = (row.get("passage_ids") or []) if referenced is None else referenced
    return [corpus[id] for id in ids] if all(id in corpus for id in ids) else []


def _shared_rows(folders: Mapping[str, Path]) -> tuple[SharedRows, int]:
    """Return the rows of the questions that every run answered without an error, and the number of other questions."""
    all_rows = {label: read_rows(folder, complete=True) for label, folder in folders.items()}
    by_run = {label: {row["id"]: row for row in rows if row["error"] is None} for label, rows in all_rows.items()}
    for label, rows in all_rows.items():
        if any(row.get("repeat", 1) > 1 for row in rows):
            raise UserError(f"{label} asked each question several times: choose runs without repeats.")
    first, *others = by_run.values()
    shared_ids = [id for id in first if all(id in rows for rows in others)]
    if not shared_ids:
        raise UserError(f"{', '.join(folders)} share no question that all answered: evaluate them on the same file.")
    all_ids = {row["id"] for rows in all_rows.values() for row in rows}
    shared = {id: {label: rows[id] for label, rows in by_run.items()} for id in shared_ids}
    return shared, len(all_ids) - len(shared)
