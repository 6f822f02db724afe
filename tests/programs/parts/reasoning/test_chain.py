"""Reading a chain of queries with answers as LMs write it."""

import pytest

from programs.parts.reasoning.chain import ChainStep, may_ask_the_same, parse_chain


@pytest.mark.parametrize(
    ("text", "query", "answer"),
    [
        ("Who is it? -> Ansa Merrow", "Who is it?", "Ansa Merrow"),
        ("Who is it? → Ansa -> Merrow", "Who is it?", "Ansa -> Merrow"),
        ("Query 1: Who is it? => Ansa", "Who is it?", "Ansa"),
        ("[Query 2]: Who is it? --> [Answer 2]: Ansa", "Who is it?", "Ansa"),
        ("[Unsolved Query]: Who is it?", "Who is it?", ""),
        ("2. Who is it? -> unknown", "Who is it?", ""),
        ("Who is it? -> **Unknown.**", "Who is it?", ""),
        ("Who is it? -> Cannot be determined.", "Who is it?", ""),
        ("Who is it? -> unknown (needs a search)", "Who is it?", ""),
        ("Who is it? -> Unknown; see step 1", "Who is it?", ""),
        ("Who is it? -> [Unsolved Query]", "Who is it?", ""),
        ("Who is it? -> N/A", "Who is it?", ""),
        ("Who is it? -> None", "Who is it?", ""),
        ("谁是港务长？ -> 不知道（需要搜索）", "谁是港务长？", ""),
        ("What is their first album? -> Unknown Pleasures", "What is their first album?", "Unknown Pleasures"),
        ("Is it? -> no", "Is it?", "no"),
        ("Who is it?", "Who is it?", ""),
        ("Who is it? Answer: Ansa.", "Who is it?", "Ansa."),
        ("harbour master of Quillon -> Ansa", "harbour master of Quillon", "Ansa"),
        ("harbour master of Quillon", "harbour master of Quillon", ""),
        ("步骤1：谁是港务长？ -> 安莎", "谁是港务长？", "安莎"),
        ("谁是港务长？ → 未知", "谁是港务长？", ""),
        ("2.5 percent of what? -> salt", "2.5 percent of what?", "salt"),
        ("3 Idiots: who directed it? -> Hirani", "3 Idiots: who directed it?", "Hirani"),
        ("A question of honour: who wrote it? -> Oyle", "A question of honour: who wrote it?", "Oyle"),
    ],
)
def test_a_step_is_read_without_labels(text, query, answer):
    assert parse_chain([text]) == [ChainStep(query, answer)]


def test_what_is_no_step_is_left_out_and_order_is_kept():
    assert parse_chain(["The chain:", "", "None", "Who? -> b", "-> c", "Where?"]) == [
        ChainStep("Who?", "b"),
        ChainStep("Where?"),
    ]


def test_answers_may_be_texts_of_their_own():
    texts = [
        "[Query 1]: Who?",
        "[Answer 1]: b",
        "Query 2: Where?",
        "[Unsolved Query]: Where?",
        "问题3：谁？",
        "答案：无",
    ]
    assert parse_chain(texts) == [ChainStep("Who?", "b"), ChainStep("Where?"), ChainStep("谁？")]
    assert parse_chain(["Answer: b", "Who? -> b", "Answer: c"]) == [ChainStep("Who?", "b")]


@pytest.mark.parametrize("content", ["[Final Content]: It is b [1].", "Final answer: b", "So the answer is: b"])
def test_the_final_content_is_no_step(content):
    assert parse_chain(["Who? -> b", content]) == [ChainStep("Who?", "b")]


def test_a_step_is_shown_as_it_is_written():
    assert [str(ChainStep("Who?", "b")), str(ChainStep("Where?"))] == ["Who? -> b", "Where? -> unknown"]


@pytest.mark.parametrize(
    ("query", "other", "same"),
    [
        ("Who is the harbour master of Quillon?", "Who is the current harbour master of Quillon?", True),
        ("Which city is Tarn in?", "What city is Tarn in?", True),
        ("When was Ansa Merrow born?", "Where was Ansa Merrow born?", False),
        ("How did Ansa Merrow die?", "When did Ansa Merrow die?", False),
        ("Who is the harbour master of Quillon?", "Who is the harbour master of Tarn?", False),
        ("安莎·梅罗何时出生？", "安莎·梅罗何地出生？", False),
        ("法国的首都", "法国的首都的市长", False),
        ("谁是奎隆港的港务长？", "谁是 奎隆港的港务长", True),
    ],
)
def test_queries_that_may_ask_the_same(query, other, same):
    assert may_ask_the_same(query, other) == may_ask_the_same(other, query) == same
