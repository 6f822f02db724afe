"""Read and write plain, gzip (`.gz`), bzip2 (`.bz2`) and Zstandard (`.zst`) files, distinguished by their suffix.

A truncated file is an error, and so is one that becomes absurdly large: at most 1 GiB, or a hundred times the size of
the compressed file if that is more, is read; of one whose records are held in memory, 16 MiB, or twenty times its size.
The variable VERIHOP_DECOMPRESS_LIMIT replaces the 1 GiB and the 16 MiB (in bytes).
"""

import bz2
import contextlib
import errno
import gzip
import os
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from signatures.common.errors import UserError
from signatures.common.files import atomic_write, refuse_pipe

LIMIT_VARIABLE = "VERIHOP_DECOMPRESS_LIMIT"
DEFAULT_LIMIT = 1 << 30  # bytes
_MOST_RATIO = 100  # the benchmarks' files: 3 to 12
_MOST_HELD, _HELD_RATIO = 1 << 24, 20  # of files whose records are held in memory
_SUFFIXES = (".gz", ".bz2", ".zst")
LONGEST_LINE = 1 << 24  # bytes; a benchmark's longest record has about a million, and 1 as JSON may take 30 of memory
_CHUNK = 1 << 20
_PIECE = 1 << 10  # of Zstandard data, whose 4 bytes can become 128 KiB
_BROKEN = (gzip.BadGzipFile, zlib.error, EOFError, tarfile.TarError)


