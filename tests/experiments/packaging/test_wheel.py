"""A wheel, installed beside a user's own `programs/` and `signatures.py`, works as the checkout does."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from experiments.packaging.namespace import rewritten

PROJECT = Path(__file__).parents[3]
BUILD = "import sys; sys.path.insert(0, 'experiments/packaging'); import backend; backend.build_wheel(sys.argv[1])"
EXTRAS = (
    "torch", "sentence_transformers", "transformers", "datasets", "pandas", "pyarrow", "sklearn", "scipy", "matplotlib",
    "xllamacpp", "faiss", "optuna", "sqlalchemy", "rouge_score", "nltk",
)  # fmt: skip
OWN = '''"""An own program and an own metric."""

import dspy

from verihop.programs.parts.knobs import set_knobs
from verihop.programs.parts.prediction import make_prediction, retrieve_passages
from verihop.signatures.reading import ReadAnswer


class Once(dspy.Module):
    """Read once."""

    def __init__(self, retrieve=None, *, k: int = 3):
        super().__init__()
        set_knobs(self, locals())
        self.retrieve, self.reading = retrieve, dspy.Predict(ReadAnswer)

    def forward(self, question, passages=None):
        found = retrieve_passages(self, question, self.k, fixed=passages)
        return make_prediction(self.reading(question=question, passages=found).answer, passages=found)

    def max_calls(self):
        return 1


def words(question, prediction):
    return min(1.0, 1 / max(1, len(prediction.answer.split())))
'''
TYPED = """import verihop

program = verihop.load(program="rag", index="index", lm="simulated")
prediction = program("Who?")
answer: str = prediction.answer
reveal_type(prediction.passages)


def first(found: verihop.Answer) -> str:
    return found.citations[0]


answer.nothing
"""
COMMANDS = """
import contextlib, io, json, sys
from verihop.experiments.cli.main import main
ended = []
for words in json.loads(sys.argv[1]):
    sys.argv, code, out, err = ["verihop", *words], 0, io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as stopped:
            code = stopped.code or 0
    ended.append((code, out.getvalue(), err.getvalue()))
print(json.dumps(ended))
"""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def python(tmp_path_factory) -> Path:
    """Return Python of a fresh environment that the wheel is installed in, with what it requires."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, "-c", BUILD, str(folder)], cwd=PROJECT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    venv.create(folder / "env", with_pip=False, symlinks=True)
    (installed,) = (folder / "env").glob("lib/python*/site-packages")
    with zipfile.ZipFile(wheel) as file:
        file.extractall(installed)
    # What a .pth of a .pth names is not read: the checkout, which is installed there for editing, is no part of it.
    (installed / "required.pth").write_text(sysconfig.get_path("purelib"))
    return folder / "env" / "bin" / "python"


@pytest.fixture(scope="module")
def user(tmp_path_factory) -> Path:
    """Return the folder of a user whose own modules have the names of our packages."""
    folder = tmp_path_factory.mktemp("user")
    for name in ("programs", "experiments"):
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(f"raise RuntimeError('{name} of the user')\n")
    for name in ("signatures", "corpora", "optimizers"):
        (folder / f"{name}.py").write_text(f"raise RuntimeError('{name} of the user')\n")
    (folder / "mine.py").write_text(OWN)
    return folder


