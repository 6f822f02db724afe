"""Human-judged pairs of a text and a statement: does the text support the whole statement?

- WiCE (Kamoi et al., EMNLP 2023, https://arxiv.org/abs/2303.01432), claims of Wikipedia against chunks of the page
  cited: "supported" counts as entailed, "partially_supported" and "not_supported" do not. An item is the claim's
  article.
- ExpertQA (Malaviya et al., NAACL 2024, https://arxiv.org/abs/2309.07852), sentences of LM answers against the passages
  they cite: "Complete" counts as entailed, "Partial" and "Incomplete" do not. An item is the question. Statements
  without a verdict, and those whose evidence is a URL without text, are skipped and counted.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from signatures.citation_marks import strip_citations
from signatures.common.files import sha256_file, sha256_text

WICE, EXPERTQA = "entailment/wice_claim_oracle_chunks_dev.jsonl", "citations/expertqa_rand_val.jsonl"
SEED = 0
_HEAD = re.compile(r"^\[\d+\]\s*\S*\s*")  # the mark and the URL before a piece of evidence
_FEWEST_WORDS = 4  # evidence with fewer words is skipped


@dataclass(frozen=True)
class JudgedPair:
    """One pair and its human verdict.

    Args:
        premise: The evidence, one sentence or passage per line.
        hypothesis: The statement, without citation marks.
        entailed: Whether the evidence supports all of it.
        data: "wice" or "expertqa".
        item: Article or question of the pair; all pairs of an item are in the same half.
    """

    premise: str
    hypothesis: str
    entailed: bool
    data: str
    item: str

    @property
    def texts(self) -> tuple[str, str]:
        """Premise and hypothesis, the input of an oracle."""
        return self.premise, self.hypothesis

    def half(self) -> int:
        """Return 0 (fitted on) or 1 (measured on); the same for all pairs of an item."""
        return int(sha256_text(f"{SEED}:{self.data}:{self.item}"), 16) % 2


def _lines(path: Path) -> Iterator[Any]:
    with open(path, encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def _wice(path: Path) -> Iterator[JudgedPair]:
    for row in _lines(path):
        entailed = row["label"] == "supported"
        yield JudgedPair("\n".join(row["evidence"]), row["claim"], entailed, "wice", row["meta"]["claim_title"])


def _expertqa(path: Path, skipped: Counter[str]) -> Iterator[JudgedPair]:
    for row in _lines(path):
        for answer in row["answers"].values():
            for claim in answer["claims"]:
                if claim["support"] not in ("Complete", "Partial", "Incomplete"):
                    skipped[f"expertqa: support {claim['support']}"] += 1
                    continue
                texts = dict.fromkeys(_HEAD.sub("", evidence).strip() for evidence in claim["evidence"])
                premise = "\n".join(text for text in texts if text)
                if len(premise.split()) < _FEWEST_WORDS:
                    skipped["expertqa: address without text"] += 1
                    continue
                hypothesis = strip_citations(claim["claim_string"])
                yield JudgedPair(premise, hypothesis, claim["support"] == "Complete", "expertqa", row["question"])


def read_judged_pairs(data: Path) -> tuple[list[JudgedPair], dict[str, Any]]:
    """Return all pairs of the files under `data`, and a description: file hashes, counts, skipped statements."""
    skipped: Counter[str] = Counter()
    pairs = [*_wice(data / WICE), *_expertqa(data / EXPERTQA, skipped)]
    counts = Counter(f"{pair.data}, half {pair.half()}, {'entailed' if pair.entailed else 'not'}" for pair in pairs)
    return pairs, {
        "files": {name: sha256_file(data / name) for name in (WICE, EXPERTQA)},
        "pairs": dict(sorted(counts.items())),
        "items": dict(Counter(data for data, _ in {(pair.data, pair.item) for pair in pairs})),
        "left_out": dict(skipped),
        "split": f"by item, parity of SHA-256 of '{SEED}:data:item'",
    }


def sample(pairs: Sequence[JudgedPair], n: int | None) -> list[JudgedPair]:
    """Return `n` of the pairs in their order, sampled by a seeded hash of their text; all pairs if `n` is None."""
    if n is None or n >= len(pairs):
        return list(pairs)
    sampled = sorted(pairs, key=lambda pair: sha256_text(f"{SEED}:{pair.premise}:{pair.hypothesis}"))[:n]
    chosen = {id(pair) for pair in sampled}
    return [pair for pair in pairs if id(pair) in chosen]
