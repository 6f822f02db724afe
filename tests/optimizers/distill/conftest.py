"""A teacher that answers GenGround's prompts, and small builders."""

import random
from collections.abc import Callable
from typing import Any

import dspy
import pytest

from corpora.passages import PassageRecord
from corpora.questions import Question, SubQuestion
from optimizers.distill.examples import Example, Message
from optimizers.distill.gold.calls import Material
from optimizers.distill.gold.contexts import Contexts
from optimizers.distill.gold.wrong_answers import WrongAnswers
from optimizers.distill.student import QuestionSource
from programs.lms.adapter import ChatForm
from tests.conftest import ListRetriever

EVIDENCE = "The harbour master of Quillon is Ansa Merrow."
ALL_STEPS = [
    {"finished": False, "sub_question": "Who is the harbour master of Quillon?", "answer": "Bert Oyle"},
    {"finished": False, "sub_question": "Where was Ansa Merrow born?", "answer": "in Quillon"},
    {"finished": True, "sub_question": "Where was the harbour master of Quillon born?", "answer": "Quillon"},
]


def _in_chat_form(fields: dict[str, Any]) -> str:
    signature = dspy.Signature(dict.fromkeys(fields, (str, dspy.OutputField())))
    return ChatForm().format_assistant_message_content(signature, fields)


@pytest.fixture(scope="session")
def in_chat_form() -> Callable[[dict[str, Any]], str]:
    """Return a function that writes fields as a reply in the form of the teacher."""
    return _in_chat_form


@pytest.fixture
def teacher() -> Callable[..., Callable[[str, str], str]]:
    """Return a function that makes the replies of a teacher in chat form: two hops, the first corrected."""

    def make(steps: list[dict[str, Any]] | None = None, evidence: str = EVIDENCE) -> Callable[[str, str], str]:
        left = iter(ALL_STEPS if steps is None else steps)

        def reply(system: str, user: str) -> str:
            if "Take the next step" in system:
                return _in_chat_form(next(left))
            if "from the settled hops" in system:
                return _in_chat_form({"answer": "Quillon"})
            found = EVIDENCE in user and "Bert Oyle" in user
            draft = user.rpartition("[[ ## draft ## ]]\n")[2].partition("\n")[0]
            return _in_chat_form({"evidence": evidence if found else "", "answer": "Ansa Merrow" if found else draft})

        return reply

    return make


@pytest.fixture
def question() -> Question:
    return Question(id="q1", question="Where was the harbour master of Quillon born?", answers=["Quillon"])


@pytest.fixture
def question_with_gold(retriever: ListRetriever) -> tuple[Question, dict[str, PassageRecord], Material]:
    """Return a question of two hops, its corpus, and the material of examples from gold."""
    texts = {"g1": ("Quillon", EVIDENCE), "g2": ("Ansa Merrow", "Ansa Merrow was born in Varn. She is tall.")}
    corpus = {name: PassageRecord(id=name, title=title, text=text) for name, (title, text) in texts.items()}
    hops = [
        SubQuestion(question="Who is the harbour master of Quillon?", answer="Ansa Merrow", gold_ids=["g1"]),
        SubQuestion(question="Where was Ansa Merrow born?", answer="Varn", gold_ids=["g2"]),
    ]
    question = Question(
        id="q2", question="Where was the harbour master of Quillon born?", answers=["Varn"], gold_ids=["g1", "g2"],
        sub_questions=hops,
    )  # fmt: skip
    wrong = WrongAnswers([("Who was it?", "Bert Oyle"), ("Where was it?", "Elsewhere")])
    return question, corpus, Material(Contexts(retriever), random.Random(0), wrong)


@pytest.fixture(scope="session")
def source() -> QuestionSource:
    return QuestionSource("hotpotqa", "CC BY-SA 4.0")


@pytest.fixture(scope="session")
def example() -> Callable[..., Example]:
    """Return a function that makes an example whose prompt contains `text`."""

    def make(text: str, **fields: str) -> Example:
        about: dict[str, Any] = {
            "program": "rag", "predictor": "reading", "skill": "reading", "question_id": text, "source": "hotpotqa",
            "licence": "CC BY-SA 4.0", "labels": "gold", **fields,
        }  # fmt: skip
        return Example(messages=(Message(role="user", content=text),), completion="a", **about)

    return make
