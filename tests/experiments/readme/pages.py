"""The code blocks of all pages."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[3]
_READMES = (path for path in ROOT.rglob("README.md") if not {".venv", "node_modules"} & set(path.parts))
PAGES = sorted([*_READMES, *(ROOT / "docs").glob("*.md")])
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
