"""What the functions of `import verihop` accept, and what they say of the rest, on one line."""

import json
from importlib.metadata import version

import pytest

import verihop
from corpora.questions import read_questions
from optimizers.metrics.catalog import get_metric
from programs.lms.calls import transport
from signatures.common.errors import UserError


@pytest.fixture
def rag(world):
    return verihop.load(program="rag", index=world / "index", lm=verihop.connect("simulated", cache=False))


@pytest.fixture
def ask(rag, world, tmp_path):
    """Return a function that evaluates a program on the first two dev questions, and returns summary and run.json."""

    def run(program=rag, questions=None, **settings):
        dev = [each for each in read_questions(world / "questions.jsonl") if each.split == "dev"][:2]
        given = {"metrics": "em", "progress": False, **settings}
        summary = verihop.evaluate(program, dev if questions is None else questions, tmp_path / "run", **given)
        return summary, json.loads((tmp_path / "run" / "run.json").read_text())

    return run


@pytest.mark.parametrize("metrics", [["em", "f1[hotpot]"], "em,f1[hotpot]", ["em", get_metric("f1[hotpot]")]])
def test_metrics_are_names_or_a_list(ask, metrics):
    assert list(ask(metrics=metrics)[0].metrics) == ["em", "f1[hotpot]"]


def test_one_metric_may_be_given_itself(ask):
    assert list(ask(metrics=get_metric("em"))[0].metrics) == ["em"]


def test_questions_may_be_lines_of_a_file_and_come_from_a_generator(ask, world):
    lines = [json.loads(line) for line in (world / "questions.jsonl").read_text().splitlines()]
    given, _ = ask(questions=(line for line in lines[:3]))
    assert given.answered == 3


def test_a_judge_may_be_named_and_shares_the_budget(ask, world):
    lm = verihop.connect("simulated", cache=False, budget={"calls": 4}, retries=1)
    program = verihop.load(program="rag", index=world / "index", lm=lm)
    summary, run = ask(program, metrics=["em", "acc[judge]"], judge="simulated")
    assert run["judge"]["id"] == "simulated"
    assert lm.lm.budget.spent["calls"] == 4
    assert summary.answered == 2


def test_a_teacher_may_be_named(rag, world, tmp_path):
    verihop.compile(
        rag, world / "questions.jsonl", tmp_path / "made", split="train", teacher="simulated", progress=False
    )
    assert (tmp_path / "made" / "artifact.json").exists()


def test_a_shard_and_a_note_may_be_texts(ask):
    _, run = ask(shard="1/2", notes="On a Monday.")
    assert (run["shard"]["index"], run["shard"]["of"], run["notes"]) == (1, 2, ["On a Monday."])


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"program": "rag"}, "program must be what verihop.load returns"),
        ({"questions": "lost.jsonl"}, "lost.jsonl"),
        ({"questions": 3}, "questions must be a questions.jsonl, or questions, got 3"),
        ({"questions": {"id": "1", "question": "Who?"}}, "questions must be a questions.jsonl"),
        ({"questions": ["Who?"]}, "Question 1 must be a corpora.questions.Question"),
        ({"questions": [{"question": "Who?"}]}, "Question 1 is invalid .*'id'"),
        ({"metrics": 3}, "metrics must be names"),
        ({"metrics": ["em", 3]}, "metrics must be names"),
        ({"metrics": ["em", len]}, "metrics must be names .* a function of your own as 'module:function'"),
        ({"metrics": []}, "No metric is named"),
        ({"metrics": "acc[judge]", "judge": 3}, r"judge must be a connection \(verihop.connect\) or the id of an LM"),
        ({"shard": (1, 2)}, "shard must be i/n"),
        ({"shard": "2"}, "A shard is written i/n"),
        ({"threads": 0}, "threads must be a whole number from 1 to 256, got 0"),
        ({"limit": "3"}, "limit must be a whole number of at least 1, got '3'"),
        ({"seed": -1}, "seed must be a whole number of at least 0, got -1"),
    ],
)
def test_what_cannot_be_evaluated_is_said_on_one_line(ask, arguments, reason):
    with pytest.raises(UserError, match=reason) as raised:
        ask(**arguments)
    assert "\n" not in str(raised.value)


def test_a_function_to_compile_for_is_named(rag, world, tmp_path):
    with pytest.raises(UserError, match="metric must be one name .* a function of your own as 'module:function'"):
        verihop.compile(rag, world / "questions.jsonl", tmp_path / "made", metric=len)


def test_what_is_no_program_is_refused_by_every_function(world, tmp_path):
    questions = world / "questions.jsonl"
    for function in (verihop.evaluate, verihop.compile, verihop.tune):
        with pytest.raises(UserError, match=r"program must be what verihop.load returns, .* got 'rag'"):
            function("rag", questions, tmp_path / "out")
    with pytest.raises(UserError, match="program must be what verihop.load returns"):
        verihop.freeze("rag", tmp_path / "out")


