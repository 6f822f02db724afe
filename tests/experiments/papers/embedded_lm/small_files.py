"""An invented file in the shape of each source: two questions, one of which may be planted as an evaluation's."""

import gzip
import json
from pathlib import Path
from typing import Any

SAFE, PLANTED = "Who keeps the lamp of Brill?", "Who rang the great bell of Tarn?"
TEXTS = {
    SAFE: ("Brill", "Brill is a port on the cold coast of Hovia. Its lamp is kept by Ann Orn."),
    PLANTED: ("Tarn", "Tarn is a village in the hills above Lake Marn. Its great bell was rung by Bo Velt in 1640."),
}
OTHER = ("Lake Marn", "Lake Marn is a deep and cold lake. It lies in the country of Veld.")
ANSWERS = {SAFE: "Ann Orn", PLANTED: "Bo Velt"}
SENTENCES = {title: [f"{part}." for part in text[:-1].split(". ")] for title, text in (*TEXTS.values(), OTHER)}


def gold(question: str) -> str:
    """Return the sentence that answers a question."""
    return SENTENCES[TEXTS[question][0]][1]


def _official(question: str) -> dict[str, Any]:
    titles = [TEXTS[question][0], OTHER[0]]
    return {
        "_id": question[:12],
        "question": question,
        "answer": ANSWERS[question],
        "type": "bridge",
        "level": "easy",
        "supporting_facts": [[title, 1] for title in titles],
        "context": [[title, [SENTENCES[title][0], f" {SENTENCES[title][1]}"]] for title in titles],
    }


def _statements(question: str) -> dict[str, Any]:
    return {"question": question, "answer": ANSWERS[question], "evidence": [TEXTS[question][1]], "type": "bridge"}


def _wiki(question: str) -> dict[str, Any]:
    steps = [{"question": question, "answer": f"It is {ANSWERS[question]}."}] * 2
    return {**_official(question), "evidences": [], "answer_id": None, "qa_pairs": steps}


def _musique(question: str) -> dict[str, Any]:
    title, text = TEXTS[question]
    paragraphs = [
        {"idx": 0, "title": title, "paragraph_text": text, "is_supporting": True},
        {"idx": 1, "title": OTHER[0], "paragraph_text": OTHER[1], "is_supporting": False},
    ]
    steps = [{"id": 1, "question": f"{question[:-1]} now?", "answer": ANSWERS[question], "paragraph_support_idx": 0}]
    return {"id": question[:12], "question": question, "answer": ANSWERS[question], "answer_aliases": [],
            "answerable": True, "paragraphs": paragraphs, "question_decomposition": steps}  # fmt: skip


def _contexts(question: str) -> dict[str, Any]:
    title, text = TEXTS[question]
    return {
        "question": question,
        "answers": [ANSWERS[question]],
        "ctxs": [{"title": title, "text": text, "isgold": True}],
    }


def _qed(question: str) -> dict[str, Any]:
    title, text = TEXTS[question]
    return {
        "example_id": len(question),
        "title_text": title,
        "question_text": question,
        "paragraph_text": text,
        "sentence_starts": [0, len(SENTENCES[title][0]) + 1],
        "original_nq_answers": [[{"string": ANSWERS[question]}]],
        "annotation": {"explanation_type": "none", "answer": [], "selected_sentence": None},
    }


def _qed_first(question: str) -> dict[str, Any]:
    title, text = TEXTS[question]
    start = text.index(ANSWERS[question])
    return {
        "example_id": len(question),
        "title_text": title,
        "question_text": question,
        "paragraph_text": text.replace(".", " ."),
        "sentence_starts": [0],
        "answer_text": [ANSWERS[question]],
        "answer_spans": [[start, start + len(ANSWERS[question])]],
        "answer_type": "single_sentence",
        "annotation": [],
    }


def _squad(question: str) -> dict[str, Any]:
    title, text = TEXTS[question]
    asked = [{"id": question[:12], "question": question, "answers": [{"text": ANSWERS[question], "answer_start": 0}]}]
    return {"title": title, "paragraphs": [{"context": text, "qas": asked}]}


def _gold_only(question: str) -> dict[str, Any]:
    title, text = TEXTS[question]
    return {"_id": question[:12], "question": question, "answer": ANSWERS[question], "type": "bridge", "level": "easy",
            "titles": [title, OTHER[0]], "paragraphs": [text, OTHER[1]]}  # fmt: skip


def _halueval(question: str) -> dict[str, Any]:
    return {"question": question, "knowledge": TEXTS[question][1], "right_answer": ANSWERS[question],
            "hallucinated_answer": "Cy Tarn", "file": "qa_data.json"}  # fmt: skip


def _claim(question: str) -> dict[str, Any]:
    return {"source": "scifact", "claim": question, "evidence": [TEXTS[question][1]], "label": "supported"}


def _proof(question: str) -> dict[str, Any]:
    return {"id": question[:12], "question": question, "answer": ANSWERS[question], "hypothesis": "it is so",
            "sentences": {"sent1": TEXTS[question][1], "sent2": OTHER[1]},
            "proof": "sent1 & sent2 -> hypothesis;"}  # fmt: skip


SHAPES = {
    "hotpotqa": _official,
    "hotpotqa-evidence": _statements,
    "2wikimultihopqa": _wiki,
    "musique": _musique,
    "nq_open": _contexts,
    "qed": _qed,
    "hotpotqa-train": _official,
    "hotpotqa-gold": _gold_only,
    "halueval": _halueval,
    "nq_qed": _qed_first,
    "squad": _squad,
    "squad-sample": _squad,
    "scifact": _claim,
    "entailment-bank": _proof,
}


LIVES = {
    "Ann Orn": "Ann Orn (born 1901) is a Danish painter.",
    "Bo Velt": "Bo Velt (born 1920) is a Danish painter.",
    "Cy Tarn": "Cy Tarn (born 1950) is a Polish painter.",
}


def write_lives(name: str, file: Path) -> None:
    """Write the file of a source that composes questions of what paragraphs state."""
    file.parent.mkdir(parents=True, exist_ok=True)
    if file.suffix == ".json":
        _write(file, [{"title": title, "text": text} for title, text in LIVES.items()])
    else:
        _write(file, [{**_official(SAFE), "context": [[title, [text]] for title, text in LIVES.items()]}])


def write_source(name: str, file: Path, questions: tuple[str, ...] = (SAFE, PLANTED)) -> None:
    """Write the file of a source with some of the questions, and the files beside it that its converter reads."""
    file.parent.mkdir(parents=True, exist_ok=True)
    _write(file, [SHAPES[name](question) for question in questions])
    if name == "halueval":
        _write(file.with_name("hotpotqa_train_gold.jsonl.gz"), [_gold_only(question) for question in questions])
    if name == "2wikimultihopqa":
        _write(file.with_name("corpus_6119.json"), [{"title": OTHER[0], "text": OTHER[1]}])


def _write(file: Path, records: list[dict[str, Any]]) -> None:
    text = json.dumps(records) if file.suffix == ".json" else "".join(f"{json.dumps(one)}\n" for one in records)
    if file.suffix == ".gz":
        with gzip.open(file, "wt", encoding="utf-8") as packed:
            packed.write(text)
    else:
        file.write_text(text, encoding="utf-8")
