"""Random draws depend on what a prompt is about: not on its wording, its layout or its demonstrations."""

import dspy
import pytest
from dspy.utils.exceptions import AdapterParseError

from experiments.world.dials import read_dials
from experiments.world.generate import records
from programs.lms.adapter import ChatForm, JsonForm
from signatures.cov_rag import VerifyAnswer
from signatures.genground import DeduceAnswer, GroundAnswer
from signatures.multi_step.multihop import WriteQuery
from signatures.reading import AnswerFromMemory, CiteAnswer, ReadAnswer
from signatures.retro_rag import AnswerFromEvidence, DrawInferences, JudgeAttribution, WeighEvidence
from signatures.types import Hop, Passage

pytestmark = pytest.mark.slow

MEANINGLESS = (
    "Go on.",
    "Take a deep breath and work with care.",
    "You are an expert. Be precise.",
    "This matters a great deal to me.",
    "Please.",
    "Let nothing distract you; the stakes are high.",
    "Answer like a librarian on a quiet afternoon.",
    "Step by step, as a careful scholar would.",
)

SEVERAL = tuple(" ".join(MEANINGLESS[first::3]) for first in range(3))  # each is read as a sentence of its own

Asked = list[tuple[str, list[Passage]]]


@pytest.fixture(scope="module")
def asked() -> Asked:
    """Questions of every kind, each with its gold passages and eight others."""
    passages, questions = records(20, seed=0)
    texts = {item["id"]: Passage(id=item["id"], title=item["title"], text=item["text"]) for item in passages}
    others = list(texts.values())
    return [
        (item["question"], [*(texts[gold] for gold in item["gold_ids"]), *others[8 * number : 8 * number + 8]])
        for number, item in enumerate(questions)
    ]


def _inputs(signature: type[dspy.Signature], question: str, passages: list[Passage]) -> dict:
    known = {
        "question": question,
        "sub_question": question,
        "passages": passages,
        "hops": [Hop(question="Who directed Nothing At All?", answer="Nobody Atall")],
        "draft": "Nobody Atall",
        "inferences": [],
        "entities": [passages[0].title],
        "response": f"{passages[0].text.split('. ')[1]} [1].",
        "evidence": f"{passages[0].title}: {passages[0].text}",
        "claim": passages[0].text.split(". ")[1],
        "query": "",
        "limit": 5,
    }
    return {name: known[name] for name in signature.input_fields}


def replies(predictor: dspy.Module, asked: Asked, **config) -> list[dict]:
    """Return the values of every reply; those of a malformed one are empty."""
    signature = predictor.predictors()[0].signature
    found: list[dict] = []
    for question, passages in asked:
        try:
            found.append(dict(predictor(**_inputs(signature, question, passages), config=config).items()))
        except AdapterParseError:
            found.append({})
    return found


READ_BY = [ReadAnswer, AnswerFromMemory, CiteAnswer, DeduceAnswer, GroundAnswer, WriteQuery, VerifyAnswer]
JUDGED_BY = [WeighEvidence, JudgeAttribution]


@pytest.mark.parametrize("signature", [*READ_BY, *JUDGED_BY, AnswerFromEvidence, DrawInferences])
def test_meaningless_words_in_the_instruction_change_nothing(running, asked, signature):
    with running():
        wordings = [
            replies(dspy.Predict(signature.with_instructions(f"{signature.instructions} {words}")), asked)
            for words in ("", *SEVERAL)
        ]
    assert all(wording == wordings[0] for wording in wordings)
    assert len({str(reply) for reply in wordings[0]}) > 1  # the questions do differ


@pytest.mark.parametrize("signature", [ReadAnswer, CiteAnswer, DeduceAnswer, GroundAnswer, VerifyAnswer])
def test_an_instruction_of_such_words_alone_changes_nothing_where_the_fields_tell(running, asked, signature):
    with running():
        usual = replies(dspy.Predict(signature), asked)
        for words in SEVERAL:
            assert replies(dspy.Predict(signature.with_instructions(words)), asked) == usual


