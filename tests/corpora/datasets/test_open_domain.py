"""Each published shape of the benchmarks that come as questions and answers, on invented records."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import dspy
import pytest

from corpora.datasets.convert import Converted, convert
from corpora.datasets.converters.nq_open import joined_tokens
from corpora.datasets.schema import text_id
from corpora.gold import resolve_gold
from corpora.passages import PassageRecord, read_passages
from corpora.questions import Question, read_questions
from optimizers.examples import to_examples
from optimizers.metrics.catalog import get_metric
from signatures.common.errors import UserError
from signatures.types import Passage


def converted(tmp_path: Path, name: str, content: Any, file: str = "source.json", **options: Any) -> Converted:
    source = tmp_path / file
    source.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return convert(name, source, tmp_path / "out", **options)


def questions(tmp_path: Path, name: str, content: Any, file: str = "source.json", **options: Any) -> list[Question]:
    path = converted(tmp_path, name, content, file, **options).questions_path
    assert path is not None
    return read_questions(path)


STRATEGY: dict[str, Any] = {
    "qid": "s1",
    "term": "Quillon",
    "description": "Island",
    "question": "Could the keeper of Quillon see Ossa?",
    "answer": True,
    "facts": ["The keeper lives in the tower.", "Ossa flows past the tower."],
    "decomposition": ["Where does the keeper live?", "Is Ossa near #1?"],
    "evidence": [
        ["no_evidence", "operation"],
        [[["Tower-1", "Keeper-2"]], [["Ossa-3"], "no_evidence"]],
        [[["Tower-1"]], ["operation"]],
    ],
}


def test_strategyqa_takes_the_first_annotator_with_evidence_and_keeps_all(tmp_path: Path):
    (question,) = questions(tmp_path, "strategyqa", [STRATEGY], split="dev")
    assert (question.id, question.answers, question.key_facts) == ("s1", ["yes"], STRATEGY["facts"])
    assert question.gold_ids == ["Tower-1", "Keeper-2", "Ossa-3"]
    assert question.model_extra is not None
    assert question.model_extra["gold_alternatives"] == [[], ["Tower-1", "Keeper-2", "Ossa-3"], ["Tower-1"]]
    assert [hop.gold_ids for hop in question.sub_questions] == [["Tower-1", "Keeper-2"], ["Ossa-3"]]
    assert [hop.question for hop in question.sub_questions] == STRATEGY["decomposition"]


def test_strategyqa_counts_what_its_steps_lack_and_reads_its_test_set(tmp_path: Path):
    result = converted(tmp_path, "strategyqa", [STRATEGY, {"qid": "s2", "question": "Is it?"}])
    assert (result.counts["sub_questions_with_reference"], result.counts["sub_questions_without_gold"]) == (1, 0)
    assert (result.counts["questions_without_answer"], result.passages_path) == (1, None)


def test_strategyqa_refuses_an_answer_that_is_no_boolean(tmp_path: Path):
    with pytest.raises(UserError, match="record 1: .*answer 'maybe' is neither true nor false"):
        questions(tmp_path, "strategyqa", [{**STRATEGY, "answer": "maybe"}])


PARAGRAPH = {"title": "Ossa", "section": "Course", "headers": [""], "para_index": 3}


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("p.jsonl", json.dumps({**PARAGRAPH, "contents": "It flows."})),
        ("p.json", json.dumps({"Ossa-3": {**PARAGRAPH, "content": "It flows."}}, indent=1)),
    ],
)
def test_strategyqa_paragraphs_have_the_ids_of_the_evidence(tmp_path: Path, file, content):
    result = converted(tmp_path, "strategyqa", content, file)
    assert result.questions_path is None
    assert result.passages_path is not None
    (passage,) = read_passages(result.passages_path)
    assert (passage.id, passage.title, passage.text) == ("Ossa-3", "Ossa", "It flows.")
    assert passage.model_extra == {"section": "Course"}


def big_bench(*examples: Any, **settings: Any) -> str:
    return json.dumps({"name": "strategyqa", "keywords": ["multi-step"], "examples": list(examples)}, **settings)


@pytest.mark.parametrize("indent", [None, 4])
def test_big_bench_states_the_answer_as_scores_inside_one_object(tmp_path: Path, indent):
    task = big_bench(
        {"input": "Is Ossa wet?", "target_scores": {"Yes": 1, "No": 0}, "target": "Yes. Rivers are wet."},
        {"input": "Is Marn dry?", "target_scores": {"Yes": 0, "No": 1}},
        indent=indent,
    )
    first, second = questions(tmp_path, "strategyqa", task, "task.json")
    assert (first.answers, second.answers) == (["yes"], ["no"])
    assert first.model_extra == {"explanation": "Rivers are wet."}
    assert first.id == text_id("is  OSSA wet?") != second.id


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"examples": [{"input": "x"', "record 1: not JSON"),
        ('{"examples": [{"input": "x?", "target_scores": {"Yes": 1}}', "record 2: .*the end of the file"),
        (
            '{"examples": [{"input": "x?", "target_scores": {"Yes": 1}}]',
            r"record 2: not JSON \(it does not close before the end",
        ),
        ('{"examples": []}', "contains no record"),
        ('{"n" 1, "examples": [{}]}', "record 1: not JSON .*must be separated by a colon"),
    ],
)
def test_a_damaged_object_is_refused(tmp_path: Path, text, why):
    with pytest.raises(UserError, match=why):
        questions(tmp_path, "strategyqa", text)


def test_a_question_without_an_id_gets_one_from_its_text_and_repeats_are_kept(tmp_path: Path):
    lines = [
        {"question": "who keeps it", "answer": ["Ansa", " Ansa ", ""]},
        {"question": "Who keeps it", "answer": "M"},
    ]
    result = converted(tmp_path, "nq_open", "\n".join(map(json.dumps, lines)))
    assert result.questions_path is not None
    first, second = read_questions(result.questions_path)
    assert (first.answers, second.answers) == (["Ansa"], ["M"])
    assert second.id == f"{first.id}-2"
    assert (result.counts["questions"], result.counts["repeated_questions"]) == (2, 1)


def test_qed_cuts_its_paragraph_and_marks_the_selected_sentence(tmp_path: Path):
    record = {
        "example_id": -7,
        "title_text": "Quillon",
        "question_text": "who keeps quillon",
        "paragraph_text": "Quillon is small . Ansa and Marl keep it .",
        "sentence_starts": [0, 19],
        "original_nq_answers": [[{"string": "Ansa"}, {"string": "Marl"}], [{"string": "Ansa"}]],
        "annotation": {
            "explanation_type": "single_sentence",
            "selected_sentence": {"start": 19, "end": 42, "string": "Ansa and Marl keep it ."},
            "answer": [{"paragraph_reference": {"string": "Ansa and Marl"}}],
        },
    }
    result = converted(tmp_path, "nq_open", json.dumps(record), "qed.jsonl")
    assert result.questions_path is not None
    assert result.passages_path is not None
    (question,), (passage,) = read_questions(result.questions_path), list(read_passages(result.passages_path))
    assert (question.id, question.answers) == ("-7", ["Ansa", "Marl", "Ansa and Marl"])
    assert question.gold_sentences == [(passage.id, 1)]
    assert passage.sentences == ["Quillon is small. ", "Ansa and Marl keep it."]
    with pytest.raises(UserError, match="sentence_starts do not cover"):
        converted(tmp_path, "nq_open", {**record, "sentence_starts": [3]}, "bad.jsonl", overwrite=True)


def qed_first(**changed: Any) -> dict[str, Any]:
    text = "The Ossa ( a river ) ends in `` Lake Marn '' . It is Hovia 's lake , they say ."
    return {
        "example_id": -7,
        "title_text": "Ossa",
        "question_text": "where does the ossa end",
        "paragraph_text": text,
        "sentence_starts": [0, text.index("It is")],
        "answer_text": ["`` Lake Marn ''"],
        "answer_spans": [[text.index("``"), text.index("'' .") + 2]],
        "answer_type": "single_sentence",
        "annotation": [],
        **changed,
    }


def test_the_tokens_of_qeds_first_files_are_joined(tmp_path: Path):
    result = converted(tmp_path, "nq_open", [qed_first()])
    assert result.questions_path is not None
    assert result.passages_path is not None
    (question,) = read_questions(result.questions_path)
    (passage,) = read_passages(result.passages_path)
    assert passage.sentences == ['The Ossa (a river) ends in "Lake Marn". ', "It is Hovia's lake, they say."]
    assert passage.text == "".join(passage.sentences)
    assert question.answers == ['"Lake Marn"']
    assert question.gold_sentences == [(passage.id, 0)]
    assert (question.id, question.gold_ids) == ("-7", [passage.id])


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        ("A B - C did n't , did it ?", "A B-C didn't, did it?"),
        ("$ 5 million ( 1986 -- 1987 ) , 25 %", "$5 million (1986\N{EN DASH}1987), 25%"),
        ("the dogs ' bowls and `` half", "the dogs' bowls and \"half"),
    ],
)
def test_tokens_are_joined_as_text_is_written(tokens: str, text: str):
    assert joined_tokens(tokens) == text


@pytest.mark.parametrize(
    "changed", [{"answer_text": [], "answer_spans": []}, {"answer_text": ["Lake Orn"]}, {"sentence_starts": []}]
)
def test_a_sentence_is_gold_only_if_it_states_the_answer(tmp_path: Path, changed: dict[str, Any]):
    (question,) = questions(tmp_path, "nq_open", [qed_first(**changed)])
    assert len(question.gold_sentences) == ("sentence_starts" in changed)


SQUAD = {
    "title": "Lake_Marn",
    "paragraphs": [
        {
            "context": "Lake Marn lies in Veld.",
            "qas": [
                {"id": "s1", "question": " Where is Lake Marn?", "answers": [{"text": "Veld"}, {"text": "in Veld"}]},
                {"id": "s2", "question": "How deep is it?", "answers": [], "is_impossible": True},
            ],
        },
        {"context": "It is cold.", "qas": [{"id": "s3", "question": "What is it?", "answers": [{"text": "cold"}]}]},
    ],
}


@pytest.mark.parametrize("content", [{"version": "1.1", "data": [SQUAD]}, [SQUAD]])
def test_squad_gives_each_question_of_an_article(tmp_path: Path, content: Any):
    result = converted(tmp_path, "squad", content, split="train")
    assert result.questions_path is not None
    assert result.passages_path is not None
    first, second, third = read_questions(result.questions_path)
    passages = {passage.id: passage for passage in read_passages(result.passages_path)}
    assert (first.id, first.question, first.answers) == ("s1", "Where is Lake Marn?", ["Veld", "in Veld"])
    assert [passages[one.context_ids[0]].text for one in (first, third)] == ["Lake Marn lies in Veld.", "It is cold."]
    assert {passage.title for passage in passages.values()} == {"Lake Marn"}
    assert first.gold_ids == first.context_ids
    assert (second.answers, second.gold_ids, second.context_ids) == ([], [], first.context_ids)
    assert result.counts["questions_without_answer"] == 1


def test_contexts_marked_gold_are_gold(tmp_path: Path):
    contexts = [{"title": "A", "text": "One.", "isgold": False}, {"title": "B", "text": "Two.", "isgold": True}]
    (question,) = questions(tmp_path, "nq_open", [{"question": "q?", "answers": ["two"], "ctxs": contexts}])
    assert question.gold_ids == question.context_ids[1:]


def test_web_questions_reads_the_lisp_list(tmp_path: Path):
    target = r'(list (description "Ansa \"Sail\" Merrow") (description Marl) (description "The (old) Mill"))'
    (question,) = questions(tmp_path, "web_questions", [{"utterance": "who?", "targetValue": target, "url": "u"}])
    assert question.answers == ['Ansa "Sail" Merrow', "Marl", "The (old) Mill"]
    with pytest.raises(UserError, match="targetValue cannot be parsed"):
        questions(
            tmp_path, "web_questions", [{"utterance": "?", "targetValue": "(list (description )"}], overwrite=True
        )
    (hub,) = questions(tmp_path, "web_questions", [{"question": "who?", "answers": ["Ansa"]}], overwrite=True)
    assert hub.id == question.id


TRIVIA = {"Value": "Ansa", "Aliases": ["A. Merrow", "Ansa"], "NormalizedAliases": ["ansa"], "HumanAnswers": ["merrow"]}


def test_triviaqa_accepts_value_aliases_and_peoples_answers(tmp_path: Path):
    records = [{"QuestionId": "t1", "Question": "Who?", "Answer": TRIVIA}, {"QuestionId": "t2", "Question": "What?"}]
    official = questions(tmp_path, "triviaqa", json.dumps({"Data": records, "Version": 1.0}, indent=4))
    assert [question.answers for question in official] == [["Ansa", "A. Merrow", "merrow"], []]
    hub = [
        {"question_id": "h1", "question": "Who?", "answer": {"value": "Ansa", "normalized_aliases": ["ansa m"]}},
        {"question_id": "h2", "question": "What?", "answer": {"value": "<unk>", "aliases": []}},
    ]
    assert [q.answers for q in questions(tmp_path, "triviaqa", hub, overwrite=True)] == [["Ansa", "ansa m"], []]
    lines = [{"id": "f1", "question": "Who?", "golden_answers": ["Ansa", "Merrow"]}]
    assert questions(tmp_path, "triviaqa", lines, overwrite=True)[0].answers == ["Ansa", "Merrow"]


@pytest.mark.parametrize(
    ("answer", "kind", "expected"),
    [
        ({"answerType": "boolean", "answer": [False], "mention": "No"}, "yesno", ["no"]),
        ({"answerType": "numerical", "answer": [7.0], "mention": "seven"}, "generic", ["7", "seven"]),
        ({"answerType": "date", "answer": ["1901-02-03"], "mention": "1901-02-03"}, "generic", ["1901-02-03"]),
        ({"answerType": "entity", "answer": None, "mention": "the mill"}, "generic", ["the mill"]),
        (
            {
                "answerType": "entity",
                "answer": [
                    {"name": "Q1", "label": {"en": "Ossa", "de": "O"}},
                    {"name": "Q2", "label": {"en": None}},
                ],
                "mention": "Ossa, Marn",
            },
            "intersection",
            ["Ossa Q2", "Ossa, Marn"],
        ),
        ({"answerType": "entity", "answer": [{"name": "Q1", "label": "A"}], "answerNum": 3}, "count", ["3"]),
    ],
)
def test_mintaka_gives_each_kind_of_answer_its_text(tmp_path: Path, answer, kind, expected):
    record = {"id": "m1", "question": "Which?", "answer": answer, "category": "rivers", "complexityType": kind}
    (question,) = questions(tmp_path, "mintaka", [record])
    assert (question.answers, question.type) == (expected, kind)
    assert question.model_extra is not None
    assert question.model_extra["answer_type"] == answer["answerType"]


def test_mintaka_on_the_hub_has_one_text(tmp_path: Path):
    row = {"id": "m", "lang": "en", "question": "Is it?", "answerText": "True", "complexityType": "yesno"}
    entity = [{"name": "Q1", "label": "True"}]
    rows = [{**row, "answerEntity": []}, {**row, "lang": "de", "answerEntity": entity}]
    first, second = questions(tmp_path, "mintaka", rows)
    assert (first.id, first.answers) == ("m", ["yes"])
    assert (second.id, second.answers) == ("m-de", ["True"])


def test_halluqa_keeps_right_and_wrong_answers(tmp_path: Path):
    record = {
        "question_id": 9,
        "Question": "灯塔在哪里？",
        "Best Answer1": "灯塔在岛上。",
        "Best Answer2": "在岛上",
        "Wrong_Answer1": "灯塔在山上。",
        "Category": "Knowledge",
        "Class": "地理",
    }
    (question,) = questions(tmp_path, "halluqa", [record])
    assert (question.id, question.type, question.answers) == ("halluqa-9", "Knowledge", ["灯塔在岛上。", "在岛上"])
    assert question.model_extra == {"wrong_answers": ["灯塔在山上。"], "class": "地理"}


def test_bamboogle_is_read_from_its_table_and_from_lines(tmp_path: Path):
    table = io.StringIO()
    rows = [["Question", "Answer"], ['Who kept "The Gate", then?', "Ansa"], ["Two\nlines?", "Marl, old"]]
    csv.writer(table).writerows(rows)
    first, second = questions(tmp_path, "bamboogle", "\ufeff" + table.getvalue(), "b.csv")
    assert (first.question, first.answers) == ('Who kept "The Gate", then?', ["Ansa"])
    assert (second.question, second.answers) == ("Two\nlines?", ["Marl, old"])
    lines = [{"id": "test_0", "question": "Who?", "golden_answers": ["Ansa"], "metadata": {}}]
    assert questions(tmp_path, "bamboogle", lines, overwrite=True)[0].id == "test_0"


def test_your_own_questions_need_nothing_but_the_question(tmp_path: Path):
    lines = (
        '{"question": "Who?", "answer": "Ansa", "year": 1900}\n{"id": 7, "question": "What?", "answers": ["a", "b"]}'
    )
    first, second = questions(tmp_path, "own", lines, split="test")
    assert (first.id, first.answers, first.split) == (text_id("Who?"), ["Ansa"], "test")
    assert first.model_extra == {"year": 1900}
    assert (second.id, second.answers) == ("7", ["a", "b"])
    (row,) = questions(tmp_path, "own", "question\tanswer\tid\nWho?\tAnsa\t\n", "own.tsv", overwrite=True)
    assert (row.id, row.answers) == (text_id("Who?"), ["Ansa"])


def test_your_own_passages_carry_their_gold(tmp_path: Path):
    given = [{"title": "Gate", "text": "Ansa keeps it.", "gold": True}, {"text": "Fog."}]
    result = converted(tmp_path, "own", [{"question": "Who?", "answer": "Ansa", "passages": given}])
    assert result.questions_path is not None
    assert result.passages_path is not None
    (question,), passages = read_questions(result.questions_path), list(read_passages(result.passages_path))
    assert (question.gold_ids, question.context_ids) == ([passages[0].id], [passage.id for passage in passages])
    with pytest.raises(UserError, match="line 2: 'type'"):
        questions(tmp_path, "own", '{"question": "a"}\n{"question": "b", "type": 3}', "bad.jsonl", overwrite=True)


CLAIM: dict[str, Any] = {
    "uid": "c-1",
    "claim": "The river that ends in Lake Marn is longer than the Tarn.",
    "supporting_facts": [["Ossa", 1], ["Ossa", 0], ["Tarn (river)", 0], ["Lake Marn", 2]],
    "label": "SUPPORTED",
    "num_hops": 3,
    "hpqa_id": "h1",
}


def test_hovers_claims_are_questions_whose_gold_are_titles(tmp_path: Path):
    result = converted(tmp_path, "hover", [CLAIM, {**CLAIM, "uid": "c-2", "label": "NOT_SUPPORTED", "num_hops": 2}])
    assert result.passages_path is None
    supported, other = read_questions(str(result.questions_path))
    assert (supported.id, supported.question, supported.type) == ("c-1", CLAIM["claim"], "3hop")
    assert (supported.answers, other.answers, other.type) == (["yes"], ["no"], "2hop")
    assert supported.model_extra == {
        "gold_titles": ["Ossa", "Tarn (river)", "Lake Marn"],
        "supporting_facts": CLAIM["supporting_facts"],
        "hpqa_id": "h1",
    }


def test_hover_on_the_hub_says_the_same_and_its_test_set_nothing(tmp_path: Path):
    facts = [{"key": title, "value": number} for title, number in CLAIM["supporting_facts"]]
    hub = {**CLAIM, "id": 4, "supporting_facts": facts, "label": 1}
    tested = {"uid": "t", "claim": "It is.", "supporting_facts": [], "label": -1, "num_hops": -1, "hpqa_id": "None"}
    ours, hidden, released = questions(tmp_path, "hover", [hub, tested, {"uid": "r", "claim": "It was."}])
    assert ours == questions(tmp_path, "hover", [CLAIM], overwrite=True)[0]
    for each in (hidden, released):
        assert (each.answers, each.type, each.model_extra) == ([], None, {})


def test_a_label_that_hover_does_not_have_is_refused(tmp_path: Path):
    with pytest.raises(UserError, match="MAYBE"):
        converted(tmp_path, "hover", [{**CLAIM, "label": "MAYBE"}])


@pytest.mark.parametrize("title", [None, 5, " "])
def test_a_title_of_hover_that_is_no_text_is_refused(title: object, tmp_path: Path):
    with pytest.raises(UserError, match=r"record 2: .*title .* is not text") as refused:
        converted(tmp_path, "hover", [CLAIM, {**CLAIM, "uid": "c-2", "supporting_facts": [[title, 0]]}])
    assert "\n" not in str(refused.value)


def test_the_gold_titles_of_hover_are_found_in_a_corpus_and_compared_by_metrics(tmp_path: Path):
    (question,) = questions(tmp_path, "hover", [CLAIM])
    titles = ["Tarn (river)", "Lake Marn", "Ossa", "Other"]
    corpus = [PassageRecord(id=str(number), title=title, text=f"{title}.") for number, title in enumerate(titles)]
    assert resolve_gold([question], corpus).questions[0].gold_ids == ["2", "0", "1"]
    read = [Passage(id=each.id, title=each.title, text=each.text) for each in corpus]
    example, found = to_examples([question])[0], dspy.Prediction(answer="", passages=[read[3], *read[:3]])
    assert get_metric("passage_recall[title]@2")(example, found) == pytest.approx(1 / 3)
    assert get_metric("passage_recall[title]@5")(example, found) == 1
