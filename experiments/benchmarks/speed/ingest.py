"""Plain text to passages: megabytes a CPU second beside those of pysbd on the same texts, and where cuts differ.

    python -m experiments.benchmarks.speed.ingest --data ../shared/data

In every round pysbd splits a part of the paragraphs into sentences as `verihop ingest` once split all of them, and the
whole text is ingested, so that a busy machine slows both. CPU seconds are those of all processes, without those that a
text of one word takes.
`experiments/results/ingest.json` has the figures of the rounds.
"""

import argparse
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import ujson

from corpora.ingest.ingest import ingest
from corpora.sentences import document_sentences
from experiments.runs.config import portable, provenance
from experiments.runs.files import write_json
from signatures.common.errors import UserError
from signatures.text import split_sentences

RESULT = Path("experiments/results/ingest.json")
COPIES = 4  # of the text, so that starting a process takes little beside it
TEXTS = "hotpotqa/hotpot_dev_500.ircot.jsonl"


def paragraphs(data: Path) -> list[str]:
    """Return the paragraphs of HotpotQA's 500 dev questions, each once.

    Raises:
        UserError: The file is not there.
    """
    path = data / TEXTS
    if not path.is_file():
        raise UserError(f"No file {path}: name the folder of the development data with --data.")
    rows = map(ujson.loads, path.read_text(encoding="utf-8").splitlines())
    return list(dict.fromkeys(each["paragraph_text"] for row in rows for each in row["contexts"]))


def split_seconds(texts: Sequence[str]) -> float:
    """Return the CPU seconds in which pysbd splits texts."""
    start = time.process_time()
    for text in texts:
        split_sentences(text)
    return time.process_time() - start


def ingest_seconds(text: str, folder: Path) -> float:
    """Return the CPU seconds in which `COPIES` documents of a text become a file of passages, in all processes."""
    paths = [folder / f"{number}.txt" for number in range(COPIES)]
    for path in paths:
        path.write_text(text, encoding="utf-8")
    before = _used()
    ingest(paths, folder / "passages.jsonl")
    return _used() - before


def _used() -> float:
    own, others = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime


def compared(texts: Sequence[str]) -> dict[str, int]:
    """Return how many paragraphs and sentences there are, and how many paragraphs pysbd splits in another way."""
    pairs = [(document_sentences(text), split_sentences(text)) for text in texts]
    plain = [[[" ".join(sentence.split()) for sentence in found] for found in pair] for pair in pairs]
    differing = sum(ours != theirs for ours, theirs in plain)
    return {"paragraphs": len(texts), "sentences": sum(len(theirs) for _, theirs in pairs), "differing": differing}


def measured(texts: Sequence[str], rounds: int, share: int) -> list[dict[str, float]]:
    """Return the megabytes a CPU second of each round: of pysbd on a part of the texts, and of all as a document."""
    found: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        text = "\n\n".join(texts)
        for number in range(rounds):
            part = texts[number::share]  # others in each round, because `split_sentences` keeps what it has split
            pysbd = sum(map(_size, part)) / 1e6 / split_seconds(part)
            taken = ingest_seconds(text, Path(folder)) - ingest_seconds("Word.", Path(folder))
            ours = COPIES * _size(text) / 1e6 / taken
            found.append({"pysbd": pysbd, "ingest": ours, "ratio": ours / pysbd})
    return found


def _size(text: str) -> int:
    return len(text.encode())


def main() -> None:
    """Measure, print and write the result file."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of the development data")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--share", type=int, default=20, help="pysbd gets one paragraph of so many")
    parser.add_argument("--out", type=Path, default=RESULT)
    arguments = parser.parse_args()
    texts = paragraphs(arguments.data)
    found = measured(texts, arguments.rounds, arguments.share)
    spread = {
        name: {kind: round(of([each[name] for each in found]), 3) for kind, of in _KINDS.items()} for name in found[0]
    }
    record: dict[str, Any] = {
        **provenance("experiments.benchmarks.speed.ingest"),
        "texts": TEXTS,
        "bytes": sum(map(_size, texts)),
        "rounds": arguments.rounds,
        "megabytes_per_cpu_second": spread,
        "compared_with_pysbd": compared(texts),
    }
    write_json(arguments.out, portable(record))
    for name, values in spread.items():
        print(f"{name:8} {values['median']:.2f} ({values['min']:.2f} to {values['max']:.2f})")
    print(f"{record['compared_with_pysbd']}. Written: {arguments.out}", file=sys.stderr)


_KINDS: dict[str, Callable[[list[float]], float]] = {"median": statistics.median, "min": min, "max": max}

if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        sys.exit(str(error))
