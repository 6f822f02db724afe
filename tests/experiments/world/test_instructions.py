"""What the words of a prompt change: only what they affirm, and only where they can mean it."""

from pathlib import Path

import dspy
import pytest

from experiments.world.roles.instruction import asked_kind, offers_unknown, quoted_refusal
from signatures.genground import ConcludeTruth
from signatures.reading import AnswerFromMemory
from signatures.retro_rag import AnswerFromEvidence, WeighEvidence
from tests.conftest import load_module

signatures = load_module(Path(__file__).with_name("all_signatures.py"))
SIGNATURES, values = signatures.SIGNATURES, signatures.values

# They hold words that mean something elsewhere; here they are negated, or speak of something else.
MEANINGLESS = (
    "Judge the evidence, not your own knowledge.",
    "One word is enough.",
    'Never answer "unknown".',
    "No further search is needed.",
    "Do not rely on your own knowledge.",
    "Do not guess from memory; look at the text.",
    "A short reply is enough.",
    "Commit to one verdict.",
    "Do not decline and do not refuse.",
    "Never say unknown.",
    'A reply such as "unknown" is worth nothing.',
    "That is enough.",
    "You need not search for anything.",
    "Ignore your own knowledge.",
    "Reading them once is enough.",
    "A wrong verdict is costly.",
    "Make no errors, and contradict nobody.",
    'Do not say "I\'m sorry, I am only a machine."',
    "Look only at what is needed.",
    "As you know, details matter.",
)


@pytest.fixture(scope="module")
def asked() -> list[dict]:
    return signatures.cases()


@pytest.mark.slow
@pytest.mark.parametrize("signature", SIGNATURES, ids=lambda item: item.__name__)
def test_words_that_are_negated_or_speak_of_something_else_change_nothing(running, asked, signature):
    names = {name: name for name in signature.fields}
    some = asked[: 6 if signature in signatures.EARLIER else 4]
    with running():
        usual = values(signature, names, some)
        for first in range(4):  # five at a time, each of which is read as a sentence of its own
            words = " ".join(MEANINGLESS[first::4])
            worded = signature.with_instructions(f"{signature.instructions} {words}")
            assert values(worded, names, some) == usual, words


@pytest.mark.slow
@pytest.mark.parametrize(
    ("signature", "words"),
    [
        (WeighEvidence, "Judge the evidence, not your own knowledge."),
        (WeighEvidence, "One word is enough."),
        (AnswerFromMemory, 'Never answer "unknown".'),
        (ConcludeTruth, "No further search is needed."),
    ],
)
def test_such_words_change_nothing_on_many_questions_either(running, asked, signature, words):
    names = {name: name for name in signature.fields}
    with running():
        usual = values(signature, names, asked)
        assert values(signature.with_instructions(f"{signature.instructions} {words}"), names, asked) == usual


@pytest.mark.parametrize(
    ("text", "offered"),
    [
        (AnswerFromEvidence.instructions, True),
        ('If no passage decides, say "unknown".', True),
        ('When the passages do not decide the question reply with "unknown".', True),
        ('- answer: a short phrase, or "unknown"', True),
        ('"unknown" if nothing is stated', True),
        ('Never answer "unknown".', False),
        ('You must not reply with "unknown".', False),
        ('The answer "unknown" counts as wrong.', False),
        ("Answer unknown questions too.", False),
    ],
)
def test_unknown_is_offered_only_by_an_offer(text, offered):
    assert offers_unknown(text) == offered


def test_a_refusal_is_quoted_only_where_it_is_asked_for():
    told = "I'm sorry, I cannot tell."
    assert quoted_refusal(f'If they do not suffice, respond with this alone: "{told}"') == told
    assert quoted_refusal(f'Never respond with "{told}"') == ""


@pytest.mark.parametrize(
    ("instruction", "kind"),
    [
        ("Is retrieval needed to answer the question?", "search"),
        ("Do you need to search for the answer?", "search"),
        ("No search is needed.", None),
        ("Do you know the answer?", "memory"),
        ("Would you answer this without passages?", "memory"),
        ("Judge the evidence instead of your own knowledge.", None),
        ("Do the passages suffice?", "suffices"),
        ("Is there enough evidence?", "suffices"),
        ("One word is enough.", None),
        ("Does it commit itself, or is it a refusal?", "answered"),
        ("Decide whether the reply says that it cannot be answered.", "answered"),
        ("Commit to one verdict.", None),
    ],
)
def test_the_kind_of_judgement_is_what_the_instruction_affirms(instruction, kind):
    assert asked_kind(instruction) == kind


def test_an_affirmed_instruction_still_counts(running, faultless, films, about):
    signature = dspy.Signature("question, passages: list[str] -> verdict: bool", "Do the passages suffice?")
    passage = about(films[0], "director")
    question = f"Where was the director of {films[0]} born?"
    with running(faultless()):
        inputs = {"question": question, "passages": [passage.text]}
        assert not dspy.Predict(signature)(**inputs).verdict
        assert dspy.Predict(signature.with_instructions("Do the passages contribute?"))(**inputs).verdict
