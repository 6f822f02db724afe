"""The benchmarks verihop can convert, and the two commands on them: `convert` and `pool`."""

import contextlib
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any

from pydantic import ValidationError

from corpora.datasets import hotpotqa, musique, plain, wikimultihop
from corpora.datasets.item import Item, Schema
from corpora.datasets.records import Located, read_source
from corpora.jsonl import dump_line, first_problem
from corpora.passages import PassageRecord, read_passages, write_passages
from signatures.errors import UserError, unknown
from signatures.files import atomic_write

Progress = Callable[[int], None]


@dataclass(frozen=True)
class Dataset:
    """One benchmark: its published shapes by name, its licence and where its official files are."""

    schemas: Mapping[str, Schema]
    licence: str
    source: str


DATASETS: dict[str, Dataset] = {
    "hotpotqa": Dataset(hotpotqa.SCHEMAS, "CC BY-SA 4.0", "https://hotpotqa.github.io"),
    "2wikimultihopqa": Dataset(wikimultihop.SCHEMAS, "Apache-2.0", "https://github.com/Alab-NII/2wikimultihop"),
    "musique": Dataset(musique.SCHEMAS, "CC BY 4.0", "https://github.com/StonyBrookNLP/musique"),
    "plain": Dataset(plain.SCHEMAS, "that of the file", "any JSON with title and text"),
}


@dataclass(frozen=True)
class Converted:
    """What a conversion wrote; `questions_path` is None for a corpus without questions."""

    questions_path: Path | None
    passages_path: Path
    counts: dict[str, int]


def convert(
    name: str,
    source: str | Path,
    out_dir: str | Path,
    *,
    split: str | None = None,
    limit: int | None = None,
    aliases: str | Path | None = None,
    progress: Progress | None = None,
) -> Converted:
    """Write `questions.jsonl` and `passages.jsonl` of a benchmark into `out_dir`, both whole or neither.

    Paragraphs are never cut or changed; equal ones are written once. Whatever could not be kept as it stood is in
    `counts` under its own name.

    Args:
        name: A key of DATASETS.
        source: A local file (JSON array or JSON lines, also `.gz` and `.zst`) or `hub:NAME[/CONFIG][@SPLIT]`.
        out_dir: Made when missing.
        split: Stated with every question; by default the hub's split ("validation" becomes "dev"), None for a file.
        limit: Convert the first records only; at least 1.
        aliases: For 2wikimultihopqa, its official `id_aliases.json`: adds the answers' aliases and demonyms.
        progress: Called with the number of records done, once per record.

    Raises:
        UserError: Unknown benchmark, no such file, broken records, a shape that is not known, or duplicate ids.
    """
    if name not in DATASETS:
        raise unknown("dataset", name, DATASETS)
    if limit is not None and limit < 1:
        raise UserError(f"The limit must be at least 1, got {limit}.")
    if aliases is not None and name != "2wikimultihopqa":
        raise UserError(f"Only 2wikimultihopqa has a file of aliases, {name} has none. Leave it out.")
    names = wikimultihop.read_aliases(aliases) if aliases is not None else {}
    records, found_split = read_source(str(source))
    split = split or {"validation": "dev"}.get(str(found_split), found_split)
    items = _items(name, islice(records, limit), split, str(source))
    out = Path(out_dir)
    questions_path = None if name == "plain" else out / "questions.jsonl"
    passages_path = out / "passages.jsonl"
    with contextlib.ExitStack() as files:
        # The one entered last is renamed first: where questions stand, their passages stand.
        questions_file = files.enter_context(atomic_write(questions_path, "wb")) if questions_path else None
        passages_file = files.enter_context(atomic_write(passages_path, "wb"))
        writer = _Writer(passages_file, questions_file, names)
        for number, (where, item) in enumerate(items, 1):
            writer.write(where, item)
            if progress is not None:
                progress(number)
        for file in filter(None, (questions_file, passages_file)):
            file.flush()  # a full disk must show before the first file is renamed
            os.fsync(file.fileno())
    return Converted(questions_path, passages_path, dict(writer.counts))


