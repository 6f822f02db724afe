"""A retriever of the user's own, by its name in every command and given in Python; and its check."""

import json
import sys

import pytest

import verihop as library
from corpora.index.open import open_index
from signatures.common.errors import UserError

CODE = '''
from pathlib import Path
from verihop.signatures.types import Passage, make_passage
import verihop

TOWN = make_passage({"id": "tolmen", "title": "Tolmen", "text": "Ilse Varrow was born in Tolmen.", "url": "http://t"})

def search(query, k):
    return [TOWN][:k]

def over_index(folder):
    """An own retriever over an index of ours, with a score of its own."""
    return verihop.open_index(folder, retriever="bm25")

def over_texts(folder):
    inner = verihop.open_index(folder)
    return lambda query, k: inner(query, k)

class Broken:
    """Everything that a check can see, at once."""
    def __init__(self):
        self.fingerprint = repr(object())
        self.calls = 0
    def __call__(self, query, k):
        self.calls += 1
        return [
            *[Passage(id="a", text="t", score=0.1)] * 2,
            make_passage({"id": "b", "text": "t", "score": 0.5, "of": Path}),
            Passage(id=f"n{self.calls}", text="u"), *[Passage(id=f"m{n}", text="u") for n in range(k)],
        ]

def raising(query, k):
    print("I am asked")
    raise KeyError(query)

def lazy(query, k):
    return (each for each in [TOWN])
'''
FOREIGN = """
from langchain_core.runnables import RunnableLambda
from langchain_core.documents import Document

chain = RunnableLambda(lambda query: [Document("Ilse Varrow was born in Tolmen.", id="tolmen")])

failing = RunnableLambda(lambda query: 1 / 0)

def make():
    from llama_index.core.base.base_retriever import BaseRetriever
    from llama_index.core.schema import NodeWithScore, TextNode

    class Fixed(BaseRetriever):
        def _retrieve(self, bundle):
            return [NodeWithScore(node=TextNode(id_="tolmen", text="Ilse Varrow was born in Tolmen."), score=0.5)]

    return Fixed()
"""
SIMULATED = ("--lm", "simulated", "--quiet")


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Work in a folder that holds the user's modules."""
    (tmp_path / "my_search.py").write_text(CODE)
    (tmp_path / "their_search.py").write_text(FOREIGN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    yield tmp_path
    for name in ("my_search", "their_search"):
        sys.modules.pop(name, None)


def test_a_check_of_one_that_keeps_its_contract_says_so(verihop, home, world):
    code, out, err = verihop("search", "--check", "--retriever", "my_search:search")
    assert (code, out.count("ok "), "keeps 10 of 10 points" in err) == (0, 10, True)
    code, out, err = verihop("search", "--check", "--index", world / "index", "Where?", "--json")
    assert (code, json.loads(out)["kept"]) == (0, True)


def test_a_check_names_every_fault_at_once(verihop, home):
    code, out, err = verihop("search", "--check", "--retriever", "my_search:Broken")
    broken = out.split("BROKEN ")[1:]
    says = [
        "asked for 1 it returned 5 passages",
        "passage 'a' is twice",
        "2 of 5 passages of a ranking have a score",
        "cannot be written as JSON",
        "many returns other rankings",
        "had other rankings when they were asked again",
        "had another ranking in 8 threads",
        "has an address in memory",
    ]
    assert code == 1
    assert [said for said in says if not any(said in each for each in broken)] == []
    assert (len(broken), "keeps 2 of 10 points" in err) == (8, True)


def test_a_check_outlives_exceptions_and_prints(verihop, home):
    code, out, _ = verihop("search", "--check", "--retriever", "my_search:raising", "--json")
    told = json.loads(out)
    assert (code, told["kept"], len(told["points"])) == (1, False, 1)
    assert "raised KeyError" in told["points"][0]["broken"]
    assert "UserError" not in told["points"][0]["broken"]
    code, _, err = verihop("search", "--check", "--retriever", "my_search:nothing")
    assert (code, "has no 'nothing'" in err) == (2, True)


def test_a_check_of_one_that_does_not_answer_says_so_once(verihop, home):
    code, out, err = verihop("search", "--check", "--retriever", "my_search:lazy")
    assert (code, out.count("BROKEN"), "keeps 0 of 10 points" in err) == (1, 1, True)
    assert "Own retriever 'my_search:lazy': it returned <generator object lazy.<locals>.<genexpr>>: return a" in out
    assert "The other points were not checked." in out
    assert ("UserError" in out, "0x" in out) == (False, False)


@pytest.mark.parametrize("name", ["their_search:chain", "their_search:make"])
def test_one_of_another_framework_is_named_as_any_other(verihop, home, name):
    pytest.importorskip("langchain_core", reason="needs the extra langchain")
    pytest.importorskip("llama_index.core", reason="needs the extra llamaindex")
    code, out, _ = verihop(
        "ask", "--program", "rag", "--retriever", name, *SIMULATED[:2], "Where was Ilse Varrow born?", "--json"
    )
    assert (code, [passage["id"] for passage in json.loads(out)["passages"]]) == (0, ["tolmen"])
    code, out, _ = verihop("search", "--retriever", name, "Varrow", "--json")
    assert (code, name in json.loads(out)["retriever"]) == (0, True)


def test_every_command_takes_it_and_a_run_goes_on_until_its_code_changes(verihop, home, world):
    own = ("--program", "rag", "--retriever", "my_search:search", *SIMULATED)
    asked = ("eval", world / "questions.jsonl", "--limit", 3, *own, "--out", "run", "--json")
    assert verihop(*asked)[0] == 0
    fingerprint = json.loads((home / "run" / "run.json").read_text())["corpus"]["fingerprint"]
    assert fingerprint.startswith("my_search:search@")
    rows = (home / "run" / "rows.jsonl").read_text().splitlines(keepends=True)
    (home / "run" / "rows.jsonl").write_text("".join(rows[:1]))
    sys.modules.pop("my_search")
    code, out, _ = verihop(*asked, "--resume")
    assert (code, json.loads(out)["answered"]) == (0, 3)
    train = (world / "questions.jsonl", "--split", "train", "--limit", 4)
    assert verihop("compile", *train, *own, "--out", "made")[0] == 0
    code, out, _ = verihop(
        "ask", "--artifact", "made", "--retriever", "my_search:search", *SIMULATED[:2], "Who?", "--json"
    )
    assert (code, json.loads(out)["passages"][0]["id"]) == (0, "tolmen")
    with (home / "my_search.py").open("a") as file:
        file.write("\n# other code\n")
    sys.modules.pop("my_search")
    code, _, err = verihop(*asked, "--resume")
    assert (code, "corpus" in err) == (2, True)


@pytest.mark.slow
def test_it_is_tuned_with(verihop, home, world):
    train = (world / "questions.jsonl", "--split", "train", "--limit", 4)
    own = ("--program", "rag", "--retriever", "my_search:search", *SIMULATED)
    code, _, err = verihop("tune", *train, *own, "--trials", 2, "--search", "k", "--out", "tuned")
    assert code == 0, err


def test_what_is_made_from_an_index_changes_with_it(home, world, tmp_path):
    from corpora.index.build import build_index

    (tmp_path / "few.jsonl").write_text('{"id": "a", "text": "A text."}\n')
    build_index(tmp_path / "few.jsonl", tmp_path / "few", retriever="bm25")
    one, other = (
        library.open_index(folder, retriever="my_search:over_texts") for folder in (world / "index", tmp_path / "few")
    )
    assert one.fingerprint != other.fingerprint
    assert one.fingerprint == library.open_index(world / "index", retriever="my_search:over_texts").fingerprint
    ours = library.open_index(world / "index", retriever="my_search:over_index")
    assert ours.fingerprint == open_index(world / "index", retriever="bm25").fingerprint


def test_python_takes_names_functions_and_other_frameworks(home):
    pytest.importorskip("langchain_core", reason="needs the extra langchain")
    pytest.importorskip("llama_index.core", reason="needs the extra llamaindex")
    import my_search
    import their_search

    named = library.load(program="rag", retriever="my_search:search", lm="simulated")
    assert named("Where?").passages[0].metadata == {"url": "http://t"}
    for given in (my_search.search, their_search.chain, their_search.make()):
        answered = library.load(program="rag", index=given, lm="simulated")("Where was Ilse Varrow born?")
        assert [passage.id for passage in answered.passages] == ["tolmen"]
    assert library.open_index(retriever="my_search:search").fingerprint == named.retrieve.fingerprint
    given = library.load(program="rag", index=my_search.search, lm="simulated")
    assert given.retrieve.fingerprint == named.retrieve.fingerprint
    assert given.provenance() == {}


def test_one_of_another_framework_fails_as_a_function_does(home):
    """Given in Python, too, it is wrapped: its error is one line that names it."""
    pytest.importorskip("langchain_core", reason="needs the extra langchain")
    pytest.importorskip("llama_index.core", reason="needs the extra llamaindex")
    import their_search

    given = library.load(program="rag", index=their_search.failing, lm="simulated").retrieve
    with pytest.raises(UserError, match="Own retriever 'langchain_core.*it raised ZeroDivisionError"):
        given("Where?", 3)
    found = library.load(program="rag", index=their_search.chain, lm="simulated").retrieve
    assert (found.explain("Where?", 1)[0].places[0].rank, found.fingerprint[:10]) == (1, "langchain:")


def test_python_says_what_is_no_retriever(home, world):
    import my_search

    for value in (3, my_search.Broken, lambda query: []):
        with pytest.raises(UserError, match="index must be the folder of an index, a retriever"):
            library.load(program="rag", index=value, lm="simulated")
    with pytest.raises(UserError, match="name the retriever bm25 where you open its index"):
        library.load(program="rag", index=my_search.search, retriever="bm25", lm="simulated")
    with pytest.raises(UserError, match="Name what to search"):
        library.open_index()
