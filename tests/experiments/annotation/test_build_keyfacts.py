"""Building a key-facts benchmark: kept as it goes, taken up again, and written as a plain question file."""

import json
from dataclasses import asdict
from typing import Any

import pytest
from dspy.lm15 import Message, Request, Response, Usage

from corpora.questions import Question, read_questions
from experiments.annotation.build_keyfacts import QUESTIONS, build_key_facts
from experiments.runs.files import read_rows
from programs.lms.adapter import ChatForm
from programs.lms.calls.metered import metered_lm
from signatures.common.errors import UserError
from signatures.text import normalize_answer
from signatures.types import Passage

CORPUS = {
    f"p{number}": Passage(id=f"p{number}", title=f"Isle {number}", text=f"Isle {number} is wide.")
    for number in range(8)
}


class Oracle:
    name = fingerprint = "words"
    threshold = 0.5
    agreement = None

    def __call__(self, pairs):
        return [float(normalize_answer(hypothesis) in normalize_answer(premise)) for premise, hypothesis in pairs]


class Author:
    """Extracts one fact that the passages state, one that they do not, and the first again."""

    supports_response_schema = False

    def __init__(self, breaks_after: int = 10**6):
        self.left = breaks_after

    def __deepcopy__(self, memo: dict) -> "Author":
        return self

    def complete(self, request: Request) -> Response:
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt
        prompt = request.messages[-1].text or ""
        number = prompt.split("Where is isle ")[1][0]
        facts = [f"Isle {number} is wide.", f"Isle {number} is deep.", f"The isle {number} is wide"]
        field, lines = ("key_facts", facts) if "[[ ## steps ## ]]\n" in prompt else ("steps", ["A step."])
        text = f"[[ ## {field} ## ]]\n" + "\n".join(f"- {line}" for line in lines) + "\n\n[[ ## completed ## ]]"
        usage = Usage(input_tokens=1, output_tokens=1)
        return Response(
            id=None, model=request.model, message=Message.assistant(text), finish_reason="stop", usage=usage
        )


def asked(number, **changes):
    values = {"answers": ["here"], "gold_ids": [f"p{number}"], "note": "kept"}
    return Question(id=f"q{number}", question=f"Where is isle {number}?", **{**values, **changes})


def build(toy: Any, out, *, engine=None, questions=None, **options):
    lm = metered_lm("local/author", engine=engine or Author(), temperature=0.0, cache=False)
    questions = [asked(number) for number in range(6)] if questions is None else questions
    return build_key_facts(questions, CORPUS, connection=toy.Link(lm, ChatForm()), oracle=Oracle(), out=out, **options)


def test_facts_are_flagged_and_left_to_people(toy, tmp_path):
    built = build(toy, tmp_path / "facts")
    assert (built.questions, built.facts, built.unsupported, built.duplicates) == (6, 18, 6, 6)
    first = read_questions(tmp_path / "facts" / QUESTIONS)[0]
    assert first.key_facts == ["Isle 0 is wide.", "Isle 0 is deep.", "The isle 0 is wide"]
    assert [check["duplicate_of"] for check in first.key_fact_checks] == [None, None, 0]
    assert [check["supported"] for check in first.key_fact_checks] == [True, False, True]
    assert first.note == "kept"
    json.dumps(asdict(built))


def test_facts_that_a_check_turned_down_can_be_dropped(toy, tmp_path):
    build(toy, tmp_path / "facts", drop=True)
    assert [question.key_facts for question in read_questions(tmp_path / "facts" / QUESTIONS)][1] == ["Isle 1 is wide."]


def test_what_was_built_is_kept_and_not_built_again(toy, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        build(toy, tmp_path / "facts", engine=Author(5), threads=1)
    assert len(read_rows(tmp_path / "facts")) == 2
    assert not (tmp_path / "facts" / QUESTIONS).exists()
    engine = Author()
    assert build(toy, tmp_path / "facts", engine=engine, resume=True).questions == 6
    assert 10**6 - engine.left == 2 * 4


def test_questions_without_an_answer_or_gold_are_left_out_and_counted(toy, tmp_path):
    questions = [asked(0), asked(1, answers=[]), asked(2, gold_ids=["gone"]), asked(3, gold_ids=[])]
    built = build(toy, tmp_path / "facts", questions=questions)
    assert (built.questions, built.left_out) == (1, 3)
    with pytest.raises(UserError, match="check the passages"):
        build(toy, tmp_path / "none", questions=questions[1:])
