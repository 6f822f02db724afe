"""Hashes of single questions and passages, by which others check, without the texts, whether theirs are the same."""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import BaseModel, Field, ValidationError

from corpora.compressed import read_lines
from corpora.index.info import CONTENT
from corpora.index.manifest import read_info
from corpora.index.replace import complete_index
from corpora.passages import corpus_hash, read_passages
from corpora.questions import read_questions
from corpora.retrievers.store import PassageStore, content_hash, stored
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

    what: str
    same: int = 0
    differ: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    renamed: int = 0
    why: str | None = None

    @property
    def alike(self) -> bool:
        """Whether everything that is published is there, unchanged, and of a corpus nothing else."""
        return not (self.differ or self.missing or self.why or (self.extra and not self.what.startswith("questions")))


def question_hash(question: str, answers: Iterable[str], gold_ids: Iterable[str]) -> str:
    """Return the hash of a question with its gold (`ABOUT`); keys in it are hidden, as in the rows of a run."""
    return _hash(redacted([question, [*answers], [*gold_ids]]))


def _hash(value: list[object]) -> str:
    return sha256_text(json.dumps(value))[:DIGITS]


def passages_of_file(path: Path | str) -> dict[str, str]:
    """Return the id and hash of each passage of a file."""
    return {each.id: _hash([each.title, each.text]) for each in read_passages(path)}


def pool_of(digest: str, passages: int | None, indexes: Iterable[Path], files: Iterable[Path]) -> Pool:
    """Return what can be published of a corpus: of at most `MOST` passages the hash of each.

    Args:
        digest: Hash of the corpus, as `index.json` has it.
        passages: Their number, if it is known.
        indexes: Folders that may have its index; what is there now may be of another corpus.
        files: Files that may be it.
    """
    for folder in () if (passages or 0) > MOST else indexes:
        try:
            chosen = complete_index(folder)
            info = read_info(chosen)
        except (UserError, OSError):
            continue
        if info.corpus_hash == digest:
            if info.passages > MOST:
                passages = info.passages
                break
            store = PassageStore.listed(chosen, info.files)
            own = ([part.decode() for part in each[:3]] for each in store.stored(np.arange(len(store))))
            return Pool(passages=len(store), each={name: _hash([title, text]) for name, title, text in own})
    if (passages or 0) > MOST:
        return Pool(passages=passages, why=f"it has more than {MOST:,} passages")
    for path in files:
        if is_corpus(path, digest):
            each = passages_of_file(path)
            return Pool(passages=len(each), each=each) if len(each) <= MOST else pool_of(digest, len(each), (), ())
    return Pool(passages=passages, why="its index was not found when this was written, and no file was named")


def is_corpus(path: Path | str, digest: str) -> bool:
    """Return whether a file of passages has the hash that `index.json` gives, be it built from a file or updated."""
    return which_corpus(path, [digest]) is not None


def which_corpus(path: Path | str, digests: Collection[str]) -> str | None:
    """Return that of the hashes which a file of passages has, as `is_corpus`; None if it has none of them."""
    own = {
        CONTENT + content_hash(map(stored, read_passages(path))) if updated else corpus_hash(path)
        for updated in {digest.startswith(CONTENT) for digest in digests}
    }
    return next((digest for digest in digests if digest in own), None)


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
    return _compared(f"questions of {board.title}", board.each, own)


def check_corpus(published: Published, path: Path) -> Checked:
    """Compare a corpus with the published ones: of that hash, else that with which it shares most ids."""
    if not published.corpora:
        raise UserError("No corpus is published there: its runs read nothing.")
    if (digest := which_corpus(path, published.corpora)) is not None:
        pool = published.corpora[digest]
        return Checked(f"passages of corpus {digest[:16]}", pool.passages or len(passages_of_file(path)))
    own = passages_of_file(path)
    digest, pool = max(published.corpora.items(), key=lambda each: len(own.keys() & each[1].each.keys()))
    if not pool.each:
        why = f"the file has another hash, and single passages are not published: {pool.why}"
        return Checked(f"passages of corpus {digest[:16]}", why=why)
    return _compared(f"passages of corpus {digest[:16]}", pool.each, own)


def _compared(what: str, known: Mapping[str, str], own: Mapping[str, str]) -> Checked:
    both = [name for name in known if name in own]
    missing, extra = ([name for name in one if name not in other] for one, other in ((known, own), (own, known)))
    contents = {own[name] for name in extra}
    return Checked(
        what,
        same=sum(known[name] == own[name] for name in both),
        differ=tuple(name for name in both if known[name] != own[name]),
        missing=tuple(missing),
        extra=tuple(extra),
        renamed=sum(known[name] in contents for name in missing),
    )
