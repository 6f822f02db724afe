"""Measure what a growing corpus costs: recall, time, memory and build of all retrievers, with ever more distractors.

    python -m experiments.benchmarks.retriever.growth --data ../shared/data --more ../shared/training_data

The questions of the development sets are asked of one corpus: the passages of all sets, and so many distractors. Each
retriever runs in a process of its own (`asked.py`). What is complete in the folder of work is kept, so that the same
command goes on after a kill, and further sizes or retrievers can be added later.

A recombined passage keeps what makes a real one likely to be found, its relations and its style, and is about somebody
who does not exist: two sentences of one passage and one of another, renamed to a mixture of both titles, with other
years. So it can answer no question, though it says what questions ask for of someone else. From the 100,000th on
they have one sentence: to embed a million longer ones would take hours.
"""

import argparse
import itertools
import os
import random
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from corpora.datasets.convert import convert, pool
from corpora.datasets.development import DEVELOPMENT
from corpora.encoders.openvino_encoder import PRECISIONS
from corpora.index.build import build_index
from corpora.index.info import EmbedderInfo, IndexInfo
from corpora.index.manifest import read_info
from corpora.index.update import vectors_of
from corpora.passages import PassageRecord, read_passages, write_passages
from corpora.questions import Question, read_questions, write_questions
from corpora.retrievers.dense import passage_text
from corpora.retrievers.embedder import Embedder, Vectors
from corpora.retrievers.store import PassageStore
from experiments.analysis.report.plots import empty_figure, write_png
from experiments.analysis.statistics import mean_of, paired
from experiments.benchmarks.retrieval_recall import METRICS, interval, short, values_of
from experiments.benchmarks.retriever import asked
from experiments.benchmarks.retriever.__main__ import prepare
from experiments.benchmarks.retriever.asked import Line, costs, lines_of
from experiments.runs.config import portable, provenance
from experiments.runs.files import write_json
from optimizers.distill.leakage import Evaluation
from signatures.common.errors import UserError
from signatures.common.files import sha256_text
from signatures.common.versions import installed_versions
from signatures.common.work import AppendedFile
from signatures.text_words import same_words, without_brackets

MODULE = "experiments.benchmarks.retriever.growth"
OUT = Path("experiments/results/retrieval_growth.json")
RETRIEVERS = ("bm25", "dense", "hybrid", "hybrid+own", "multihop", "multihop+own", "graph-multihop")
SHOWN = {name: METRICS[name] for name in ("passage_recall@5", "all_gold@5")}
MADE = "recombined/"  # begins the ids of recombined passages; no title makes an id with a slash
_LONGEST = 400  # characters of a sentence; longer ones are tables and lists
_SHORT_FROM = 100_000  # number of the first recombined passage of one sentence
# Data set, file in one of the two folders. Files without titles are left out: nothing else here lacks them.
REAL = (
    ("nq_open", "nq_qed_train.jsonl.gz"),
    ("nq_open", "nq_open/qed_dev_1355.jsonl"),
    ("nq_open", "nq_open/nq_open_oracle_2655.jsonl.gz"),
    ("hotpotqa", "hotpotqa/hotpot_train_100.json"),
    ("hotpotqa", "hotpotqa/hotpot_dev_100.hf.jsonl"),
    ("hotpotqa", "hotpotqa_train.jsonl.gz"),
    ("squad", "squad_v1_train_44_articles.jsonl.gz"),
)
_SENTENCE = re.compile(r"(?<=[a-z0-9)][.!?])\s+(?=[A-Z])")  # good enough here, and hundreds of times as fast as a rule
_YEAR = re.compile(r"\b(?:1[0-9]|20)[0-9]{2}\b")


