"""Convert a benchmark (listed in `catalog.py`) to the project's files, and pool the passages of several."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from corpora.datasets.catalog import DATASETS
from corpora.datasets.checksums import known_file
from corpora.datasets.converters import wikimultihop
from corpora.datasets.fetch import verify
from corpora.datasets.readers import Located, read_source
from corpora.datasets.schema import Item, Schema
from corpora.datasets.writer import open_writer
from corpora.passages import PassageRecord, read_passages, write_passages
from signatures.common.errors import UserError, first_problem, unknown

Progress = Callable[[int], None]
PACKED = ("", "gz", "zst")


@dataclass(frozen=True)
class Converted:
    """The result of a conversion.

    Args:
        questions_path: None if the dataset has no questions.
        passages_path: None if the dataset has no passages.
        counts: Of what was written, and of what could not be kept unchanged, by name.
        known_file: Name in `checksums.CHECKSUMS` of the file with the content of the source; None if there is none.
    """

    questions_path: Path | None
    passages_path: Path | None
    counts: dict[str, int]
    known_file: str | None = None


def convert(
    name: str,
    source: str | Path,
    out_dir: str | Path,
    *,
    split: str | None = None,
    limit: int | None = None,
    aliases: str | Path | None = None,
    packed: str = "",
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Converted:
    """Write `questions.jsonl` and `passages.jsonl` of a benchmark into `out_dir`, both completely or neither.

    Paragraphs are never split or changed; equal ones are written once. What could not be kept unchanged is in `counts`
    by name. A benchmark without passages, or a corpus without questions, gives one file.

    Args:
        name: A key of DATASETS.
        source: A local file (see `readers.read_source`) or `hub:NAME[/CONFIG][@SPLIT]`.
        out_dir: Created if missing.
        split: Written with every question; by default the hub's split ("validation" becomes "dev"), none for a file.
        limit: Maximum number of records, taken from the front; at least 1.
        aliases: For 2wikimultihopqa, its official `id_aliases.json`: aliases and demonyms are accepted as answers.
        packed: "gz" or "zst" compresses the passages.
        overwrite: Replace the files of an earlier conversion.
        progress: Called after each record with the number converted.

    Raises:
        UserError: Unknown benchmark, no such file, invalid records, an unknown shape, duplicate ids, a file that has
            changed since it was fetched, or an earlier conversion without `overwrite`.
    """
    _check(name, limit, aliases, packed)
    names_of = wikimultihop.read_aliases(aliases) if aliases is not None else {}
    if Path(source).is_file():
        verify(Path(source))
    records, hub_split = read_source(str(source), DATASETS[name].inside)
    split = split or {"validation": "dev"}.get(str(hub_split), hub_split)
    first = next(records, None)
    if first is None:
        raise UserError(f"{str(source)!r} contains no record. Check the file.")
    shape, schema = _detect(name, *first)
    items = _items(name, shape, schema, islice(chain([first], records), limit), split)
    suffix = f".{packed}" if packed else ""
    questions_path = Path(out_dir) / "questions.jsonl" if schema.questions else None
    passages_path = Path(out_dir) / f"passages.jsonl{suffix}" if schema.passages else None
    for path in (questions_path, passages_path):
        if path is not None and path.exists() and not overwrite:
            raise UserError(f"{path} exists already: choose another folder, or set overwrite to replace it.")
    with open_writer(questions_path, passages_path, distinct=schema.distinct) as writer:
        for number, (location, item) in enumerate(items, 1):
            writer.write(location, _with_aliases(item, names_of))
            if progress is not None:
                progress(number)
    return Converted(questions_path, passages_path, dict(writer.counts), known_file(source))


def _check(name: str, limit: int | None, aliases: str | Path | None, packed: str) -> None:
    if name not in DATASETS:
        raise unknown("dataset", name, DATASETS)
    if limit is not None and limit < 1:
        raise UserError(f"The limit must be at least 1, got {limit}.")
    if aliases is not None and name != "2wikimultihopqa":
        raise UserError(f"Only 2wikimultihopqa has a file of aliases, {name} has none: omit aliases.")
    if packed not in PACKED:
        raise unknown("compression", packed, PACKED[1:])


def _with_aliases(item: Item, names_of: Mapping[str, Sequence[str]]) -> Item:
    """Return the item with the names of its answer's entity accepted as answers."""
    if not names_of or item.question is None:
        return item
    return replace(item, question=wikimultihop.with_aliases(item.question, names_of))