def pool(passage_files: Sequence[str | Path], out: str | Path) -> dict[str, int]:
    """Merge passage files into one without repeated ids, in order of first appearance; return the counts.

    Of two passages with one id the first is kept, but one with sentences goes before one without.
    `sentences_differ` counts ids whose files cut them into different sentences: there gold sentence numbers of the
    later file do not hold.

    Raises:
        UserError: No file, a bad file, or one id with two different texts (white space apart).
    """
    if not passage_files:
        raise UserError("There is nothing to pool. Name at least one passages.jsonl.")
    best: dict[str, tuple[int, int, int]] = {}  # id -> file that gives it, hash of its words, hash of its sentences
    counts: Counter[str] = Counter(read=0, written=0, duplicates=0, sentences_differ=0)
    for place, path in enumerate(passage_files):
        for passage in read_passages(path):
            counts["read"] += 1
            words = hash((passage.title, "".join(passage.text.split())))
            cut = hash(tuple(passage.sentences)) if passage.sentences is not None else 0
            if passage.id not in best:
                best[passage.id] = (place, words, cut)
                continue
            counts["duplicates"] += 1
            first, first_words, first_cut = best[passage.id]
            if words != first_words:
                raise UserError(
                    f"{path}: the id {passage.id!r} has another text in {passage_files[first]}. Give one a new id."
                )
            counts["sentences_differ"] += bool(cut and first_cut and cut != first_cut)
            if cut and not first_cut:
                best[passage.id] = (place, words, cut)
    counts["written"] = write_passages(out, _chosen(passage_files, best))
    return dict(counts)


def _chosen(files: Sequence[str | Path], best: Mapping[str, tuple[int, int, int]]) -> Iterator[PassageRecord]:
    for place, path in enumerate(files):
        for passage in read_passages(path):
            if best[passage.id][0] == place:
                yield passage


def _items(name: str, records: Iterator[Located], split: str | None, source: str) -> Iterator[tuple[str, Item]]:
    """Convert records by the shape that the first of them has."""
    schema: Schema | None = None
    shape = ""
    for where, record in records:
        if not isinstance(record, dict):
            raise UserError(f"{where}: a JSON {type(record).__name__} instead of an object. {_known(name)}")
        if schema is None:
            shape, schema = _detect(name, where, record)
        if not schema.fits(record):
            raise UserError(f"{where}: not in the shape {shape!r} of the first record. {_known(name)}")
        try:
            yield where, schema.read(record, split)
        except ValidationError as error:
            raise UserError(f"{where}: {first_problem(error)}. Mend or remove the record.") from error
        except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
            problem = f"{type(error).__name__} {error}".strip()
            raise UserError(f"{where}: does not keep to the shape {shape!r} ({problem}). Mend the record.") from error
    if schema is None:
        raise UserError(f"{source!r} holds no record. Check the file.")


def _detect(name: str, where: str, record: Mapping[str, Any]) -> tuple[str, Schema]:
    for shape, schema in DATASETS[name].schemas.items():
        if schema.fits(record):
            return shape, schema
    raise UserError(f"{where} has the keys {', '.join(record) or '(none)'}: no shape of {name}. {_known(name)}")


def _known(name: str) -> str:
    shapes = DATASETS[name].schemas.items()
    return "Known: " + "; ".join(f"{shape} ({', '.join(schema.keys)})" for shape, schema in shapes) + "."


class _Writer:
    """Writes items to the two files, every passage once, and counts."""

    def __init__(self, passages: IO[bytes], questions: IO[bytes] | None, aliases: Mapping[str, Sequence[str]]) -> None:
        self.passages, self.questions, self.aliases = passages, questions, aliases
        self.counts: Counter[str] = Counter(questions=0, passages=0, paragraphs=0)
        self._sizes: dict[str, int] = {}  # passage id -> number of sentences as written
        self._ids: set[str] = set()

    def write(self, where: str, item: Item) -> None:
        for passage in item.passages:
            self.counts["paragraphs"] += 1
            size = len(passage.sentences or ())
            if passage.id not in self._sizes:
                self._sizes[passage.id] = size
                self.passages.write(dump_line(passage))
                self.counts["passages"] += 1
            elif self._sizes[passage.id] != size:
                self.counts["sentences_differ"] += 1
        self.counts.update(item.notes)
        if item.question is None or self.questions is None:
            return
        question = item.question
        if question.id in self._ids:
            raise UserError(f"{where}: the question id {question.id!r} came before. Give each question its own id.")
        self._ids.add(question.id)
        if self.aliases:
            question = wikimultihop.with_aliases(question, self.aliases)
        self.questions.write(dump_line(question))
        self.counts["questions"] += 1
        self.counts["questions_without_answer"] += not question.answers
        self.counts["gold_sentences"] += len(question.gold_sentences)
