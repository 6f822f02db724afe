"""Training data that are no files of a benchmark, on small invented records."""

import gzip
import json
from pathlib import Path

import pytest

from corpora.passages import read_passages
from corpora.questions import read_questions
from experiments.papers.embedded_lm.conversion import (
    CONTAINS_RIGHT,
    CONVERTERS,
    NO_PARAGRAPHS,
    NO_SHORT_WRONG,
    REFUSED,
    SHARED,
    ask,
    left_out_of,
    read_halueval,
    short_wrong,
    steps_of,
    write_items,
)

OSSA = "The Ossa is a river of Hovia. It flows into Lake Marn."
MARN = "Lake Marn lies in Veld. It is cold."
GOLD = {
    "_id": "h1",
    "question": "In which country does the Ossa end?",
    "answer": "Veld",
    "type": "bridge",
    "titles": ["", "Lake Marn"],
    "paragraphs": [OSSA, MARN],
    "derivations": [
        [["Ossa (river)", 1, ["Ossa", "flowed to", "Lake Marn"]], ["Lake Marn", 0, ["Lake Marn", "is in", "Veld"]]],
        [["Ossa (river)", 1, ["Ossa", "flowed to", "Lake Marn"]],
         ["Lake Marn", 0, ["Lake Marn", "was located in", "Veld"]]],
    ],
}  # fmt: skip
OFFICIAL = {
    **{key: GOLD[key] for key in ("_id", "question", "answer", "type")},
    "supporting_facts": [["Ossa (river)", 1], ["Lake Marn", 0]],
    "context": [["Ossa (river)", ["The Ossa is a river.", " It flows into Lake Marn."]], ["Lake Marn", [MARN]]],
    "derivations": GOLD["derivations"],
}


def converted(name: str, folder: Path, *records: object):
    file = folder / "source.jsonl"
    file.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    write_items(CONVERTERS[name](file), folder / "out")
    corpus = {record.id: record for record in read_passages(folder / "out" / "passages.jsonl")}
    return read_questions(folder / "out" / "questions.jsonl"), corpus, left_out_of(folder / "out")


def test_statements_become_passages(tmp_path):
    record = {"question": " Who? ", "answer": "Ann", "evidence": ["Ann did.", "Bob did not."], "type": "bridge"}
    (made,), corpus, _ = converted("hotpotqa-evidence", tmp_path, record)
    assert (made.question, made.answers) == ("Who?", ["Ann"])
    assert [corpus[gold].text for gold in made.gold_ids] == ["Ann did.", "Bob did not."]


def test_gold_paragraphs_get_titles_and_hops(tmp_path):
    (made,), corpus, left_out = converted(
        "hotpotqa-gold", tmp_path, GOLD, {**GOLD, "_id": "h2", "gold_shared_with_dev": 1}
    )
    assert [corpus[gold].title for gold in made.gold_ids] == ["The Ossa", "Lake Marn"]
    assert [(step.question, step.answer, corpus[step.gold_ids[0]].text) for step in made.sub_questions] == [
        ("Ossa flowed to what?", "Lake Marn", OSSA),
        ("Where was Lake Marn located?", "Veld", MARN),
    ]
    assert left_out == {SHARED: 1}


def test_official_rows_get_hops_and_lose_what_is_shared_with_dev(tmp_path):
    (made,), corpus, left_out = converted(
        "hotpotqa-train", tmp_path, OFFICIAL, {**OFFICIAL, "_id": "h2", "gold_shared_with_dev": True}
    )
    assert [corpus[gold].title for gold in made.gold_ids] == ["Ossa (river)", "Lake Marn"]
    assert [step.answer for step in made.sub_questions] == ["Lake Marn", "Veld"]
    assert left_out == {SHARED: 1}


