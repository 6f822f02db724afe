"""The gold that a run's answers are scored by: rows have the accepted answers only."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.pipeline.scoring.score_config import ScoreConfig
from experiments.runs.files import Json, Row
from signatures.common.errors import UserError
from signatures.common.files import sha256_file


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
    return examples, path, [f"{other} of {len(rows)} answers are to questions that {path} lacks."] if other else []


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
