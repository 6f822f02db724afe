"""The notebook of `docs` runs from beginning to end, on the simulated LM."""

import json
import subprocess
import sys

import pytest

from tests.experiments.readme.pages import ROOT

NOTEBOOK = ROOT / "docs" / "ten_minutes.ipynb"


def code() -> str:
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    return "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")


def test_the_notebook_is_committed_without_outputs():
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    assert all(not cell["outputs"] and cell["execution_count"] is None for cell in cells if "outputs" in cell)
    compile(code(), NOTEBOOK.name, "exec")


@pytest.mark.slow
def test_the_notebook_runs_and_runs_again(tmp_path, own_cache, monkeypatch):
    monkeypatch.setenv("VERIHOP_LM", "simulated")
    monkeypatch.setenv("VERIHOP_NOTEBOOK", str(tmp_path / "work"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", code()], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert "chosen: " in done.stdout
    assert (tmp_path / "work" / "artifact" / "program.json").is_file()
    assert (tmp_path / "work" / "after" / "summary.json").is_file()
