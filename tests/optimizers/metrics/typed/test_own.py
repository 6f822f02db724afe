"""Own metrics, `module:name`: imported only where the user typed the name; every fault is one line."""

import sys
from collections.abc import Iterator
from pathlib import Path

import dspy
import pytest

from optimizers.metrics.catalog import get_metric, given_metric, own_metric
from optimizers.metrics.typed.opened import open_typed, typed_metric, typed_names
from signatures.common.errors import UserError

CODE = '''
from optimizers.metrics.metric import Metric
from signatures.common.errors import UserError

def short(example, prediction):
    """1 when the answer has at most
    two words

    More about it.
    """
    return len(prediction.answer.split()) <= 2

def share(example, prediction):
    return 0.25

def undefined(example, prediction):
    return None

def seven(example, prediction):
    return 7

def text(example, prediction):
    return "1"

def nan(example, prediction):
    return float("nan")

def array(example, prediction):
    import numpy
    return numpy.array([0.5, 1.0])

def bool_of_numpy(example, prediction):
    import numpy
    return numpy.bool_(True)

def huge(example, prediction):
    return 10**400

def boom(example, prediction):
    raise KeyError("gone\\nfor good")

ready = Metric("other", "Something of mine.", lambda example, prediction: True, "https://x", higher_is_better=False)
value = 3
class Kind: pass
'''

EXAMPLE, SAID = dspy.Example(id="q1", question="?"), dspy.Prediction(answer="two words")


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Return the name of a module in the current directory, which is not on the path."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry not in ("", str(tmp_path))])
    name = f"own_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(CODE)
    yield name
    sys.modules.pop(name, None)


def test_a_function_scores_with_a_number_a_bool_or_none(module: str) -> None:
    short = own_metric(f"{module}:short")
    assert (short.name, short.higher_is_better, short.judged) == (f"{module}:short", True, False)
    assert short(EXAMPLE, SAID) == 1.0
    assert type(short(EXAMPLE, SAID)) is float
    assert own_metric(f"{module}:share")(EXAMPLE, SAID) == 0.25
    assert own_metric(f"{module}:bool_of_numpy")(EXAMPLE, SAID) == 1.0
    assert own_metric(f"{module}:undefined")(EXAMPLE, SAID) is None


def test_the_definition_is_the_docstring_with_a_hash_of_the_code(module: str) -> None:
    first = own_metric(f"{module}:short").definition
    assert first.startswith(f"1 when the answer has at most two words. Own metric {module}:short, code ")
    sys.modules.pop(module)
    Path(f"{module}.py").write_text(CODE + "\n# changed\n")
    assert own_metric(f"{module}:short").definition != first


def test_a_metric_keeps_its_traits_and_gets_its_name(module: str) -> None:
    ready = own_metric(f"{module}:ready")
    assert (ready.name, ready.higher_is_better, ready(EXAMPLE, SAID)) == (f"{module}:ready", False, 1.0)
    assert ready.definition.startswith("Something of mine. Own metric ")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("seven", "returned 7 on question 'q1': return a number from 0 to 1"),
        ("text", "returned '1' on question 'q1'"),
        ("array", "returned array"),
        ("huge", "returned 1000"),
        ("nan", "returned nan on question 'q1'"),
        ("boom", "failed on question 'q1': KeyError: 'gone"),
    ],
)
def test_a_wrong_value_or_an_exception_names_metric_and_question(module: str, name: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as error:
        own_metric(f"{module}:{name}")(EXAMPLE, SAID)
    assert f"{module}:{name}" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("{}:value", "is of type int"),
        ("{}:Kind", "is of type type"),
        ("{}:nothing", "has no 'nothing'"),
        ("no_such_module_here:x", "there is no module 'no_such_module_here'"),
        ("{}.deeper:x", "there is no module"),
        ("{}:", "names no own metric"),
        (":short", "names no own metric"),
        ("../{}:short", "names no own metric"),
        ("{}:short()", "names no own metric"),
    ],
)
def test_a_name_that_cannot_be_opened_is_refused_in_one_line(module: str, name: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as error:
        own_metric(name.format(module))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "code", ["raise RuntimeError('no')", "import no_such_package_here", "1 +", "raise SystemExit(3)"]
)
def test_a_module_that_cannot_be_imported_is_a_line(module: str, code: str) -> None:
    Path(f"{module}.py").write_text(code)
    with pytest.raises(UserError, match="cannot be imported") as error:
        own_metric(f"{module}:short")
    assert "\n" not in str(error.value)


