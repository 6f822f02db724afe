"""Every Python block of every page runs as it is written, on a small world and the simulated LM."""

import ast
import asyncio
import inspect
from pathlib import Path
from types import FunctionType
from typing import Any

import dspy
import pytest

import verihop
from corpora.questions import read_questions, select
from experiments.pipeline import setup
from experiments.runs.shards import Shard
from optimizers.examples import to_examples
from optimizers.metrics.catalog import get_metric
from optimizers.teleprompters.task import Task
from programs.inference import Answerer
from programs.lms.spec import LMSpec
from signatures.common.files import sha256_text
from tests.experiments.readme.pages import OWN_METRIC, ROOT, blocks

PYTHON = blocks("python")
ELSEWHERE = {
    "docs/any_dspy_module.md": "the simulated LM sorts no letters: tests/experiments/python/test_any_module.py",
    "optimizers/distill/training/README.md": "it trains: tests/optimizers/distill/training",
    "programs/own/README.md": "it is a module: tests/experiments/cli/test_own_program.py",
}
RUN = sorted({block.page for block in PYTHON} - set(ELSEWHERE))


@pytest.fixture
def simulated(monkeypatch, own_cache) -> None:
    """Make every LM that a page names the simulated one."""
    open_lm = setup.open_lm
    monkeypatch.setattr("programs.artifacts.loading.recorded_connection", lambda artifact: verihop.connect())
    monkeypatch.setattr(setup, "open_lm", lambda config, budget=None: open_lm(LMSpec(id="simulated"), budget))


@pytest.fixture
def stage(tmp_path, small_world, monkeypatch, simulated) -> dict[str, Any]:
    """Return the names that pages use for what they do not make, in a folder with the files that they read."""
    world = small_world(60)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("my_metrics.py").write_text(OWN_METRIC)
    for place in ("index", "runs/index"):
        Path(place).parent.mkdir(exist_ok=True)
        Path(place).symlink_to(world / "index")
    every = list(read_questions(world / "questions.jsonl"))
    train, dev = (select(every, split=split, limit=limit) for split, limit in (("train", 10), ("dev", 4)))
    files = {"questions.jsonl": [*train, *dev], "hotpotqa/questions.jsonl": train, "eval/questions.jsonl": dev}
    for place, chosen in files.items():
        Path(place).parent.mkdir(exist_ok=True)
        Path(place).write_text("".join(f"{question.model_dump_json()}\n" for question in chosen))
    opened = {
        name: verihop.load(program=program, index="index", lm="simulated")
        for name, program in {"rag": "rag", "genground": "genground", "cov": "cov_rag", "cot": "cot"}.items()
    }
    for name, program in opened.items():
        verihop.freeze(program, f"artifacts/{name}")
    verihop.freeze(opened["genground"], "runs/demo/artifact")
    demo = dspy.Example(passages=[], question=train[0].question, answer="Corrant", augmented=True)
    rag, metric = opened["rag"], get_metric("f1[hotpot]")
    return {
        "Path": Path,
        "program": rag.program,
        "connection": rag.connection,
        "retrieve": rag.retrieve,
        "many": [*select(every, split="train"), *select(every, split="dev")],
        "questions": train,
        "training": train,
        "validation": dev,
        "trainset": to_examples(train),
        "valset": to_examples(dev),
        "examples": to_examples(train),
        "metric": metric,
        "score": metric,
        "task": Task(to_examples(train), metric),
        "similarity": setup.open_similarity(),
        "answered_well": [(train[0].question, [demo])],
        "cheap": opened["cot"].program,
        "expensive": rag.program,
    }


def prepare(page: str, names: dict[str, Any]) -> None:
    """Make what one page alone needs."""
    if page == "programs/README.md":
        verihop.freeze(verihop.load("artifacts/genground"), "runs/compiled")
        # Enough answers to show a precision in; two are wrong, in the part to fit on, which has the first hashes.
        names["examples"] = to_examples(names["many"])
        wrong = sorted((each.id for each in names["many"]), key=sha256_text)[:2]
        names["metric"] = lambda example, prediction: float(example.id not in wrong)
    elif page == "docs/langchain.md":
        names["store"] = langchain_store(names["retrieve"])
    elif page == "docs/inspect.md":
        pytest.importorskip("inspect_ai", reason="needs the extra inspect")
    elif page == "docs/mlflow.md":
        pytest.importorskip("mlflow.pyfunc", reason="needs the extra mlflow")
        verihop.freeze(verihop.load(program="rag", index="index", lm="simulated"), "artifacts/rag", overwrite=True)
    elif page == "docs/llamaindex.md":
        names["vector_index"] = llamaindex_index(names["retrieve"])
    elif page == "optimizers/replay/README.md":
        cov = verihop.load("artifacts/cov")
        verihop.evaluate(cov, names["questions"], "runs/cov", metrics="f1[hotpot]", branches=4, progress=False)
    elif page == "experiments/pipeline/README.md":
        rag = Answerer(names["program"], names["connection"])
        verihop.evaluate(rag, names["questions"], "runs/2", metrics="em", shard=Shard(2, 2), progress=False)


def langchain_store(retrieve: Any) -> Any:
    pytest.importorskip("langchain_core", reason="needs the extra langchain")
    from langchain_core.embeddings import DeterministicFakeEmbedding
    from langchain_core.vectorstores import InMemoryVectorStore

    from corpora.retrievers.langchain import to_document

    store = InMemoryVectorStore(DeterministicFakeEmbedding(size=8))
    store.add_documents([to_document(passage) for passage in retrieve("line", 20)])
    return store


def llamaindex_index(retrieve: Any) -> Any:
    pytest.importorskip("llama_index.core", reason="needs the extra llamaindex")
    from llama_index.core import MockEmbedding, VectorStoreIndex

    from corpora.retrievers.llamaindex import to_node

    nodes = [to_node(passage).node for passage in retrieve("line", 20)]
    return VectorStoreIndex(nodes=nodes, embed_model=MockEmbedding(embed_dim=4))


def run(code: str, page: str, names: dict[str, Any]) -> None:
    """Run a block, which may await."""
    compiled = compile(code, page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    ended = FunctionType(compiled, names)()
    if inspect.iscoroutine(ended):
        asyncio.run(ended)


@pytest.mark.slow
@pytest.mark.filterwarnings("default::signatures.common.errors.UserNotice")  # e.g. of the LM in place of another
@pytest.mark.parametrize("page", RUN)
def test_the_blocks_of_a_page_run_one_after_the_other(page, stage):
    prepare(page, stage)
    for block in PYTHON:
        if block.page == page:
            run(block.text, page, stage)


def test_what_runs_elsewhere_is_still_there():
    pages = {block.page for block in PYTHON}
    assert set(ELSEWHERE) <= pages
    for reason in ELSEWHERE.values():
        assert (ROOT / reason.partition(": ")[2]).exists(), reason


def test_the_first_block_of_the_readme_is_short():
    first = next(block for block in PYTHON if block.page == "README.md")
    assert len([line for line in first.text.splitlines() if line.strip()]) <= 5