@pytest.fixture(scope="module")
def run(python, user, tmp_path_factory) -> Callable[..., str]:
    """Return a function that runs Python in the folder of the user, without extras, and returns what it prints."""
    absent = tmp_path_factory.mktemp("absent")
    for name in EXTRAS:
        (absent / f"{name}.py").write_text(f"raise ImportError('{name} is not installed')\n")

    def start(*words: object, cwd: Path = user, code: int = 0) -> str:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("VERIHOP_", "PYTHON"))}
        done = subprocess.run(
            [str(python), *map(str, words)],
            cwd=cwd,
            env={
                **kept,
                "PYTHONPATH": str(absent),
                "VERIHOP_CONFIG": "none",
                "VERIHOP_CACHE_DIR": str(user / "cache"),
            },
            capture_output=True,
            text=True,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stderr if code else done.stdout

    return start


@pytest.fixture(scope="module")
def commands(run) -> Callable[[list[list[str]]], list[tuple[int, str, str]]]:
    """Return a function that runs commands and returns the exit code, standard output and standard error of each.

    All in one process: what is tested is the code of each, and imports take longer.
    """
    return lambda words: json.loads(run("-c", COMMANDS, json.dumps(words)).splitlines()[-1])


@pytest.fixture(scope="module")
def world(commands, user) -> Path:
    """Return the folder of a small world with its index, both made by the installed command."""
    made = ["data", "world", "--out", "world", "--questions", "6"]
    indexed = ["index", "world/passages.jsonl", "--out", "world/index", "--retriever", "bm25"]
    ended = commands([made, indexed])
    assert [code for code, *_ in ended] == [0, 0], ended
    return user / "world"


def test_it_installs_verihop_alone(python):
    (installed,) = python.parents[1].glob("lib/python*/site-packages")
    names = {path.name for path in installed.iterdir()} - {"required.pth"}
    assert {name.partition("-")[0] for name in names} == {"verihop"}
    assert (installed / "verihop" / "py.typed").is_file()
    assert not list((installed / "verihop").glob("experiments/packaging"))


def test_it_imports_beside_own_modules_of_our_names(run):
    shown = run("-c", "import verihop, verihop.programs.catalog as c; print(verihop.__file__, len(c.PROGRAMS))")
    assert "env" in shown
    assert int(shown.split()[-1]) > 20
    assert run("-m", "verihop", "--version").startswith("verihop ")
    assert "family: the four papers" in run("-m", "verihop", "programs")


def test_commands_work(commands, world):
    questions = world / "questions.jsonl"
    asked = json.loads(questions.read_text(encoding="utf-8").splitlines()[0])["question"]
    few = (world / "passages.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)[:10]
    (world / "few.jsonl").write_text("".join(few), encoding="utf-8")
    told = ["--index", "world/index", "--lm", "simulated"]
    scored = ["--metrics", "f1[hotpot],mine:words", *told, "--out"]
    words = [
        ["ask", asked, "--program", "rag", *told, "--json"],
        ["eval", str(questions), "--program", "mine:Once", *scored, "runs/own"],
        ["eval", str(questions), "--program", "rag", *scored, "runs/rag"],
        ["compare", "runs/own", "runs/rag", "--json"],
        ["tune", str(questions), "--program", "rag", *told, "--out", "study"],
        ["index", "world/few.jsonl", "--out", "world/hybrid"],
        ["search", asked, "--index", "world/hybrid", "--json"],
        ["doctor", "--lm", "simulated"],
        ["demo", "--lm", "simulated", "--quiet", "--json", "--out", "demo"],
    ]
    codes, (answer, own, rag, compared, _, _, found, checked, demo), errors = zip(*commands(words), strict=True)
    assert codes == (0, 0, 0, 0, 2, 0, 0, 0, 0), errors
    assert json.loads(answer)["answer"]
    assert "mine:words" in own
    assert "mine:words" in rag
    assert "p_t_test" in compared
    assert errors[4].splitlines() == [
        "verihop: Tuning needs packages that are not installed (matplotlib is not installed): pip install "
        "'verihop[tune]'."
    ]
    assert json.loads(found)["results"][0]["hits"]
    assert "ok" in checked
    assert json.loads(demo)


FREEZE = """
import sys, verihop
if {checkout!r}:
    sys.path.insert(0, {checkout!r})
for out, name in {frozen!r}.items():
    program = verihop.load(program=name, index={index!r}, lm="simulated", knobs=dict(k=2))
    verihop.freeze(program, out, overwrite=True)
"""
LOAD = """
import verihop
for artifact, name in {frozen!r}.items():
    own = None if name == "rag" else name
    program = verihop.load(artifact, index={index!r}, lm="simulated", program=own)
    print(type(program.program).__module__, program.program.k, bool(program("Who?").stop_reason))
"""
NAMES = ("rag", "programs.single_step.rag:RAG", "verihop.programs.single_step.rag:RAG")


def test_artifacts_of_either_form_are_read_by_both(run, world, tmp_path):
    index, checkout = str(world / "index"), [sys.executable, "-c"]
    here = {"cwd": PROJECT, "check": True, "capture_output": True, "text": True}
    ours, theirs = ({str(tmp_path / f"{form}{n}"): name for n, name in enumerate(NAMES)} for form in ("our", "their"))
    empty = tmp_path / "empty"
    empty.mkdir()
    subprocess.run([*checkout, FREEZE.format(checkout=str(PROJECT), frozen=ours, index=index)], **here)
    run("-c", FREEZE.format(checkout="", frozen=theirs, index=index), cwd=empty)
    told = LOAD.format(frozen=ours | theirs, index=index)
    read = "programs.single_step.rag 2 True"
    assert run("-c", told, cwd=empty).splitlines() == [f"verihop.{read}"] * 6
    assert subprocess.run([*checkout, told], **here).stdout.splitlines() == [read] * 6


def test_results_are_typed(python, tmp_path):
    script = tmp_path / "mine.py"
    script.write_text(TYPED)
    skipped = "".join(f"[mypy-{name},{name}.*]\nfollow_imports = skip\n" for name in EXTRAS)  # as if not installed
    (tmp_path / "mypy.ini").write_text(f"[mypy]\n{skipped}")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--python-executable", str(python), str(script)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert 'note: Revealed type is "list[verihop.signatures.types.Passage]"' in done.stdout, done.stdout
    assert [line for line in done.stdout.splitlines() if ": error:" in line] == [
        'mine.py:13: error: "str" has no attribute "nothing"  [attr-defined]'
    ]


SMOKE = ("programs/single_step", "corpora/retrievers/test_own.py", "experiments/python")  # own code, all packages


def other_tests(folder: str, names: list[str]) -> list[str]:
    """Return what is not copied: modules of tests that are not of `SMOKE`."""
    places = {name: (Path(folder) / name).relative_to(PROJECT / "tests").as_posix() for name in names}
    other = [name for name, place in places.items() if name.startswith("test_") and not place.startswith(SMOKE)]
    return [*other, "__pycache__"]


def test_part_of_the_tests_passes_against_it(python, tmp_path):
    shutil.copytree(PROJECT / "tests", tmp_path / "tests", ignore=other_tests)
    shutil.copytree(PROJECT / "docs", tmp_path / "docs")  # whose code a test runs
    for file in (tmp_path / "tests").rglob("*.py"):
        file.write_text(rewritten(file.read_text(encoding="utf-8"), PROJECT), encoding="utf-8")
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\naddopts = --import-mode=importlib\nmarkers = slow\npythonpath = .\n"
    )
    done = subprocess.run(
        [str(python), "-m", "pytest", "-q", "-m", "not slow", *(f"tests/{part}" for part in SMOKE)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
