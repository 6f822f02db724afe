"""Seeded mutations of files: bytes, JSON values, rows of databases, whole files."""

import json
import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

_SIZES = [(0).to_bytes(8, "little"), (2**40).to_bytes(8, "little"), (2**63 - 1).to_bytes(8, "little"), b"\xff" * 8]
_TEXTS = [
    "",
    "../../outside",
    "/etc/passwd",
    "a\x00b",
    "\x1b[2J",
    "x" * 100_000,
    "\ud800",
    "openai/x",
    "http://127.0.0.1:9/",
]
_NUMBERS = [0, -1, 1, 2**31, 2**63, 10**30, 10**400, 0.5, -0.0, 1e308]
_RAW = ["NaN", "Infinity", "1e999", "9" * 5000, "-", "[" * 2000, '{"a":' * 2000, "tru", "'x'"]
_KEYS = ["lm", "id", "model", "fallbacks", "callbacks", "traces", "__class__", "signature", "api_base", "digest", ""]


def mutate(files: list[Path], rng: random.Random) -> str:
    """Change one or two of the files; return what was done, for the record.

    Args:
        files: All of one input, at least one; they exist.
        rng: Decides what is done.
    """
    done = []
    for _ in range(rng.choice([1, 1, 1, 2])):
        path = rng.choice([path for path in files if path.exists() or path.is_symlink()] or files)
        known = _OF_SUFFIX.get(path.suffix) if path.is_file() else None
        kinds = [_bytes] if known is None else [known, known, known, _bytes]
        change = rng.choice([*kinds, *kinds, *kinds, _whole])
        done.append(f"{path.name}: {change(path, files, rng)}")
    return "; ".join(done)


def changed(content: bytes, rng: random.Random) -> tuple[bytes, str]:
    """Return bytes with some of them changed, and what was done."""
    new = bytearray(content)
    kind = rng.choice(["flip", "flips", "truncate", "set", "insert", "size", "delete"])
    place = rng.randrange(min(len(new), rng.choice([64, 256, 1 << 30])) or 1)
    if kind == "truncate":
        del new[place:]
    elif kind == "delete":
        del new[place : place + rng.randrange(1, 64)]
    elif kind == "insert":
        new[place:place] = rng.randbytes(rng.randrange(1, 16))
    elif kind == "size":
        new[place : place + 8] = rng.choice(_SIZES)
    elif new:
        for _ in range(1 if kind != "flips" else 8):
            new[place] = new[place] ^ (1 << rng.randrange(8)) if kind != "set" else rng.randrange(256)
            place = rng.randrange(len(new))
    return bytes(new), f"{kind} at {place}"


def _bytes(path: Path, files: list[Path], rng: random.Random) -> str:
    if not path.is_file():
        return "nothing"
    content, what = changed(path.read_bytes(), rng)
    path.write_bytes(content)
    return what


def _whole(path: Path, files: list[Path], rng: random.Random) -> str:
    kind = rng.choice(["empty", "missing", "folder", "link", "swapped", "zeros"])
    if path.is_dir() and not path.is_symlink():
        return "nothing"
    other = rng.choice(files)
    content = other.read_bytes() if other.is_file() else b""
    path.unlink(missing_ok=True)
    if kind == "empty":
        path.touch()
    elif kind == "folder":
        path.mkdir()
    elif kind == "link":
        path.symlink_to(rng.choice([path, Path("/etc/passwd"), Path("/"), Path("nowhere")]))
    elif kind == "swapped":
        path.write_bytes(content)
    elif kind == "zeros":
        path.write_bytes(bytes(1 << 16))
    return kind


def _json(path: Path, files: list[Path], rng: random.Random) -> str:
    """Change a value of the JSON file, or of one of its lines."""
    raw = path.read_bytes()
    lines = raw.split(b"\n") if path.suffix == ".jsonl" else [raw]
    number = rng.randrange(len(lines))
    try:
        value = json.loads(lines[number])
    except (ValueError, RecursionError):
        return _bytes(path, files, rng)
    if rng.random() < 0.15:
        lines[number], what = _text_level(lines[number], rng)
    else:
        holder = {"": value}
        places = _places(holder)
        parent, key = rng.choice(places)
        what = _change_value(parent, key, rng)
        text = json.dumps(holder.get("", {}), ensure_ascii=rng.random() < 0.5)
        lines[number] = text.encode("utf-8", "surrogatepass")
    path.write_bytes(b"\n".join(lines))
    return what


def _text_level(line: bytes, rng: random.Random) -> tuple[bytes, str]:
    """Return a change that no JSON value expresses: a repeated key, a number beyond any type, deep nesting."""
    if rng.random() < 0.4 and line.startswith(b"{"):
        return line[:1] + line[1:-1] + b"," + line[1:], "every key repeated"
    raw = rng.choice(_RAW)
    colons = [place for place, byte in enumerate(line) if byte == ord(":")]
    if not colons:
        return raw.encode(), f"raw {raw[:10]}"
    place = rng.choice(colons)
    comma = next((end for end in range(place, len(line)) if line[end] in b",}"), len(line))
    return line[: place + 1] + raw.encode() + line[comma:], f"raw {raw[:10]}"


