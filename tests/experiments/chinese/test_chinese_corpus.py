"""Chinese from documents to cited answers and scores: a small invented encyclopedia, with some Japanese and Korean."""

import json
import re
from html import escape
from pathlib import Path

import numpy as np
import pytest

from corpora.index.build import build_index
from corpora.index.open import open_index
from corpora.ingest.ingest import ingest
from corpora.retrievers.embedder import DEFAULT_EMBEDDER, Embedder
from optimizers.metrics.answer import exact_match, mixed_f1, mixed_match, rouge
from programs.catalog import build
from programs.parts.passages import find_quote
from signatures.citation_marks import citation_numbers, strip_citations
from signatures.common.errors import UserNotice
from signatures.text import split_sentences

HERE = Path(__file__).parent
QUESTIONS = [json.loads(line) for line in (HERE / "questions.jsonl").read_text("utf-8").splitlines()]


def write(folder: Path) -> None:
    """Write the articles as Markdown, text (some not in UTF-8) and HTML."""
    for number, article in enumerate(re.split(r"^# ", (HERE / "articles.txt").read_text("utf-8"), flags=re.M)[1:]):
        title, _, body = article.partition("\n")
        name = folder / re.sub(r"[《》 ]", "", title)
        lines = body.strip().split("\n")
        if number % 3 == 0:
            name.with_suffix(".md").write_text("\n\n".join([f"# {title}", *lines]), "utf-8")
        elif number % 3 == 1:
            text = "\n\n".join([title, *(line.removeprefix("## ") for line in lines)])
            name.with_suffix(".txt").write_text(text, "gb18030" if number % 2 and title != "한빛호" else "utf-8")
        else:
            parts = [f"<h2>{escape(x[3:])}</h2>" if x[:3] == "## " else f"<p>{escape(x)}</p>" for x in lines]
            head = f'<meta charset="utf-8"><title>{escape(title)}</title>'
            name.with_suffix(".html").write_text(
                f"<html><head>{head}</head><body>{''.join(parts)}</body></html>", "utf-8"
            )


@pytest.fixture(scope="module")
def retriever(tmp_path_factory):
    folder = tmp_path_factory.mktemp("chinese")
    (folder / "docs").mkdir()
    write(folder / "docs")
    report = ingest([folder / "docs"], folder / "p.jsonl")
    assert (report.documents.total(), report.errors) == (35, [])
    build_index(folder / "p.jsonl", folder / "index", retriever="bm25")
    return open_index(folder / "index")


def plain(title: str) -> str:
    return re.sub(r"[《》 ]", "", title.split(" > ")[0])


@pytest.mark.slow
def test_most_documents_of_a_question_are_among_five_passages(retriever):
    found = total = 0
    for question in QUESTIONS:
        gold = {plain(title) for title in question["gold_titles"]}
        read = {plain(passage.title) for passage in retriever(question["question"], 5)}
        found, total = found + len(gold & read), total + len(gold)
    assert found / total > 0.9  # 0.1 with unsplit runs of characters


def test_text_of_every_encoding_and_script_is_read_whole(retriever):
    for query, words in {
        "方映雪的代表作": "《雾中渡口》和《纸船》",
        "攝影師的攝影集": "《鏡湖四季》於1999年出版",
        "OpenTide的许可证": "Apache License 2.0",
        "ひばり丸の船長": "船長は村瀬一郎だった",
        "한빛호는": "선장은 박은수였다",
    }.items():
        assert any(words in passage.text for passage in retriever(query, 3)), query


def test_a_heading_in_a_text_stands_apart_from_the_sentence_below_it(retriever):
    (passage,) = retriever("《雾中渡口》发表于1979年", 1)
    assert "创作 《雾中渡口》发表于1979年" in passage.text


@pytest.mark.parametrize("mark", ["[2]", "【2】", "［２］", "〔2〕", "（[2]）"])
def test_an_answer_cites_what_its_full_width_marks_name(scripted, retriever, mark):
    written = f"青石文学奖的第二届得主是方映雪{mark}，她的丈夫是顾南舟{mark}。"
    scripted(lambda system, user: {"reasoning": "", "response": written, "answer": "顾南舟"})
    result = build("webglm", retriever, k=3)("第二届青石文学奖的得主与谁结婚？")
    assert citation_numbers(result.response) == [2]
    assert result.citations == [result.passages[1].id]
    assert strip_citations(written) == "青石文学奖的第二届得主是方映雪，她的丈夫是顾南舟。"


@pytest.mark.parametrize(
    "quote",
    [
        "1958年，顾南舟毕业于临渡大学生物系",
        "“顾南舟毕业于临渡大学生物系,导师是陆惟清。”",
        "１９５８年，顾南舟毕业于临渡大学生物系……导师是陆惟清",
        "【1】顾南舟毕业于临渡大学生物系",
    ],
)
def test_a_quote_is_verbatim_whatever_the_width_of_its_signs(retriever, quote):
    passages = retriever("顾南舟毕业于哪所大学", 3)
    assert find_quote(quote, passages).match == "verbatim"
    assert find_quote("1959年，顾南舟毕业于海澄大学", passages).match == "absent"


def test_sentences_of_a_cited_response_keep_their_marks():
    text = "“我拍的是人。”[1]他说。船長は村瀬一郎だった【2】。선장은 박은수였다. [3] 第二句！"
    assert split_sentences(text) == [
        "“我拍的是人。”[1]",
        "他说。",
        "船長は村瀬一郎だった【2】。",
        "선장은 박은수였다. [3]",
        "第二句！",
    ]


def test_chinese_answers_are_compared_by_characters_without_full_width_signs():
    assert exact_match("《镜湖四季》。", ["镜湖四季"]) == 0.0  # the official definition
    assert mixed_match("《镜湖四季》。", ["镜湖四季"]) == mixed_match("１９０８年", ["1908年"]) == 1.0
    assert mixed_match("临渡市", ["临渡"]) == 0.0
    assert mixed_f1("临渡市", ["临渡", "海澄"]) == pytest.approx(0.8)
    assert mixed_f1("贺启明 and Anna Lindqvist", ["Anna Lindqvist和贺启明"]) == pytest.approx(10 / 12)
    assert mixed_f1("the lake", ["The Lake!"]) == 1.0
    assert mixed_f1("。", ["临渡"]) == 0.0
    assert mixed_f1("x", []) is None
    assert rouge("顾南舟是生物学家", "生物学家顾南舟").rouge1 == pytest.approx(14 / 15)


def test_an_english_embedder_on_a_chinese_corpus_is_named(tmp_path):
    embedder = Embedder(DEFAULT_EMBEDDER, encode=lambda texts: np.ones((len(texts), 4)))
    lines = [{"id": str(each), "title": "", "text": "镜湖是云岭省东部的淡水湖。"} for each in range(3)]
    (tmp_path / "p.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.warns(UserNotice, match="in Chinese: all-MiniLM-L6-v2 was trained on English, so name a multilingual"):
        build_index(tmp_path / "p.jsonl", tmp_path / "index", embedder=embedder)
