"""The code blocks of all pages, and a folder that has what their commands name."""

import json
import re
import shlex
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGES = sorted(path for path in ROOT.rglob("README.md") if not {".venv", "node_modules"} & set(path.parts))
DOCUMENT = "# Corrant\n\nCorrant is a coast. Its line was built by Ilse Varrow.\n\n## Rivers\n\nThe Ossa ends there.\n"
OWN_METRIC = "def brevity(example, prediction):\n    return 1 / (1 + len(prediction.answer.split()))\n"


@dataclass(frozen=True)
class Block:
    """A code block: its page, language and text."""

    page: str
    language: str
    text: str

    def commands(self) -> Iterator[str]:
        """Yield the commands of a console block, each in one line."""
        for line in self.text.replace("\\\n", " ").splitlines():
            if line.startswith("$ "):
                yield line[2:]


def blocks(language: str) -> list[Block]:
    return [
        Block(str(page.relative_to(ROOT)), language, text)
        for page in PAGES
        for text in re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    ]


def words(command: str) -> list[str]:
    return shlex.split(command, comments=True)


def make_stage(folder: Path, world: Path, command: Callable[..., tuple[int, str, str]]) -> None:
    """Fill a folder with the files that pages name: documents, passages, questions, an index, artifacts, own code."""
    for name in ("passages.jsonl", "index"):
        copy = shutil.copytree if (world / name).is_dir() else shutil.copy
        copy(world / name, folder / name)
    rows = [json.loads(line) for line in (world / "questions.jsonl").read_text().splitlines()]
    sets = {"questions": rows, "train": [], "dev": []}
    for row in rows:
        sets[row["split"]].append(row)
    for name, chosen in sets.items():
        (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in chosen))
    (folder / "docs").mkdir()
    (folder / "docs" / "corrant.md").write_text(DOCUMENT)
    (folder / "my_metrics.py").write_text(OWN_METRIC)
    (own,) = (block.text for block in blocks("python") if block.page == "programs/own/README.md")
    for name, cls in (("my_strategy", "AskTwice"), ("my_module", "MyProgram")):
        (folder / f"{name}.py").write_text(own.replace("AskTwice", cls))