class Reusing(Embedder):
    """The default embedder, which takes over vectors of indexes by it; what it embeds is counted and timed.

    Args:
        indexes: Folders of complete indexes.
        log: File to which each call of `passages` appends `taken`, `embedded`, `seconds` and `cpu_seconds`.
        options: Of an `Embedder`.
    """

    def __init__(self, indexes: Sequence[Path], log: Path, **options: Any):
        super().__init__(**options)
        self._log, self._known = log, dict[str, Vectors]()
        for folder in indexes:
            made = read_info(folder).embedder
            if made is None or made.vectors != EmbedderInfo.of(self).vectors:
                raise UserError(f"{folder} has no vectors by {self.id} in {self.precision}: name another index.")
            store = PassageStore(folder, keys=False)
            vectors = vectors_of(folder, len(store))
            self._known |= {sha256_text(passage_text(each)): vectors[n] for n, each in enumerate(store.records())}

    def passages(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of texts that are passages."""
        found = [self._known.get(sha256_text(text)) for text in texts]
        new = [text for text, vector in zip(texts, found, strict=True) if vector is None]
        start, cpu = time.perf_counter(), time.process_time()
        made = iter(super().passages(new) if new else ())
        took = {"seconds": time.perf_counter() - start, "cpu_seconds": time.process_time() - cpu}
        with AppendedFile(self._log) as file:
            file.append({"taken": len(texts) - len(new), "embedded": len(new), **took})
        return np.stack([next(made) if vector is None else vector for vector in found])


class Growth:
    """The questions, and the corpora and measurements of all sizes, in one folder."""

    def __init__(self, data: Path, more: Path, work: Path, precision: str = "f32"):
        self._precision = precision
        self.work, self.own, self.questions_path = work, work / "own.jsonl", work / "questions.jsonl"
        prepared = {name: _prepared(name, data, work / "sets") for name in DEVELOPMENT}
        self.sets: dict[str, list[Question]] = {name: questions for name, (_, questions) in prepared.items()}
        self.own_ids = {name: {each.id for each in read_passages(path)} for name, (path, _) in prepared.items()}
        if not self.questions_path.is_file():
            pool([path for path, _ in prepared.values()], self.own, overwrite=True)
            write_questions(self.questions_path, chain(*self.sets.values()))
        self._real = real_passages(data, more, work)

    def corpus(self, size: int) -> Path:
        """Return the file of the corpus with so many distractors."""
        out = self.work / str(size) / "passages.jsonl"
        if size == 0:
            return self.own
        if not out.is_file():
            own = list(read_passages(self.own))
            needed = Evaluation.of(chain(*self.sets.values()), {record.id: record for record in own})
            further = distractors(own, read_passages(self._real), needed)
            write_passages(out, chain(own, islice(further, size)))
        return out

    def index(self, size: int, words: bool, vectors: Sequence[Path]) -> Path:
        """Build the index of a size, of words alone or of everything, unless it is there; return its folder."""
        of_size = self.work / str(size)
        folder = of_size / ("bm25" if words else "index")
        if not (folder / "index.json").is_file():
            start, retriever = time.perf_counter(), "bm25" if words else "graph-multihop"
            embedder = Embedder() if words else Reusing(vectors, of_size / "embedding.jsonl", precision=self._precision)
            build_index(
                self.corpus(size), folder, retriever=retriever, resume=folder.exists(), progress=True, embedder=embedder
            )
            with AppendedFile(of_size / "built.jsonl") as file:
                file.append({"of": folder.name, "seconds": time.perf_counter() - start})
        return folder

    def answers(self, size: int, name: str) -> dict[str, Line]:
        """Return what a retriever found for each question, by id; fewer than all if it was not measured to the end."""
        return {line["id"]: line for line in lines_of(self._cell(size, name)) if "id" in line}

    def measure(self, size: int, name: str, folder: Path) -> None:
        """Ask one retriever, in a new process with one thread for what it computes."""
        command = [asked.MODULE, str(folder), name, str(self.questions_path), str(self._cell(size, name))]
        subprocess.run([sys.executable, "-m", *command], check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})

    def _cell(self, size: int, name: str) -> Path:
        return self.work / str(size) / f"{name}.jsonl"

    def complete(self, size: int, name: str) -> bool:
        """Return whether a retriever was asked all questions."""
        return len(self.answers(size, name)) == sum(map(len, self.sets.values()))

    def of_size(self, size: int) -> dict[str, Any]:
        """Return the record of a size: what was built, and each retriever that was asked all questions."""
        lines = lines_of(self.work / str(size) / "embedding.jsonl")
        spent = {key: sum(line[key] for line in lines) for key in ("taken", "embedded", "seconds", "cpu_seconds")}
        built = {line["of"]: line["seconds"] for line in lines_of(self.work / str(size) / "built.jsonl")}
        infos = {name: read_info(self.work / str(size) / name) for name in built}
        return {
            "passages": max((info.passages for info in infos.values()), default=None),
            "bm25_build_seconds": round(built["bm25"], 1) if "bm25" in built else None,
            "precision": next((info.embedder.precision for info in infos.values() if info.embedder), None),
            "embedding": {key: round(value, 1) for key, value in spent.items()} if "index" in built else None,
            "index_mb": {name: megabytes(info) for name, info in infos.items()},
            "retrievers": {name: self._retriever(size, name) for name in RETRIEVERS if self.complete(size, name)},
        }

    def _retriever(self, size: int, name: str) -> dict[str, Any]:
        lines, base = self.answers(size, name), self.answers(0, name)
        sets = {}
        for of, questions in self.sets.items():
            now, before = (
                values_of([by[question.id]["found"] for question in questions], questions, SHOWN)
                for by in (lines, base or lines)
            )
            sets[of] = {
                metric: {
                    **short(mean_of(now[metric])),
                    **({"change": short(paired(before[metric], now[metric]))} if size and base else {}),
                }
                for metric in SHOWN
            }
        return {"sets": sets, **costs(lines_of(self._cell(size, name))), "share_of_found": self._kinds(lines)}

    def _kinds(self, lines: Mapping[str, Line]) -> dict[str, dict[str, float]]:
        """Return for each set the share of each kind of passage among all that were found."""
        everything = set().union(*self.own_ids.values())
        shares = {}
        for name, questions in self.sets.items():
            found = Counter[str]()
            for passage in chain(*(lines[question.id]["found"] for question in questions)):
                own = "own set" if passage in self.own_ids[name] else "other sets" if passage in everything else None
                found[own or ("recombined" if passage.startswith(MADE) else "other real")] += 1
            shares[name] = {kind: round(count / found.total(), 4) for kind, count in found.most_common()}
        return shares


def _prepared(name: str, data: Path, work: Path) -> tuple[Path, list[Question]]:
    """Return the corpus and the questions of a set, which are kept."""
    kept = work / name / "asked.jsonl"
    if not kept.is_file():
        write_questions(kept, prepare(name, data, None, work)[1])
    return work / name / "passages.jsonl", read_questions(kept)


def megabytes(info: IndexInfo) -> dict[str, float]:
    """Return the size of each part of an index in MB."""
    parts = Counter[str]()
    for name, file in info.files.items():
        parts[name.split("/")[0] if "/" in name else "passages"] += file.bytes
    return {name: round(size / 1e6, 1) for name, size in parts.items()}


def table(sizes: Mapping[str, Any]) -> str:
    """Return recall@5 in percent with the change from no distractors, times and memory, as a Markdown table."""
    head = ["further passages", "retriever", *DEVELOPMENT, "p50, p99 ms", "of CPU", "MB at most, own"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for size, entry in sizes.items():
        for name, found in entry["retrievers"].items():
            cells = []
            for by in found["sets"].values():
                of = by["passage_recall@5"]
                cells.append(
                    f"{100 * of['mean']:.1f}" + (f" ({interval(of['change'], '+')})" if "change" in of else "")
                )
            times = [f"{of['p50']:.0f}, {of['p99']:.0f}" for of in found["ms"].values()]
            memory = ", ".join(str(value) for value in found["mb"].values())
            lines.append(f"| {' | '.join([f'{int(size):,}', name, *cells, *times, memory])} |")
    return "\n".join(lines)


def draw(sizes: Mapping[str, Any], path: Path) -> None:
    """Write the plot: recall@5 of each set, and the median time of the CPU, over the number of distractors."""
    figure, canvas = empty_figure(4.2 * (len(DEVELOPMENT) + 1), 3.8)
    *panels, times = figure.subplots(1, len(DEVELOPMENT) + 1)
    for name in (each for each in RETRIEVERS if any(each in entry["retrievers"] for entry in sizes.values())):
        points = {int(size): entry["retrievers"][name] for size, entry in sizes.items() if name in entry["retrievers"]}
        for axes, of in zip(panels, DEVELOPMENT, strict=True):
            means = [found["sets"][of]["passage_recall@5"] for found in points.values()]
            spread = [[100 * abs(each["mean"] - each[end]) for each in means] for end in ("low", "high")]
            values = [100 * each["mean"] for each in means]
            style = {"marker": "o", "markersize": 4, "capsize": 2, "linewidth": 1.2}
            axes.errorbar(list(points), values, yerr=spread, label=name, **style)
        values = [found["ms"]["cpu_ms"]["p50"] for found in points.values()]
        times.plot(list(points), values, marker="o", markersize=4, linewidth=1.2)
    for axes, title in zip((*panels, times), (*DEVELOPMENT, "median ms of CPU"), strict=True):
        axes.set_xscale("symlog", linthresh=10_000)
        axes.set_title(title, loc="left", fontsize=9)
        axes.spines[["top", "right"]].set_visible(False)
    times.set_yscale("log")
    panels[len(panels) // 2].legend(fontsize=7, loc="lower left", ncols=2)  # where no line ends
    panels[0].set_ylabel("passage_recall@5, %")
    figure.supxlabel("further passages in the corpus", fontsize=9)
    write_png(canvas, path)


def real_passages(data: Path, more: Path, work: Path) -> Path:
    """Write the pooled real passages into `work`, unless they are there; return the file."""
    out = work / "real.jsonl"
    if not out.is_file():
        files = []
        for dataset, file in REAL:
            found = next(folder / file for folder in (data, more) if (folder / file).is_file())
            files.append(convert(dataset, found, work / "converted" / found.name, overwrite=True).passages_path)
        pool([file for file in files if file], out)
    return out


def distractors(
    own: Sequence[PassageRecord], real: Iterable[PassageRecord], needed: Evaluation
) -> Iterator[PassageRecord]:
    """Yield passages that are not in `own`, real ones first; the first n are always the same.

    Args:
        own: The corpus of the questions.
        real: Those that equal a gold passage, contain one, or have the title of one are left out: another edition of
            it would count as wrong.
        needed: What the questions need.
    """
    ids, texts = {record.id for record in own}, {same_words(record.text) for record in own}
    kept = []
    for record in real:
        gold = needed.needs_article(record.title) or needed.needs(record.text)
        if not gold and record.id not in ids and (key := same_words(record.text)) not in texts:
            ids.add(record.id)
            texts.add(key)
            kept.append(record)
            yield PassageRecord(id=record.id, title=record.title, text=record.text)
    free = [record for record in own if record.id not in needed.gold_ids and not needed.needs_article(record.title)]
    yield from recombined([*free, *kept], {same_words(without_brackets(each.title)) for each in (*own, *kept)})


def recombined(bases: Sequence[PassageRecord], titles: set[str]) -> Iterator[PassageRecord]:
    """Yield passages made of the bases, with ids that begin with `MADE` and none of these titles (`same_words`)."""
    parts = [each for record in bases if (each := _parts(record))]
    for number in itertools.count():
        draw = random.Random(f"recombined {number}")
        (name, first), (other, second) = draw.choice(parts), draw.choice(parts)
        words, others = without_brackets(name).split(), without_brackets(other).split()
        title = " ".join([*words[: max(1, len(words) // 2)], *others[len(others) // 2 :]])
        if same_words(title) in titles or name == other:
            continue
        if number < _SHORT_FROM:
            taken = [_renamed(each, name, title) for each in first[:2]]
            taken.append(_renamed(draw.choice(second[1:] or second), other, title))
        else:
            taken = [_renamed(draw.choice(first), name, title)]
        text = _YEAR.sub(partial(_shifted, by=draw.choice((-7, -4, -2, 2, 3, 6))), " ".join(taken))
        yield PassageRecord(id=f"{MADE}{number:07d}", title=title + name[len(without_brackets(name)) :], text=text)


def _parts(record: PassageRecord) -> tuple[str, list[str]] | None:
    """Return title and sentences; None if it has no title or no sentence."""
    found = record.sentences or _SENTENCE.split(record.text)
    sentences = [each.strip() for each in found if 0 < len(each.strip()) <= _LONGEST]
    return (record.title, sentences) if same_words(without_brackets(record.title)) and sentences else None


def _shifted(year: re.Match[str], by: int) -> str:
    return str(int(year[0]) + by)


def _renamed(sentence: str, name: str, title: str) -> str:
    """Return a sentence about `title` instead of `name`, which is also known by its last word."""
    whole = without_brackets(name)
    sentence = sentence.replace(whole, title)
    last = whole.split()[-1]
    return sentence.replace(last, title.split()[-1]) if last[:1].isupper() and title not in sentence else sentence


def main() -> None:
    """Measure with the paths of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with the official files")
    parser.add_argument("--more", type=Path, required=True, help="folder with further training data")
    parser.add_argument("--work", type=Path, default=Path("indexes/growth"))
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--sizes", type=lambda text: [int(part) for part in text.split(",")], default=[0, 100_000])
    parser.add_argument("--retrievers", nargs="+", default=RETRIEVERS, choices=RETRIEVERS)
    parser.add_argument("--vectors", type=Path, nargs="+", default=[], help="indexes whose vectors are taken over")
    parser.add_argument("--precision", default="f32", choices=PRECISIONS, help="of the embedded passages")
    arguments = parser.parse_args()
    growth = Growth(arguments.data, arguments.more, arguments.work, arguments.precision)
    for size in arguments.sizes:
        growth.index(size, True, ())
        earlier = [path.parent for path in arguments.work.glob("*/index/index.json")]
        for name in arguments.retrievers:
            if not growth.complete(size, name):
                words = name == "bm25"
                growth.measure(size, name, growth.index(size, words, [*arguments.vectors, *earlier]))
    done = sorted(int(path.parent.name) for path in arguments.work.glob("*/built.jsonl"))
    sizes = {str(size): growth.of_size(size) for size in done}
    result = {**provenance(MODULE), "versions": installed_versions(("numpy", "tantivy", "openvino")), "sizes": sizes}
    write_json(arguments.out, portable(result))
    draw(sizes, arguments.out.with_suffix(".png"))
    print(table(sizes))


if __name__ == "__main__":
    main()
