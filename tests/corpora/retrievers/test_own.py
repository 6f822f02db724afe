"""Retrievers of the user's own: every form, and every fault as one line."""

import copy
import sys

import pytest

from corpora.retrievers.own import own_retriever
from signatures.common.errors import UserError, UserNotice

CODE = """
from verihop.signatures.types import Passage

ONE = Passage(id="one", title="One", text="The first.")
TWO = Passage(id="two", title="Two", text="The second.")

def search(query, k):
    return [ONE, TWO]

class Made:
    fingerprint = "mine"
    def __init__(self, index=None):
        self.index = index
    def __call__(self, query, k):
        return [ONE]
    def many(self, queries, k):
        return [[TWO] for _ in queries]

class FromIndex:
    def __init__(self, index):
        self.index = index
    def __call__(self, query, k):
        return [Passage(id=str(self.index), title="", text="")]

def make():
    return search

def chunks(query, k):
    return [ONE, ONE.model_copy(update={"text": "Its second half."}), TWO, ONE]

def broken(query, k):
    raise KeyError("gone")

def texts(query, k):
    return ["a text"]

class Short(Made):
    def many(self, queries, k):
        return []

def nothing():
    return 3

def failing():
    raise OSError("no server")

ready = Made()
number = 3
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "my_search.py").write_text(CODE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield "my_search"
    sys.modules.pop("my_search", None)


def test_each_form_searches(module, tmp_path):
    assert [each.id for each in own_retriever(f"{module}:search")("q", 1)] == ["one"]
    assert [each.id for each in own_retriever(f"{module}:make")("q", 5)] == ["one", "two"]
    assert [each.id for each in own_retriever(f"{module}:ready")("q", 5)] == ["one"]
    assert [each.id for each in own_retriever(f"{module}:Made")("q", 5)] == ["one"]
    assert [each.id for each in own_retriever(f"{module}:FromIndex", tmp_path)("q", 5)] == [str(tmp_path)]


def test_many_and_fingerprint_are_used_where_they_are(module):
    plain, made = own_retriever(f"{module}:search"), own_retriever(f"{module}:Made")
    assert [[each.id for each in found] for found in plain.many(["a", "b"], 1)] == [["one"], ["one"]]
    assert [[each.id for each in found] for found in made.many(["a", "b"], 1)] == [["two"], ["two"]]
    assert made.fingerprint == "mine"
    assert plain.fingerprint.startswith(f"{module}:search@")
    assert copy.deepcopy(plain) is plain


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("broken", "raised KeyError"),
        ("texts", "return a list of verihop.signatures.types.Passage"),
        ("number", "is of type int"),
        ("nothing", "made a int"),
        ("failing", "no server"),
        ("FromIndex", "name its folder"),
        ("missing", "has no 'missing'"),
    ],
)
def test_every_fault_is_a_user_error(module, name, says):
    with pytest.raises(UserError, match=says):
        own_retriever(f"{module}:{name}")("q", 3)


def test_of_passages_with_one_id_the_first_stays_and_one_notice_says_so(module):
    search = own_retriever(f"{module}:chunks")
    with pytest.warns(UserNotice, match="passage 'one' more than once") as told:
        found = [search("q", 2), *search.many(["a", "b"], 5)]
    assert [[(each.id, each.text) for each in ranking] for ranking in found] == [
        [("one", "The first."), ("two", "The second.")]
    ] * 3
    assert len(told) == 1


def test_too_few_rankings_are_a_user_error(module):
    with pytest.raises(UserError, match="for 2 queries"):
        own_retriever(f"{module}:Short").many(["a", "b"], 3)
