"""Convert a benchmark (listed in `catalog.py`) to the project's files, and pool the passages of several.

A conversion reports if its source is a known public file, for example WebGLM's 400 questions. For fetched files the
checksum is recorded at the first download instead (see `fetch.py`).
"""

import contextlib
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any

from pydantic import ValidationError

from corpora.compressed import atomic_bytes
from corpora.datasets.catalog import DATASETS
from corpora.datasets.converters import wikimultihop
from corpora.datasets.fetch import verify
from corpora.datasets.readers import Located, read_source
from corpora.datasets.schema import Item, Schema
from corpora.jsonl import dump_line
from corpora.passages import PassageRecord, read_passages, write_passages
from corpora.questions import Question, drawn
from signatures.common.errors import UserError, first_problem, unknown
from signatures.common.files import atomic_write, sha256_file

# SHA-256 -> name in `../shared/data` of the public files, and parts of files, that the converters are tested on.
KNOWN_FILES = {
    "f103dbdf02296fa846475c970ef9394d297b1742b9119e45707dd51cd43ad639": "hotpotqa/hotpot_train_100.json",
    "1f16235c95a2669a516e43b35ca9912fe60a170c17b4da26e8e7e6d816f5d506": "hotpotqa/hotpot_dev_100.hf.jsonl",
    "dea098d9433501b0cb53887e788e4ecc6f63d5137cb00b0fae6315dd6f42b92b": "hotpotqa/hotpot_dev_500.ircot.jsonl",
    "99fe0e782dc8c068a974cb0c5f10cafebd9454dbafb3e5d764bf8529b142b47f": "2wikimultihopqa/2wiki_train.json",
    "9d6e352952aafb18dab22bf8195039461321a44a949df902ae83bce134ad238a": "2wikimultihopqa/corpus_6119.json",
    "940a5606220652d8d168b7ff93f3a8608dcfc4b0bd1b7356b5aa416a00d780e8": "musique/musique_ans_train_100.jsonl",
    "79845dd085f9df49c8ce440208763e2611aeb86c81ee0bdad2094504381bb651": "musique/corpus_1890.json",
    "0f72560b8a6fad3db847d2f1a7524fb087297843bb45a8d3245ffd68cbe0de12": "strategyqa/strategyqa_train.json",
    "828003e6c446d42566aefa1c576104f9d0aea1d13c8ad03497d59e3bae925924": "strategyqa/strategyqa_dev_100.json",
    "7ff582567af09a2211a9d055f6366db7e4c63869bae752340846a9317422c705": "strategyqa/paragraphs_998.jsonl",
    "58b20ed22a30a5f5f357f767cd536ea48ecc6886547ccbcf00d779e71d222a77": "nq_open/nq_open_400.jsonl",
    "2ea322b71a333023380c3954083b81af2d5670c8ac47ddec58c843233895c429": "nq_open/qed_dev_1355.jsonl",
    "6a7f72b846f663a133ef952244e5a4e43f06bcf190afe34e8fbe687ce0d1653e": "nq_open/nq_open_oracle_2655.jsonl.gz",
    "64cba53be30889747ac2e453e8229ae8542a634b1839dd6ae853f65876d5ad8a": "web_questions/web_questions_400.jsonl",
    "4a46971e676400b102885b4690f26014cbfed71d6d9785f134b22182170e58e3": "triviaqa/triviaqa_1000.jsonl",
    "0b41c4065fbffc5e6cd5e32214436ec44d09f47b364f12f767ff0366db19e907": "mintaka/mintaka_sample_7.json",
    "c21fff0bb3cdc4a2a885930e9291ca26af1e70174ee9e7b785c300023d55ea66": "halluqa/HalluQA.json",
}
_LARGEST_KNOWN = 4_000_000  # bytes; larger files need not be hashed


def known_file(source: str | Path) -> str | None:
    """Return the name in `KNOWN_FILES` of the file with the content of `source`; None if it is another one."""
    path = Path(source)
    known = path.is_file() and path.stat().st_size <= _LARGEST_KNOWN
    return KNOWN_FILES.get(sha256_file(path)) if known else None


