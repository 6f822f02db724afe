"""The experiment on cascades: rows say what a cascade does, nothing is tested on what chose it, and the plot."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from experiments.papers import cascade as curves
from experiments.papers.cascade import as_text, draw, evaluated, mixtures, upper_hull
from experiments.papers.cascade_runs import Recorded, Runs, as_samples, rankings_of, recorded, vote
from experiments.papers.embedded_lm.evaluation_sets import EvaluationSet
from experiments.runs.files import read_rows
from optimizers.cascade.fitting import replayed
from programs.cascade import Cascade
from programs.catalog import build
from programs.lms.adapter import JsonForm
from programs.lms.calls.metered import metered_lm
from programs.lms.connect import Connection
from signatures.types import Passage
from tests.conftest import ListRetriever, ScriptedEngine
from tests.experiments import toy

ROOT = Path(__file__).parents[3]
F1 = "f1[hotpot]"
WEIGHTS, THRESHOLD = "bias=0.3 refused=2 best=-1 stated=-1.5 question_length=2", 0.6


class Scored:
    """Finds three passages with scores that depend on the question; the first names the answer to every third one."""

    fingerprint = "scored"

    def __call__(self, query, k):
        number = sum(map(ord, query))
        texts = [f"The answer is odd {number % 7}.", "Fog lies over the harbour.", "Nothing else is known."]
        return [
            Passage(id=f"{query}-{place}", text=text, score=(number % 10) / 10 / (place + 1))
            for place, text in enumerate(texts[:k])
        ]

    def many(self, queries, k):
        return [self(query, k) for query in queries]

    def __deepcopy__(self, memo):
        return self


def connection():
    """Return an LM that answers odd or even by the text of the prompt, and abstains now and then."""

    def reply(system, user):
        number = sum(map(ord, user))
        return {"reasoning": "so", "query": f"harbour {number % 5}", "answer": ["odd", "even", "", "odd 3"][number % 4]}

    lm = metered_lm("scripted/cascade", engine=ScriptedEngine(reply), cache=False)
    return Connection("scripted", lm, JsonForm(), None, "samples")


@pytest.mark.slow
@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize(("name", "knobs", "shown"), [("rag", {"k": 2}, 2), ("standard", {}, 3)])
def test_rows_say_exactly_what_running_the_cascade_does(name, knobs, shown, before, tmp_path):
    asked, retrieve, link = toy.questions(40), Scored(), connection()
    cheap, dear = build(name, retrieve, **knobs), build("multihop", retrieve, k=2)
    threshold = 0.5 if before else THRESHOLD
    live = Cascade(cheap, dear, weights=WEIGHTS, threshold=threshold, before=before)
    programs = {"cheap": cheap, "dear": dear, "live": live}
    rows = {}
    for label, program in programs.items():
        toy.run(program, asked, connection=link, folder=tmp_path / label, metrics=(F1,))
        rows[label] = {row["id"]: row for row in read_rows(tmp_path / label)}
    rankings = {question.id: retrieve(question.question, 5) for question in asked}
    ids = sorted(rankings)
    recorded = [Recorded(rows["cheap"], rankings, shown), Recorded(rows["dear"], rankings)]
    done = replayed(as_samples(*recorded, ids, before=before), WEIGHTS, threshold)
    live = [rows["live"][id] for id in ids]
    assert done.asked == [row["details"]["asked"] for row in live]
    assert 0 < sum(done.asked) < len(ids)
    if not before:
        assert {row["details"]["answered_by"] for row in live if row["details"]["asked"]} == {"cheap", "dear"}
    assert done.scores == [row["scores"][F1] for row in live]
    assert done.costs == [row["prompt_tokens"] + row["completion_tokens"] for row in live]
    for id in ids:
        features = recorded[0].features_before(id) if before else recorded[0].features(id)
        assert features == rows["live"][id]["details"]["features"]


def test_a_program_of_the_cascades_is_asked_once_and_its_rows_are_kept(tmp_path, passages):
    asked = toy.questions(4)
    of = EvaluationSet("toy", asked, passages, ListRetriever(passages), {})
    runs = Runs(of, connection(), tmp_path, threads=1, resume=True)
    rankings = rankings_of(of)
    program, summary = recorded(runs, "rag k=2", rankings)
    assert program.rows.keys() == rankings.keys() == {question.id for question in asked}
    assert (program.shown, summary["n"], summary["lm_calls"]["mean"], summary["unparsed"]["mean"]) == (2, 4, 1, 0)
    assert {len(row["passage_ids"]) for row in program.rows.values()} == {2}
    assert recorded(runs, "rag k=2", rankings)[0].rows == program.rows


def made(n=120):
    """Return three programs: the second is better than the first where the first one's answer is not in its passage."""
    draw = np.random.default_rng(0)
    rankings = {f"q{number}": [Passage(id="a", text="The answer is seven.", score=0.5)] for number in range(n)}
    rows = {"one": {}, "two": {}, "three": {}}
    for number, id in enumerate(rankings):
        knows = draw.random() < 0.6
        scores = {"one": float(knows), "two": 0.9 if draw.random() < 0.8 else 0.0, "three": 0.3}
        for label, cost in {"one": 100, "two": 400, "three": 900}.items():
            right = scores[label] > 0
            rows[label][id] = {
                "id": id, "question": f"Number {number}?", "answer": "seven" if right else "eleven", "abstained": False,
                "details": {}, "scores": {F1: scores[label]}, "prompt_tokens": cost - 10, "completion_tokens": 10,
                "cached_tokens": 0, "error": None,
            }  # fmt: skip
    return {label: Recorded(of, rankings, 1) for label, of in rows.items()}


