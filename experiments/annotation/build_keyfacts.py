"""Builds key facts for a file of questions: derived by an LM from the references, checked by an oracle.

"How Credible Is an Answer From Retrieval-Augmented LLMs? Investigation and Improvement With Multi-Hop QA", section 3.

Departure: in the paper, annotators remove bad facts; here two automatic checks flag them first and remove nothing,
since the oracle's accuracy is modest. Reviewers then judge the facts (`experiments/annotation/review`).

The output folder contains `run.json` (configuration), `rows.jsonl` (one line per question: steps, facts with their
checks, costs) and, at the end, `questions.jsonl`: the questions with `key_facts`, which is the benchmark.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dspy

from experiments.pipeline.map_rows import map_rows
from experiments.pipeline.setup import refuse_simulated
from experiments.runs.config import describe_lm
from experiments.runs.files import SCHEMA, Json, Row, git_revision
from programs.parts.prediction import try_predict
from signatures.common.errors import UserError
from signatures.keyfacts import ExplainAnswer, ExtractKeyFacts
from signatures.text import normalize_answer
from signatures.types import Passage

if TYPE_CHECKING:
    from corpora.questions import Question
    from optimizers.metrics.entailment.oracle import EntailmentOracle
    from programs.lms.connect import Connection


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
        too_few: Questions with fewer than two facts, so that reviewers have to write more.
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


def build_key_facts(
    questions: "Sequence[Question]",
    corpus: "dict[str, Passage]",
    *,
    connection: "Connection",
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
        "facts": [{**asdict(fact), "sound": fact.sound} for fact in facts.facts],
        "surplus": facts.surplus,
        **meter.counts(),
    }


def _description(questions: "Sequence[Question]", connection: "Connection", oracle: "EntailmentOracle") -> Json:
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


MAX_FACTS = 4

Entails = Callable[[Sequence[tuple[str, str]]], list[float]]
"""(premise, hypothesis) pairs -> probability of entailment of each pair."""


@dataclass(frozen=True)
class CheckedFact:
    """A key fact with the results of the checks.

    Args:
        text: The fact, one sentence.
        entailed: Probability in [0, 1] that the references entail it.
        supported: Whether that probability reaches the oracle's threshold.
        duplicate_of: Index (from 0) of the earlier fact that it repeats; None if there is none.
    """

    text: str
    entailed: float
    supported: bool
    duplicate_of: int | None = None

    @property
    def sound(self) -> bool:
        """Whether it passes both checks."""
        return self.supported and self.duplicate_of is None


@dataclass(frozen=True)
class KeyFacts:
    """The key facts of one question.

    Args:
        steps: The reasoning the facts were taken from; empty if the reply was unparseable.
        facts: At most four, checked.
        surplus: Number of facts beyond four, which are dropped.
    """

    steps: list[str]
    facts: list[CheckedFact]
    surplus: int = 0


def check_facts(
    facts: Sequence[str], references: Sequence[Passage], entails: Entails, *, threshold: float = 0.5
) -> list[CheckedFact]:
    """Return the facts with the results of both checks, with one call of the oracle.

    A fact repeats an earlier one if they entail each other or are equal after normalising. It is supported if all
    references together, with their titles, entail it.

    Args:
        facts: Sentences.
        references: The passages the answer was derived from; if empty, no fact is supported.
        entails: The oracle.
        threshold: Lowest probability that counts as entailed, in [0, 1].
    """
    premise = "\n".join(f"{passage.title}: {passage.text}" if passage.title else passage.text for passage in references)
    pairs = [(later, earlier) for later in range(len(facts)) for earlier in range(later)]
    to_judge = [(premise, fact) for fact in facts]
    to_judge += [
        (facts[left], facts[right]) for later, earlier in pairs for left, right in ((later, earlier), (earlier, later))
    ]
    scores = entails(to_judge) if to_judge else []
    support, mutual = scores[: len(facts)], scores[len(facts) :]
    duplicate_of: dict[int, int] = {}
    for number, (later, earlier) in enumerate(pairs):
        same = normalize_answer(facts[later]) == normalize_answer(facts[earlier])
        if same or min(mutual[2 * number : 2 * number + 2]) >= threshold:
            duplicate_of.setdefault(later, earlier)
    return [
        CheckedFact(fact, float(score), bool(references) and score >= threshold, duplicate_of.get(number))
        for number, (fact, score) in enumerate(zip(facts, support, strict=True))
    ]


class KeyFactsBuilder(dspy.Module):
    """Explains a known answer step by step and extracts two to four key facts from the steps; two LM calls.

    Args:
        entails: The oracle of the checks.
        threshold: Lowest probability that counts as entailed, in [0, 1].
    """

    def __init__(self, entails: Entails, *, threshold: float = 0.5):
        super().__init__()
        self.entails = entails
        self.threshold = threshold
        self.explaining = dspy.Predict(ExplainAnswer)
        self.extracting = dspy.Predict(ExtractKeyFacts)

    def forward(self, question: str, passages: Sequence[Passage], answer: str) -> KeyFacts:
        """Return checked key facts; no facts if a reply is unparseable, which the meter counts."""
        explained = try_predict(self.explaining, passages=list(passages), question=question, answer=answer)
        steps = [step.strip() for step in explained.steps if step.strip()] if explained else []
        if not steps:
            return KeyFacts([], [])
        extracted = try_predict(self.extracting, question=question, answer=answer, steps=steps)
        candidates = [fact.strip() for fact in extracted.key_facts if fact.strip()] if extracted else []
        facts = check_facts(_repeats_last(candidates)[:MAX_FACTS], passages, self.entails, threshold=self.threshold)
        return KeyFacts(steps, facts, max(0, len(candidates) - MAX_FACTS))

    def max_calls(self) -> int:
        """Return the maximum number of LM calls for one question."""
        return 2


def _repeats_last(facts: Sequence[str]) -> list[str]:
    """Return the facts with those that repeat an earlier one verbatim at the end, so that these are cut first."""
    seen: set[str] = set()
    new: list[str] = []
    repeats: list[str] = []
    for fact in facts:
        words = normalize_answer(fact)
        (repeats if words in seen else new).append(fact)
        seen.add(words)
    return new + repeats
