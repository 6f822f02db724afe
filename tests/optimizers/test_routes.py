"""Labels for the classifier of Adaptive-RAG: the cheapest route that is right, and what is made of them."""

import builtins
import re
import warnings
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import dspy
import pytest

from optimizers.routes import fit_routes, hops_of_gold, label_routes, routed, with_routes
from optimizers.teleprompters.bootstrap import labeled_demos
from optimizers.teleprompters.compile import compile
from optimizers.teleprompters.task import Task
from programs.artifact import load
from programs.catalog import build
from programs.lms.adapter import JsonForm
from programs.lms.calls.budget import Budget, BudgetExceeded
from programs.lms.calls.metered import metered_lm
from signatures.common.errors import UserError, UserNotice
from signatures.multi_step.adaptive_rag import JudgeComplexity
from signatures.types import Passage
from tests.conftest import ScriptedEngine

RIGHT = ("simple", "moderate", "complex", "hopeless")  # by the number of the question


class Search:
    fingerprint = "search"

    def __call__(self, query, k):
        if "broken" in query:
            raise RuntimeError("no index")
        return [Passage(id=query, text=f"About {query}")]

    def __deepcopy__(self, memo):
        return self


def knows(system, user):
    """Reply as an LM that answers question n rightly on the route n % 4, and on none where that is 3."""
    number = int(re.search(r"Question (\d+)", user.split("[[ ## question ## ]]")[1])[1]) % 4
    if system.startswith("Judge"):
        return {"complexity": "moderate"}
    if system.startswith("Continue"):
        return {"sentence": "So the answer is: fog."}
    several = "[2]" in user
    route = 0 if "from what you know" in system else 2 if several else 1
    return {"answer": "right" if route == number or (number == 0 and route == 1) else "wrong"}


class Deep(Search):
    """Finds two passages for several steps, which ask for two, and one for a single retrieval."""

    def __call__(self, query, k):
        super().__call__(query, k)
        return [Passage(id=f"{query} {number}", text=f"About {query}") for number in range(k)]


def program(**knobs):
    return build("adaptive_rag", Deep(), k=1, k_several=2, **knobs)


def questions(number, **fields):
    rows = [{"id": f"q{n}", "question": f"Question {n}?", "answer": "right", **fields} for n in range(number)]
    return [dspy.Example(**row).with_inputs("question") for row in rows]


def exact(example, prediction):
    return float(prediction.answer == "right")


def test_a_question_has_the_label_of_the_cheapest_route_that_is_right(scripted):
    engine = scripted(knows)
    found = label_routes(program(), questions(8, gold_ids=["a", "b"]), exact)
    assert [example.complexity for example in found.examples] == ["simple", "moderate", "complex", "complex"] * 2
    assert (found.silver, found.biased, found.left_out) == (6, 2, 0)
    asked = Counter(str(request.system).split(" ")[0] for request in engine.requests)
    # All from memory, those that are wrong there from one retrieval (3 of 4), the rest in several steps.
    assert asked == {"Answer": 8 + 6 + 4, "Continue": 4}
    assert found.examples[0].question == "Question 0?"
    assert found.examples[0].inputs().keys() == ["question"]


def test_where_no_route_is_right_the_gold_decides_or_the_question_is_left_out(scripted):
    scripted(knows)
    hopeless = questions(4)[3:]
    assert label_routes(program(), hopeless, exact).left_out == 1
    assert (
        label_routes(program(), hopeless, exact, bias=lambda example: "moderate").examples[0].complexity == "moderate"
    )


@pytest.mark.parametrize(
    ("gold", "label"),
    [
        ({}, None),
        ({"gold_ids": ["a"]}, "moderate"),
        ({"gold_ids": ["a", "b"]}, "complex"),
        ({"sub_questions": [{}, {}], "gold_ids": []}, "complex"),
        ({"gold_ids": None}, None),
    ],
)
def test_the_gold_tells_how_many_hops_a_question_takes(gold, label):
    assert hops_of_gold(dspy.Example(question="Q?", **gold)) == label


