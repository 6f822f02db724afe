"""Cost of one question with each of the four papers' programs: tokens, LM calls, sequential rounds.

    python -m experiments.benchmarks.question_cost

All programs, with the knobs of their papers, answer the same questions of the simulated world over one BM25 index. The
picture is a histogram of tokens per question as in GenGround's Figure 6; for RetroRAG, questions with inferential
evidence are a separate group, as in its own Figure 6. Costs count every LM call; the reply cache is off.
"""

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

from corpora.index.build import build_index
from corpora.index.open import open_index
from corpora.questions import Question, read_questions
from experiments.analysis.report.plots import token_histogram
from experiments.analysis.statistics import mean_of
from experiments.runs.config import portable, provenance
from experiments.runs.files import write_json
from experiments.world.connect import connect_any
from experiments.world.generate import generate
from programs.catalog import build
from programs.lms.connect import Connection
from programs.parts.meter import metered
from signatures.types import Retriever

PROGRAMS = ("genground", "cov_rag", "self_completion", "retro_rag")
COSTS = ("tokens", "calls", "rounds")
INFERENTIAL = "inferential_evidence"
RESULTS = Path("experiments/results")


def costs_of(name: str, retrieve: Retriever, questions: list[Question], connection: Connection) -> list[dict[str, Any]]:
    """Return the costs of each question with one program, and its group."""
    program, rows = build(name, retrieve), []
    with connection.use():
        for question in questions:
            with metered() as meter:
                prediction = program(question=question.question)
            tokens = meter.prompt_tokens + meter.completion_tokens
            inferential = prediction.details.get(INFERENTIAL)
            rows.append({"tokens": tokens, "calls": meter.calls, "rounds": meter.rounds, INFERENTIAL: inferential})
        bound = program.max_calls()
    if max(row["calls"] for row in rows) > bound:
        raise AssertionError(f"{name} made more LM calls than its bound of {bound}.")
    return rows


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return mean, interval, minimum and maximum of each cost."""
    return {
        cost: {
            **mean_of([float(row[cost]) for row in rows]).as_dict(),
            "least": min(row[cost] for row in rows),
            "most": max(row[cost] for row in rows),
        }
        for cost in COSTS
    }


def groups(rows: dict[str, list[dict[str, Any]]]) -> dict[str, list[int]]:
    """Return the tokens per question of each group of the histogram: one per program, two for RetroRAG."""
    tokens: dict[str, list[int]] = {}
    for name, costs in rows.items():
        for row in costs:
            kind = "" if row[INFERENTIAL] is None else ", inferences made" if row[INFERENTIAL] else ", none made"
            tokens.setdefault(name + kind, []).append(int(row["tokens"]))
    return tokens


def main() -> None:
    """Measure, print the table, write the result file and the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS / "question_cost.json")
    arguments = parser.parse_args()
    if arguments.questions < 1:
        parser.error(f"--questions must be at least 1, got {arguments.questions}.")
    with tempfile.TemporaryDirectory() as folder:
        passages, path = generate(Path(folder) / "data", questions=arguments.questions, seed=arguments.seed)
        build_index(passages, Path(folder) / "index", retriever="bm25")
        retrieve, questions = open_index(Path(folder) / "index"), read_questions(path)
        connection = connect_any(f"simulated:{arguments.seed}", cache=False)
        rows = {name: costs_of(name, retrieve, questions, connection) for name in PROGRAMS}
    record = {
        **provenance("experiments.benchmarks.question_cost", connection),
        "questions": len(questions),
        "programs": {name: {**summary(costs), "rows": costs} for name, costs in rows.items()},
    }
    write_json(arguments.out, portable(record))
    picture = token_histogram(groups(rows), arguments.out.with_suffix(".png"), title="Tokens per question")
    for name in PROGRAMS:
        program = record["programs"][name]
        costs = ", ".join(
            f"{cost} {program[cost]['mean']:.0f} ({program[cost]['least']} to {program[cost]['most']})"
            for cost in COSTS
        )
        print(f"{name:16} {costs}")
    print(f"Written: {arguments.out} and {picture}", file=sys.stderr)


if __name__ == "__main__":
    main()
