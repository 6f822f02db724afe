"""Other keys of passages (source, page, url ...) enter no prompt: with them every program asks what it asks without."""

import pytest

from programs.artifacts.state import dump_state
from programs.catalog import PROGRAMS, build
from programs.lms.adapter import ChatForm, JsonForm
from signatures.types import SourcedPassage
from tests.programs.obliging import obliging

MARK = "zzqsource"


def sourced(passages):
    return [SourcedPassage(**each.model_dump(), source=MARK, note={MARK: [MARK]}) for each in passages]


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_prompts_are_the_same_with_other_keys(name, scripted, retriever):
    requests = []
    for passages in (retriever.passages, sourced(retriever.passages)):
        retriever.passages = passages
        engine = scripted(obliging)
        build(name, retriever)("Question?")
        asked = [(str(request.system), [each.text for each in request.messages]) for request in engine.requests]
        requests.append(sorted(asked))  # some calls are made at once
    plain, keyed = requests
    assert plain == keyed
    assert MARK not in str(keyed)


@pytest.mark.parametrize("form", [ChatForm, JsonForm])
def test_nor_do_demonstrations_show_or_save_them(form, scripted, passages):
    engine = scripted(lambda system, user: "[[ ## reasoning ## ]]\nso\n\n[[ ## answer ## ]]\nAnsa", form())
    program = build("rag")
    for _, predictor in program.named_predictors():
        predictor.demos = [{"question": "q", "passages": sourced(passages), "reasoning": "r", "answer": "a"}]
    program("Question?", passages=sourced(passages))
    sent = str([[each.text for each in request.messages] for request in engine.requests])
    assert "Filler sentence" in sent
    assert MARK not in sent
    assert MARK not in str(dump_state(program))


def test_nor_does_dspy_in_prompts_about_prompts(passages):
    """MIPRO shows demonstrations by the text forms of their values."""
    from dspy.propose.utils import create_example_string

    fields = build("rag").reading.signature.fields
    shown = [create_example_string(fields, {"passages": each}) for each in (passages, sourced(passages))]
    assert "Filler sentence" in shown[0]
    assert shown[0] == shown[1]