@contextlib.contextmanager
def open_writer(questions: Path | None, passages: Path | None, *, distinct: bool = False) -> Iterator["Writer"]:
    """Yield a writer of questions and passages; both files appear if the block ends without an error, else neither.

    After an error, folders created for them are removed.

    Args:
        questions: None if there are none.
        passages: None if there are none; a suffix `.gz` or `.zst` compresses them.
        distinct: Whether no passage occurs twice, so that their ids need not be kept in memory.
    """
    folder = (questions or passages or Path()).parent
    created = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    try:
        with contextlib.ExitStack() as files:
            # The file entered last is renamed first: questions never appear without their passages.
            question_file = files.enter_context(atomic_write(questions, "wb")) if questions else None
            passage_file = files.enter_context(atomic_bytes(passages)) if passages else None
            yield Writer(question_file, passage_file, distinct=distinct)
            if question_file is not None:
                question_file.flush()  # a full disk must raise before the passages are renamed
                os.fsync(question_file.fileno())
    except BaseException:
        for parent in created:
            with contextlib.suppress(OSError):
                parent.rmdir()
        raise


class Writer:
    """Writes items to the two files, every passage once, and counts them; created by `open_writer`."""

    def __init__(self, questions: IO[bytes] | None, passages: IO[bytes] | None, *, distinct: bool) -> None:
        self.questions, self.passages, self.distinct = questions, passages, distinct
        self.counts: Counter[str] = Counter()
        if questions is not None:
            self.counts.update(questions=0)
        if passages is not None:
            self.counts.update(passages=0, paragraphs=0)
        self._sizes: dict[str, int] = {}  # passage id -> number of sentences written
        self._ids: Counter[str] = Counter()  # how often a question id occurred

    def write(self, location: str, item: Item) -> None:
        """Write one item.

        Raises:
            UserError: A question has the id of an earlier one.
        """
        self.counts.update(item.notes)
        if self.passages is not None:
            for passage in item.passages:
                self.counts["paragraphs"] += 1
                size = len(passage.sentences or ())
                if self.distinct or passage.id not in self._sizes:
                    self.passages.write(dump_line(passage))
                    self.counts["passages"] += 1
                    if not self.distinct:
                        self._sizes[passage.id] = size
                elif self._sizes[passage.id] != size:
                    self.counts["sentences_differ"] += 1
        if item.question is not None and self.questions is not None:
            question = self._with_unique_id(location, item.question, item.has_id)
            self.questions.write(dump_line(question))
            self.counts["questions"] += 1
            self.counts["questions_without_answer"] += not question.answers
            self.counts["gold_sentences"] += len(question.gold_sentences)

    def _with_unique_id(self, location: str, question: Question, has_id: bool) -> Question:
        """Return the question; a repeated id that was made from its text gets the number of the repeat appended."""
        self._ids[question.id] += 1
        times = self._ids[question.id]
        if times == 1:
            return question
        if has_id:
            raise UserError(
                f"{location}: the question id {question.id!r} is used twice. Give each question its own id."
            )
        self.counts["repeated_questions"] += 1
        return question.model_copy(update={"id": f"{question.id}-{times}"})


Progress = Callable[[int], None]
PACKED = ("", "gz", "zst")


@dataclass(frozen=True)
class Converted:
    """The result of a conversion.

    Args:
        questions_path: None if the dataset has no questions.
        passages_path: None if the dataset has no passages.
        counts: Of what was written, and of what could not be kept unchanged, by name.
        known_file: Name in `KNOWN_FILES` of the file with the content of the source; None if it is another one.
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
        limit: Maximum number of questions, at least 1, drawn by a hash of their ids from all of the source; of a corpus
            without questions, of passages from the front.
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
    every = chain([first], records)
    items = _items(name, shape, schema, every if schema.questions else islice(every, limit), split)
    if schema.questions and limit is not None:
        items = iter(drawn(items, limit, _id_of))
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
        raise UserError(f"Only 2wikimultihopqa has an alias file, {name} does not: omit aliases.")
    if packed not in PACKED:
        raise unknown("compression", packed, PACKED[1:])


def _id_of(located: tuple[str, Item]) -> str:
    question = located[1].question
    return "" if question is None else question.id


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
        raise UserError("Nothing to pool. Give at least one passages.jsonl.")
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
            for part in [record] if schema.parts is None else schema.parts(record):
                yield location, schema.read(part, split)
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
