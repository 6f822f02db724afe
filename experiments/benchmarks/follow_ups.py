"""Follow-up questions over the demo corpus: which form of them finds the gold passage, and what `rag` answers to it.

    python -m experiments.benchmarks.follow_ups

The 20 dialogues (`follow_ups.jsonl`) are invented: 17 follow-ups that need the turns before, and 3 questions that need
nothing. Forms: the follow-up alone; with the last turn in brackets; the LM's rewriting as it is (the follow-up where
its reply cannot be read); the service's, which checks the rewriting (`programs.parts.conversation`); the form written
by hand. `experiments/results/follow_ups.json` has the share of gold passages among the first k, exact match, and what
was asked.
"""

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import dspy

from experiments.runs.config import portable, provenance
from experiments.runs.files import write_json
from optimizers.metrics.answer import exact_match
from programs.inference import Answerer
from programs.lms.connect import Connection, connect
from programs.parts.conversation import recent, understand, with_last_turn
from programs.parts.prediction import try_predict
from programs.single_step.rag import RAG
from signatures.conversation import RewriteFollowUp
from signatures.types import Retriever, Turn

DIALOGUES = Path(__file__).with_name("follow_ups.jsonl")
RESULT = Path("experiments/results/follow_ups.json")
FIRST = (1, 3, 5)  # passages looked at


def dialogues() -> list[dict[str, Any]]:
    """Return the dialogues: `turns`, `question`, the same `self_contained`, `answers` and `gold_ids`."""
    return [json.loads(line) for line in DIALOGUES.read_text(encoding="utf-8").splitlines()]


def forms(dialogue: dict[str, Any]) -> dict[str, str]:
    """Return what is asked in each form; the LM of the running context is called twice."""
    question, turns = dialogue["question"], recent([Turn(**turn) for turn in dialogue["turns"]])
    reply = try_predict(dspy.Predict(RewriteFollowUp), turns=turns, question=question)
    return {
        "follow-up alone": question,
        "with the last turn": with_last_turn(question, turns),
        "rewritten": (reply.rewritten.strip() if reply else "") or question,
        "rewritten and checked": understand(question, turns).question,
        "by hand": dialogue["self_contained"],
    }


def measured(asked: Sequence[dict[str, str]], retrieve: Retriever, answer: Callable[[str], str]) -> dict[str, Any]:
    """Return of each form the share of gold passages found, and of right answers."""
    found = {}
    for form in asked[0]:
        ranks = [_ranks(one[form], dialogue, retrieve) for one, dialogue in zip(asked, dialogues(), strict=True)]
        right = [
            exact_match(answer(one[form]), each["answers"]) or 0.0 for one, each in zip(asked, dialogues(), strict=True)
        ]
        found[form] = {f"gold among {k}": sum(rank < k for rank in ranks) / len(ranks) for k in FIRST}
        found[form]["exact match"] = sum(right) / len(right)
    return found


def _ranks(question: str, dialogue: dict[str, Any], retrieve: Retriever) -> int:
    ids = [passage.id for passage in retrieve(question, max(FIRST))]
    return max(ids.index(gold) if gold in ids else max(FIRST) for gold in dialogue["gold_ids"])


def _all(connection: Connection, folder: Path) -> tuple[list[dict[str, str]], list[str], dict[str, Any]]:
    from corpora.index.build import build_index
    from corpora.index.open import open_index
    from experiments.pipeline.demo import DEMO_CORPUS

    build_index(DEMO_CORPUS / "passages.jsonl", folder / "index", retriever="hybrid")
    retrieve = open_index(folder / "index")
    answerer = Answerer(RAG(retrieve), connection)
    with connection.use(), dspy.context(trace=None):
        asked = [forms(dialogue) for dialogue in dialogues()]
        how = [understand(one["question"], [Turn(**turn) for turn in one["turns"]]).how for one in dialogues()]
    return asked, [str(each) for each in how], measured(asked, retrieve, lambda question: answerer(question).answer)


def main() -> None:
    """Measure all forms, print a line for each, and write the result file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lm", default="embedded", help="that rewrites and answers")
    parser.add_argument("--out", type=Path, default=RESULT)
    arguments = parser.parse_args()
    connection = connect(arguments.lm)
    with tempfile.TemporaryDirectory() as folder:
        asked, how, found = _all(connection, Path(folder))
    head = provenance("experiments.benchmarks.follow_ups", connection)
    result = {**head, "questions": len(asked), "how": dict(Counter(how)), "forms": found, "asked": asked}
    write_json(arguments.out, portable(result))
    for form, shares in found.items():
        print(f"{form}: {', '.join(f'{name} {share:.2f}' for name, share in shares.items())}")
    print(f"Written: {arguments.out}", file=sys.stderr)


if __name__ == "__main__":
    main()
