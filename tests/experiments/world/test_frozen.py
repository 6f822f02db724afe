"""The world is frozen: strategies that are added later must be answered by it as it is."""

import re
from pathlib import Path

from experiments.world.simulated import CODE_OF_OTHERS
from signatures.common.files import sha256_text

WORLD = Path(__file__).parents[3] / "experiments" / "world"
PINNED = "4292060b6a011d89"


def world_hash() -> str:
    """Return sixteen hexadecimal digits of a hash of the source and the dials, without `connect.py`.

    Code of other packages that decides replies is part of it.
    """
    files = [file for file in WORLD.rglob("*") if file.suffix in {".py", ".toml"} and file.name != "connect.py"]
    parts = [f"{file.relative_to(WORLD).as_posix()}\n{file.read_text(encoding='utf-8')}" for file in sorted(files)]
    parts += [f"{name}\n{(WORLD.parents[1] / name).read_text(encoding='utf-8')}" for name in CODE_OF_OTHERS]
    return sha256_text("\n".join(parts))[:16]


def test_the_world_and_its_dials_are_unchanged():
    assert world_hash() == PINNED, (
        "The simulated world is frozen, so that it cannot be fitted to a strategy: undo the change in it. "
        "If that is impossible, make it a commit of its own, give the reason in the section Frozen of "
        f"experiments/world/README.md, set PINNED to {world_hash()}, and run all committed results of the world anew."
    )


def test_code_of_other_packages_that_decides_replies_is_part_of_the_hash():
    """Errors, files and types of the project decide none."""
    imported = {
        f"{name.replace('.', '/')}.py"
        for file in WORLD.rglob("*.py")
        if file.name != "connect.py"
        for name in re.findall(
            r"^from ((?:signatures|programs|corpora|optimizers)[\w.]*) import", file.read_text(), re.M
        )
    }
    assert {name for name in imported if not name.startswith("signatures/common/")} <= set(CODE_OF_OTHERS)
    assert all((WORLD.parents[1] / name).is_file() for name in CODE_OF_OTHERS)
