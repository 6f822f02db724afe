"""Score the predictions of another system; the result is a run, so that it can be compared with other runs."""

from pathlib import Path
from typing import Any

from experiments.analysis.summary import write_summary
from experiments.pipeline.scoring.coverage import hints, why_nothing
from experiments.pipeline.scoring.foreign_rows import IDS, Matched, match, plain, rows_of, with_ids
from experiments.pipeline.scoring.predictions import read_predictions
from experiments.pipeline.scoring.rebuild import UNKNOWN
from experiments.pipeline.scoring.score import ScoreReport, judge_notes, score_rows
from experiments.pipeline.scoring.score_config import ScoreConfig
from experiments.pipeline.scoring.sentence_source import FACT_METRICS, sentence_source
from experiments.runs.config import describe_lm, describe_questions, describe_session
from experiments.runs.files import SCHEMA, Json, Row, open_run, run_lock
from experiments.runs.rewrite import write_rows
from signatures.common.errors import UserError
from signatures.common.files import sha256_file


def score_predictions(path: Path, config: ScoreConfig, out: Path) -> ScoreReport:
    """Score a file of predictions and write them as a run to `out`, complete or not at all.

    Args:
        path: See `experiments.pipeline.scoring.predictions`.
        config: Metrics and what they need; the questions are required.
        out: A new or empty folder.

    Raises:
        UserError: A file is missing or damaged, no prediction is for a question, `out` contains something, or no metric
            can be computed for any answer.
    """
    from corpora.questions import read_questions
    from optimizers.examples import to_examples

    if config.questions is None:
        raise UserError(f"{path} contains predictions without gold: name the file of their questions (questions).")
    questions = read_questions(config.questions)
    examples = to_examples(questions)
    matched = match(path, read_predictions(path), examples)
    rows = rows_of(matched, _titles(examples, config))
    _recognise(rows, config)
    with run_lock(out):
        results, coverage = score_rows(rows, {example.id: example for example in examples}, config, config.metrics)
        added = [metric for metric in config.metrics if coverage[metric.name].scored]
        if not added:
            name = config.metrics[0].name
            raise UserError(f"{path}: {why_nothing(coverage[name], name, config)}")
        notices = [
            f"Not added: {why_nothing(coverage[each.name], each.name, config)}"
            for each in config.metrics
            if each not in added
        ]
        of_facts = [metric.name for metric in added if metric.name in FACT_METRICS]
        description = {
            "metrics": {metric.name: metric.definition for metric in added},
            "questions": describe_questions(questions),
            **_described(path, config, matched),
            **({"sentences": dict.fromkeys(of_facts, sentence_source(rows, config.corpus))} if of_facts else {}),
        }
        open_run(out, description, resume=False)
        kept = {metric.name for metric in added}
        for row in rows:
            found = results[row["id"], 1]
            scores = {name: value for name, value in found["scores"].items() if name in kept}
            unparsed = {name: count for name, count in found["unparsed"].items() if name in kept}
            row |= {"scores": scores, "unparsed": unparsed, "judging": found["judging"]}
        write_rows(out, rows)
        summary = write_summary(out)
    return ScoreReport(summary, coverage, [], [*notices, *hints(coverage, config), *judge_notes(added, config)])


def _titles(examples: list[Any], config: ScoreConfig) -> dict[str, str]:
    """Return the titles of the questions' own passages, as far as the corpus has them."""
    own = {id for each in examples for name in ("gold_ids", "context_ids") for id in getattr(each, name, None) or []}
    return {id: passage.title for id, passage in config.corpus.find(own).items() if passage.title}


def _recognise(rows: list[Row], config: ScoreConfig) -> None:
    """Give passages that were given as texts only the ids of the corpus file."""
    if config.corpus.passages is None or not any(IDS in row.get(UNKNOWN, []) for row in rows):
        return
    from corpora.passages import read_passages

    wanted = {plain(each["text"]) for row in rows for each in row.get("read_passages", [])}
    passages = read_passages(config.corpus.passages)
    with_ids(rows, {text: each.id for each in passages if (text := plain(each.text)) in wanted})


def _described(path: Path, config: ScoreConfig, matched: Matched) -> Json:
    """Return the rest of `run.json`; what the file does not say is unknown."""
    missing = sum(given is None for _, given in matched.pairs)
    notes = [f"Predictions of {path.name}, which were not made here: LM and costs are unknown."]
    if missing:
        notes.append(f"{missing} of {len(matched.pairs)} questions have no prediction; they score 0.")
    if matched.others:
        notes.append(f"{matched.others} predictions are for none of the questions and are left out.")
    notes += judge_notes(config.metrics, config)
    return {
        "schema": SCHEMA,
        "program": {"name": path.name.partition(".")[0], "knobs": {}, "state_sha256": None, "artifact_sha256": None},
        "lm": {"id": "unknown", "model": None, "adapter": "unknown", "settings": {}},
        **({} if config.judge is None else {"judge": describe_lm(config.judge)}),
        "corpus": {"fingerprint": None},
        "predictions": {"file": str(path), "sha256": sha256_file(path)},
        "notes": notes,
        "paths": {"questions": str(config.questions), "questions_file_sha256": sha256_file(config.questions or path)},
        **describe_session(),
    }
