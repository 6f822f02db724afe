"""The layout of a wheel: the packages of the repository under `verihop`, with their imports rewritten.

Rewritten are import statements, and strings that are the name of a module of ours ("experiments.cli.main",
"programs.genground:GenGround"): both name what exists under another name there. Comments and docstrings stay, and so do
line numbers.
"""

import ast
import re
import shutil
from pathlib import Path

PACKAGE = "verihop"
PARTS = ("signatures", "corpora", "programs", "optimizers", "experiments")
LEFT_OUT = ("experiments/packaging", "experiments/results")
_PART = "|".join(PARTS)
_IMPORT = re.compile(rf"^(\s*(?:from|import)\s+)({_PART})\b", re.MULTILINE)
_MODULE = re.compile(rf"(?:{_PART})(?:\.\w+)+(?::\w+)?")
_NOT_SHIPPED = shutil.ignore_patterns("__pycache__", "*.pyc", "README.md")


def stage(project: Path, folder: Path) -> None:
    """Write the project into an empty folder in the layout of the wheel, with a pyproject.toml for it.

    Args:
        project: The repository, or what a source distribution unpacks to.
        folder: The copy.

    Raises:
        ValueError: pyproject.toml lacks something that has to be another in the wheel.
    """
    package = folder / PACKAGE
    for part in PARTS:
        shutil.copytree(project / part, package / part, ignore=_NOT_SHIPPED)
    for name in LEFT_OUT:
        shutil.rmtree(package / name, ignore_errors=True)
    for file in package.rglob("*.py"):
        file.write_text(rewritten(file.read_text(encoding="utf-8"), project), encoding="utf-8")
    door = (project / f"{PACKAGE}.py").read_text(encoding="utf-8")
    (package / "__init__.py").write_text(rewritten(door, project), encoding="utf-8")
    (package / "__main__.py").write_text(_MAIN, encoding="utf-8")
    (package / "py.typed").touch()
    shutil.copy(project / "LICENSE", folder / "LICENSE")
    page = (project / "README.md").read_text(encoding="utf-8")
    (folder / "README.md").write_text(without_files(page), encoding="utf-8")
    shutil.copy(project / "constraints.txt", package / "constraints.txt")
    settings = (project / "pyproject.toml").read_text(encoding="utf-8")
    (folder / "pyproject.toml").write_text(settings_of_wheel(settings), encoding="utf-8")


_PICTURE = re.compile(r"^!\[.*\n\n?", re.MULTILINE)
_LINK = re.compile(r"\[([^\]\n]*)\]\((?!https?://|#)[^()\s]+\)")


def without_files(page: str) -> str:
    """Return a page of Markdown without pictures and links of the repository, which an index of packages lacks."""
    return _LINK.sub(r"\1", _PICTURE.sub("", page))


_MAIN = f'''"""`python -m {PACKAGE}` is the command line."""

from {PACKAGE}.experiments.cli.main import run_as_process

run_as_process()
'''


def rewritten(source: str, project: Path) -> str:
    """Return the source of a module with its imports and its names of modules under `verihop`.

    Args:
        source: Of a module.
        project: Where the packages are; only names of modules that exist there are rewritten.

    Raises:
        ValueError: An import stands on a line with something else, and is not rewritten.
    """
    lines = source.splitlines(keepends=True)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            lines[node.lineno - 1] = _IMPORT.sub(rf"\1{PACKAGE}.\2", lines[node.lineno - 1])
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and names_module(node.value, project):
            quoted = re.compile(rf"""(?<=["']){re.escape(node.value)}(?=["'])""")
            lines[node.lineno - 1] = quoted.sub(f"{PACKAGE}.{node.value}", lines[node.lineno - 1])
    _check("".join(lines))
    return "".join(lines)


def _check(source: str) -> None:
    """Raise ValueError if a module has an import that was not rewritten, or binds another name than before."""
    for node in ast.walk(ast.parse(source)):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        if any(name.partition(".")[0] in PARTS for name in names):
            raise ValueError(f"line {node.lineno}: an import of ours stands on a line with something else")  # type: ignore[attr-defined]


def names_module(text: str, project: Path) -> bool:
    """Return whether a text is the name of a module of ours, alone or with the name of something in it."""
    if not _MODULE.fullmatch(text):
        return False
    part, module, *_ = text.partition(":")[0].split(".")
    path = project / part / module
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


# What pyproject.toml says of the repository, and what it says of the wheel.
_SETTINGS = (
    ('build-backend = "backend"\nbackend-path = ["experiments/packaging"]', 'build-backend = "setuptools.build_meta"'),
    ('verihop = "experiments.cli.main:run_as_process"', f'verihop = "{PACKAGE}.experiments.cli.main:run_as_process"'),
    ('verihop = "experiments.service.inspect_task"', f'verihop = "{PACKAGE}.experiments.service.inspect_task"'),
    ('py-modules = ["verihop"]', "py-modules = []"),
    ('include = ["signatures*", "corpora*", "programs*", "optimizers*", "experiments*"]', f'include = ["{PACKAGE}*"]'),
    (
        "[tool.setuptools.package-data]\n",
        f'[tool.setuptools.package-data]\n{PACKAGE} = ["py.typed", "constraints.txt"]\n',
    ),
    *((f"\n{part} = [", f'\n"{PACKAGE}.{part}" = [') for part in PARTS if part != "signatures"),
)


def settings_of_wheel(settings: str) -> str:
    """Return pyproject.toml as it is for the wheel.

    Raises:
        ValueError: It does not say once what has to be another.
    """
    for before, after in _SETTINGS:
        if settings.count(before) != 1:
            raise ValueError(f"pyproject.toml has {before!r} {settings.count(before)} times, not once")
        settings = settings.replace(before, after)
    return settings