@pytest.mark.parametrize("signature", [*READ_BY, *JUDGED_BY, AnswerFromEvidence, DrawInferences])
def test_both_forms_of_the_reply_have_the_same_values(running, faultless, asked, signature):
    dials = {"reading_distraction": 0.1, "judging_error": 0.2, "reasoning_composition": 0.3, "memory_wrong": 0.3}
    with running(faultless(**dials)):
        chat = replies(dspy.Predict(signature), asked)
    with running(faultless(**dials), JsonForm()):
        assert replies(dspy.Predict(signature), asked) == chat


@pytest.mark.parametrize("signature", [ReadAnswer, DeduceAnswer, GroundAnswer, VerifyAnswer])
@pytest.mark.parametrize("adapter", [ChatForm(), JsonForm()])
def test_demonstrations_change_nothing_whatever_they_show(running, faultless, asked, signature, adapter):
    question, passages = asked[-1]
    right = _inputs(signature, question, passages)
    with running(faultless(), adapter):
        told = dspy.Predict(signature)(**right)
    with running(adapter=adapter):
        shown = {
            "gold": {**right, **{name: told[name] for name in signature.output_fields}},
            "wrong": {**right, **{name: _wrong(told[name]) for name in signature.output_fields}},
            "filler": {**right, "question": "Lorem?", **{name: _wrong(told[name]) for name in signature.output_fields}},
        }
        predictor = dspy.Predict(signature)
        usual = replies(predictor, asked[:-1])
        for demo in shown.values():
            predictor.demos = [dspy.Example(**demo)] * 2
            assert replies(predictor, asked[:-1]) == usual


def _wrong(value: object) -> object:
    if isinstance(value, bool):
        return not value
    return 1 - value if isinstance(value, float) else "false" if value in {"true", "unclear"} else "dolor sit amet"


def test_another_seed_and_other_evidence_change_replies(running, asked):
    with running():
        usual = replies(dspy.Predict(ReadAnswer), asked)
        fewer = replies(dspy.Predict(ReadAnswer), [(question, passages[:-1]) for question, passages in asked])
    with running(seed=1):
        assert replies(dspy.Predict(ReadAnswer), asked) != usual
    assert fewer != usual


def test_above_temperature_zero_the_sampling_seed_decides_and_not_the_wording(running, asked):
    plain, worded = ReadAnswer, ReadAnswer.with_instructions(f"{ReadAnswer.instructions} {MEANINGLESS[1]}")
    with running():
        one, two = (replies(dspy.Predict(plain), asked, temperature=1.0, rollout_id=number) for number in (1, 2))
        assert one != two
        assert replies(dspy.Predict(worded), asked, temperature=1.0, rollout_id=1) == one


def test_a_reply_is_malformed_as_often_as_the_dial_says_whatever_its_wording(running, faultless, films):
    lost = []
    with running(faultless(form_malformed=0.3)):
        for words in MEANINGLESS[:2]:
            predictor = dspy.Predict(DeduceAnswer.with_instructions(words))
            batch = [(f"{verb} {film}?", [Passage(id="a", text="b")]) for film in films for verb in ("Who directed",)]
            lost.append([reply == {} for reply in _deductions(predictor, batch)])
    assert lost[0] == lost[1]
    assert sum(lost[0]) / len(lost[0]) == pytest.approx(0.3, abs=0.12)


def _deductions(predictor: dspy.Module, batch: Asked) -> list[dict]:
    found: list[dict] = []
    for question, _ in batch:
        try:
            found.append(dict(predictor(question=question, hops=[]).items()))
        except AdapterParseError:
            found.append({})
    return found


@pytest.mark.parametrize("own", [dspy.ChatAdapter(use_json_adapter_fallback=False), dspy.JSONAdapter()])
@pytest.mark.parametrize("signature", [*READ_BY, *JUDGED_BY, AnswerFromEvidence, DrawInferences])
def test_dspys_own_layouts_have_the_same_values(running, asked, signature, own):
    dials = read_dials().with_values(form_malformed=0.0)
    with running(dials):
        ours = replies(dspy.Predict(signature), asked)
    with running(dials, own):
        theirs = replies(dspy.Predict(signature), asked)
    outputs = list(signature.output_fields)
    assert [[reply[name] for name in outputs] for reply in theirs] == [
        [reply[name] for name in outputs] for reply in ours
    ]