def halueval(folder: Path, *wrong: str, question: str = GOLD["question"]):
    rows = [
        {"question": question, "knowledge": "", "right_answer": "Veld", "hallucinated_answer": one} for one in wrong
    ]
    (folder / "h.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    file = folder / "hotpotqa_train_gold.jsonl.gz"
    with gzip.open(file, "wt", encoding="utf-8") as packed:
        packed.write(f"{json.dumps(GOLD)}\n")
    return list(read_halueval(folder / "h.jsonl"))


def test_wrong_answers_join_their_paragraphs_and_none_contains_the_right_one(tmp_path):
    made, rest = halueval(
        tmp_path, "Hovia", "The Ossa ends in Veld.", "The river ends in Brook.", "nobody can tell where it ends"
    )
    assert made.question.model_extra["wrong_answers"] == ["Hovia", "Brook"]
    assert [passage.text for passage in made.passages] == [OSSA, MARN]
    assert made.notes == {CONTAINS_RIGHT: 1, NO_SHORT_WRONG: 1}
    assert rest.notes[NO_PARAGRAPHS] == 0


def test_a_question_without_paragraphs_or_wrong_answers_is_counted(tmp_path):
    (rest,) = halueval(tmp_path, "Hovia", question="Who else?")
    assert (rest.question, rest.notes) == (None, {NO_PARAGRAPHS: 1})
    only, _ = halueval(tmp_path, "Veld")
    assert (only.question, only.notes) == (None, {CONTAINS_RIGHT: 1})


@pytest.mark.parametrize(
    ("question", "right", "given", "short"),
    [
        ("Who built it?", "Ann Orn", "Bo Velt.", "Bo Velt"),
        ("Who built the mill of Tarn?", "Ann Orn", "The mill of Tarn was built by Bo Velt.", "Bo Velt"),
        ("When was it built?", "1640", "The mill was built in 1702.", "1702"),
        ("What did it cost in 1640?", "12", "In 1640 it cost about 15.", "15"),
        ("When was it built?", "1640", "Some say 1702 and others 1720.", None),
        ("Is it old?", "yes", "The mill is not old at all.", "no"),
        ("Which is older, Tarn or Brook?", "Tarn", "Clearly it is Brook that is older.", "Brook"),
        ("Who built it?", "Ann Orn", "nobody has ever heard of that", None),
        ("Who built it?", "Ann Orn", "", None),
        ("Is it in Veld?", "no", "It is in Tarn", "yes"),
        ("Who is older, Ann Orn or Bo Velt?", "Ann Orn", "Bo Velt won the Grand Cup.", "Bo Velt"),
        ("When was it built?", "16 May 1940", "It was built in 1940.", None),  # no other answer
        ("How many live there?", "12", "About 1.5 million people live there.", None),  # a number without its unit
        ("How many are there?", "12", "It is the 20th of its kind.", None),
        ("Who built it?", "Ann Orn", "Orn", None),
    ],
)
def test_the_deciding_words_of_a_wrong_answer(question, right, given, short):
    assert short_wrong(question, right, given) == short


def test_claims_of_one_set_alone_are_read(tmp_path):
    claim = {
        "source": "scifact",
        "claim": "Tarn is old.",
        "evidence": ["Tarn was built in 1640."],
        "label": "supported",
    }
    others = [{**claim, "source": source} for source in ("climate_fever", "covid_fact", "rte")]
    made, corpus, left_out = converted(
        "scifact", tmp_path, *others, claim, {**claim, "claim": "Tarn is new.", "label": "not_supported"}
    )
    assert [(one.question, one.answers, one.type) for one in made] == [
        ("Tarn is old.", ["yes"], "claim"),
        ("Tarn is new.", ["no"], "claim"),
    ]
    assert [corpus[gold].text for one in made for gold in one.gold_ids] == ["Tarn was built in 1640."] * 2
    assert left_out == {REFUSED: 3}


def test_a_proof_keeps_its_conclusions_in_order(tmp_path):
    proof = {"id": "p", "question": "Why is it light?", "answer": "The sun shines.",
             "hypothesis": "the sun makes light",
             "sentences": {"sent1": "the sun is a star", "sent2": "stars , too , shine"},
             "proof": "sent1 & sent2 -> int1: the sun shines; int1 -> hypothesis;"}  # fmt: skip
    (made,), corpus, _ = converted("entailment-bank", tmp_path, proof)
    assert [corpus[gold].text for gold in made.gold_ids] == ["The sun is a star.", "Stars, too, shine."]
    assert made.model_extra is not None
    assert made.model_extra["inferences"] == ["The sun shines.", "The sun makes light."]
    assert made.answers == ["The sun shines"]


BRIDGE = [
    ["Lake Marn", 0, ["Lake Marn", "is located in", "the country of Veld"]],
    ["Ossa (river)", 1, ["Ossa (river)", "flowed to", "Lake Marn"]],
]
QUESTION = "In which country does the Ossa end?"


@pytest.mark.parametrize(
    ("triple", "question"),
    [
        (("Tarn Mill", "was built in", "1640"), "When was Tarn Mill built?"),
        (("Ann Orn (singer)", "was born in", "Brook"), "Where was Ann Orn born?"),
        (("Ann Orn", "was born", "May 4, 1902"), "When was Ann Orn born?"),
        (("Veld", "is directed by", "Bo Velt"), "Who is Veld directed by?"),
        (("Bo Velt", "is a", "Hovian painter"), "What is Bo Velt?"),
        (("Bo Velt", "was the mayor of", "Tarn"), "What was Bo Velt the mayor of?"),
        (("Bo Velt", "starred in", "The Crag"), "Bo Velt starred in what?"),
        (("He", "is a", "painter"), None),
        (("Bo Velt", "is", "and was a painter of some note"), None),
        (("Bo Velt", "none", "Tarn"), None),
        (("Bo Velt", "is a", "man of one two three four five six seven eight words"), None),
        (("", "is a", "painter"), None),
    ],
)
def test_a_triple_is_asked_for_its_object(triple, question):
    assert ask(*triple) == question


def test_hops_are_in_the_order_in_which_they_can_be_asked():
    steps = steps_of(QUESTION, "Veld", [BRIDGE])
    assert [(step.question, step.answer, step.title) for step in steps] == [
        ("Ossa flowed to what?", "Lake Marn", "Ossa (river)"),
        ("Where is Lake Marn located?", "the country of Veld", "Lake Marn"),
    ]


def test_the_first_derivation_that_leads_to_the_answer_counts():
    wrong = [["Ossa (river)", 0, ["Ossa", "is a", "river"]], ["Ossa (river)", 1, ["Ossa", "is a", "border"]]]
    assert steps_of(QUESTION, "Veld", [wrong, BRIDGE]) == steps_of(QUESTION, "Veld", [BRIDGE])
    assert steps_of(QUESTION, "Veld", [wrong]) == steps_of(QUESTION, "Veld", []) == []


def test_what_comes_after_the_answer_is_left_out():
    more = [*BRIDGE, ["Veld", 0, ["the country of Veld", "is a", "kingdom"]]]
    assert len(steps_of(QUESTION, "Veld", [more])) == 2


def test_a_comparison_keeps_both_facts():
    facts = [["Tarn", 0, ["Tarn", "was founded in", "1640"]], ["Brook", 0, ["Brook", "was founded in", "1702"]]]
    assert len(steps_of("Is Tarn older than Brook?", "yes", [facts])) == 2
    assert len(steps_of("Which is older, Tarn or Brook?", "Tarn", [facts])) == 2


def test_a_subject_that_nothing_names_leaves_no_hops():
    assert steps_of("In which country does the river end?", "Veld", [BRIDGE]) == []