def test_a_question_that_fails_or_is_not_scored_has_no_label(scripted):
    scripted(knows)
    broken = dspy.Example(id="b", question="Question 1, broken?", answer="right").with_inputs("question")
    found = label_routes(program(), [broken, *questions(2)], exact, bias=lambda example: "complex")
    assert ([example.id for example in found.examples], found.left_out) == (["q0", "q1"], 1)
    unscored = label_routes(program(), questions(2), lambda example, prediction: None, bias=lambda example: "complex")
    assert (unscored.examples, unscored.left_out) == ([], 2)


def test_accept_is_the_least_score_of_a_right_answer(scripted):
    scripted(knows)
    half = label_routes(program(), questions(4), lambda example, prediction: 0.5, accept=0.5)
    assert [example.complexity for example in half.examples] == ["simple"] * 4


def test_the_classification_shows_examples_of_each_label_in_turn(scripted):
    engine = scripted(knows)
    student = program()
    student.reading.demos = [dspy.Example(question="Kept?", answer="yes")]
    with pytest.warns(UserNotice, match="3 of 12 questions have no label"):
        fitted = fit_routes(student, questions(12), exact, max_demos=4)
    assert [demo.complexity for demo in fitted.routing.demos] == ["simple", "moderate", "complex", "simple"]
    assert (student.routing.demos, len(fitted.reading.demos), len(fitted.memory.demos)) == ([], 1, 0)
    engine.requests.clear()
    fitted("Question 5?")
    shown = [message.text for message in engine.requests[0].messages]
    assert shown[1] == '{"complexity": "simple"}'
    assert shown[-1].startswith("[[ ## question ## ]]\nQuestion 5?")


def test_the_choice_depends_on_the_seed_alone():
    labelled = [example.copy(complexity="moderate") for example in questions(20)]
    shown = [
        [demo.question for demo in with_routes(program(), labelled, seed=seed).routing.demos] for seed in (0, 0, 1)
    ]
    assert shown[0] == shown[1] != shown[2]
    assert len(shown[0]) == 6


def test_labelled_questions_are_a_trainset_of_the_optimizers(scripted):
    scripted(knows)
    found = label_routes(program(), questions(8), exact)
    compiled = compile(program(), Task(found.examples, routed(exact), max_demos=9), optimizer="bootstrap").program
    # Questions 0 and 4 were answered rightly on a more expensive route than that of their label.
    assert {demo.question for demo in compiled.routing.demos} == {"Question 1?", "Question 5?"}
    labeled = compile(program(), Task(found.examples, exact, max_demos=9), optimizer="labeled").program
    assert Counter(demo.complexity for demo in labeled.routing.demos) == {"simple": 2, "moderate": 2, "complex": 2}
    assert labeled_demos(JudgeComplexity, questions(2)) == []


def test_what_cannot_be_labelled_is_refused(scripted):
    scripted(knows)
    with pytest.raises(UserError, match="got route='one'"):
        fit_routes(program(route="one"), questions(1), exact)
    with pytest.raises(UserError, match="No training question could be labelled"):
        fit_routes(program(), questions(4)[3:], exact)
    with pytest.raises(UserError, match="no optimizer may see it"):
        label_routes(program(), questions(1, split="test"), exact)


def test_a_spent_budget_ends_the_labelling(scripted):
    scripted(knows, budget=Budget(calls=5))
    with pytest.raises(BudgetExceeded):
        label_routes(program(), questions(8), exact)


def test_the_lines_of_the_readme_run(tmp_path, monkeypatch):
    readme = Path(__file__).parents[2] / "optimizers" / "README.md"
    section = readme.read_text(encoding="utf-8").split("\n## Teach a router its routes\n")[1].split("\n## ")[0]
    (code,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    lm = metered_lm("scripted/routes-readme", engine=ScriptedEngine(knows), cache=False)
    connection = SimpleNamespace(use=lambda: dspy.context(lm=lm, adapter=JsonForm(), disable_history=True))
    monkeypatch.chdir(tmp_path)
    names = {
        "connection": connection,
        "retrieve": Search(),
        "trainset": questions(8, answers=["right"], gold_ids=["a"]),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(builtins.compile(code, str(readme), "exec"), names)
    assert load(tmp_path / "artifacts" / "routed", Search()).routing.demos
