"""Add metrics to a finished run, or score predictions of another system, without asking the LM that answered."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.analysis.summary import RunSummary, write_summary
from experiments.pipeline.corpus_notes import judge_note
from experiments.pipeline.map_rows import progress_bar
from experiments.pipeline.parallel.thread_pool import ThreadPool
from experiments.pipeline.run_question import scored
from experiments.pipeline.scoring.passage_texts import FACT_METRICS, sentence_source
from experiments.pipeline.scoring.score_config import ScoreConfig
from experiments.runs.config import describe_lm, describe_session
from experiments.runs.files import (
    RUN,
    Json,
    Row,
    key_of,
    read_json,
    read_rows,
    read_run,
    rewrite_rows,
    run_lock,
    stopped_before,
    write_json,
)
from experiments.runs.rebuild import Rebuilt, ids_needed, rebuild
from optimizers.metrics.judges.answer_judge import judged_by
from optimizers.metrics.metric import OF_CORPUS, OF_QUESTION, Metric, Need
from signatures.common.errors import UserError, one_line, undone_by_error
from signatures.common.files import sha256_file

if TYPE_CHECKING:
    import dspy


@dataclass(frozen=True)
class Coverage:
    """How many answers a metric scored.

    Args:
        scored: Answers with a score.
        undefined: Answers that have what the metric needs, but for which it is undefined.
        lacking: What is missing -> number of answers that lack it.
    """

    scored: int
    undefined: int
    lacking: dict[str, int]

    def __str__(self) -> str:
        """Return the counts in one line."""
        total = self.scored + self.undefined + sum(self.lacking.values())
        parts = [f"{count} lack {need}" for need, count in self.lacking.items()]
        parts += [f"{self.undefined} undefined"] if self.undefined else []
        return f"{self.scored} of {total} answers scored" + (f"; {', '.join(parts)}" if parts else "")


_SCORED, _UNDEFINED = "scored", "undefined"


def outcome_of(metric: Metric, item: Rebuilt, scores: Mapping[str, float | None]) -> str:
    """Return what became of a metric on a row with these scores: its score, undefined, or what is missing."""
    if scores.get(metric.name) is not None:
        return _SCORED
    return next((need.value for need in metric.needs if need in item.lacks), _UNDEFINED)


def coverage_of(counted: Counter[str]) -> Coverage:
    """Return the counts of `outcome_of` as a record."""
    lacking = {name: count for name, count in counted.items() if name not in (_SCORED, _UNDEFINED)}
    return Coverage(counted[_SCORED], counted[_UNDEFINED], lacking)


def why_nothing(coverage: Coverage, name: str, config: ScoreConfig) -> str:
    """Return why a metric scored no answer, with the cure."""
    if not coverage.lacking:
        return f"{name} is undefined for all {coverage.undefined} answers."
    need = max(coverage.lacking, key=lambda each: coverage.lacking[each])
    return f"{name} needs {need}, which {coverage.lacking[need]} answers lack{_cure(Need(need), config)}."


def _cure(need: Need, config: ScoreConfig) -> str:
    if need in OF_QUESTION and config.questions is None:
        return ": name the file of the questions (questions)"
    if need is Need.FACTS:
        return ": no answer quotes evidence, so omit the metric"
    if need in OF_CORPUS and not config.corpus.named:
        return ": name the index or the passages of the corpus (index, passages)"
    if need in OF_CORPUS:
        return ": the corpus named has not all of these passages"
    return ""


def hints(coverage: Mapping[str, Coverage], config: ScoreConfig) -> list[str]:
    """Return what to name so that answers which lack something can be scored; nothing for metrics without a score."""
    needs = {Need(need) for found in coverage.values() if found.scored for need in found.lacking}
    return [f"Some answers lack {need}{cure}." for need in sorted(needs) if (cure := _cure(need, config))]


def gold_of(
    description: Json, rows: Sequence[Row], config: ScoreConfig
) -> tuple[dict[str, Any], Path | None, list[str]]:
    """Return the examples by id, the file they are from, and notices; no examples if there is no file."""
    from corpora.questions import read_questions
    from optimizers.examples import to_examples

    path = config.questions or own_questions(description)
    if path is None:
        return {}, None, []
    examples = {example.id: example for example in to_examples(read_questions(path))}
    same = sum(row["id"] in examples and examples[row["id"]].question == row["question"] for row in rows)
    if not same:
        raise UserError(f"{path} contains none of the run's questions: name the file that the run was made from.")
    other = len(rows) - same
    notices = [f"{other} of {len(rows)} answers are to questions that {path} lacks."] if other else []
    accepts = sum(row["id"] in examples and list(row["answers"]) != list(examples[row["id"]].answers) for row in rows)
    if accepts:
        notices.append(
            f"{path} accepts other answers to {accepts} of {len(rows)} questions than the file that the run was made "
            f"from: metrics that the run has are of that one. Evaluate again with {path} to compare scores."
        )
    return examples, path, notices


def own_questions(description: Json) -> Path | None:
    """Return the question file that a run names, if it is unchanged: a run from a stranger may name any file."""
    paths = description.get("paths")
    named, digest = (
        (paths.get(name) for name in ("questions", "questions_file_sha256"))
        if isinstance(paths, dict)
        else (None, None)
    )
    if not isinstance(named, str) or not digest or "\0" in named:
        return None
    try:
        return Path(named) if Path(named).is_file() and sha256_file(named) == digest else None
    except OSError:
        return None


_Key = tuple[str, int]


@dataclass(frozen=True)
class ScoreReport:
    """What was scored.

    Args:
        coverage: Metric name -> how many answers it scored.
        kept: Metrics that the run already had by the same definition; they were not computed again.
        notices: What the user should know.
    """

    summary: RunSummary
    coverage: dict[str, Coverage]
    kept: list[str]
    notices: list[str]

    def as_dict(self) -> Json:
        """Return the summary with the other fields as JSON values."""
        coverage = {name: asdict(value) for name, value in self.coverage.items()}
        return {**self.summary.as_dict(), "coverage": coverage, "kept": self.kept, "notices": self.notices}


def score_run(folder: Path, config: ScoreConfig) -> ScoreReport:
    """Add metrics to the rows and to the summary of a run; `run.json` records when and by what (`scored`).

    Everything is computed before anything is written. A metric that the run has by the same definition is kept; one by
    another definition is replaced, and the earlier definition recorded.

    Raises:
        UserError: The folder contains no run with answers, a file is damaged, another process writes it, its judge is
            another one, or no metric can be computed for any answer.
    """
    read_run(folder)  # before a lock file is made in a folder of something else
    with run_lock(folder):
        description = read_run(folder)
        rows = read_rows(folder, complete=True)
        if not rows:
            raise UserError(f"{folder} has no answered question yet. Run it first.")
        _check_judge(folder, description, config)
        examples, questions, notices = gold_of(description, rows, config)
        config = replace(config, questions=questions)
        notices += _other_corpus(description, config)
        had = description["metrics"]
        same = {metric.name for metric in config.metrics if had.get(metric.name) == metric.definition}
        partly = same & {name for row in rows for name in same - row["scores"].keys()}  # rows that were added since
        metrics = [metric for metric in config.metrics if metric.name not in same - partly]
        kept = [metric.name for metric in config.metrics if metric not in metrics]
        scores, coverage = score_rows(rows, examples, config, metrics, keep=partly)
        empty = [name for name, found in coverage.items() if not found.scored and name not in partly]
        if metrics and len(empty) == len(metrics):
            raise UserError(f"{folder}: {why_nothing(coverage[empty[0]], empty[0], config)}")
        added = [metric for metric in metrics if metric.name not in empty]
        notices += [f"Not added: {why_nothing(coverage[name], name, config)}" for name in empty]
        notices += hints(coverage, config)
        notices += judge_notes(added, config)
        if added:
            names = [metric.name for metric in added]
            rewrite_rows(folder, lambda row: _merged(row, scores.get(key_of(row)), names))
            # As in the file, not as checked: keys of later versions stay.
            described = _described(read_json(folder / RUN) | {"metrics": had}, added, config)
            described["scored"][-1] |= {"completed": sorted(partly)} if partly else {}
            if of_facts := [name for name in names if name in FACT_METRICS]:
                described["sentences"] = {
                    **(description.get("sentences") or {}),
                    **dict.fromkeys(of_facts, sentence_source(rows, config.corpus)),
                }
            write_json(folder / RUN, described)
        summary = write_summary(folder, stopped=stopped_before(folder))
    return ScoreReport(summary, coverage, kept, notices)


def score_rows(
    rows: Sequence[Row],
    examples: Mapping[str, Any],
    config: ScoreConfig,
    metrics: Sequence[Metric],
    *,
    keep: Collection[str] = (),
) -> tuple[dict[_Key, Row], dict[str, Coverage]]:
    """Return for each row what is added to it (`scores`, `unparsed`, `judging`), and how many rows each metric scored.

    Args:
        examples: Question id -> example with its gold.
        config: Texts, judge and threads.
        metrics: To compute.
        keep: Names of those that a row may have already; there they are not computed again.

    Raises:
        UserError: The judge or an oracle cannot be reached, or an own metric fails.
    """
    rebuilt = rebuild(rows, examples, config.corpus.find(ids_needed(rows)) if config.corpus.named else {})

    def work(item: Rebuilt) -> Row:
        wanted = [metric for metric in metrics if metric.name not in keep or metric.name not in item.row["scores"]]
        possible = [metric for metric in wanted if not item.lacks.intersection(metric.needs)]
        failed = item.row["error"] is not None
        try:
            found, silent = scored(possible, item.example, item.prediction, failed=failed)
        except (KeyError, TypeError, AttributeError, IndexError) as error:  # `details` of a row may be anything
            raise UserError(
                f"The answer to question {item.row['id']!r} cannot be scored ({type(error).__name__}: "
                f"{one_line(error, 100)}). Correct its row."
            ) from error
        if silent is not None:
            raise silent
        found["scores"] = {metric.name: found["scores"].get(metric.name) for metric in wanted}  # a row has every metric
        return found

    results: dict[_Key, Row] = {}
    counts: dict[str, Counter[str]] = {metric.name: Counter() for metric in metrics}
    with (
        judged_by(config.judge),
        progress_bar("scoring", len(rebuilt), 0, shown=config.progress) as advance,
    ):
        pool = ThreadPool(work, rebuilt if metrics else [], threads=config.threads)
        with undone_by_error(pool.stop):
            for outcome in pool:
                if outcome.result is None:
                    raise outcome.error or RuntimeError("An answer ended with neither scores nor error.")
                results[key_of(outcome.item.row)] = outcome.result
                row = outcome.item.row
                scores = {**{name: row["scores"].get(name) for name in keep}, **outcome.result["scores"]}
                for metric in metrics:
                    counts[metric.name][outcome_of(metric, outcome.item, scores)] += 1
                advance()
    return results, {name: coverage_of(counted) for name, counted in counts.items()}


def judge_notes(added: Sequence[Metric], config: ScoreConfig) -> list[str]:
    """Return the note on the judge of metrics that were added, if there is one."""
    if config.judge is None or not any(metric.judged for metric in added):
        return []
    note = judge_note(config.judge.id)
    return [note] if note else []


def _other_corpus(description: Json, config: ScoreConfig) -> list[str]:
    own, named = (description.get("corpus") or {}).get("fingerprint"), config.corpus.fingerprints()
    if own is None or not named or own in named:
        return []
    return ["The run retrieved from another index than the one named: its passages may have other texts."]


def _check_judge(folder: Path, description: Json, config: ScoreConfig) -> None:
    earlier = description.get("judge")
    if config.judge is None or earlier is None or earlier == describe_lm(config.judge):
        return
    raise UserError(
        f"{folder} was judged by {earlier['id']}, and one run has one judge: name it, or score a copy of the run."
    )


def _merged(row: Row, found: Row | None, names: Sequence[str]) -> Row | None:
    if found is None:
        return None
    names = [name for name in names if name in found["scores"]]
    unparsed = {name: count for name, count in (row.get("unparsed") or {}).items() if name not in names}
    judging = Counter(row.get("judging") or {})
    judging.update(found["judging"])
    return {
        **row,
        "scores": {**row["scores"], **{name: found["scores"][name] for name in names}},
        "unparsed": {**unparsed, **{name: count for name, count in found["unparsed"].items() if name in names}},
        "judging": dict(judging),
    }


def _described(description: Json, added: Sequence[Metric], config: ScoreConfig) -> Json:
    had = description["metrics"]
    session = describe_session()
    record = {
        "when": session["started"],
        "added": [metric.name for metric in added if metric.name not in had],
        "replaced": {
            each.name: had[each.name] for each in added if had.get(each.name, each.definition) != each.definition
        },
        "questions": None if config.questions is None else str(config.questions),
        "questions_file_sha256": None if config.questions is None else sha256_file(config.questions),
        "corpus": str(config.corpus.index or config.corpus.passages) if config.corpus.named else None,
        "git_revision": session["git_revision"],
        "versions": session["versions"],
    }
    judged = config.judge if any(metric.judged for metric in added) else None
    if judged is not None and "judge" not in description:
        description = {**description, "judge": describe_lm(judged)}
        record["judge"] = judged.id
    notes = description.get("notes")
    notes = notes if isinstance(notes, list) else []
    new = [note for note in judge_notes(added, config) if note not in notes]
    description = {**description, "notes": [*notes, *new]} if new else description
    earlier = description.get("scored")
    return {
        **description,
        "metrics": {**had, **{metric.name: metric.definition for metric in added}},
        "scored": [*(earlier if isinstance(earlier, list) else []), record],
    }


def check_evidence(program: "dspy.Module", metrics: Sequence[Metric]) -> None:
    """Check that a single program quotes evidence if metrics of supporting facts are asked for.

    Raises:
        UserError: None of its predictors has the output `evidence`.
    """
    from programs.artifact import program_name
    from programs.catalog import name_of

    of_facts = [metric.name for metric in metrics if Need.FACTS in metric.needs]
    name = program_name(program)
    if not of_facts or name != name_of(type(program)):
        return
    if not any("evidence" in predictor.signature.output_fields for predictor in program.predictors()):
        raise UserError(
            f"{', '.join(of_facts)} needs {Need.FACTS}, and {name} quotes nothing: omit it, or take a program "
            "that does, such as genground."
        )
