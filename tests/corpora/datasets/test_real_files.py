"""The published files themselves: all records arrive, and all gold points at something that is there."""

from pathlib import Path

import pytest

from corpora.datasets.convert import KNOWN_FILES, Converted, convert, pool
from corpora.datasets.subsets import take
from corpora.passages import read_passages
from corpora.questions import Question, read_questions

# Name -> data set, questions, passages.
FILES = {
    "hotpotqa/hotpot_train_100.json": ("hotpotqa", 100, 994),
    "hotpotqa/hotpot_dev_100.hf.jsonl": ("hotpotqa", 100, 1000),
    "hotpotqa/hotpot_dev_500.ircot.jsonl": ("hotpotqa", 500, 4858),
    "2wikimultihopqa/2wiki_train.json": ("2wikimultihopqa", 494, 3088),
    "2wikimultihopqa/corpus_6119.json": ("plain", 0, 6119),
    "musique/musique_ans_train_100.jsonl": ("musique", 100, 1890),
    "musique/corpus_1890.json": ("plain", 0, 1890),
    "strategyqa/strategyqa_train.json": ("strategyqa", 2061, 0),
    "strategyqa/strategyqa_dev_100.json": ("strategyqa", 100, 0),
    "strategyqa/paragraphs_998.jsonl": ("strategyqa", 0, 998),
    "nq_open/nq_open_400.jsonl": ("nq_open", 400, 0),
    "nq_open/qed_dev_1355.jsonl": ("nq_open", 1355, 1343),
    "nq_open/nq_open_oracle_2655.jsonl.gz": ("nq_open", 2655, 2588),
    "web_questions/web_questions_400.jsonl": ("web_questions", 400, 0),
    "triviaqa/triviaqa_1000.jsonl": ("triviaqa", 1000, 0),
    "mintaka/mintaka_sample_7.json": ("mintaka", 7, 0),
    "halluqa/HalluQA.json": ("halluqa", 450, 0),
}
DISTRACTORS = {
    "hotpot_train": "hotpotqa/hotpot_train_100.json",
    "hotpot_dev": "hotpotqa/hotpot_dev_100.hf.jsonl",
    "hotpot_ircot": "hotpotqa/hotpot_dev_500.ircot.jsonl",
    "2wiki": "2wikimultihopqa/2wiki_train.json",
    "musique": "musique/musique_ans_train_100.jsonl",
}


@pytest.fixture(scope="module")
def all_converted(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Converted]:
    out = tmp_path_factory.mktemp("converted")
    return {key: convert(FILES[file][0], shared_data / file, out / key) for key, file in DISTRACTORS.items()}


@pytest.mark.slow
@pytest.mark.parametrize("key", DISTRACTORS)
def test_all_questions_and_paragraphs_arrive_and_all_gold_is_there(all_converted: dict[str, Converted], key: str):
    result = all_converted[key]
    assert result.questions_path is not None
    assert result.passages_path is not None
    questions = read_questions(result.questions_path)
    passages = {passage.id: passage for passage in read_passages(result.passages_path)}
    assert (len(questions), len(passages)) == FILES[DISTRACTORS[key]][1:]
    for question in questions:
        assert question.answers
        assert question.gold_ids
        assert set(question.gold_ids) <= set(question.context_ids) <= passages.keys()
        assert {passage_id for passage_id, _ in question.gold_sentences} <= set(question.gold_ids)
        for passage_id, number in question.gold_sentences:
            assert (passages[passage_id].sentences or [])[number].strip()
        for hop in question.sub_questions:
            assert set(hop.gold_ids) <= set(question.gold_ids)
    for name in ("gold_titles_missing", "gold_titles_ambiguous", "gold_sentences_out_of_range", "sentences_differ"):
        assert result.counts.get(name, 0) == 0


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES)
def test_every_known_file_has_its_checksum_and_converts_completely(shared_data: Path, tmp_path: Path, file: str):
    assert set(KNOWN_FILES.values()) == set(FILES)
    dataset, questions, passages = FILES[file]
    result = convert(dataset, shared_data / file, tmp_path / "out")
    assert result.known_file == file
    assert (result.counts.get("questions", 0), result.counts.get("passages", 0)) == (questions, passages)
    if result.questions_path is not None:
        read = read_questions(result.questions_path)
        assert len(read) == questions
        assert all(question.answers for question in read)


