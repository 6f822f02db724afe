"""Pairs of a text and a statement that people judged: does the text support the whole statement?

- WiCE (Kamoi et al., EMNLP 2023, https://arxiv.org/abs/2303.01432), claims of Wikipedia against chunks of the page
  cited: "supported" counts as entailed, "partially_supported" and "not_supported" do not. An item is the claim's
  article.
- ExpertQA (Malaviya et al., NAACL 2024, https://arxiv.org/abs/2309.07852), sentences of LM answers against the passages
  they cite: "Complete" counts as entailed, "Partial" and "Incomplete" do not. An item is the question. Left out and
  counted: statements without a verdict, and those whose evidence is an address without text.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from signatures.common.files import sha256_file, sha256_text
from signatures.text import strip_citations

WICE, EXPERTQA = "entailment/wice_claim_oracle_chunks_dev.jsonl", "citations/expertqa_rand_val.jsonl"
SEED = 0
_HEAD = re.compile(r"^\[\d+\]\s*\S*\s*")  # the mark and the address before a piece of evidence
_FEWEST_WORDS = 4  # evidence with fewer is no text


@dataclass(frozen=True)
class Judged:
    """One pair and what people said.

    Args:
        premise: The evidence, one sentence or passage per line.
        hypothesis: The statement, without citation marks.
        entailed: Whether the evidence supports all of it.
        data: "wice" or "expertqa".
        item: What the pair was made from; pairs of one item stay together.
    """

    premise: str
    hypothesis: str
    entailed: bool
    data: str
    item: str

    @property
    def pair(self) -> tuple[str, str]:
        """Return what an oracle takes."""
        return self.premise, self.hypothesis

    def half(self, seed: int = SEED) -> int:
        """Return 0, fitted on, or 1, measured on; the same for all pairs of an item."""
        return int(sha256_text(f"{seed}:{self.data}:{self.item}"), 16) % 2


def _lines(path: Path) -> Iterator[Any]:
    with open(path, encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def _wice(path: Path) -> Iterator[Judged]:
    for row in _lines(path):
        entailed = row["label"] == "supported"
        yield Judged("\n".join(row["evidence"]), row["claim"], entailed, "wice", row["meta"]["claim_title"])


def _expertqa(path: Path, left_out: Counter[str]) -> Iterator[Judged]:
    for row in _lines(path):
        for answer in row["answers"].values():
            for claim in answer["claims"]:
                if claim["support"] not in ("Complete", "Partial", "Incomplete"):
                    left_out[f"expertqa: support {claim['support']}"] += 1
                    continue
                told = dict.fromkeys(_HEAD.sub("", evidence).strip() for evidence in claim["evidence"])
                premise = "\n".join(text for text in told if text)
                if len(premise.split()) < _FEWEST_WORDS:
                    left_out["expertqa: address without text"] += 1
                    continue
                said = strip_citations(claim["claim_string"])
                yield Judged(premise, said, claim["support"] == "Complete", "expertqa", row["question"])


def read_judged(data: Path) -> tuple[list[Judged], dict[str, Any]]:
    """Return all pairs of the files under `data`, and what they are: files with hashes, counts, what was left out."""
    left_out: Counter[str] = Counter()
    pairs = [*_wice(data / WICE), *_expertqa(data / EXPERTQA, left_out)]
    counts = Counter(f"{one.data}, half {one.half()}, {'entailed' if one.entailed else 'not'}" for one in pairs)
    return pairs, {
        "files": {name: sha256_file(data / name) for name in (WICE, EXPERTQA)},
        "pairs": dict(sorted(counts.items())),
        "items": dict(Counter(data for data, _ in {(one.data, one.item) for one in pairs})),
        "left_out": dict(left_out),
        "split": f"by item, parity of SHA-256 of '{SEED}:data:item'",
    }


def some(pairs: Sequence[Judged], n: int | None, seed: int = SEED) -> list[Judged]:
    """Return `n` of the pairs, drawn by a seeded hash of their text, in their order; all of them without `n`."""
    if n is None or n >= len(pairs):
        return list(pairs)
    drawn = sorted(pairs, key=lambda one: sha256_text(f"{seed}:{one.premise}:{one.hypothesis}"))[:n]
    chosen = {id(one) for one in drawn}
    return [one for one in pairs if id(one) in chosen]
