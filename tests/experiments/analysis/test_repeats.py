"""Questions asked several times: fresh samples, resumed, averaged per question before over questions."""

import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import dspy
import pytest
from dspy.lm15 import Message, Response, Usage

from experiments.analysis.compare import compare_runs
from experiments.analysis.repeats import (
    by_question,
    majority_row,
    pass_at_k,
    question_values,
    repeated,
    spread,
    stability,
)
from experiments.analysis.report.html import write_report
from experiments.runs.files import read_json, read_rows
from programs.lms.calls.metered import fresh_samples, metered_lm, rollout_in_repeat
from signatures.common.errors import UserError
from tests.experiments.analysis.conftest import shown


class Sampler:
    """Answers "even" and "odd" in turn to each question, and remembers the seeds it was given."""

    supported_params = ("temperature", "max_tokens", "seed")

    def __init__(self) -> None:
        self.seeds: list[int | None] = []
        self.asked: dict[str, int] = {}
        self.lock = threading.Lock()

    def __deepcopy__(self, memo: dict[int, Any]) -> "Sampler":
        return self

    def complete(self, request: Any) -> Response:
        text = request.messages[-1].text
        with self.lock:
            self.seeds.append(request.config.seed)
            turn = self.asked[text] = self.asked.get(text, -1) + 1
        said = f"[[ ## answer ## ]]\n{'odd' if turn % 2 else 'even'}\n\n[[ ## completed ## ]]"
        usage = Usage(input_tokens=7, output_tokens=3, total_tokens=10)
        message = Message.assistant(said)
        return Response(id=None, model=request.model, message=message, finish_reason="stop", usage=usage)


def link(toy: ModuleType, engine: Any, *, temperature: float | None = 0.7, cache: bool = True) -> Any:
    lm = metered_lm(f"scripted/{uuid.uuid4()}", engine=engine, temperature=temperature, max_tokens=64, cache=cache)
    return toy.Link(lm, dspy.ChatAdapter(use_json_adapter_fallback=False))


def run(toy: ModuleType, folder: Path, connection: Any, *, n: int = 4, repeats: int = 3, **options: Any) -> Any:
    options = {"metrics": ["em", "passage_recall@2"], "threads": 1, "progress": False, **options}
    return toy.run(toy.Toy(), toy.questions(n), connection=connection, folder=folder, repeats=repeats, **options)


def test_each_repeat_draws_anew_although_replies_are_cached(toy: ModuleType, tmp_path: Path) -> None:
    engine = Sampler()
    summary = run(toy, tmp_path / "run", link(toy, engine))
    rows = read_rows(tmp_path / "run")
    assert [(row["id"], row["repeat"]) for row in rows][:5] == [
        ("id0", 1),
        ("id1", 1),
        ("id2", 1),
        ("id3", 1),
        ("id0", 2),
    ]
    assert [row["answer"] for row in rows if row["id"] == "id0"] == ["even", "odd", "even"]
    assert len(engine.seeds) == 12
    assert len(set(engine.seeds)) == 3
    assert (summary.answered, summary.questions, summary.repeats, summary.complete) == (12, 4, 3, True)


def test_scores_are_means_over_repeats_and_then_over_questions(toy: ModuleType, tmp_path: Path) -> None:
    summary = run(toy, tmp_path / "run", link(toy, Sampler()))
    em = summary.metrics["em"]
    assert (em.n, em.mean) == (4, pytest.approx(0.5))
    assert em.low == pytest.approx(1 / 3)  # every question is 2/3 or 1/3, none is 0 or 1
    assert summary.costs["lm_calls"].mean == 1.0
    assert summary.spreads["em"].means == [0.5, 0.5, 0.5]
    assert summary.spreads["em"].deviation == 0.0
    assert 0 < summary.stability["trajectory_rouge1"].mean < 1
    assert read_json(tmp_path / "run" / "summary.json")["spreads"]["em"]["low"] == 0.5


def test_a_second_run_of_the_same_repeats_is_answered_by_the_cache(toy: ModuleType, tmp_path: Path) -> None:
    engine = Sampler()
    connection = link(toy, engine)
    first = run(toy, tmp_path / "a", connection)
    second = run(toy, tmp_path / "b", connection)
    assert len(engine.seeds) == 12
    assert first.metrics == second.metrics
    assert second.costs["paid_calls"].mean == 0.0


def test_a_run_is_taken_up_at_the_repeat_where_it_stopped(toy: ModuleType, tmp_path: Path) -> None:
    class Spent(BaseException):
        """As a budget raises it."""

    class Short(Sampler):
        def complete(self, request: Any) -> Response:
            if len(self.seeds) == 6:
                raise Spent("no more")
            return super().complete(request)

    engine = Short()
    connection = link(toy, engine, cache=False)
    summary = run(toy, tmp_path / "run", connection)
    assert (summary.answered, summary.complete) == (6, False)
    assert "6 of 12 answers are missing." in summary.notice
    assert summary.metrics["em"].missing == 0
    connection.lm.engine.seeds = []
    assert run(toy, tmp_path / "run", connection, resume=True).answered == 12
    assert len({(row["id"], row["repeat"]) for row in read_rows(tmp_path / "run")}) == 12
    with pytest.raises(UserError, match="repeats was 3 and is now 2"):
        run(toy, tmp_path / "run", connection, repeats=2, resume=True)


