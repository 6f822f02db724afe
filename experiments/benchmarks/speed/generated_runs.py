"""Generated runs of any size, with traces of realistic length, to measure what reads runs.

The files are written directly, so that thousands of rows take seconds: no LM and no corpus is behind them.
"""

import itertools
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

METRICS = {
    "em": "1 when the answer equals a gold after normalising.",
    "f1[hotpot]": "Token f1 after normalising, best over the golds.",
    "acc[token]": "1 when the tokens of a gold are in the answer.",
    "passage_recall@5": "Share of the gold passages among the first 5 read.",
    "all_gold@5": "1 when all gold passages are among the first 5 read.",
}
_SYLLABLES = "ba re ti lo mun kar sel ov dra pin esh wo tal gri fen us ma ke".split()
_WORDS = 4_000  # of the language that texts are made of
_PASSAGES = 12_000  # of the corpus
_READ = 10  # passages per question
_TEXT = 100  # words of a passage


def _vocabulary(draw: random.Random) -> list[str]:
    return ["".join(draw.choices(_SYLLABLES, k=draw.randint(1, 4))) for _ in range(_WORDS)]


class _Texts:
    """Texts whose words are as unevenly frequent as those of a language (Zipf), so that they compress like one."""

    def __init__(self, seed: int):
        self._draw = random.Random(seed)
        self._words = _vocabulary(self._draw)
        self._weights = list(itertools.accumulate(1 / rank for rank in range(1, _WORDS + 1)))

    def words(self, count: int) -> str:
        """Return a text of so many words."""
        return " ".join(self._draw.choices(self._words, cum_weights=self._weights, k=count))

    def passages(self) -> list[dict[str, str]]:
        """Return the corpus."""
        return [
            {"id": f"p{number}", "title": self.words(3).title(), "text": self.words(_TEXT)}
            for number in range(_PASSAGES)
        ]


def _row(
    question: str, texts: _Texts, read: Sequence[dict[str, str]], *, number: int, cited: int, quality: float
) -> dict[str, Any]:
    draw = random.Random(f"{number} {quality}")
    right = draw.random() < quality
    gold = f"answer {number}"
    answer = gold if right else texts.words(2)
    hops = [
        {
            "question": texts.words(12),
            "answer": texts.words(3),
            "draft": texts.words(3),
            "evidence": read[hop]["text"][:240],
            "passage_ids": [passage["id"] for passage in read[3 * hop : 3 * hop + 3]],
            "verdict": "accepted",
        }
        for hop in range(3)
    ]
    calls = draw.randint(4, 9)
    return {
        "id": f"q{number:05}",
        "question": question,
        "answers": [gold],
        "type": ("bridge", "comparison")[number % 2],
        "about": {"gold_ids": 2, "level": ("easy", "medium", "hard")[number % 3]},
        "answer": answer,
        "response": f"{texts.words(60)} [1] {texts.words(20)} [2].",
        "abstained": draw.random() < 0.02,
        "citations": [passage["id"] for passage in read[:cited]],
        "hops": hops,
        "details": {"rounds": 3, "drafts": [hop["draft"] for hop in hops]},
        "passage_ids": [passage["id"] for passage in read],
        "cited_passages": list(read[:cited]),
        "scores": {
            "em": float(right),
            "f1[hotpot]": 1.0 if right else round(draw.random(), 3),
            "acc[token]": float(right or draw.random() < 0.1),
            "passage_recall@5": draw.choice([0.0, 0.5, 1.0]),
            "all_gold@5": float(draw.random() < 0.5),
        },
        "unparsed": {},
        "judging": {},
        "calls": calls,
        "cached_calls": 0,
        "prompt_tokens": 700 * calls + draw.randint(0, 300),
        "completion_tokens": 40 * calls,
        "cached_tokens": 0,
        "rounds": calls - 1,
        "replies": calls,
        "parse_failures": int(draw.random() < 0.03),
        "truncated": 0,
        "usd": 0.0,
        "seconds": round(calls * draw.uniform(0.2, 0.6), 4),
        "error": "RuntimeError: the server did not answer" if draw.random() < 0.005 else None,
    }


def _description(label: str, rows: int) -> dict[str, Any]:
    return {
        "schema": 1,
        "program": {"name": "genground", "knobs": {"k": _READ}, "state_sha256": label, "artifact_sha256": None},
        "lm": {"id": "generated", "model": "generated", "adapter": "ChatForm", "probability_mode": "logprobs"},
        "metrics": METRICS,
        "questions": {"n": rows, "sha256": "0" * 64},
        "corpus": {"fingerprint": "generated"},
        "seed": 0,
        "git_revision": None,
    }


def generate_runs(folder: Path, *, runs: int, rows: int, cited: int = 4, seed: int = 0) -> list[Path]:
    """Write runs over the same questions and return their folders.

    Args:
        folder: The runs are `run1`, `run2` ... in it.
        runs: How many.
        rows: Questions of each.
        cited: Cited passages of 100 words per row, at most 10; they are most of a row's bytes.
        seed: Of everything.
    """
    texts = _Texts(seed)
    corpus = texts.passages()
    draw = random.Random(seed)
    read = [draw.choices(corpus, k=_READ) for _ in range(rows)]
    asked = [f"Which {texts.words(14)} is it?" for _ in range(rows)]
    folders = []
    for run in range(1, runs + 1):
        own = folder / f"run{run}"
        own.mkdir(parents=True)
        (own / "run.json").write_text(json.dumps(_description(own.name, rows)))
        with open(own / "rows.jsonl", "w", encoding="utf-8") as file:
            for number in range(rows):
                quality = 0.4 + 0.03 * run
                row = _row(asked[number], texts, read[number], number=number, cited=cited, quality=quality)
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
        folders.append(own)
    return folders