def test_a_file_of_the_current_directory_never_replaces_an_installed_module(module: str) -> None:
    sys.modules.pop("pyclbr", None)
    Path("pyclbr.py").write_text("raise RuntimeError('imported')")
    assert own_metric("pyclbr:readmodule").name == "pyclbr:readmodule"
    assert Path(str(sys.modules["pyclbr"].__file__)).parent != Path.cwd()


def test_the_catalog_never_imports(module: str) -> None:
    with pytest.raises(UserError, match="is not in the catalog: open an own metric with"):
        get_metric(f"{module}:short")
    assert typed_names(f"em,{module}:short") == ["em", f"{module}:short"]
    assert module not in sys.modules
    assert typed_metric(f"{module}:short").name == f"{module}:short"
    assert [metric.name for metric in open_typed(["em", f"{module}:share"])] == ["em", f"{module}:share"]


def test_a_module_is_found_again_from_another_directory(module: str, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "sub").mkdir()
    other = f"{module}_sub"
    (tmp_path / "sub" / f"{other}.py").write_text(CODE)
    own_metric(f"{module}:short")
    monkeypatch.chdir(tmp_path / "sub")
    assert own_metric(f"{other}:share")(EXAMPLE, SAID) == 0.25
    sys.modules.pop(other)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("def f(example):\n    return 1\n", "takes .example.: it must take two arguments"),
        ("def f(example, prediction, trace):\n    return 1\n", "it must take two arguments"),
        ("async def f(example, prediction):\n    return 1\n", "is asynchronous"),
    ],
)
def test_wrong_arguments_are_found_before_anything_is_asked(code, message, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "wrong_arguments.py").write_text(code)
    with pytest.raises(UserError, match=message):
        own_metric("wrong_arguments:f")
    sys.modules.pop("wrong_arguments")


def test_an_exit_is_a_line_and_changes_to_the_arguments_stay_inside(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    code = "def f(example, prediction):\n    prediction.hops.clear()\n    example.answers.append('x')\n    return 1\n"
    (tmp_path / "careless.py").write_text(f"{code}def g(example, prediction):\n    raise SystemExit(3)\n")
    example, prediction = dspy.Example(id="q", answers=["a"]), dspy.Prediction(answer="a", hops=[1])
    assert own_metric("careless:f")(example, prediction) == 1.0
    assert (example.answers, prediction.hops) == (["a"], [1])
    with pytest.raises(UserError, match="'careless:g' failed on question 'q': SystemExit: 3"):
        own_metric("careless:g")(example, prediction)
    sys.modules.pop("careless")


@pytest.mark.parametrize(
    ("example", "words"),
    [
        (dspy.Example(body="b " * 99, label="x").with_inputs("body"), "the example with body 'b b b"),
        (dspy.Example(body="b"), "an example without an id"),
        (dspy.Example(id="q", body="b").with_inputs("body"), "question 'q'"),
    ],
)
def test_an_error_says_which_example_it_is_of(example, words):
    metric = given_metric(lambda example, prediction: "yes", "mine", "", "0" * 12)
    with pytest.raises(UserError, match=f"returned 'yes' on {words}") as error:
        metric(example, dspy.Prediction())
    assert len(str(error.value)) < 250