def _safetensors(path: Path, files: list[Path], rng: random.Random) -> str:
    """Change a value of the header."""
    raw = path.read_bytes()
    end = 8 + int.from_bytes(raw[:8], "little")
    try:
        header = json.loads(raw[8:end])
    except (ValueError, RecursionError):
        return _bytes(path, files, rng)
    holder = {"": header}
    what = _change_value(*rng.choice(_places(holder)), rng)
    text = json.dumps(holder.get("", {})).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + raw[end:])
    return what


def _toml(path: Path, files: list[Path], rng: random.Random) -> str:
    """Change the value of a line, or repeat a line."""
    lines = path.read_bytes().decode(errors="replace").split("\n")
    number = rng.randrange(len(lines))
    name = lines[number].partition("=")[0]
    values = [*map(json.dumps, [*_TEXTS[:5], *_NUMBERS[:5], [], [[]], True]), *_RAW, "{a = 1}", "1979-05-27", "inf"]
    new = rng.choice([f"{name}= {rng.choice(values)}", lines[number], f"[{name}]", f"{rng.choice(_KEYS)} = 1"])
    lines[number : number + rng.randrange(2)] = [new]
    path.write_text("\n".join(lines), encoding="utf-8")
    return f"line {number + 1}"


def _sqlite(path: Path, files: list[Path], rng: random.Random) -> str:
    """Change a value, a table or a column, without the constraints of its schema."""
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as database:
            table, columns = rng.choice(_tables(database))
            column = rng.choice(columns)
            kind = rng.choice(["value", "value", "value", "value", "drop table", "drop column", "delete", "repeat"])
            if kind != "drop table":  # keys and types go
                database.execute(f'CREATE TABLE "{_COPY}" AS SELECT * FROM "{table}"')
            database.execute(f'DROP TABLE "{table}"')
            if kind == "value":
                _change_row(database, column, rng)
            elif kind == "drop column" and len(columns) > 1:
                database.execute(f'ALTER TABLE "{_COPY}" DROP COLUMN "{column}"')
            elif kind == "delete":
                database.execute(f'DELETE FROM "{_COPY}"')
            elif kind == "repeat":
                database.execute(f'INSERT INTO "{_COPY}" SELECT * FROM "{_COPY}"')
            if kind != "drop table":
                database.execute(f'ALTER TABLE "{_COPY}" RENAME TO "{table}"')
            return f"{kind} of {table}.{column}"
    except (sqlite3.Error, IndexError):  # changed before; no table is left
        return _bytes(path, files, rng)


def _tables(database: sqlite3.Connection) -> list[tuple[str, list[str]]]:
    """Return the tables that have rows, with their columns."""
    names = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
    return [
        (name, [row[1] for row in database.execute(f'PRAGMA table_info("{name}")')])
        for name in names
        if not name.startswith("sqlite_") and database.execute(f'SELECT 1 FROM "{name}"').fetchone()
    ]


def _change_row(database: sqlite3.Connection, column: str, rng: random.Random) -> None:
    rows = database.execute(f'SELECT rowid, "{column}" FROM "{_COPY}" ORDER BY rowid').fetchall()
    number, value = rng.choice(rows)
    holder = {"": value}
    try:  # attributes and distributions are JSON
        holder[""] = json.loads(value)
    except (TypeError, ValueError, RecursionError):
        changed = rng.choice([None, "text", "", b"\xff\x00", -1, 2.5, 2**62, "NaN", 1e308, "2024-99-99"])
    else:
        _change_value(*rng.choice(_places(holder)), rng)
        changed = json.dumps(holder.get(""))
    database.execute(f'UPDATE "{_COPY}" SET "{column}" = ? WHERE rowid = ?', (changed, number))


def _places(root: Any) -> list[tuple[Any, Any]]:
    """Return `(container, key)` of every value below `root`."""
    found, level = [], [root]
    while level:
        holder = level.pop()
        for key, item in list(holder.items() if isinstance(holder, dict) else enumerate(holder)):
            found.append((holder, key))
            if isinstance(item, dict | list):
                level.append(item)
    return found


def _change_value(parent: Any, key: Any, rng: random.Random) -> str:
    kind = rng.choice(["type", "type", "delete", "unknown key", "text", "number", "nest", "repeat"])
    value = parent[key]
    if kind == "delete":
        del parent[key]
    elif kind == "unknown key" and isinstance(value, dict):
        value[rng.choice(_KEYS)] = rng.choice([None, 1, "x", {"model": "openai/x"}, []])
    elif kind == "nest":
        for _ in range(rng.choice([1, 3, 200])):
            value = [value] if rng.random() < 0.5 else {"a": value}
        parent[key] = value
    elif kind == "repeat" and isinstance(value, list):
        parent[key] = value * 2
    elif kind == "number":
        parent[key] = rng.choice(_NUMBERS)
    elif kind == "text":
        parent[key] = rng.choice(_TEXTS)
    else:
        parent[key] = rng.choice([None, True, False, 3, 2.5, "text", [], {}, [None], {"a": 1}, [[]]])
    return f"{kind} of {str(key)[:20]!r}"


def copied(source: Path, target: Path) -> Path:
    """Return a fresh copy of a folder."""
    shutil.rmtree(target, ignore_errors=True)
    return Path(shutil.copytree(source, target))


_COPY = "mutated"
_OF_SUFFIX = {".json": _json, ".jsonl": _json, ".safetensors": _safetensors, ".toml": _toml, ".db": _sqlite}