@pytest.mark.parametrize(
    ("named", "reason"),
    [
        ({"index": 3}, "index must be the folder of an index, a retriever"),
        ({"lm": 3}, "lm must be a connection"),
        ({"artifact": 3}, "artifact must be the folder of an artifact"),
        ({"rerank": "owm"}, "Reranker 'owm' cannot be loaded"),
        ({"sentences": -1}, "sentences must be a whole number from 1 to 100, got -1"),
        ({"sentences": "8"}, "sentences must be a whole number from 1 to 100, got '8'"),
        ({"program": None, "artifact": None}, "as that of a study that froze nothing"),
    ],
)
def test_what_cannot_be_loaded_is_said_on_one_line(world, named, reason):
    with pytest.raises(UserError, match=reason) as raised:
        verihop.load(**{"program": "rag", "lm": "simulated", "index": world / "index", **named})
    assert "\n" not in str(raised.value)


def test_an_index_has_a_folder():
    with pytest.raises(UserError, match="folder must be the folder of an index, got 3"):
        verihop.open_index(3)


@pytest.mark.parametrize(
    ("budget", "reason"),
    [
        ("calls=5", "budget must be a mapping such as"),
        ({"dollars": 1}, "Unknown budget 'dollars': limit calls, tokens, usd, seconds"),
        ({"calls": "5"}, "The budget of calls must be a number, got '5'"),
    ],
)
def test_a_budget_that_is_none_is_refused(budget, reason):
    with pytest.raises(UserError, match=reason):
        verihop.connect("simulated", budget=budget)


def test_a_misspelled_setting_is_named_with_its_function(tmp_path):
    with pytest.raises(TypeError, match=r"verihop.connect\(\) has no argument temprature: did you mean temperature\?"):
        verihop.connect("simulated", temprature=1)
    with pytest.raises(TypeError, match=r"verihop.evaluate\(\) has no argument colour; it takes .*threads"):
        verihop.evaluate(None, [], tmp_path, colour=3)


def test_an_lm_that_is_no_id_is_refused():
    with pytest.raises(UserError, match="lm must be an id such as embedded"):
        verihop.connect(3)


def test_a_connection_has_room_for_every_number_of_threads(world, monkeypatch):
    monkeypatch.setattr(transport, "open_files", lambda: None)
    program = verihop.load(program="rag", index=world / "index", lm="simulated")
    for lm in (verihop.connect("simulated"), program.connection):
        assert lm.lm.transport.connections == transport.connections_for(256)
    assert verihop.connect("simulated", connections=3).lm.transport.connections == 3


def test_the_version_and_a_program_are_shown(rag, world, tmp_path):
    assert verihop.__version__ == version("verihop")
    assert repr(rag) == f"OpenedProgram(rag, lm='simulated', index='{world / 'index'}')"
    verihop.freeze(rag, tmp_path / "a")
    assert repr(verihop.load(tmp_path / "a")).endswith(f", artifact='{tmp_path / 'a'}')")


def test_every_path_may_begin_with_the_home_folder(world, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(world))
    assert verihop.open_index("~/index").folder == world / "index"
    program = verihop.load(program="rag", index="~/index", lm="simulated")
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "questions.jsonl").write_bytes((world / "questions.jsonl").read_bytes())
    given = {"split": "dev", "progress": False}
    verihop.evaluate(program, "~/questions.jsonl", "~/run", metrics="em", **given)
    verihop.compile(program, "~/questions.jsonl", "~/compiled", optimizer="labeled", **given)
    verihop.freeze(program, "~/frozen")
    assert verihop.load("~/frozen").config.artifact == tmp_path / "frozen"
    assert {path.name for path in tmp_path.iterdir()} - {"cache"} == {"questions.jsonl", "run", "compiled", "frozen"}


def test_a_home_folder_that_is_none_is_named():
    with pytest.raises(UserError, match="~nobody-has-this-name of ~nobody-has-this-name/index is not a home folder"):
        verihop.open_index("~nobody-has-this-name/index")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"accept": "x"}, "accept must be a number from 0.001 to 1, got 'x'"),
        ({"max_demos": "3"}, "max_demos must be a whole number"),
        ({"options": []}, "option must be a mapping"),
    ],
)
def test_what_cannot_be_compiled_is_said_on_one_line(rag, world, tmp_path, arguments, reason):
    with pytest.raises(UserError, match=reason):
        verihop.compile(rag, world / "questions.jsonl", tmp_path / "made", split="train", progress=False, **arguments)


@pytest.mark.parametrize(("arguments", "reason"), [({"trials": 0}, "trials must"), ({"at_most": 3}, "at_most must")])
def test_what_cannot_be_studied_is_said_on_one_line(rag, world, tmp_path, arguments, reason):
    with pytest.raises(UserError, match=reason):
        verihop.tune(rag, world / "questions.jsonl", tmp_path / "made", split="train", progress=False, **arguments)
