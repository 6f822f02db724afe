"""OpenVINO tells nobody that it runs."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PACKAGES = ("signatures", "corpora", "programs", "optimizers", "experiments")
GUARD = "openvino_telemetry"


def importers() -> list[str]:
    """Return the modules that import OpenVINO anywhere."""
    found = []
    for path in sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        names = [each.name for node in nodes if isinstance(node, ast.Import) for each in node.names]
        names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
        if any(name.split(".")[0].startswith("openvino") for name in names):
            found.append(".".join(path.relative_to(ROOT).with_suffix("").parts))
    return found


def run(code: str, **variables: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_every_module_that_imports_openvino_switches_its_telemetry_off():
    modules = importers()
    assert "programs.lms.embedded" in modules
    code = f"""
import importlib, sys
for name in {modules}:
    for each in [each for each in sys.modules if each == {GUARD!r} or each.split('.')[0] in {PACKAGES}]:
        del sys.modules[each]
    importlib.import_module(name)
    if sys.modules.get({GUARD!r}, name) is not None:
        print(name)
"""
    assert run(code) == ""


def test_the_import_reaches_no_host_and_leaves_nothing_in_the_home_folder(tmp_path):
    code = """
import socket, threading
asked = []
def spy(*where, **_):
    asked.append(where)
    raise OSError("no network")
socket.getaddrinfo = socket.socket.connect = spy
import verihop.programs.lms.weights.choice, openvino_genai
for thread in threading.enumerate():
    if thread is not threading.main_thread():
        thread.join(10)
print(asked)
"""
    assert run(code, HOME=str(tmp_path)) == "[]\n"
    assert not (tmp_path / "intel").exists()
