"""RAG reads at once, or states the facts first."""

import pytest

from programs.multi_step.ircot import IRCoT
from programs.multi_step.multihop import MultiHop
from programs.single_step.rag import RAG
from signatures.common.errors import UserError
from signatures.types import Passage

PASSAGES = [Passage(id="tarn", title="Tarn", text="Tarn lies in Orn.")]


def test_the_reader_cot_states_facts_before_its_answer(scripted):
    engine = scripted(lambda system, user: {"reasoning": "Tarn lies in Orn.", "answer": "Orn"})
    made = RAG(reader="cot")(question="Where is Tarn?", passages=PASSAGES)
    assert (made.answer, made.citations) == ("Orn", ["tarn"])
    assert "each fact that is needed" in str(engine.requests[0].system)


def test_direct_is_the_default_and_asks_for_the_answer_alone(scripted):
    engine = scripted(lambda system, user: {"answer": "Orn"})
    assert RAG()(question="Where is Tarn?", passages=PASSAGES).answer == "Orn"
    assert "reasoning" not in str(engine.requests[0].system)


def test_one_prompt_for_all_readers_that_reason():
    asked = [RAG(reader="cot").reading, MultiHop().reading, IRCoT(reader="cot").reading]
    fields = [one.predict.signature.output_fields["reasoning"].json_schema_extra["desc"] for one in asked]
    assert len(set(fields)) == 1


def test_an_unknown_reader_is_refused():
    with pytest.raises(UserError, match="reader"):
        RAG(reader="slow")
