"""Which responses decline to answer, and which only contain such words."""

import json

import pytest

from signatures.refusals import REFUSAL, refuses, states_refusal

DECLINED = [
    REFUSAL,
    f"{REFUSAL}.",
    "I’m sorry, but I cannot answer the question based on the provided references",
    "Quillon is an island [1]. I CANNOT answer the question, based on the provided references [2].",
    "I can't answer this question.",
    "I can’t answer that.",
    "I can not answer your question with the given passages [1][2].",
    "“I cannot answer the question.”",
    "**I am unable to answer the question.**",
    "I'm not able to give a definitive answer.",
    "We cannot fully answer the question, because the sea is not named.",
    "Unable to answer based on the references.",
    "Cannot answer.",
    "Sorry, I cannot [1] answer the [2] question.",
    "This question cannot be answered from the passages.",
    "The question can't be definitively answered with the information provided [1].",
    "It is not possible to answer the question.",
    "It is therefore impossible to answer this question from the references [1][2].",
    "Not possible to answer.",
    "Unfortunately, it isn't stated. I cannot provide an answer.",
    "Quillon is an island [1], but the passages do not say who leads it, so I cannot answer the question.",
    "Insufficient information.",
    "There is insufficient information to answer the question.",
    "There is not enough information in the references to say who leads Quillon.",
    "No information about Ansa Merrow is provided.",
    "The references do not provide the name of the harbour master.",
    "The provided references [1][2] don’t contain any information about Ansa Merrow.",
    "The passages do not mention when she was born. They only say that she leads the harbour [2].",
    "None of the passages mentions the sea in which Quillon lies.",
    "The given context is insufficient. Please provide more passages.",
    "The references are not sufficient to determine the sea.",
    "Based on the provided references, it is unclear. The passages do not state the sea.",
    "Although the passages name Quillon, they do not say in which sea it lies [1].",
    "The birthplace of Ansa Merrow cannot be determined from the provided references.",
    "The sea is not mentioned in the passages.",
    "I do not know.",
    "I'm sorry, but I don't know.",
    "Unfortunately, the passages do not mention her birthplace.",
    "Sorry, the references do not contain the answer.",
    "I'm sorry, there is no information about it in the passages.",
    "However, the passages do not say.",
    "The passages do not say, unfortunately.",
    "There is no mention of Merrow in the passages.",
    "There's no mention of it.",
    "The passages contain no information about the sea.",
    "The given references make no mention of her [1].",
    "Neither passage mentions the sea.",
    "The answer is not in the passages.",
    "The information needed is missing from the passages.",
    "Based on the provided passages, it is not possible to determine the sea.",
    "Cannot be determined from the passages.",
    "It cannot be determined.",
    "The answer is unknown",
    "Not specified.",
    "I’m unable to determine in which sea it lies.",
    "抱歉，根据所提供的参考资料，我无法回答这个问题。",
    "这个问题无法回答。",
    "该问题目前无法准确回答，因为资料中没有说明[1]。",
    "根据提供的文献不能回答该问题。",
    "参考资料中没有提供相关信息。",
    "资料不足，无法确定她在哪里出生。",
    "很遗憾，上述段落并未提及此人的出生地[2]。",
    "抱歉，资料中没有相关信息。",
    "文中未提及她的出生地。",
]
ANSWERED = [
    "",
    "no",
    "Nobody.",
    "Ansa Merrow is the harbour master of Quillon [1].",
    "Scientists cannot answer why the tide turns, but the passages say it is the moon [1].",
    "Ansa Merrow could not answer the question of the examiner [1].",
    "She was unable to answer the call in time [2].",
    "The oracle said that the question cannot be answered [1].",
    '"I cannot answer the question," said the harbour master, and left for Quillon [1].',
    "The senate had insufficient information about the attack [1].",
    "Insufficient funds ended the project in 1962 [2].",
    "The treaty does not provide for a successor, so the throne went to Merrow [1].",
    "The harbour does not contain a lighthouse; the lighthouse stands on Quillon [1].",
    "Quillon is in the Amber Sea [1]. The passages do not say how deep it is.",
    "While the first passage does not mention her birth, the second says that she was born on Quillon [2].",
    "The references do not contain a date, but Merrow was born in 1921 [1].",
    "I cannot answer with certainty, but the passages point to the Amber Sea [1].",
    "It is impossible to answer a letter that never came, wrote Merrow [1].",
    "There is no evidence that the lighthouse was ever lit [1].",
    "The references provide the answer: Quillon.",
    "I cannot answer with certainty. However, the passages point to the Amber Sea [1].",
    "Unfortunately, the lighthouse was never lit [1].",
    "Sorry, the harbour is closed.",
    "There is no mention of cats in the Bible.",
    "It contains no information.",
    "The captain is not in the sources of the story, but in its songs [1].",
    "Neither passage of the strait is navigable [2].",
    "The Unknown",
    "我无法确切回答。不过，资料表明她出生在奎隆岛[1]。",
    "文中未提及她的出生地，其他记载说她出生在奎隆岛[1]。",
    "科学家无法回答宇宙为什么存在，但资料说明它始于大爆炸[1]。",
    "她出生在奎隆岛[1]，资料没有说明年份。",
    "练习气功无法获得特异功能。",
    "村民无法忍受，因此搬走了[1]。",
]