@pytest.mark.parametrize(
    ("options", "temperature", "message"),
    [({"repeats": 2}, 0.0, "at temperature 0 every repeat is the same answer"), ({"repeats": 0}, 0.7, "at least 1")],
)
def test_repeats_without_samples_are_refused_before_anything_is_written(
    toy: ModuleType, tmp_path: Path, options: dict[str, Any], temperature: float, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        run(toy, tmp_path / "run", link(toy, Sampler(), temperature=temperature), **options)
    assert not (tmp_path / "run").exists()


def test_runs_with_repeats_are_compared_question_by_question_and_reported(
    toy: ModuleType, tmp_path: Path, unpack: Callable[[str, str], Any]
) -> None:
    run(toy, tmp_path / "often", link(toy, Sampler()))
    run(toy, tmp_path / "once", link(toy, Sampler()), repeats=1)
    comparison = compare_runs([tmp_path / "once", tmp_path / "often"])
    assert comparison.questions == 4
    against = comparison.metrics["em"][1].against_first
    assert against is not None
    assert (against.n, against.test) == (4, "t-test")  # a third of a right answer is no 0/1 score
    assert "often asks each question 3 times" in " ".join(comparison.notices)
    page = write_report([tmp_path / "often"], tmp_path / "report.html").read_text()
    assert [row[:2] for row in unpack(page, "index")["questions"][0][3]] == [[0, 1], [0, 2], [0, 3]]
    assert "3 per question" in page


def test_a_program_s_own_samples_stay_apart_within_and_between_repeats() -> None:
    seen = set()
    for repeat in (1, 2, 3):
        with fresh_samples(repeat):
            seen |= {rollout_in_repeat(own, 1.0) for own in (None, 1, 2, 3)}
    assert len(seen) == 12
    assert rollout_in_repeat(None, 1.0) is None
    with fresh_samples(2):
        assert rollout_in_repeat(None, 0.0) is None  # the likeliest reply is the likeliest reply


def row(name: str, repeat: int, score: float | None, *answers: str) -> dict[str, Any]:
    hops = [{"question": "who", "answer": answer, "evidence": None} for answer in answers]
    return {"id": name, "question": name, "repeat": repeat, "scores": {"em": score}, "hops": hops}


def test_undefined_repeats_are_left_out_of_a_question() -> None:
    rows = [row("b", 2, 1.0, "x"), row("b", 1, None), row("a", 1, None), row("a", 2, None)]
    questions = list(by_question(rows).values())
    assert [[one["repeat"] for one in several] for several in questions] == [[1, 2], [1, 2]]

    def value(row: dict[str, Any]) -> float | None:
        return row["scores"]["em"]

    assert question_values(questions, value) == [None, 1.0]
    assert spread(rows, value, 2).means == [None, 1.0]
    assert spread(rows[2:], value, 2).low is None
    alike = stability(questions)["trajectory_rouge_l"]
    assert (alike.mean, alike.n, alike.undefined) == (0.0, 1, 1)


def test_pass_at_k_is_the_chance_that_a_draw_of_k_holds_a_right_answer() -> None:
    from itertools import combinations

    for n in range(1, 7):
        for correct in range(n + 1):
            answers = [True] * correct + [False] * (n - correct)
            for k in range(1, n + 1):
                draws = list(combinations(answers, k))
                assert pass_at_k(correct, n, k) == pytest.approx(sum(map(any, draws)) / len(draws))
    with pytest.raises(ValueError, match="k=4"):
        pass_at_k(1, 3, 4)


def test_the_majority_is_of_normalised_answers_and_the_earliest_of_equals_wins() -> None:
    def answers(*texts: str) -> list[dict[str, Any]]:
        return [{"answer": text, "number": place} for place, text in enumerate(texts)]

    assert majority_row(answers("Rome", "the Oslo", "oslo."))["number"] == 1
    assert majority_row(answers("Rome", "Oslo"))["number"] == 0
    assert majority_row(answers("", "", "Oslo"))["number"] == 2
    assert majority_row(answers("", ""))["number"] == 0
    assert majority_row(answers("unknown", "unknown", "A"))["number"] == 2  # a blood group, which is an answer


def test_a_run_with_repeats_has_pass_at_k_and_the_majoritys_score(toy: ModuleType, tmp_path: Path) -> None:
    # Answers alternate even, odd, even: right in 2 of 3 on even questions, in 1 of 3 on odd ones.
    summary = run(toy, tmp_path / "run", link(toy, Sampler()))
    assert {name: (mean.mean, mean.n) for name, mean in summary.repeated.items()} == {
        "pass@2[em]": (pytest.approx((1 + 2 / 3) / 2), 4),
        "pass@3[em]": (1.0, 4),
        "majority[em]": (0.5, 4),
    }
    assert "majority[em]" in shown(summary.as_table())
    assert read_json(tmp_path / "run" / "summary.json")["repeated"]["majority[em]"]["mean"] == 0.5


def test_questions_without_all_repeats_have_no_pass_at_k() -> None:
    rows = [{"answer": "x", "scores": {"em": 1.0}}] * 2
    assert repeated([rows, rows[:1]], ["em"], 2)["pass@2[em]"].undefined == 1
