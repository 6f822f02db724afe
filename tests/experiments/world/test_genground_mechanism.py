"""GenGround on the simulated world: what its paper claims must follow from its loop, and each ablation must lose it.

The dials are the committed ones wherever whole programs are compared. Intervals are 95 % paired bootstrap intervals
of exact match over the same questions.
"""

from collections.abc import Callable

import pytest

from corpora.index.build import build_index
from corpora.index.open import open_index
from corpora.passages import read_passages
from corpora.questions import Question, read_questions
from experiments.analysis.statistics import paired
from experiments.world.generate import generate
from experiments.world.relations import BY_NAME
from optimizers.examples import to_examples
from optimizers.metrics.catalog import get_metric
from optimizers.teleprompters import Task
from optimizers.teleprompters import compile as optimize
from programs.genground import GenGround
from programs.rag import RAG
from signatures.text import normalize_answer
from signatures.types import Passage, Retriever

QUESTIONS = 250


@pytest.fixture(scope="module")
def benchmark(tmp_path_factory) -> tuple[Retriever, list[Question]]:
    folder = tmp_path_factory.mktemp("world")
    passages, questions = generate(folder, questions=QUESTIONS, seed=0)
    build_index(passages, folder / "index", retriever="bm25")
    return open_index(folder / "index"), read_questions(questions)


@pytest.fixture(scope="module")
def scores(benchmark, running) -> Callable[..., list[float]]:
    """Return a function that returns GenGround's exact match per question, cached by its knobs."""
    retrieve, questions = benchmark
    known: dict[str, list[float]] = {}

    def score(**knobs) -> list[float]:
        name = repr(sorted(knobs.items()))
        if name not in known:
            program = GenGround(retrieve, **knobs)
            with running():
                answers = [program(question=question.question).answer for question in questions]
            known[name] = [
                float(normalize_answer(answer) == normalize_answer(question.answers[0]))
                for answer, question in zip(answers, questions, strict=True)
            ]
        return known[name]

    return score


def stating(name: str, relation: str, value: str) -> Passage:
    statement = BY_NAME[relation].statements[0].format(x=name, y=value)
    return Passage(id=f"about-{name}", title=name, text=f"{name} is known here. {statement}")


def test_wrong_memory_is_corrected_when_a_passage_says_so(running, faultless, world, films):
    with running(faultless(memory_wrong=1.0)):
        for film in films[:10]:
            truth = world.value(film, "director")
            told = [stating(other, "director", world.value(other, "director")) for other in [*films[20:24], film]]
            result = GenGround(max_hops=2)(question=f"Who directed {film}?", passages=told)
            (hop,) = result.hops
            assert hop.draft != truth
            assert (result.answer, hop.verdict, result.citations) == (truth, "corrected", [f"about-{film}"])


def test_the_remembered_answer_is_kept_when_nothing_is_citable(running, faultless, world, films):
    with running(faultless()):
        for film in films[:10]:
            told = [stating(other, "director", world.value(other, "director")) for other in films[20:24]]
            result = GenGround(max_hops=2)(question=f"Who directed {film}?", passages=told)
            assert result.answer == world.value(film, "director")
            assert [hop.verdict for hop in result.hops] == ["kept"]
            assert result.citations == []


def test_batches_of_three_lose_fewer_answers_to_distraction_than_one_of_ten(running, faultless, world, films):
    """Distraction is the only error here; the deciding passage comes first, as from a good retriever."""
    lost = {}
    with running(faultless(reading_distraction=0.04)):
        for batch in (True, False):
            lost[batch] = [
                GenGround(max_hops=1, batch=batch)(
                    question=f"Who directed {film}?",
                    passages=[
                        stating(other, "director", world.value(other, "director"))
                        for other in [film, *[other for other in films if other != film][:9]]
                    ],
                ).answer
                != world.value(film, "director")
                for film in films
            ]
    difference = paired(lost[True], lost[False])
    assert difference.low > 0


def test_a_true_false_question_is_decided_by_its_answered_hops(benchmark, running, faultless):
    retrieve, questions = benchmark
    closed = [question for question in questions if question.type == "yes/no"][:20]
    with running(faultless(memory_wrong=1.0)):
        answers = [GenGround(retrieve, true_false=True)(question=question.question).answer for question in closed]
    assert answers == [question.answers[0] for question in closed]
    assert set(answers) == {"yes", "no"}


@pytest.mark.parametrize("ablation", ["deduce", "ground", "batch"])
def test_each_ablation_loses_against_the_whole(scores, ablation):
    difference = paired(scores(), scores(**{ablation: False}))
    assert difference.high < 0, f"without {ablation}: {difference.difference:+.3f}, not below 0 beyond doubt"


def test_the_whole_beats_answering_from_memory_and_one_good_retrieval(benchmark, running, scores):
    from programs.standard import Standard

    retrieve, questions = benchmark
    for program in (Standard(), RAG(retrieve)):
        with running():
            simple = [
                float(
                    normalize_answer(program(question=question.question).answer)
                    in map(normalize_answer, question.answers)
                )
                for question in questions
            ]
        assert paired(simple, scores()).low > 0


class Gold:
    """Gives each question its gold passages, so that nothing but reading decides."""

    fingerprint = "gold"

    def __init__(self, folder, questions: list[Question]):
        passages = {passage.id: passage for passage in read_passages(folder / "passages.jsonl")}
        self.found = {item.question: [passages[id] for id in item.gold_ids] for item in questions}

    def __call__(self, query: str, k: int) -> list[Passage]:
        return self.found[query]

    def many(self, queries: list[str], k: int) -> list[list[Passage]]:
        return [self(query, k) for query in queries]

    def __deepcopy__(self, memo: dict) -> "Gold":
        return self


def test_compiling_changes_no_answer(running, tmp_path):
    """The simulated LM reads no demonstrations: no gain from compiling can be measured with it."""
    questions = read_questions(generate(tmp_path, questions=100, seed=0, dev_share=0.6)[1])
    train, dev = (to_examples(item for item in questions if item.split == split) for split in ("train", "dev"))
    program = RAG(Gold(tmp_path, questions))
    with running():
        task = Task(trainset=train, score=get_metric("em"), max_demos=4, threads=1)
        compiled = optimize(program, task, optimizer="bootstrap")
        answers = [[each(question=item.question).answer for item in dev] for each in (program, compiled.program)]
    assert compiled.accepted == {"reading": 4}
    assert answers[0] == answers[1]
