"""Passages with other keys than ours, and passages without."""

import copy
import pickle
from datetime import date

import pytest
from pydantic import ValidationError

from signatures.types import Passage, SourcedPassage, make_passage, plain_metadata

KEYS = {"source": "report.pdf", "page": 12, "metadata": [1], "_own": None, "model_dump": {"a": 0.5}}
FIELDS = {"id": "a", "title": "A", "text": "x", "score": 0.5}


def test_other_keys_are_metadata_and_survive_copies():
    passage = make_passage({**FIELDS, **KEYS})
    assert type(passage) is SourcedPassage
    for same in (passage, copy.deepcopy(passage), pickle.loads(pickle.dumps(passage)), passage.model_copy()):  # noqa: S301
        assert same == passage
        assert same.metadata == KEYS
    assert passage.model_copy(update={"score": 1.0}).metadata == KEYS
    assert passage.model_dump() == {**FIELDS, **KEYS}
    with pytest.raises(ValidationError):
        passage.source = "other"


def test_a_passage_without_other_keys_is_what_it_was():
    """Its serialised form, which DSPy hashes, must not change."""
    passage = make_passage(FIELDS)
    assert type(passage) is Passage
    assert passage.metadata == {}
    assert passage.__reduce__() == (Passage.model_validate, (FIELDS,))
    assert Passage.model_json_schema()["properties"].keys() == FIELDS.keys()
    assert Passage.model_validate({**FIELDS, **KEYS}) == passage  # as everything else that reads passages does


def test_its_text_form_is_that_of_a_passage():
    """Optimizers of DSPy put text forms of values into prompts."""
    plain, keyed = Passage(**FIELDS), make_passage({**FIELDS, **KEYS})
    assert str([keyed]) == str([plain])
    assert f"{keyed}" == f"{plain}"


def test_values_that_are_no_json_become_text():
    passage = SourcedPassage(**FIELDS, written=date(2026, 1, 2), by=object)
    assert plain_metadata(passage) == {"written": "2026-01-02", "by": "<class 'object'>"}
