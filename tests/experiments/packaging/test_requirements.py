"""What an installation brings: the base is pinned here, because each package in it is one that every user installs."""

import json
import re
import subprocess
import sys
import tomllib
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from corpora.index.embedding import step_dense
from optimizers.teleprompters.catalog import get_optimizer
from programs.lms.connect import connect
from programs.single_step.rag import RAG
from signatures.common.errors import UserError
from tests import loopback

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
BASE = frozenset(
    "bm25s charset-normalizer dspy dspy-ai filelock gguf httpcore httpx ijson inscriptis jinja2 json-repair lxml "
    "mammoth markdown-it-py numpy openpyxl openvino-genai packaging platformdirs pydantic pypdfium2 pysbd "
    "python-dateutil python-pptx pyyaml rich safetensors tantivy threadpoolctl tokenizers typer ujson urllib3 "
    "zstandard".split()
)
ELSEWHERE = {"faiss-cpu": "faiss", "optuna": "tune", "sentence-transformers": "torch", "datasets": "hub"}  # in [all]
ABSENT = ("litellm", "openai", "openvino-genai")  # of an installation of the server alone, with what these alone bring
EXTRAS = (
    "datasets", "faiss", "lancedb", "matplotlib", "nltk", "optuna", "pandas", "psycopg", "pymilvus", "rouge_score",
    "scipy", "sentence_transformers", "sklearn", "sqlalchemy", "torch", "transformers", "xllamacpp",
)  # fmt: skip
NEED_THEM = {  # modules that are imported late
    "corpora.retrievers.llamaindex", "experiments.pipeline.tuning.tune", "experiments.service.mlflow_model",
    "optimizers.tuning.checks", "optimizers.tuning.optuna_private", "optimizers.tuning.samplers",
    "optimizers.tuning.storages", "optimizers.tuning.worker",
}  # fmt: skip
IMPORT = """
import importlib, pkgutil, sys
for name in {absent}:
    sys.modules[name] = None  # as if it were not installed
for top in ("signatures", "corpora", "programs", "optimizers", "experiments"):
    for found in pkgutil.walk_packages(importlib.import_module(top).__path__, f"{{top}}."):
        if not found.name.startswith(("experiments.papers", "experiments.benchmarks", "experiments.packaging")):
            try:
                importlib.import_module(found.name)
            except (ImportError, ValueError):
                print(found.name)
"""
ASK = """
import sys
for name in {absent}:
    sys.modules[name] = None  # as if it were not installed
import experiments.service.app, experiments.service.run, experiments.service.tools
from experiments.cli.main import main
main()
"""


def names(stated) -> dict[str, Requirement]:
    """Return requirements by their normal name."""
    return {re.sub(r"[-_.]+", "-", each.name).lower(): each for each in map(Requirement, stated)}


def closure(stated, without=()) -> set[str]:
    """Return the names of what requirements bring on this machine, `without` some packages and what these bring."""
    found: dict[str, set[str]] = {}
    left = list(names(stated).items())
    while left:
        name, requirement = left.pop()
        extras = requirement.extras or {""}
        applies = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if not applies or name in without or extras <= found.get(name, set()):
            continue
        found.setdefault(name, set()).update(extras)
        for line in requires(name) or ():
            more = Requirement(line)
            if more.marker is None or any(more.marker.evaluate({"extra": extra}) for extra in extras):
                more.marker = None
                left.append((next(iter(names([str(more)]))), more))
    return set(found)


def test_the_base_has_these_packages_and_no_others():
    assert set(names(PROJECT["dependencies"])) == BASE


def test_packages_that_few_need_are_in_an_extra_and_in_all():
    extras = PROJECT["optional-dependencies"]
    (everything,) = names(extras["all"]).values()
    for package, extra in ELSEWHERE.items():
        assert package in names(extras[extra])
        assert extra in everything.extras


def test_a_server_alone_needs_all_but_what_runs_in_process():
    lines = (ROOT / "docs" / "server_only.txt").read_text().splitlines()
    stated = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["serve"]]
    assert [line for line in lines if not line.startswith("#")] == sorted(closure(stated, ABSENT))


@pytest.mark.parametrize(
    ("module", "call", "cure"),
    [
        ("faiss", lambda folder: step_dense(folder, None, None, "rabitq", shown=False), r"verihop\[faiss\]"),
        ("openvino_genai", lambda folder: connect("embedded"), "pip install openvino-genai"),
    ],
)
def test_what_is_missing_is_named_before_any_work(module, call, cure, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UserError, match=cure):
        call(tmp_path)


def test_mipro_does_not_fit_without_optuna(monkeypatch):
    assert get_optimizer("mipro").fits(RAG(None), None) is None
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert "verihop[tune]" in get_optimizer("mipro").fits(RAG(None), None)


@pytest.mark.slow
def test_modules_are_imported_without_the_packages_of_extras():
    command = [sys.executable, "-c", IMPORT.format(absent=EXTRAS)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) <= NEED_THEM


@pytest.mark.slow
def test_a_hosted_lm_answers_from_an_index_of_words_without_them(tmp_path, verihop):
    class Handler(loopback.JsonHandler):
        def post(self):
            text = json.dumps({"reasoning": "It says so.", "answer": "in the sea"})
            message = {"role": "assistant", "content": text}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
            self.reply(200, {"id": "x", "object": "chat.completion", "model": "m", "choices": [choice], "usage": usage})

    absent = closure(PROJECT["dependencies"]) - closure(PROJECT["dependencies"], ABSENT)
    modules = tuple(sorted(name.replace("-", "_") for name in absent - {"importlib-metadata"}))
    (tmp_path / "passages.jsonl").write_text('{"id": "a", "title": "Ossa", "text": "The Ossa ends in the sea."}\n')
    assert verihop("index", tmp_path / "passages.jsonl", "--out", tmp_path / "index", "--retriever", "bm25")[0] == 0
    server = loopback.Loopback(Handler)
    try:
        told = ["ask", "Where does the Ossa end?", "--index", str(tmp_path / "index"), "--program", "rag", "--no-cache"]
        command = [sys.executable, "-c", ASK.format(absent=modules), *told, "--lm", "m", "--api-base", server.base]
        done = subprocess.run([*command, "--json"], cwd=ROOT, capture_output=True, text=True, check=False)
    finally:
        server.close()
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["answer"] == "in the sea"