def test_a_file_with_one_byte_changed_is_no_known_file(shared_data: Path, tmp_path: Path):
    content = (shared_data / "mintaka" / "mintaka_sample_7.json").read_bytes()
    (tmp_path / "x.json").write_bytes(content.replace(b"9ace9041", b"9ace9042"))
    assert convert("mintaka", tmp_path / "x.json", tmp_path / "out").known_file is None


def converted_questions(shared_data: Path, out: Path, file: str) -> list[Question]:
    path = convert(FILES[file][0], shared_data / file, out).questions_path
    assert path is not None
    return read_questions(path)


def test_strategyqas_gold_is_in_its_paragraphs(shared_data: Path, tmp_path: Path):
    questions = converted_questions(shared_data, tmp_path / "q", "strategyqa/strategyqa_dev_100.json")
    corpus = convert("strategyqa", shared_data / "strategyqa" / "paragraphs_998.jsonl", tmp_path / "p").passages_path
    assert corpus is not None
    known = {passage.id for passage in read_passages(corpus)}
    named = {name for question in questions for names in question.model_extra["gold_alternatives"] for name in names}
    assert len(named) == 479
    assert named <= known
    assert all(question.gold_ids for question in questions)
    assert {answer for question in questions for answer in question.answers} == {"yes", "no"}


def test_most_of_qeds_answers_are_verbatim_in_their_sentences(shared_data: Path, tmp_path: Path):
    result = convert("nq_open", shared_data / "nq_open" / "qed_dev_1355.jsonl", tmp_path / "out")
    assert result.questions_path is not None
    assert result.passages_path is not None
    sentences = {passage.id: passage.sentences for passage in read_passages(result.passages_path)}
    explained = [question for question in read_questions(result.questions_path) if question.gold_sentences]
    assert len(explained) == 1021
    found = 0
    for question in explained:
        ((name, number),) = question.gold_sentences
        found += any(answer in (sentences[name] or [])[number] for answer in question.answers)
    assert found == 946  # the others are named by a pronoun there


def test_webglms_lists_keep_all_400_and_halluqas_knowledge_is_206(shared_data: Path, tmp_path: Path):
    for file, repeated in (("nq_open/nq_open_400.jsonl", 7), ("web_questions/web_questions_400.jsonl", 19)):
        questions = converted_questions(shared_data, tmp_path / file, file)
        assert len(questions) == 400
        assert len({question.question for question in questions}) == 400 - repeated
    chinese = converted_questions(shared_data, tmp_path / "h", "halluqa/HalluQA.json")
    assert len(take("halluqa-knowledge", chinese)) == 206


def test_wikimultihop_finds_a_passage_for_nearly_every_hop(all_converted: dict[str, Converted]):
    counts = all_converted["2wiki"].counts
    assert counts["gold_sentences"] == 1170
    assert counts["sub_questions_without_gold"] <= 14  # titles under another name than the evidence's subject


def test_musique_leaves_no_reference_open(all_converted: dict[str, Converted]):
    path = all_converted["musique"].questions_path
    assert path is not None
    hops = [hop for question in read_questions(path) for hop in question.sub_questions]
    assert len(hops) == 237
    assert not [hop.question for hop in hops if "#" in hop.question]
    assert all(hop.gold_ids for hop in hops)


@pytest.mark.slow
def test_all_sets_and_both_plain_corpora_meet_in_one_pool(
    all_converted: dict[str, Converted], shared_data: Path, tmp_path: Path
):
    corpora = ["2wikimultihopqa/corpus_6119.json", "musique/corpus_1890.json"]
    plain = [convert("plain", shared_data / file, tmp_path / file) for file in corpora]
    assert [result.counts["passages"] for result in plain] == [6119, 1890]
    files = [result.passages_path for result in [*all_converted.values(), *plain] if result.passages_path]
    counts = pool(files, tmp_path / "pool.jsonl.zst")
    assert counts == {"read": 19839, "written": 17295, "duplicates": 2544, "sentences_differ": 0}
    pooled = {passage.id for passage in read_passages(tmp_path / "pool.jsonl.zst")}
    for result in all_converted.values():
        assert result.questions_path is not None
        assert all(set(question.context_ids) <= pooled for question in read_questions(result.questions_path))
