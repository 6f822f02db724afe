"""Every trained signature has three to five other wordings of its instruction, none of them twice."""

import tomllib

import dspy
import pytest

from experiments.papers.embedded_lm.data import WORDINGS, wordings_of
from experiments.papers.embedded_lm.plan import EVIDENCE_FIRST, PLAN
from optimizers.distill.gold.catalog import signature_of

ENTRIES = tomllib.loads(WORDINGS.read_text("utf-8"))["instruction"]


@pytest.mark.parametrize("row", [*PLAN, *EVIDENCE_FIRST.values()], ids=".".join)
def test_a_trained_signature_has_other_wordings(row):
    signature = signature_of(*row)
    wordings = wordings_of(signature)
    assert 3 <= len(wordings) <= 5
    assert signature.instructions.strip() not in wordings
    assert ('"unknown"' in signature.instructions) == all('"unknown"' in wording for wording in wordings)


def test_no_wording_occurs_twice():
    said = [text.strip() for entry in ENTRIES for text in (entry["original"], *entry["wordings"])]
    assert len(said) == len(set(said))


def test_every_entry_is_of_a_trained_signature():
    trained = {signature_of(*row).instructions.strip() for row in [*PLAN, *EVIDENCE_FIRST.values()]}
    assert {entry["original"].strip() for entry in ENTRIES} == trained


def test_a_signature_without_an_entry_has_none():
    assert wordings_of(dspy.Signature("question -> answer", "Say something else.")) == ()
