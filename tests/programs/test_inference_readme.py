"""The lines of the README's section on inference, run as they stand."""

import ast
import asyncio
import inspect
import json
import re
from pathlib import Path

import pytest

from corpora.index.build import build_index
from corpora.passages import PassageRecord, write_passages
from programs.artifact import freeze
from programs.catalog import build
from programs.lms.adapter import JsonForm
from programs.lms.calls.metered import metered_lm
from programs.lms.connect import Connection

README = Path(__file__).parents[2] / "programs" / "README.md"


@pytest.fixture
def blocks():
    section = README.read_text(encoding="utf-8").split("\n## Answer questions\n")[1].split("\n## ")[0]
    return re.findall(r"```python\n(.*?)```", section, re.DOTALL)


@pytest.fixture
def place(tmp_path, monkeypatch, passages, echo):
    """Change to a folder with the artifact and the index that the README names; every LM is a scripted one."""
    monkeypatch.chdir(tmp_path)
    records = [PassageRecord(id=passage.id, title=passage.title, text=passage.text) for passage in passages]
    write_passages(tmp_path / "passages.jsonl", records)
    build_index(tmp_path / "passages.jsonl", tmp_path / "runs" / "index", retriever="bm25")
    freeze(build("multihop"), tmp_path / "runs" / "compiled")
    engine = echo(json.dumps({"reasoning": "so", "query": "harbour master", "answer": "Ansa Merrow"}))
    engine.supports_response_schema = True
    lm = metered_lm("scripted/readme", engine=engine, cache=False)
    monkeypatch.setattr("programs.lms.connect.connect", lambda id: Connection(id, lm, JsonForm(), None, "samples"))


def run(code, names):
    """Run lines that may await."""
    compiled = compile(code, str(README), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)

    async def all_lines():
        value = eval(compiled, names)  # noqa: S307 - our own README
        if inspect.isawaitable(value):
            await value

    asyncio.run(all_lines())


def test_the_lines_answer(blocks, place, capsys):
    names = {}
    assert len(blocks) == 2
    run(blocks[0], names)
    assert capsys.readouterr().out == "Ansa Merrow\n"
    run(blocks[1], names)
    lines = capsys.readouterr().out
    assert lines.startswith("Who is the harbour master? Ansa Merrow 3\nWhere lies Quillon? Ansa Merrow 3\n")
    assert lines.count("question='harbour master'") >= 2
    assert names["prediction"].answer == "Ansa Merrow"