def test_a_cascade_that_can_tell_beats_single_programs_and_mixtures():
    programs = curves.Programs(made())
    assert programs.best == "two"
    chosen = curves.chosen_within(programs, programs.single["two"].cost)
    assert set(chosen.pairs) == {"one -> two"}
    assert chosen.outcomes.cost <= programs.single["two"].cost * 1.05
    assert chosen.outcomes.score > programs.single["two"].score + 0.1
    _, mixed = curves.best_mixture(programs, chosen.outcomes.cost)
    assert curves.compared(mixed, chosen.outcomes)["low"] > 0
    oracle = curves.oracle(programs, curves.Pair("one", "two"))
    assert oracle.score >= chosen.outcomes.score


def test_routing_costs_what_is_asked_and_lies_between_both_programs():
    programs = curves.Programs(made())
    pair = curves.Pair("one", "two")
    for cost in (100, 175, 400):
        routed = curves.routed(programs, pair, cost)
        assert routed.cost == pytest.approx(cost)
        share = (cost - 100) / 300
        one, two = programs.single["one"].score, programs.single["two"].score
        assert routed.score == pytest.approx((1 - share) * one + share * two)


def test_every_question_is_tested_once_and_never_in_a_part_it_was_chosen_by():
    seen = []
    for train, test in curves.parts(53):
        assert not set(train) & set(test)
        assert len(train) + len(test) == 53
        seen += test
    assert sorted(seen) == list(range(53))


def test_a_majority_pays_for_all_its_members():
    recorded = made(40)
    ids = sorted(recorded["one"].rows)
    scores, costs = vote([recorded["two"], recorded["one"], recorded["three"]], ids)
    assert set(costs) == {1400.0}
    for id, score in zip(ids, scores, strict=True):
        answers = [recorded[label].answer(id) for label in ("two", "one", "three")]
        winner = max(answers, key=answers.count)
        assert score == recorded[("two", "one", "three")[answers.index(winner)]].score(id)


@pytest.mark.slow
def test_a_result_is_json_with_a_table_and_a_plot(tmp_path):
    found = evaluated(made(60))
    record = json.loads(json.dumps(found))
    text = as_text("toy", record)
    assert "toy: 60 questions" in text
    assert text.count("at most") == len(record["chosen"])
    draw({"toy": record}, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_the_hull_is_what_mixtures_of_programs_reach():
    points = [(1.0, 1.0), (2.0, 1.2), (3.0, 3.0), (4.0, 2.0), (5.0, 3.5)]
    assert upper_hull(points) == [(1.0, 1.0), (3.0, 3.0), (5.0, 3.5)]
    assert upper_hull([(1.0, 2.0), (2.0, 1.0)]) == [(1.0, 2.0)]
    assert mixtures([(0.0, 1.0), (2.0, 3.0)], steps=2) == [(0.0, 1.0), (1.0, 2.0), (2.0, 3.0)]


def test_the_documented_commands_are_those_of_the_results():
    def selected(words):
        """Return a command without its interpreter and its folders."""
        return re.sub(r"^.*?experiments|--(data|work) \S+ ?", "", words)

    room = ROOT / "experiments"
    text = (room / "papers" / "README.md").read_text().replace("\\\n", " ")
    commands = [" ".join(shlex.split(line[2:])) for line in text.splitlines() if line.startswith("$ ")]
    shown = [line for line in commands if ".papers.cascade " in line]
    recorded = json.loads((room / "results" / "cascade_embedded.json").read_text())["sets"].values()
    assert {selected(of["cascades"]["command"]) for of in recorded} == {selected(line) for line in shown}