def pool(
    passage_files: Sequence[str | Path],
    out: str | Path,
    *,
    overwrite: bool = False,
    progress: Callable[[int], None] | None = None,
) -> dict[str, int]:
    """Merge passage files into one without repeated ids, in order of first appearance; return the counts.

    Of passages with one id the first is kept, but one with sentences is preferred to one without. `sentences_differ`
    counts passages that a later file splits into other sentences, so that its gold sentence numbers are wrong.
    `progress` is called after each passage with the number read.

    Raises:
        UserError: No file, an invalid file, one id with two different texts (white space ignored), or `out` exists and
            `overwrite` is not set.
    """
    if not passage_files:
        raise UserError("There is nothing to pool. Name at least one passages.jsonl.")
    if Path(out).exists() and not overwrite:
        raise UserError(f"{out} exists already: choose another file, or set overwrite to replace it.")
    best: dict[str, tuple[int, int, int]] = {}  # id -> index of its file, hash of its words, hash of its sentences
    counts: Counter[str] = Counter(read=0, written=0, duplicates=0, sentences_differ=0)
    for place, path in enumerate(passage_files):
        for passage in read_passages(path):
            counts["read"] += 1
            if progress is not None:
                progress(counts["read"])
            words = hash((passage.title, "".join(passage.text.split())))
            split = hash(tuple(passage.sentences)) if passage.sentences is not None else 0
            if passage.id not in best:
                best[passage.id] = (place, words, split)
                continue
            counts["duplicates"] += 1
            first, first_words, first_split = best[passage.id]
            if words != first_words:
                raise UserError(
                    f"{path}: the id {passage.id!r} has another text in {passage_files[first]}. Change one id."
                )
            counts["sentences_differ"] += bool(split and first_split and split != first_split)
            if split and not first_split:
                best[passage.id] = (place, words, split)
    counts["written"] = write_passages(out, _chosen(passage_files, best))
    return dict(counts)


def _chosen(files: Sequence[str | Path], best: Mapping[str, tuple[int, int, int]]) -> Iterator[PassageRecord]:
    for place, path in enumerate(files):
        for passage in read_passages(path):
            if best[passage.id][0] == place:
                yield passage


def _items(
    name: str, shape: str, schema: Schema, records: Iterator[Located], split: str | None
) -> Iterator[tuple[str, Item]]:
    for location, record in records:
        if not schema.fits(record):
            raise UserError(f"{location}: not in the shape {shape!r} of the first record. {_known(name)}")
        try:
            yield location, schema.read(record, split)
        except ValidationError as error:
            raise UserError(f"{location}: {first_problem(error)}. Fix or remove the record.") from error
        except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
            problem = f"{type(error).__name__} {error}".strip()
            raise UserError(f"{location}: does not have the shape {shape!r} ({problem}). Fix the record.") from error


def _detect(name: str, location: str, record: Mapping[str, Any]) -> tuple[str, Schema]:
    """Return name and schema of the shape of a benchmark's first record."""
    for shape, schema in DATASETS[name].schemas.items():
        if schema.fits(record):
            return shape, schema
    raise UserError(f"{location} has the keys {', '.join(record) or '(none)'}: no shape of {name}. {_known(name)}")


def _known(name: str) -> str:
    shapes = DATASETS[name].schemas.items()
    return "Known: " + "; ".join(f"{shape} ({', '.join(schema.keys)})" for shape, schema in shapes) + "."
