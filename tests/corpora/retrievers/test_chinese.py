"""BM25 on Chinese: characters and pairs of them, on invented passages and on HalluQA."""

import json
from pathlib import Path

from corpora.retrievers.bm25 import Bm25Engine, build_bm25, stems

LAKES = ["欧萨河流入马恩湖。", "马恩湖在维尔德国。", "Quillon 灯塔由石头建成。", "守塔人的船停在港口。"]


def engine(folder: Path, texts: list[str]) -> Bm25Engine:
    build_bm25(folder, [{"title": "", "text": text} for text in texts])
    return Bm25Engine(folder, passages=len(texts))


def test_runs_become_characters_and_pairs_and_english_words_stay_stems():
    assert stems("灯塔高 rivers") == ["灯", "塔", "高", "灯塔", "塔高", "river"]
    assert stems("Rivers of the sea") == ["river", "of", "the", "sea"]


def test_a_question_finds_the_passage_that_shares_its_words(tmp_path: Path):
    rankings = engine(tmp_path / "i", LAKES).rank(["欧萨河流到哪里？", "quillon灯塔是谁建的"], 4)
    assert [ranking.rows[0] for ranking in rankings] == [0, 2]


def test_most_halluqa_questions_find_their_own_answer(shared_data: Path, tmp_path: Path):
    records = json.loads((shared_data / "halluqa" / "HalluQA.json").read_text("utf-8"))
    rankings = engine(tmp_path / "i", [record["Best Answer1"] for record in records]).rank(
        [record["Question"] for record in records], 5
    )
    first = sum(list(ranking.rows[:1]) == [row] for row, ranking in enumerate(rankings))
    within = sum(row in ranking.rows for row, ranking in enumerate(rankings))
    assert first / len(records) > 0.78  # 0.15 with runs left whole, 0.74 with jieba's words
    assert within / len(records) > 0.87  # 0.16, 0.85
