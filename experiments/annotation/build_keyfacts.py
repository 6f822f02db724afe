"""Builds key facts for a file of questions: derived by an LM, checked by an oracle, to be reviewed.

The output folder contains `run.json` (configuration), `rows.jsonl` (one line per question: steps, facts with their
checks, costs) and, at the end, `questions.jsonl`: the questions with `key_facts`, which is the benchmark.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.pipeline.map_rows import map_rows
from experiments.pipeline.setup import refuse_simulated
from experiments.runs.config import Connected, describe_lm
from experiments.runs.files import SCHEMA, Json, Row, git_revision
from signatures.common.errors import UserError

if TYPE_CHECKING:
    from corpora.questions import Question
    from experiments.annotation.keyfact_candidates import KeyFactsBuilder
    from optimizers.metrics.entailment.oracle import EntailmentOracle
    from signatures.types import Passage

QUESTIONS = "questions.jsonl"


@dataclass(frozen=True)
class Built:
    """Counts of a finished build.

    Args:
        questions: Questions with a row.
        facts: Facts in total.
        unsupported: Facts that the references do not entail, according to the oracle.
        duplicates: Facts that repeat another fact of their question.
        surplus: Facts beyond four, which were dropped.
        too_few: Questions with fewer than two facts.
        parse_failures: Unparseable replies.
        left_out: Questions skipped because they lack a gold answer or their gold passages are not in the corpus.
    """

    questions: int
    facts: int
    unsupported: int
    duplicates: int
    surplus: int
    too_few: int
    parse_failures: int
    left_out: int

    def as_dict(self) -> Json:
        """Return the counts for JSON."""
        return asdict(self)


def build_key_facts(
    questions: "Sequence[Question]",
    corpus: "dict[str, Passage]",
    *,
    connection: Connected,
    oracle: "EntailmentOracle",
    out: Path,
    threads: int = 8,
    resume: bool = False,
    drop: bool = False,
    progress: bool = True,
) -> Built:
    """Build key facts for every question that has an answer and gold passages, and write the questions with them.

    Args:
        questions: With answers and gold ids; existing key facts are replaced.
        corpus: Passages by id.
        connection: The LM that explains and extracts.
        oracle: Checks support and repetition.
        out: Output folder.
        threads: Questions in parallel.
        resume: Continue with the rows in `out`.
        drop: Remove facts that fail a check, instead of leaving them to reviewers.
        progress: Show a bar on stderr.

    Raises:
        UserError: No question can be used, the LM is the simulated one, or `out` contains something else.
        KeyboardInterrupt: After Ctrl-C; all finished rows are kept.
    """
    from experiments.annotation.keyfact_candidates import KeyFactsBuilder

    usable = [
        item for item in questions if item.answers and item.gold_ids and all(id in corpus for id in item.gold_ids)
    ]
    if not usable:
        raise UserError("No question has an answer and its gold passages in the corpus: check the passages.")
    refuse_simulated(connection, "derive key facts")
    builder = KeyFactsBuilder(oracle, threshold=oracle.threshold)
    rows = map_rows(
        usable,
        lambda question: _row(builder, question, corpus),
        id_of=lambda question: question.id,
        description=_description(usable, connection, oracle),
        connection=connection,
        out=out,
        threads=threads,
        resume=resume,
        progress=progress,
    )
    _write_benchmark(usable, {row["id"]: row for row in rows}, out / QUESTIONS, drop=drop)
    return _counts(rows, len(questions) - len(usable))


def _row(builder: "KeyFactsBuilder", question: "Question", corpus: "dict[str, Passage]") -> Row:
    from programs.parts.meter import metered

    with metered() as meter:
        facts = builder(question.question, [corpus[id] for id in question.gold_ids], question.answers[0])
    return {
        "id": question.id,
        "steps": facts.steps,
        "facts": [{**fact.as_dict(), "sound": fact.sound} for fact in facts.facts],
        "surplus": facts.surplus,
        **meter.counts(),
    }


def _description(questions: "Sequence[Question]", connection: Connected, oracle: "EntailmentOracle") -> Json:
    return {
        "schema": SCHEMA,
        "kind": "key facts",
        "lm": describe_lm(connection),
        "oracle": oracle.fingerprint,
        "questions": [question.id for question in questions],
        "git_revision": git_revision(),
    }


def _write_benchmark(questions: "Sequence[Question]", rows: dict[str, Row], path: Path, *, drop: bool) -> None:
    from corpora.questions import write_questions

    def with_facts(question: "Question") -> "Question":
        facts: list[dict[str, Any]] = [fact for fact in rows[question.id]["facts"] if fact["sound"] or not drop]
        checks = [{name: fact[name] for name in ("entailed", "supported", "duplicate_of")} for fact in facts]
        return question.model_copy(update={"key_facts": [fact["text"] for fact in facts], "key_fact_checks": checks})

    write_questions(path, [with_facts(question) for question in questions])


def _counts(rows: Sequence[Row], left_out: int) -> Built:
    facts = [fact for row in rows for fact in row["facts"]]
    return Built(
        questions=len(rows),
        facts=len(facts),
        unsupported=sum(not fact["supported"] for fact in facts),
        duplicates=sum(fact["duplicate_of"] is not None for fact in facts),
        surplus=sum(row["surplus"] for row in rows),
        too_few=sum(len(row["facts"]) < 2 for row in rows),
        parse_failures=int(sum(row["parse_failures"] for row in rows)),
        left_out=left_out,
    )
