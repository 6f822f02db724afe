"""Questions are told from refusals: on hand-written texts, and on every question of the data sets."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from programs.parts.questions import find_question

REFUSALS = """
No revision is needed. | None needed | not required | None | N/A | n/a. | "" | (empty) | null | - | . | ? | None? | Nil
No change | No changes are necessary. | Not applicable | Unchanged | Not needed because the response is complete
The question is fine as it is. | Keep the original question. | Same as the original question | Leave empty | [empty]
The answer is correct. | The response is correct, so no revision is needed. | No need to revise. | -- none --
There is no need to revise the question. | Nothing to revise. | It is correct as is. | Is correct as is. | Keep as is
Does not need revision. | Do not revise. | No further question is needed, as the response says who directed it.
Revised question: None | Revised question: not needed | **None** | The judgement is true, so the revision is empty.
Already answered. | Good as is | Looks good | All good. | true | True. | yes | No. | Not necessary | unnecessary
No better question exists. | I would not revise this question. | No revision required since the answer is right.
The question does not need to be revised. | No question. | The man who directed it is Ansa Merrow. | Nothing.
Ansa Merrow is the harbour master [1]. | Revision: none | (No revision necessary) | No revised question
The original question already asks what is needed. | The query remains the same. | No modification needed. | Sufficient.
The response fully answers what was asked. | No revision is needed. The question is clear: who is the harbour master?
Is a revision needed? No. | No revision is needed? | None - the answer is true | This question requires no revision.
无 | 无。 | 無 | 不需要 | 不需要。 | 无需修改 | 無需修改 | 不需要修改问题。 | 没有必要修改 | 问题无需修改。
保持原问题不变
Does not apply. | Does not apply | Has been answered. | Is accurate and complete. | Was answered fully.
Please keep it. | Please keep it | What is asked is clear. | That is how it stands | It is clear who is meant
When it is right, stop.
回答是对的，为什么要改
答案正确，无需修改。 | 无需任何修改 | 不用 | 不必 | 原问题即可 | 空 | 不要 | 没有 | 没有修改 | 本题无需修订
"""

QUESTIONS = """
Who runs Quillon's harbour? | Name the harbour master of Quillon. | Name the harbour master of Quillon | Who?
Who else? | What is it
who runs the harbour of Quillon | Is the harbour master of Quillon Ansa Merrow | In which sea does Quillon lie
The passages do not say. Where was she born? | Master of the harbour of Quillon? | What change was needed?
No Country for Old Men was directed by whom? | Not counting Ann, who runs it? | If it has a pet, does one need a car?
Which sea surrounds Quillon. | In which sea does it lie. | Name the sea. | How many ships sank. | Please name the sea
Which teams have the most titles? | "Who runs it?" | ¿Quién es? | Wer ist das? | None of the sisters married whom?
奎龙港的港务长是谁 | 奎龙港的港务长是谁？ | 不丹的首都是哪里 | 无人机是谁发明的？ | 不锈钢是什么做的 | 奎龙在海边吗
"""


def items(text: str) -> list[str]:
    return [item.strip() for line in text.strip().splitlines() for item in line.split(" | ")]


@pytest.mark.parametrize("text", items(REFUSALS))
def test_a_refusal_or_a_statement_is_no_question(text):
    assert find_question(text) == ""


@pytest.mark.parametrize("text", items(QUESTIONS))
def test_a_question_is_found_with_and_without_its_mark(text):
    assert find_question(text) == text


@given(
    st.sampled_from(["No", "no", "There is no", "I see no", "Without any"]),
    st.sampled_from(["revision", "change to the question", "revised question", "rewording of it", "new question"]),
    st.sampled_from(["is", "was", "would be", "seems"]),
    st.sampled_from(["needed", "required", "necessary", "called for", "needed here, since the judgement is true"]),
    st.sampled_from(["", ".", "!", "..."]),
)
def test_a_refusal_in_any_words_is_no_question(start, noun, verb, end, mark):
    assert find_question(f"{start} {noun} {verb} {end}{mark}") == ""


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Revised question: Who runs it?", "Who runs it?"),
        ("**New query:** who runs it", "who runs it"),
        ("Here is the revised question: Who runs it?", "Who runs it?"),
        ("Revision: Who runs it?", "Who runs it?"),
        ("Who asked the question: To be or not to be?", "Who asked the question: To be or not to be?"),
        ("修改后的问题：谁是港务长？", "谁是港务长？"),
        ("Which sea surrounds Quillon? (revised)", "Which sea surrounds Quillon?"),
        ("No. Which sea surrounds Quillon?", "Which sea surrounds Quillon?"),
        ("No. Which revision is needed?", ""),
        ("The references lack her name.\nWho runs it?\nThis is easier to find.", "Who runs it?"),
        ("No revision is needed.\n\nOriginal question: Who runs it?", ""),
        ("", ""),
        ("\n \n", ""),
    ],
)
def test_the_first_line_that_asks_is_found_without_its_label(text, found):
    assert find_question(text) == found


@pytest.mark.slow
@pytest.mark.parametrize(
    "part", ["a", ".", "?", " ", ". ", "? ", "no ", "a, ", "who ", "the question ", "**", "无", "何"]
)
def test_long_replies_take_no_time_that_grows_with_the_square(part):
    """A quadratic expression takes minutes for such a text."""
    find_question(part * (200_000 // len(part)) + "a")
    find_question(part * (200_000 // len(part)))


def read(path: Path) -> list[dict]:
    if path.suffix == ".json":
        return json.loads(path.read_text(encoding="utf-8"))
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


def asked(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield (group, question) for all questions of the data sets: "nq" or "other"."""
    for row in read(folder / "2wikimultihopqa" / "2wiki_train.json"):
        yield from (("other", item["question"]) for item in row["qa_pairs"])
    for row in read(folder / "strategyqa" / "strategyqa_train.json"):
        yield from (("other", question) for question in row["decomposition"])
    names = "2wiki* hotpot_* strategyqa_* musique_* triviaqa_* web_questions_* HalluQA* expertqa_* nq_* qed_*"
    for name in names.split():
        for path in sorted(folder.glob(f"*/{name}")):
            for row in read(path):
                question = next(row[key] for key in ("question", "question_text", "Question") if key in row)
                yield "nq" if path.parent.name == "nq_open" else "other", question


def test_real_questions_are_questions_but_for_search_terms(shared_data):
    """Many people leave the mark out. Natural Questions are searches, some of them terms that ask nothing."""
    counts = {"nq": [0, 0], "other": [0, 0]}
    for group, question in asked(shared_data):
        counts[group][0] += 1
        counts[group][1] += not find_question(question)
    assert (counts["nq"][0], counts["other"][0]) > (4000, 12000)
    assert counts["other"][1] < 0.003 * counts["other"][0]
    assert counts["nq"][1] < 0.1 * counts["nq"][0]


def test_real_statements_are_no_questions(shared_data):
    rows = read(shared_data / "hotpotqa" / "hotpot_train_evidence_500.jsonl")
    sentences = [sentence for row in rows for sentence in row["evidence"]]
    assert len(sentences) > 800
    assert sum(bool(find_question(sentence)) for sentence in sentences) < 0.02 * len(sentences)
