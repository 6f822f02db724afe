"""Seeded mutations of files: bytes, JSON values, whole files."""

import json
import random
import shutil
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
        textual = path.suffix in (".json", ".jsonl") and path.is_file()
        kinds = [_bytes] if not textual else [_json, _json, _json, _bytes]
        change = rng.choice([*kinds, *kinds, *kinds, _whole])
        done.append(f"{path.name}: {change(path, files, rng)}")
    return "; ".join(done)


def _bytes(path: Path, files: list[Path], rng: random.Random) -> str:
    if not path.is_file():
        return "nothing"
    content = bytearray(path.read_bytes())
    kind = rng.choice(["flip", "flips", "truncate", "set", "insert", "size", "delete"])
    place = rng.randrange(min(len(content), rng.choice([64, 256, 1 << 30])) or 1)
    if kind == "truncate":
        del content[place:]
    elif kind == "delete":
        del content[place : place + rng.randrange(1, 64)]
    elif kind == "insert":
        content[place:place] = rng.randbytes(rng.randrange(1, 16))
    elif kind == "size":
        content[place : place + 8] = rng.choice(_SIZES)
    elif content:
        for _ in range(1 if kind != "flips" else 8):
            content[place] = content[place] ^ (1 << rng.randrange(8)) if kind != "set" else rng.randrange(256)
            place = rng.randrange(len(content))
    path.write_bytes(content)
    return f"{kind} at {place}"


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
