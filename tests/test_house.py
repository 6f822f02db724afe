"""What holds for the whole tree: parameters of functions, `__init__.py` files with only a docstring, the top level."""

import ast
import functools
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("signatures", "corpora", "programs", "optimizers", "experiments")
FAMILIES = ("closed_book", "single_step", "multi_step", "agents")  # of strategies, beside those in programs/ itself
STRATEGIES = [ROOT / "programs", *(ROOT / "programs" / family for family in FAMILIES)]
MOST_PARAMETERS = 10


TOP = {
    ".ci", ".dockerignore", ".github", ".gitignore", "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "Dockerfile",
    "LICENSE", "Makefile", "README.md", "SECURITY.md", "compose.yaml", "constraints.txt", "docs", "pyproject.toml",
    "tests", "verihop.py", *PACKAGES,
}  # fmt: skip


def test_the_top_level_contains_nothing_else() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert {line.partition("/")[0] for line in listed.splitlines()} <= TOP


def sources(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@functools.cache
def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def parsed(path: Path) -> ast.Module:
    """Return the tree of a module; to parse all of them takes seconds, so that tests look at their text first."""
    return ast.parse(text_of(path))


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield the functions of a module if any of them may have too many parameters."""
    code = re.sub("#.*", "", text_of(path))  # a comment may end with a colon, too
    heads = re.findall(r"\bdef .*?(?::\s*\n|\Z)", code, flags=re.DOTALL)
    for node in ast.walk(parsed(path)) if any(head.count(",") >= MOST_PARAMETERS for head in heads) else ():
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def _runs(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).startswith("__name__ ==")


def test_nothing_follows_where_a_module_is_run() -> None:
    """What stands below it is not defined yet when `python -m` runs the module, and every import finds it."""
    run = [path for path in sources(*PACKAGES) if "__name__ ==" in text_of(path)]
    runs = {path: [_runs(node) for node in parsed(path).body] for path in run}
    assert any(map(any, runs.values()))
    assert [name(path) for path, found in runs.items() if any(found[:-1])] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_no_function_has_more_than_ten_parameters(package: str) -> None:
    """The constructor of a strategy is exempt: its knobs are its interface."""
    wide = {}
    for path in sources(package):
        for function in functions(path):
            arguments = function.args
            count = len(arguments.posonlyargs) + len(arguments.args) + len(arguments.kwonlyargs)
            if count > MOST_PARAMETERS and not (path.parent in STRATEGIES and function.name == "__init__"):
                wide[f"{name(path)}:{function.lineno} {function.name}"] = count
    assert wide == {}


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_file_holds_a_docstring_and_nothing_else(package: str) -> None:
    for path in sources(package):
        if path.name == "__init__.py":
            body = parsed(path).body
            assert len(body) == 1, name(path)
            assert isinstance(body[0], ast.Expr), name(path)


def test_every_package_of_experiments_has_a_readme() -> None:
    folders = [path.parent for path in (ROOT / "experiments").glob("*/__init__.py")]
    assert [folder.name for folder in folders if not (folder / "README.md").exists()] == []


def test_every_result_is_named_in_the_page_of_results() -> None:
    folder = ROOT / "experiments" / "results"
    text = (folder / "README.md").read_text("utf-8")
    files = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    assert [file for file in files if f"`{file}`" not in text] == ["README.md"]


def test_nothing_imports_the_door() -> None:
    """`verihop.py` is for users; import-linter, which knows packages only, cannot hold this."""
    imports = {
        name(path)
        for path in sources(*PACKAGES)
        if re.search(r"\b(import|from) [\w, ]*\bverihop\b", text_of(path))
        for node in ast.walk(parsed(path))
        if (isinstance(node, ast.Import) and any(each.name == "verihop" for each in node.names))
        or (isinstance(node, ast.ImportFrom) and node.module == "verihop")
    }
    assert imports == set()


def test_nothing_waits_on_a_simple_queue() -> None:
    """In CPython 3.11 a wait with a time limit may have no end, if the thread is interrupted in it.

    It computes the time that is left and passes it on without a look at its sign, and a negative one means for ever.
    `Queue` has no such flaw.
    """
    code = {path: re.sub("#.*", "", text_of(path)) for path in sources(*PACKAGES)}
    assert {name(path) for path, text in code.items() if "SimpleQueue" in text} == set()
