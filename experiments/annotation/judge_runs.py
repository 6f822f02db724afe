"""Answers of several runs judged side by side, question by question, along CoV-RAG's criteria.

A folder of judgements holds `run.json` (what was judged, by which LM) and `rows.jsonl`, one line per question: `scores`
(criterion -> run -> score), `revisions` (run -> score of its revised question), `unread` and `moved` as the judge
counts them. Interrupted, it goes on with `resume`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.analysis.statistics import Mean, mean_of
from experiments.annotation.review.answer_cards import run_labels
from experiments.pipeline.map_rows import work_through
from experiments.runs.config import Connected, describe_lm
from experiments.runs.files import SCHEMA, Json, Row, git_revision, read_rows
from signatures.common.errors import UserError

if TYPE_CHECKING:
    from optimizers.metrics.listwise_judge import Comparison
    from signatures.types import Passage


@dataclass(frozen=True)
class Standing:
    """How one run does on one criterion.

    Args:
        run: Its label.
        criterion: What was judged.
        score: Mean score; for bias, lower is better.
        rank: Mean rank among the runs, 1 is best, over questions where every run has a verdict.
        high_quality: Share of answers of high quality.
    """

    run: str
    criterion: str
    score: Mean
    rank: Mean
    high_quality: Mean


@dataclass(frozen=True)
class Judgement:
    """What came of judging runs.

    Args:
        runs: Labels in the order given.
        questions: Questions judged.
        left_out: Questions that some run lacks, or that ended in an error.
        standings: One for each criterion and run.
        revisions: Run -> mean score of its revised questions; only runs that verify.
        unread: Replies of the judge that could not be read.
        moved: Scores outside [0, 1].
    """

    runs: list[str]
    questions: int
    left_out: int
    standings: list[Standing]
    revisions: dict[str, Mean]
    unread: int
    moved: int

    @property
    def silent(self) -> bool:
        """Whether replies came and not one of them could be read."""
        return self.unread > 0 and all(item.score.mean is None for item in self.standings)

    def as_dict(self) -> Json:
        """Return everything for JSON."""
        standings = [
            {**vars(item), **{name: getattr(item, name).as_dict() for name in ("score", "rank", "high_quality")}}
            for item in self.standings
        ]
        revisions = {run: mean.as_dict() for run, mean in self.revisions.items()}
        return {**vars(self), "standings": standings, "revisions": revisions}


def judge_runs(
    folders: Sequence[Path],
    corpus: "Mapping[str, Passage]",
    *,
    connection: Connected,
    out: Path,
    threads: int = 8,
    resume: bool = False,
    seed: int = 0,
) -> Judgement:
    """Judge the answers of two to four runs to the questions that all of them answered.

    Args:
        folders: Runs of `evaluate`.
        corpus: Passages by id, for the references that marks point to; empty leaves citations unjudged.
        connection: The judge.
        out: Folder for the judgements.
        threads: Questions judged side by side.
        resume: Go on with what `out` holds.
        seed: Of the order in which answers are shown.

    Raises:
        UserError: There are fewer than two or more than four runs, they share no question, or `out` holds other things.
        KeyboardInterrupt: After Ctrl-C, with everything judged kept.
    """
    from optimizers.metrics.listwise_judge import FEWEST, MOST, ListwiseJudge
    from optimizers.metrics.revision_judge import RevisionJudge

    if not FEWEST <= len(folders) <= MOST:
        raise UserError(f"{len(folders)} runs cannot be compared by the judge: give {FEWEST} to {MOST}.")
    labels = run_labels(folders)
    shared, left_out = _shared_rows(dict(zip(labels, folders, strict=True)))
    rows_of_all = [row for rows in shared.values() for row in rows.values()]
    read = {id for row in rows_of_all for id in row.get("passage_ids") or []}
    if corpus and read and not read & corpus.keys():
        raise UserError("The corpus holds none of the passages that the runs read: name theirs with --passages.")
    judge, reviser = ListwiseJudge(seed=seed), RevisionJudge()

    def work(id: str) -> Row:
        rows = shared[id]
        verdict = judge(comparison_of(rows, corpus))
        revisions = {label: reviser(row, corpus) for label, row in rows.items() if reviser.verifies(row)}
        unread = verdict.unparsed + sum(item.unparsed for item in revisions.values())
        moved = verdict.clamped + sum(item.clamped for item in revisions.values())
        scores = {label: item.score for label, item in revisions.items()}
        return {"id": id, "scores": verdict.scores, "revisions": scores, "unread": unread, "moved": moved}

    description = {
        "schema": SCHEMA,
        "kind": "judgements",
        "runs": labels,
        "lm": describe_lm(connection),
        "seed": seed,
        "questions": sorted(shared),
        "git_revision": git_revision(),
    }
    judged = work_through(
        list(shared),
        work,
        id_of=str,
        description=description,
        connection=connection,
        out=out,
        threads=threads,
        resume=resume,
    )
    return summarise_judgements(labels, judged, left_out)


def comparison_of(rows: Mapping[str, Row], corpus: "Mapping[str, Passage]") -> "Comparison":
    """Return the answers of several runs to one question, as the judge takes them."""
    from optimizers.metrics.listwise_judge import Comparison

    first = next(iter(rows.values()))
    return Comparison(
        id=first["id"],
        question=first["question"],
        golds=first["answers"],
        responses={label: str(row.get("response") or row["answer"]) for label, row in rows.items()},
        references={label: references_of(row, corpus) for label, row in rows.items()},
    )


def references_of(row: Row, corpus: "Mapping[str, Passage]") -> "list[Passage]":
    """Return the passages that the marks of a row's response count, in order; [] where the corpus lacks one."""
    named = (row.get("details") or {}).get("references")
    ids = (row.get("passage_ids") or []) if named is None else named  # none named: marks count nothing
    return [corpus[id] for id in ids] if all(id in corpus for id in ids) else []


