"""Hashes of single questions and passages, by which others check, without the texts, whether theirs are the same."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from pydantic import BaseModel, Field, ValidationError

from corpora.compressed import read_lines
from corpora.index.info import IndexInfo
from corpora.index.manifest import read_info, which_corpora
from corpora.index.replace import complete_index
from corpora.passages import read_passages
from corpora.questions import read_questions
from corpora.retrievers.store import PassageStore
from signatures.common.errors import UserError, first_problem
from signatures.common.files import sha256_text
from signatures.common.secrets import redacted
from signatures.common.strict_json import parse_strict_json

SCHEMA = 2
MOST = 100_000  # passages of a corpus that are hashed one by one
DIGITS = 16  # of a hash: few enough to publish pools, and no two passages of one share them by chance
_HASH = f"the first {DIGITS} digits of the SHA-256 of the JSON list {{}}, as Python's json.dumps writes it"
ABOUT = {"question": _HASH.format("[question, answers, gold_ids]"), "passage": _HASH.format("[title, text]")}


class Pool(BaseModel):
    """What is published of a corpus.

    Args:
        passages: Their number; None if it is not known.
        each: Id -> hash of the passage; empty if they are not hashed.
        why: Why they are not hashed.
    """

    passages: int | None = None
    each: dict[str, str] = {}
    why: str | None = None


class _Asked(BaseModel):
    title: str
    each: dict[str, str]


class Published(BaseModel):
    """What a file of hashes says of questions, and of corpora by their hashes; it says more, which is not read here."""

    version: Literal[2] = Field(alias="schema")
    boards: dict[str, _Asked]
    corpora: dict[str, Pool]


@dataclass(frozen=True)
class Checked:
    """How questions or passages compare with those that are published.

    Args:
        what: They are of.
        same: How many are the same.
        differ: Ids with another content.
        missing: Ids that only the others have.
        extra: Ids that only the others lack.
        renamed: How many of those missing are among the extra ones, under another id.
        why: Why nothing can be said of single ones.
    """

    more: ClassVar[bool] = False  # whether extra ones do no harm
    what: str
    same: int = 0
    differ: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    renamed: int = 0
    why: str | None = None

    @property
    def alike(self) -> bool:
        """Whether everything that is published is there, unchanged, and nothing else that would matter."""
        return not (self.differ or self.missing or self.why or (self.extra and not self.more))


class CheckedQuestions(Checked):
    """How questions compare: a file may have more of them than were asked."""

    more: ClassVar[bool] = True


def question_hash(question: str, answers: Iterable[str], gold_ids: Iterable[str]) -> str:
    """Return the hash of a question with its gold (`ABOUT`); keys in it are hidden, as in the rows of a run."""
    return _hash(redacted([question, [*answers], [*gold_ids]]))


def _hash(value: list[object]) -> str:
    return sha256_text(json.dumps(value))[:DIGITS]


def passages_of_file(path: Path | str) -> dict[str, str]:
    """Return the id and hash of each passage of a file."""
    return {each.id: _hash([each.title, each.text]) for each in read_passages(path)}


def pool_of(digest: str, passages: int | None, indexes: Iterable[Path], file: Path | None) -> Pool:
    """Return what can be published of a corpus: of at most `MOST` passages the hash of each.

    Args:
        digest: Hash of the corpus, as `index.json` has it.
        passages: Their number, if it is known.
        indexes: Folders that may have its index; what is there now may be of another corpus.
        file: Has it; None if no file is known to.
    """
    folder, info = next(_indexes_of(digest, indexes), (None, None))
    known = passages or (info.passages if info else None)
    each = None
    if (known or 0) <= MOST:
        each = _passages_of_index(folder, info) if folder and info else passages_of_file(file) if file else None
    count = known if each is None else len(each)
    if (count or 0) > MOST:
        return Pool(passages=count, why=f"it has more than {MOST:,} passages")
    if each is None:
        return Pool(passages=count, why="its index was not found when this was written, and no file was named")
    return Pool(passages=count, each=each)


def _indexes_of(digest: str, folders: Iterable[Path]) -> Iterator[tuple[Path, IndexInfo]]:
    """Yield the folders that have an index of a corpus now, and what it says."""
    for folder in folders:
        try:
            chosen = complete_index(folder)
            info = read_info(chosen)
        except (UserError, OSError):
            continue
        if info.corpus_hash == digest:
            yield chosen, info


def _passages_of_index(folder: Path, info: IndexInfo) -> dict[str, str]:
    store = PassageStore.listed(folder, info.files)
    own = ([part.decode() for part in each[:3]] for each in store.stored(np.arange(len(store))))
    return {name: _hash([title, text]) for name, title, text in own}


def read_published(path: Path) -> Published:
    """Return what a file of hashes says, plain or compressed.

    Raises:
        UserError: It is none, or of another schema.
    """
    try:
        return Published.model_validate(parse_strict_json(b"\n".join(read_lines(path))))
    except ValidationError as error:
        why = f"has no hashes of schema {SCHEMA} ({first_problem(error)})"
    except UserError:
        raise
    except ValueError as error:
        why = f"cannot be read ({error})"
    raise UserError(f"{path} {why}: let it be written again.")


def check_questions(published: Published, path: Path) -> Checked:
    """Compare the questions of a file with the published ones, of the board with which it shares most ids."""
    own = {each.id: question_hash(each.question, each.answers, each.gold_ids) for each in read_questions(path)}
    board = max(published.boards.values(), key=lambda each: len(own.keys() & each.each.keys()), default=None)
    if board is None:
        raise UserError("No questions are published there: name a file that `verihop leaderboard` has written.")
    return _compared(CheckedQuestions, f"questions of {board.title}", board.each, own)


def check_corpus(published: Published, path: Path) -> Checked:
    """Compare a corpus with the published ones: of that hash, else that with which it shares most ids."""
    if not published.corpora:
        raise UserError("No corpus is published there: its runs read nothing.")
    if digest := next(iter(which_corpora(path, published.corpora)), None):
        pool = published.corpora[digest]
        return Checked(f"passages of corpus {digest[:16]}", pool.passages or len(passages_of_file(path)))
    own = passages_of_file(path)
    digest, pool = max(published.corpora.items(), key=lambda each: len(own.keys() & each[1].each.keys()))
    if not pool.each:
        why = f"the file has another hash, and single passages are not published: {pool.why}"
        return Checked(f"passages of corpus {digest[:16]}", why=why)
    return _compared(Checked, f"passages of corpus {digest[:16]}", pool.each, own)


def _compared(checked: type[Checked], what: str, known: Mapping[str, str], own: Mapping[str, str]) -> Checked:
    both = [name for name in known if name in own]
    missing, extra = ([name for name in one if name not in other] for one, other in ((known, own), (own, known)))
    contents = {own[name] for name in extra}
    return checked(
        what,
        same=sum(known[name] == own[name] for name in both),
        differ=tuple(name for name in both if known[name] != own[name]),
        missing=tuple(missing),
        extra=tuple(extra),
        renamed=sum(known[name] in contents for name in missing),
    )
