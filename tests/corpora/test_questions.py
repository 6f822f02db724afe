"""The question file, and choosing questions the same way everywhere."""

import hashlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from corpora.compressed import LIMIT_VARIABLE, atomic_bytes
from corpora.questions import Question, SubQuestion, read_questions, select, split_hash, write_questions
from signatures.common.errors import UserError

words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30).filter(str.strip)
texts = st.lists(words, max_size=3)
questions = st.builds(
    Question,
    id=words,
    question=words,
    answers=texts,
    gold_ids=texts,
    gold_sentences=st.lists(st.tuples(words, st.integers(0, 50)), max_size=3),
    context_ids=texts,
    key_facts=texts,
    sub_questions=st.lists(
        st.builds(SubQuestion, question=words, answer=st.none() | words, gold_ids=texts, template=words), max_size=3
    ),
    type=st.none() | words,
    split=st.none() | words,
    level=words | st.none(),
)
TEN = [Question(id=f"q{n}", question="?", split="train" if n < 7 else "dev") for n in range(10)]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(questions, min_size=1, max_size=4, unique_by=lambda question: question.id))
def test_every_question_survives_a_round_trip_with_its_unknown_keys(tmp_path: Path, written):
    write_questions(tmp_path / "q.jsonl.zst", written)
    assert read_questions(tmp_path / "q.jsonl.zst") == written


def test_gold_sentences_are_written_as_pairs(tmp_path: Path):
    write_questions(tmp_path / "q.jsonl", [Question(id="a", question="Who?", gold_sentences=[("p", 2)])])
    assert (tmp_path / "q.jsonl").read_text() == '{"id":"a","question":"Who?","gold_sentences":[["p",2]]}\n'


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('{"id": "b"}', "'question': field required"),
        ('{"id": "b", "question": "  "}', "'question': is empty"),
        ('{"question": "Who?"}', "'id': field required"),
        ('{"id": "a", "question": "Who?"}', "'a' is already on line 1"),
        ('{"id": "b", "question": "Who?", "answers": "one"}', "'answers'"),
        ('{"id": "b", "question": "Who?", "gold_sentences": [["p", -1]]}', "'gold_sentences.0.1'"),
        ('{"id": "b", "question": "Who?", "answers": [42]}', '"answers" is a list of strings, e.g. ["42"]'),
        ("{", "not JSON"),
    ],
)
def test_a_bad_line_is_named_by_file_and_line(tmp_path: Path, line, why):
    (tmp_path / "q.jsonl").write_text('{"id": "a", "question": "Who?"}\n' + line)
    with pytest.raises(UserError, match=r"q\.jsonl, line 2") as caught:
        read_questions(tmp_path / "q.jsonl")
    assert why in str(caught.value)


def test_an_empty_file_and_duplicate_ids_are_refused(tmp_path: Path):
    (tmp_path / "q.jsonl").write_text("")
    with pytest.raises(UserError, match="contains no question"):
        read_questions(tmp_path / "q.jsonl")
    with pytest.raises(UserError, match="Two questions"):
        write_questions(tmp_path / "new.jsonl", [TEN[0], TEN[0]])
    assert not (tmp_path / "new.jsonl").exists()


def test_a_split_keeps_the_order_of_the_file():
    assert [question.id for question in select(TEN, split="dev")] == ["q7", "q8", "q9"]


def test_an_unknown_split_or_a_limit_of_zero_is_refused():
    with pytest.raises(UserError, match=r"'test'.*dev, train"):
        select(TEN, split="test")
    with pytest.raises(UserError, match="at least 1, got 0"):
        select(TEN, limit=0)


@given(st.integers(1, 9), st.permutations(TEN))
def test_a_limit_draws_by_a_hash_of_the_ids_and_keeps_the_order_of_the_file(limit, turned):
    by_hash = sorted((question.id for question in TEN), key=lambda id: hashlib.sha256(id.encode()).hexdigest())
    chosen = select(turned, limit=limit)
    assert {question.id for question in chosen} == set(by_hash[:limit])
    assert chosen == [question for question in turned if question.id in by_hash[:limit]]
    assert {question.id for question in chosen} < {question.id for question in select(TEN, limit=limit + 1)}


@given(st.integers(0, 2**32), st.integers(1, 9), st.permutations(TEN))
def test_a_seeded_sample_depends_on_seed_and_ids_alone_and_grows_by_appending(seed, limit, turned):
    chosen = select(TEN, limit=limit, seed=seed)
    assert chosen == select(turned, limit=limit, seed=seed)
    assert chosen == select(TEN, limit=limit + 1, seed=seed)[:limit]
    assert len({question.id for question in chosen}) == limit


def test_the_split_hash_tells_ids_and_their_order():
    assert split_hash(TEN) == split_hash([question.model_copy(update={"type": "x"}) for question in TEN])
    assert split_hash(TEN) != split_hash(TEN[::-1])
    one, two = Question(id="a\nb", question="?"), [Question(id=name, question="?") for name in "ab"]
    assert split_hash([one]) != split_hash(two)


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".zst"])
def test_a_small_file_that_would_fill_the_memory_with_questions_is_refused(suffix, tmp_path, monkeypatch):
    """Each empty sub-question of 15 bytes takes a kilobyte: 450 kB took nine gigabytes."""
    monkeypatch.setattr("corpora.compressed._MOST_HELD", 1 << 19, raising=False)
    with atomic_bytes(tmp_path / f"q.jsonl{suffix}") as file:
        for number in range(5):
            parts = b'{"question":""},' * 20_000
            file.write(b'{"id":"%d","question":"q","sub_questions":[%b{"question":""}]}\n' % (number, parts))
    with pytest.raises(UserError, match=f"q.jsonl{suffix}.*decompresses to more.*{LIMIT_VARIABLE}"):
        read_questions(tmp_path / f"q.jsonl{suffix}")


def test_questions_that_compress_as_usual_have_no_limit(tmp_path, monkeypatch):
    monkeypatch.setattr("corpora.compressed._MOST_HELD", 10, raising=False)
    questions = [Question(id=str(number), question=f"Who is number {number * number}?") for number in range(100)]
    write_questions(tmp_path / "q.jsonl.gz", questions)
    assert read_questions(tmp_path / "q.jsonl.gz") == questions
