"""Help and listings import nothing heavy, which is what makes them fast."""

import subprocess
import sys

import pytest

HEAVY = ("dspy", "litellm", "torch", "faiss", "numpy", "datasets", "scipy", "rich.markdown", "rich.console")
CODE = f"""
import sys
from experiments.cli.main import main
sys.argv = ["verihop", *sys.argv[1:]]
try:
    main()
except SystemExit as ended:
    code = ended.code or 0
sys.stderr.write(f"\\nexit {{code}}, imported: {{[name for name in {HEAVY} if name in sys.modules]}}")
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["eval", "--help"], ["distill", "--help"], ["programs"], ["programs", "--json"]],
    ids=" ".join,
)
def test_nothing_heavy_is_imported(arguments):
    done = subprocess.run([sys.executable, "-c", CODE, *arguments], capture_output=True, text=True, check=True)
    assert done.stdout
    assert done.stderr.splitlines()[-1] == "exit 0, imported: []"


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("experiments.cli.main", "pydantic"),  # Typer loads it for options
        pytest.param("experiments.pipeline.verbs", "optuna", marks=pytest.mark.slow),  # of studies alone
    ],
)
def test_what_commands_do_not_need_is_not_imported(module, absent):
    code = f"import sys; import {module}; sys.exit({absent!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_help_has_a_section_for_each_group_of_options(verihop):
    _, out, _ = verihop("eval", "--help")
    headings = [line for line in out.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert headings == [
        f"{name}:"
        for name in ("Arguments", "Program", "LM", "Metrics", "Questions", "Fixed contexts", "Execution", "Budget",
                     "Replay", "Output", "Options")
    ]  # fmt: skip
    section = out.partition("\nBudget:\n")[2].partition("\n\n")[0]
    assert [line.split()[0] for line in section.splitlines() if line.startswith("  --")] == ["--budget"]


def test_the_options_of_a_teacher_stand_in_one_section(verihop):
    section = verihop("distill", "synthesize", "--help")[1].partition("\nTeacher:\n")[2].partition("\n\n")[0]
    assert {"--teacher", "--timeout", "--cache"} <= set(section.split())


def test_the_help_of_a_command_is_listed_in_full(verihop):
    listed = " ".join(verihop("--help")[1].split())
    whole = "Add metrics to a run, or score predictions of another system, without asking the answering LM again."
    assert f"score {whole}" in listed
    assert "review Judge key facts and answers; every decision is saved at once." in listed
