"""Generated runs over the same questions, written directly: no LM and no corpus is behind them."""

import json
import random
from pathlib import Path
from typing import Any

METRICS = {
    "em": "1 when the answer equals a gold after normalising.",
    "f1[hotpot]": "Token f1 after normalising, best over the golds.",
    "acc[token]": "1 when the tokens of a gold are in the answer.",
    "passage_recall@5": "Share of the gold passages among the first 5 read.",
    "all_gold@5": "1 when all gold passages are among the first 5 read.",
}


def _row(number: int, run: int, cited: int) -> dict[str, Any]:
    draw = random.Random(f"{number} {run}")
    right, calls = draw.random() < 0.4 + 0.03 * run, draw.randint(4, 9)
    read = [{"id": f"p{number}-{place}", "title": f"Title {place}", "text": f"Text {place}."} for place in range(10)]
    hop = {"question": "h?", "answer": "x", "draft": "y", "evidence": read[0]["text"], "verdict": "accepted"}
    return {
        "id": f"q{number:05}",
        "question": f"Which {number} is it?",
        "answers": [f"answer {number}"],
        "type": ("bridge", "comparison")[number % 2],
        "about": {"gold_ids": 2, "level": ("easy", "medium", "hard")[number % 3]},
        "answer": f"answer {number}" if right else "another",
        "response": "It is so [1], and so [2].",
        "abstained": draw.random() < 0.02,
        "citations": [passage["id"] for passage in read[:cited]],
        "hops": [{**hop, "passage_ids": [read[place]["id"]]} for place in range(3)],
        "passage_ids": [passage["id"] for passage in read],
        "cited_passages": read[:cited],
        "scores": {
            "em": float(right),
            "f1[hotpot]": 1.0 if right else round(draw.random(), 3),
            "acc[token]": float(right or draw.random() < 0.1),
            "passage_recall@5": draw.choice([0.0, 0.5, 1.0]),
            "all_gold@5": float(draw.random() < 0.5),
        },
        **{"unparsed": {}, "judging": {}, "details": {"rounds": 3}},
        **{"calls": calls, "cached_calls": 0, "rounds": calls - 1, "replies": calls, "truncated": 0, "usd": 0.0},
        **{"prompt_tokens": 700 * calls, "completion_tokens": 40 * calls, "cached_tokens": 0},
        "parse_failures": int(draw.random() < 0.03),
        "seconds": round(calls * draw.uniform(0.2, 0.6), 4),
        "error": "RuntimeError: the server did not answer" if draw.random() < 0.005 else None,
    }


def generate_runs(folder: Path, *, runs: int, rows: int, cited: int = 4) -> list[Path]:
    """Write the runs `run1`, `run2` ... into a folder and return their folders."""
    about = {
        "schema": 1,
        "program": {"name": "genground", "knobs": {"k": 10}, "state_sha256": "0", "artifact_sha256": None},
        "lm": {"id": "generated", "model": "generated", "adapter": "ChatForm", "probability_mode": "logprobs"},
        "metrics": METRICS,
        "questions": {"n": rows, "sha256": "0" * 64},
        "corpus": {"fingerprint": "generated"},
        "seed": 0,
        "git_revision": None,
    }
    folders = [folder / f"run{run}" for run in range(1, runs + 1)]
    for run, own in enumerate(folders, start=1):
        own.mkdir(parents=True)
        (own / "run.json").write_text(json.dumps(about))
        lines = [json.dumps(_row(number, run, cited)) + "\n" for number in range(rows)]
        (own / "rows.jsonl").write_text("".join(lines))
    return folders
