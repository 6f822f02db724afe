"""Published figures recomputed: the coefficients of a table, and the verdicts of real trajectories."""

import re
from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import dspy
import pytest

from corpora.index.hashes import check_corpus, check_questions, read_published
from experiments.analysis.agreement import pearson
from experiments.analysis.repeats import stability
from experiments.analysis.statistics import mean_of
from experiments.papers.tables.sources import open_source
from experiments.papers.tables.spec import Column
from optimizers.metrics.catalog import METRICS, get_metric
from optimizers.metrics.keyfact_scores import harmonic_mean

RESULTS = Path(__file__).parents[3] / "experiments" / "results"

# "How Credible Is an Answer From Retrieval-Augmented LLMs?", Table 2, by system: key-fact precision, key-fact recall,
# EM recall, and what people said of precision and recall.
TABLE_2 = {
    "ChatGLM2-6B": (66.8, 48.0, 62.2, 60.8, 57.0),
    "Vicuna-7B": (47.0, 45.9, 67.6, 55.0, 43.5),
    "Vicuna-13B": (53.0, 48.6, 68.4, 64.0, 50.5),
    "llama2-chat-13B": (57.1, 47.9, 69.8, 65.1, 41.5),
    "ChatGPT": (85.4, 56.5, 79.4, 78.4, 70.0),
}
# Table 1: key-fact precision, recall and F1 as printed.
TABLE_1 = [
    (6.12, 22.96, 9.54), (5.45, 16.33, 8.17), (5.70, 10.12, 7.60), (47.04, 45.96, 46.48),
    (85.40, 56.55, 68.22), (66.85, 48.06, 55.45), (53.00, 48.69, 50.78), (57.13, 47.97, 52.23),
]  # fmt: skip


@pytest.mark.parametrize(("automatic", "people", "printed"), [(0, 3, 0.87), (1, 4, 0.88), (2, 4, 0.54)])
def test_the_agreement_of_table_2_is_pearson_over_its_systems(automatic: int, people: int, printed: float) -> None:
    rows = list(TABLE_2.values())
    found = pearson([row[people] for row in rows], [row[automatic] for row in rows])
    assert found.n == 5
    assert found.value is not None
    assert round(found.value, 2) == printed


def test_the_f1_of_table_1_is_the_harmonic_mean_of_its_columns_to_half_a_point() -> None:
    gaps = [abs(100 * harmonic_mean(precision / 100, recall / 100) - f1) for precision, recall, f1 in TABLE_1]
    assert max(gaps) < 0.5
    assert sum(gap < 0.1 for gap in gaps) >= 4


@dataclass(frozen=True)
class Trajectory:
    """One ReAct run on one question."""

    trial: int
    question: str
    steps: list[dict[str, str]]
    answer: str | None
    verdict: str | None
    gold: str


_STEP = re.compile(
    r"^Thought (\d+): (?P<thought>.*?)^Action \1: (?P<action>.*?)^Observation \1: (?P<seen>.*?)"
    r"(?=^Thought|^Correct|\Z)",
    re.MULTILINE | re.DOTALL,
)


def parse(text: str) -> list[Trajectory]:
    found = []
    for trial, part in enumerate(text.split("BEGIN TRIAL ")[1:], start=1):
        for block in re.split(r"\n(?=Question: )", part)[1:]:
            finish = re.search(r"^Action \d+: Finish\[(.*)\]$", block, re.MULTILINE)
            verdict = re.search(r"Answer is (CORRECT|INCORRECT)", block)
            steps = [
                {"question": one["action"].strip(), "answer": one["thought"].strip(), "evidence": one["seen"].strip()}
                for one in _STEP.finditer(block)
            ]
            gold = re.search(r"^Correct answer: (.*)$", block, re.MULTILINE)
            assert gold is not None
            question = block.splitlines()[0].removeprefix("Question:").strip()
            found.append(
                Trajectory(trial, question, steps, finish and finish[1], verdict and verdict[1], gold[1].strip())
            )
    return found


@pytest.fixture(scope="module")
def trajectories(shared_data: Path) -> list[Trajectory]:
    return parse((shared_data / "trajectories" / "react_hotpotqa_100q_5trials.txt").read_text(encoding="utf-8"))


def test_exact_match_says_what_the_runs_themselves_say(trajectories: list[Trajectory]) -> None:
    finished = [one for one in trajectories if one.answer is not None and one.verdict is not None]
    assert len(finished) > 400
    em = get_metric("em")
    for one in finished:
        example = dspy.Example(question=one.question, answers=[one.gold])
        assert em(example, dspy.Prediction(answer=one.answer)) == float(one.verdict == "CORRECT"), one


def test_every_answer_metric_scores_every_real_answer(trajectories: list[Trajectory]) -> None:
    names = [name for name in METRICS if name.startswith(("em", "f1", "acc", "precision")) and not METRICS[name].judged]
    columns = defaultdict(list)
    for one in trajectories:
        example = dspy.Example(question=one.question, answers=[one.gold])
        for name in names:
            columns[name].append(METRICS[name](example, dspy.Prediction(answer=one.answer or "")))
    means = {name: mean_of(values, resamples=10) for name, values in columns.items()}
    assert means["em"].undefined == 0
    assert means["em"].mean <= means["f1[hotpot]"].mean <= means["f1[squad]"].mean <= 1.0
    assert means["acc[raw]"].mean <= means["acc[substring]"].mean
    assert 0 < means["acc[yes_no]"].n < len(trajectories) / 4


@pytest.mark.slow
def test_repeated_trajectories_of_a_question_are_alike_and_those_of_others_are_not(
    trajectories: list[Trajectory],
) -> None:
    by_question = defaultdict(list)
    for one in trajectories:
        by_question[one.question].append({"hops": one.steps[:2]})
    repeated = [rows[:3] for rows in by_question.values() if len(rows) >= 3][:12]
    assert len(repeated) == 12
    same = stability(repeated)
    mixed = stability([[first[0], second[0]] for first, second in pairwise(repeated)])
    assert same["trajectory_rouge_l"].mean > mixed["trajectory_rouge_l"].mean + 0.2
    assert same["trajectory_rouge_l"].mean <= same["trajectory_rouge1"].mean <= 1.0


@pytest.mark.parametrize("name", ["hotpotqa", "2wikimultihopqa", "musique", "strategyqa"])
def test_the_published_hashes_are_those_of_our_questions_and_passages(shared_data, tmp_path, name):
    published = read_published(RESULTS / "tables" / "leaderboard-hashes.json.zst")
    source = open_source(Column(label=name, data=name), str(shared_data), tmp_path)
    assert source.passages is not None
    questions, passages = check_questions(published, source.questions), check_corpus(published, source.passages)
    assert (questions.what, questions.same, questions.alike) == (f"questions of {name}", 100, True)
    assert passages.alike, passages