@pytest.mark.parametrize("text", DECLINED)
def test_a_response_that_declines_is_a_refusal_however_it_is_worded(text):
    assert refuses(text)


@pytest.mark.parametrize("text", ANSWERED)
def test_a_response_that_answers_is_none_even_with_the_words_of_a_refusal(text):
    assert not refuses(text)


def test_the_definition_of_the_paper_is_its_sentence_alone():
    assert [states_refusal(text) for text in DECLINED[:5]] == [True, True, True, True, False]
    assert not states_refusal("I cannot answer the question based on the provided references2")
    assert not any(map(states_refusal, ANSWERED))


@pytest.mark.slow
def test_real_answers_are_no_refusals(shared_data):
    """Of experts' questions to LMs, and gold answers; none of them declines."""
    lines = (shared_data / "citations" / "expertqa_rand_val.jsonl").read_text().splitlines()
    answers = [answer["answer_string"] for line in lines for answer in json.loads(line)["answers"].values()]
    for line in (shared_data / "key_facts" / "factscore_labeled_ChatGPT.jsonl").read_text().splitlines():
        answers.append(json.loads(line)["output"])
    for line in (shared_data / "hotpotqa" / "hotpot_train_evidence_500.jsonl").read_text().splitlines():
        answers.append(json.loads(line)["answer"])
    assert len(answers) > 800
    assert [answer for answer in answers if refuses(answer)] == []


def test_chinese_gold_answers_that_decline_are_recognised(shared_data):
    records = json.loads((shared_data / "halluqa" / "HalluQA.json").read_text())
    best = [value for record in records for key, value in record.items() if key.startswith("Best")]
    declining = [answer for answer in best if answer.startswith(("这个问题无法回答", "无法回答", "无法准确地回答"))]
    assert len(declining) > 100
    (answering,) = [answer for answer in declining if not refuses(answer)]
    assert "但是根据字面意思" in answering  # takes it back and explains
    wrong = [value for record in records for key, value in record.items() if key.startswith("Wrong")]
    assert sum(map(refuses, wrong)) <= 0.001 * len(wrong)


@pytest.mark.parametrize("text", ["x cannot be found ", "although ", "the provided ", "i really ", "抱歉", "没有资料"])
def test_a_long_text_ends(text):
    assert not refuses(text * 1500)


@pytest.mark.parametrize(
    "text",
    [
        "Not mentioned in the passages",
        "Not explicitly stated in the provided passages.",
        "Unable to determine from the passages.",
        "The information is not available.",
        "Not found",
        "No answer found in the passages",
        "unspecified",
        "未提及",
    ],
)
def test_short_answers_that_decline(text):
    assert refuses(text)


@pytest.mark.parametrize(
    "text", ["not guilty", "Unspecified Land", "Not Found: a novel", "unable to walk", "Available Light", "未来", "No"]
)
def test_short_answers_that_only_look_like_it(text):
    assert not refuses(text)
