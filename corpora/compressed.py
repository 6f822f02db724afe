"""Bytes of plain, gzip (`.gz`), bzip2 (`.bz2`) and Zstandard (`.zst`) files, told by the suffix.

A cut-off file is an error.
"""

import bz2
import contextlib
import gzip
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from signatures.common.errors import UserError
from signatures.common.files import atomic_write

_CHUNK = 1 << 20
_BROKEN = (gzip.BadGzipFile, zlib.error, EOFError, tarfile.TarError)


def read_chunks(path: Path | str) -> Iterator[bytes]:
    """Yield the uncompressed content of a file in pieces of about a megabyte.

    Raises:
        UserError: The file is missing, unreadable, or its compressed data is damaged or cut off.
    """
    path = Path(path)
    with readable(path), path.open("rb") as file:
        yield from unpacked(file, path.suffix)


@contextlib.contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn what can go wrong while `path` is read into a UserError with a cure."""
    try:
        yield
    except _BROKEN as error:
        raise _damaged(path, error) from error
    except FileNotFoundError as error:
        raise UserError(f"No file {str(path)!r}. Check the path.") from error
    except IsADirectoryError as error:
        raise UserError(f"{str(path)!r} is a folder. Name a file inside it.") from error
    except PermissionError as error:
        raise UserError(f"{str(path)!r} may not be read. Check its permissions.") from error


def read_lines(path: Path | str) -> Iterator[bytes]:
    r"""Yield the lines of a file without their `\n`; only `\n` ends a line, so text may hold any other separator."""
    return lines_of(read_chunks(path))


def lines_of(chunks: Iterator[bytes]) -> Iterator[bytes]:
    r"""Yield the lines of a content that comes in pieces, without their `\n`."""
    parts: list[bytes] = []
    for chunk in chunks:
        first, *rest = chunk.split(b"\n")
        parts.append(first)
        if rest:
            yield b"".join(parts)
            yield from rest[:-1]
            parts = [rest[-1]]
    last = b"".join(parts)
    if last:
        yield last


@contextlib.contextmanager
def atomic_bytes(path: Path | str) -> Iterator[IO[bytes]]:
    """Open `path` for writing bytes, compressed when the suffix says so; the file appears whole or not at all."""
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
            import zstandard  # imported late: only these files owe its load time

            with zstandard.ZstdCompressor(level=9).stream_writer(raw, closefd=False) as packed:
                yield packed
        else:
            yield raw


def unpacked(file: IO[bytes], suffix: str) -> Iterator[bytes]:
    """Yield the content of an open file, uncompressed as its suffix says; broken data raises one of `readable`'s."""
    if suffix == ".zst":
        yield from _zstandard(file)
        return
    source: Any = gzip.GzipFile(fileobj=file) if suffix == ".gz" else bz2.BZ2File(file) if suffix == ".bz2" else file
    while chunk := _read(source):
        yield chunk


def _read(source: Any) -> bytes:
    try:
        piece: bytes = source.read(_CHUNK)
    except OSError as error:
        if isinstance(source, bz2.BZ2File) and error.errno is None:  # how bzip2 says that its data is damaged
            raise EOFError(str(error)) from error
        raise
    return piece


def _zstandard(file: IO[bytes]) -> Iterator[bytes]:
    """Decompress frame by frame: the library's own stream reader ends without a word where a file is cut off."""
    import zstandard

    decoder = None
    while data := file.read(_CHUNK // 8):
        while data:
            decoder = decoder or zstandard.ZstdDecompressor().decompressobj()
            try:
                piece = decoder.decompress(data)
            except zstandard.ZstdError as error:
                raise EOFError(str(error)) from error
            if piece:
                yield piece
            data = b""
            if decoder.eof:
                data, decoder = decoder.unused_data, None
    if decoder is not None:
        raise EOFError("the last frame is cut off")


def _damaged(path: Path, error: Exception) -> UserError:
    return UserError(f"{str(path)!r} cannot be decompressed ({error}). Fetch or write the file again.")