def summarise_judgements(labels: Sequence[str], rows: Sequence[Row], left_out: int = 0) -> Judgement:
    """Return the means over questions; the one place where verdicts become numbers of a table."""
    from optimizers.metrics.dimensions import CRITERIA, high_quality, ranks

    standings = []
    for criterion in CRITERIA:
        scores = [row["scores"][criterion] for row in rows]
        placed = [ranks(of, criterion) for of in scores]
        for label in labels:
            values = [of[label] for of in scores]
            standings.append(
                Standing(
                    run=label,
                    criterion=criterion,
                    score=mean_of(values),
                    rank=mean_of([None if of is None else float(of[label]) for of in placed]),
                    high_quality=mean_of(
                        [None if value is None else float(high_quality(value, criterion)) for value in values]
                    ),
                )
            )
    revised = [label for label in labels if any(label in row["revisions"] for row in rows)]
    return Judgement(
        runs=list(labels),
        questions=len(rows),
        left_out=left_out,
        standings=standings,
        revisions={label: mean_of([row["revisions"].get(label) for row in rows]) for label in revised},
        unread=sum(row["unread"] for row in rows),
        moved=sum(row["moved"] for row in rows),
    )


def _shared_rows(folders: Mapping[str, Path]) -> tuple[dict[str, dict[str, Any]], int]:
    """Return question id -> run label -> row for what every run answered without an error, and how many others are."""
    whole = {label: read_rows(folder, whole=True) for label, folder in folders.items()}
    by_run = {label: {row["id"]: row for row in rows if row["error"] is None} for label, rows in whole.items()}
    for label, rows in whole.items():
        if any(row.get("repeat", 1) > 1 for row in rows):
            raise UserError(f"{label} asked each question several times (--repeats): judge runs that asked once.")
    first, *others = by_run.values()
    shared = [id for id in first if all(id in rows for rows in others)]
    if not shared:
        raise UserError(f"{', '.join(folders)} share no question that all answered: evaluate them on the same file.")
    everything = {row["id"] for rows in whole.values() for row in rows}
    kept = {id: {label: rows[id] for label, rows in by_run.items()} for id in shared}
    return kept, len(everything) - len(kept)