def read_chunks(path: Path | str) -> Iterator[bytes]:
    """Yield the uncompressed content of a file in chunks of at most a megabyte.

    Raises:
        UserError: The file is missing or may not be read, or its compressed data is damaged or truncated.
    """
    path = Path(path)
    with reading(path), path.open("rb") as file:
        yield from unpacked(file, path.suffix, path, path.stat().st_size)


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn the errors of reading `path` into a UserError that says how to fix them; refuse what may never end."""
    try:
        refuse_pipe(path)
        yield
    except _BROKEN as error:
        raise UserError(f"{str(path)!r} cannot be decompressed ({error}). Fetch or write the file again.") from error
    except FileNotFoundError as error:
        raise UserError(f"No file {str(path)!r}. Check the path.") from error
    except IsADirectoryError as error:
        raise UserError(f"{str(path)!r} is a folder. Give a file inside it.") from error
    except PermissionError as error:
        raise UserError(f"{str(path)!r} cannot be read. Check its permissions.") from error
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise UserError(f"{str(path)!r} is a symbolic link to itself. Fetch or write the file again.") from error


def read_held(path: Path | str) -> Iterator[bytes]:
    """Yield the lines of a file whose records are all held in memory, where JSON takes fifty times its bytes.

    Raises:
        UserError: As `read_lines`; a compressed file becomes more than 16 MiB and twenty times its size.
    """
    path, done = Path(path), 0

    def held() -> Iterator[bytes]:
        nonlocal done
        for chunk in read_chunks(path):
            done += len(chunk)
            if path.suffix in _SUFFIXES:
                check_size(done, size_limit(path.stat().st_size, _MOST_HELD, _HELD_RATIO), path)
            yield chunk

    return lines_of(held(), path)


def read_lines(path: Path | str) -> Iterator[bytes]:
    r"""Yield the lines of a file without their `\n`; only `\n` ends a line, so text may contain any other separator."""
    return lines_of(read_chunks(path), path)


def lines_of(chunks: Iterator[bytes], name: Path | str) -> Iterator[bytes]:
    r"""Yield the lines of content that comes in chunks, without their `\n`; `name` names it in errors.

    Raises:
        UserError: A line is longer than 16 MiB.
    """
    parts: list[bytes] = []
    length, number = 0, 1
    for chunk in chunks:
        first, *rest = chunk.split(b"\n")
        parts.append(first)
        length += len(first)
        if length > LONGEST_LINE:
            why = f"line {number} has more than {LONGEST_LINE:,} bytes. Write one record per line."
            raise UserError(f"{str(name)!r}, {why}")
        if rest:
            yield b"".join(parts)
            yield from rest[:-1]
            parts, length = [rest[-1]], len(rest[-1])
            number += len(rest)
    last = b"".join(parts)
    if last:
        yield last


@contextlib.contextmanager
def atomic_bytes(path: Path | str) -> Iterator[IO[bytes]]:
    """Open `path` for writing bytes, compressed if its suffix says so; the file appears complete or not at all."""
    path = Path(path)
    with atomic_write(path, "wb") as raw:
        if path.suffix == ".gz":
            # No name and no time in the header: the same records give the same bytes.
            with gzip.GzipFile(filename="", mode="wb", fileobj=raw, compresslevel=6, mtime=0) as packed:
                yield packed  # type: ignore[misc]  # GzipFile has all of IO[bytes] that a writer needs
        elif path.suffix == ".bz2":
            with bz2.BZ2File(raw, "wb") as packed:
                yield packed
        elif path.suffix == ".zst":
            import zstandard  # imported late: only these files need it

            with zstandard.ZstdCompressor(level=9).stream_writer(raw, closefd=False) as packed:
                yield packed
        else:
            yield raw


def unpacked(
    file: IO[bytes], suffix: str, name: Path | str, size: int, default: int = DEFAULT_LIMIT
) -> Iterator[bytes]:
    """Yield the content of an open file in chunks of at most a megabyte, decompressed as its suffix says.

    `reading` handles its errors.

    Args:
        file: Opened for reading bytes.
        suffix: Of its name.
        name: Names it in errors.
        size: Of the compressed file, in bytes.
        default: See `size_limit`.

    Raises:
        UserError: The content is larger than the limit.
    """
    if suffix not in _SUFFIXES:
        while chunk := file.read(_CHUNK):
            yield chunk
        return
    limit, done = size_limit(size, default), 0
    for chunk in _zstandard(file) if suffix == ".zst" else _stream(file, suffix):
        done += len(chunk)
        check_size(done, limit, name)
        for start in range(0, len(chunk), _CHUNK):  # lines of a chunk take many times its size
            yield chunk[start : start + _CHUNK]


def size_limit(size: int, default: int = DEFAULT_LIMIT, ratio: int = _MOST_RATIO) -> int:
    """Return how many bytes a compressed file of `size` bytes may become: `ratio` times that, or `default` if more.

    Raises:
        UserError: The variable that states the limit is not a number above 0.
    """
    stated = os.environ.get(LIMIT_VARIABLE)
    if stated is not None and not (stated.isascii() and stated.isdigit() and int(stated)):
        raise UserError(f"{LIMIT_VARIABLE}={stated!r} must be a number of bytes, e.g. {DEFAULT_LIMIT}.")
    return max(int(stated) if stated else default, ratio * size)


def check_size(done: int, limit: int, name: Path | str) -> None:
    """Raise UserError if more than `limit` bytes were decompressed."""
    if done > limit:
        raise UserError(
            f"{str(name)!r} decompresses to more than the limit of {limit:,} bytes. If that is intended, set "
            f"{LIMIT_VARIABLE} to a larger number."
        )


def _stream(file: IO[bytes], suffix: str) -> Iterator[bytes]:
    source: Any = gzip.GzipFile(fileobj=file) if suffix == ".gz" else bz2.BZ2File(file)
    while chunk := _read(source):
        yield chunk


def _read(source: Any) -> bytes:
    try:
        chunk: bytes = source.read(_CHUNK)
    except OSError as error:
        if isinstance(source, bz2.BZ2File) and error.errno is None:  # how bzip2 reports damaged data
            raise EOFError(str(error)) from error
        raise
    return chunk


def _zstandard(file: IO[bytes]) -> Iterator[bytes]:
    """Decompress frame by frame, because the library's stream reader ends a truncated file without an error."""
    import zstandard

    decoder = None
    while data := file.read(_PIECE):
        while data:
            decoder = decoder or zstandard.ZstdDecompressor().decompressobj()
            try:
                chunk = decoder.decompress(data)
            except zstandard.ZstdError as error:
                raise EOFError(str(error)) from error
            if chunk:
                yield chunk
            data = b""
            if decoder.eof:
                data, decoder = decoder.unused_data, None
    if decoder is not None:
        raise EOFError("the last frame is truncated")
