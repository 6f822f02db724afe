"""Forms of the prompt and ways of finding the passage, on the generated world with a scripted LM."""

import json
import re

import dspy
import pytest
from dspy.adapters import ChatAdapter
from dspy.utils.exceptions import AdapterParseError
from typer.testing import CliRunner

from corpora.passages import read_passages
from corpora.questions import read_questions
from experiments.papers.embedded_lm import (
    small_lm,
    small_lm_finding,
    small_lm_forms,
    small_lm_orders,
    small_lm_sub_questions,
    student_sets,
)
from experiments.papers.embedded_lm.small_lm_runs import json_form
from experiments.pipeline import setup
from experiments.world.generate import generate
from programs.lms.adapter import JsonForm
from programs.lms.calls.metered import metered_lm
from programs.lms.connect import connect
from programs.single_step.rag import RAG
from signatures.common.errors import UserError
from signatures.reading import ReadAnswer
from signatures.types import Passage
from tests.conftest import ListRetriever, ScriptedEngine

QUESTIONS = 4
LAST = ("question", "sub_question", "draft", "passages")
VALUES = {"finished": False, "sub_question": "Who is the harbour master?", "answer": "Ansa", "evidence": ""}


def by_form(system: str, user: str) -> dict | str:
    """Reply in the form that a prompt asks for; the answer is always "Ansa"."""
    if "one word, yes or no" in user:
        return "yes"
    if "[[ ## completed ## ]]" in user:
        return "[[ ## answer ## ]]\nAnsa\n\n[[ ## completed ## ]]"
    if "JSON object" in user:
        return {name: VALUES.get(name, "text") for name in re.findall(r"`(\w+)`", user.splitlines()[-1])}
    return "Ansa\nand more"


def no_fields(system: str, user: str) -> dict | str:
    """Do the same, but without the headers of DSPy's form."""
    return "Ansa" if "[[ ## completed ## ]]" in user else by_form(system, user)


@pytest.fixture
def start(toy, tmp_path, monkeypatch):
    """Run the command on the world; return its output and its result file."""
    passages_path, questions_path = generate(tmp_path / "world", questions=60, seed=3)
    passages = list(read_passages(passages_path))
    questions = [item for item in read_questions(questions_path) if item.gold_ids][:QUESTIONS]
    engines = {"good": ScriptedEngine(by_form), "bad": ScriptedEngine(no_fields)}

    def open_lm(config):
        assert config.cache == run.cached
        lm = metered_lm(f"scripted/{config.id}", engine=engines[config.id], cache=False, temperature=0.0, max_tokens=64)
        return toy.Link(lm, ChatAdapter() if run.other_form else JsonForm(), config.id)

    def open_set(name, data, work, limit):
        return student_sets.EvaluationSet(name, questions[:limit], passages, ListRetriever(passages), {"toy": "0"})

    monkeypatch.setattr(setup, "open_lm", open_lm)
    monkeypatch.setattr(small_lm, "open_set", open_set)

    def run(*options: str):
        command = ["--lm", "good", "--base", "bad", "--sets", "hotpotqa", "--work", str(tmp_path / "work")]
        command += ["--results", str(tmp_path / "results"), *options]
        result = CliRunner().invoke(small_lm.app, command, catch_exceptions=False)
        return result.output, json.loads((tmp_path / "results" / small_lm.FILE).read_text())["sets"]["hotpotqa"]

    run.engines, run.questions, run.passages, run.other_form, run.cached = engines, questions, passages, False, False
    return run


def test_every_form_is_compared_with_the_control_of_its_lm(start):
    output, tables = start("--rows", "forms")
    runs, differences = tables["forms"]["runs"], tables["forms"]["differences"]
    assert len(runs) == 18
    controls = {f"adapter's form, {lm}" for lm in ("trained", "untrained")}
    assert set(runs) - set(differences) == controls
    assert {run["n"] for run in runs.values()} == {QUESTIONS}
    assert runs["DSPy's field form, untrained"]["unparsed"]["mean"] == 1
    assert {label for label, run in runs.items() if run["unparsed"]["mean"]} == {"DSPy's field form, untrained"}
    assert {run["prompt_tokens"]["mean"] for run in runs.values()} == {10}  # as the scripted LM reports
    assert set(differences["plain chat, trained"]) >= {"em", "f1[hotpot]"}
    assert not any("all_gold@20" in run for run in runs.values())
    assert re.search(r"plain chat, trained .*\+0\.0", output)
    assert re.search(r"adapter's form, trained .*\(control\)", output)


def test_every_way_is_compared_with_three_passages(start):
    output, tables = start("--rows", "finding")
    runs, differences = tables["finding"]["runs"], tables["finding"]["differences"]
    assert set(runs) == {*small_lm_finding.ways(), small_lm_sub_questions.FIRST, small_lm_sub_questions.ONE_BY_ONE}
    assert set(differences) == set(runs) - {small_lm_finding.CONTROL}
    assert runs["rag, k=3"]["lm_calls"]["mean"] == 1
    assert runs["one at a time, P(it helps)"]["lm_calls"]["mean"] == 5 + 5 * 5  # five samples for a P(yes)
    assert all(run["errors"] == 0 and "all_gold@20" in run for run in runs.values())
    assert re.search(r"spans of the passages, k=3 .* \d", output)
    assert set(tables["finding"]["lms"]) == {"trained"}


def test_every_order_and_way_of_weighing_is_compared_with_its_control(start):
    start.cached = True
    output, tables = start("--rows", "orders,weighing")
    for table, control in (("orders", small_lm_orders.GENGROUND), ("weighing", small_lm_orders.RETRO_RAG)):
        assert set(tables[table]["differences"]) == set(tables[table]["runs"]) - {control}
        assert all(run["n"] == QUESTIONS and run["errors"] == 0 for run in tables[table]["runs"].values())
    assert set(tables["orders"]["runs"]) == set(small_lm_orders.ORDERS)
    assert "6 pieces a call" in output


def test_another_order_changes_nothing_but_the_order():
    control, other = (small_lm_orders.genground(order, None).grounding.signature for order in ({}, {"grounding": LAST}))
    assert tuple(control.input_fields) == small_lm_orders.GROUNDING
    assert tuple(other.input_fields) == LAST
    assert control.instructions == other.instructions
    assert tuple(control.output_fields) == tuple(other.output_fields)
    assert all(control.fields[name].json_schema_extra == other.fields[name].json_schema_extra for name in other.fields)


def test_a_table_is_resumed_and_the_other_one_kept(start):
    _, first = start("--rows", "forms")
    asked = len(start.engines["good"].requests)
    start("--rows", "finding")
    finding = len(start.engines["good"].requests)
    _, again = start("--rows", "forms", "--resume")
    assert 0 < asked < finding == len(start.engines["good"].requests)
    assert again["forms"]["runs"] == first["forms"]["runs"]
    assert "finding" in again


def test_options_that_are_wrong_name_the_cure(start):
    with pytest.raises(UserError, match="table3"):
        start("--rows", "table3")
    start.other_form = True
    with pytest.raises(UserError, match="does not reply in JSON"):
        start("--rows", "forms")


def texts(adapter, signature) -> list[str]:
    inputs = {"passages": [Passage(id="a", title="Title", text="Text")], "question": "Who?"}
    return [message["content"] for message in adapter.format(signature, [], inputs)]


def test_the_forms_render_what_their_names_say():
    control = texts(JsonForm(), ReadAnswer)
    question_first = texts(JsonForm(), small_lm_forms.QuestionFirst)
    assert control[1].index("[1] Title: Text") < control[1].index("Who?")
    assert question_first[1].index("Who?") < question_first[1].index("[1] Title: Text")
    assert small_lm_forms.QuestionFirst.instructions == ReadAnswer.instructions
    short = texts(json_form(small_lm_forms.ShortForm, JsonForm()), small_lm_forms.ShortInstruction)
    assert short == [small_lm_forms.SHORT, control[1]]
    (plain,) = texts(small_lm_forms.PlainForm(), ReadAnswer)
    assert plain == f"{ReadAnswer.instructions}\n\n[1] Title: Text\n\nWho?"
    fields = texts(small_lm_forms.FieldForm(), ReadAnswer)
    assert fields == texts(dspy.ChatAdapter(), ReadAnswer)
    assert "[[ ## passages ## ]]" in fields[1]


def test_the_first_line_with_text_of_a_plain_reply_is_the_answer():
    form = small_lm_forms.PlainForm()
    assert form.parse(ReadAnswer, "\n Ansa \nand more") == {"answer": "Ansa"}
    with pytest.raises(AdapterParseError):
        form.parse(ReadAnswer, "\n \n")


def test_another_form_keeps_the_settings_of_the_adapter():
    form = json_form(small_lm_forms.ShortForm, JsonForm(context_size=99, reply_tokens=7, probability_mode="logprobs"))
    assert isinstance(form, small_lm_forms.ShortForm)
    assert (form.context_size, form.reply_tokens, form.probability_mode) == (99, 7, "logprobs")


def test_gold_passages_are_shown_first_and_then_the_best_ranked(start):
    of = student_sets.EvaluationSet("hotpotqa", start.questions, start.passages, ListRetriever(start.passages), {})
    for n in small_lm_forms.PASSAGES:
        contexts = small_lm_forms.shown_contexts(of, start.questions, n)
        assert contexts == small_lm_forms.shown_contexts(of, start.questions, n)
        for question in start.questions:
            shown = [passage.id for passage in contexts.of(question.id)]
            assert len(set(shown)) == n
            gold = set(question.gold_ids)
            assert len(gold & set(shown)) == min(n, len(gold))


TEXT = 'The harbour master of Quillon is Ansa "Red" Merrow (born 4 May 1901), a\npoet.'


@pytest.mark.parametrize(
    ("answer", "allowed"),
    [
        ("Ansa", True),
        ('Ansa "Red" Merrow', True),
        ("4 May 1901), a poet", True),  # on one line, as in the prompt
        ("Quillon Harbour", True),  # the title
        ("The harbour master of Quillon is Ansa", True),
        ('The harbour master of Quillon is Ansa "Red" Merrow', False),  # nine words
        ("Merrow (", False),
        ("Ansa Merrow", False),
        ("Ans", False),
        ("Harbour The", False),
        ("nobody", False),
        ("", False),
    ],
)
def test_spans_alone_match_the_pattern(answer, allowed):
    passages = [Passage(id="a", title="Quillon Harbour", text=TEXT), Passage(id="b", text="Fog.")]
    pattern = small_lm_finding.span_pattern(passages, 8)
    assert bool(re.fullmatch(pattern, json.dumps(answer)[1:-1])) is allowed


def test_the_schema_allows_the_spans_of_the_passages_shown(scripted, retriever):
    engine = scripted(lambda system, user: {"answer": "Ansa Merrow"}, json_form(small_lm_finding.SpanForm, JsonForm()))
    assert RAG(retriever, k=5)(question="Who is the harbour master of Quillon?").answer == "Ansa Merrow"
    (schema,) = (request.config.response_format["schema"] for request in engine.requests)
    assert schema == small_lm_finding.answer_schema(retriever.passages[:5])
    dspy.Predict("question -> answer")(question="Who?")
    assert "pattern" not in json.dumps(engine.requests[-1].config.response_format)


@pytest.mark.slow
def test_the_embedded_lm_decodes_spans_alone(retriever):
    embedded = connect("embedded:base-8bit", cache=False)
    questions = ("Who is the harbour master of Quillon?", "Write a poem.", "What is 17 times 3?")
    with dspy.context(lm=embedded.lm, adapter=json_form(small_lm_finding.SpanForm, embedded.adapter)):
        answers = [RAG(retriever, k=5)(question=question).answer for question in questions]
    embedded.close()
    pattern = small_lm_finding.span_pattern(retriever.passages[:5], small_lm_finding.LONGEST_SPAN)
    assert all(answer in ("yes", "no") or re.fullmatch(pattern, json.dumps(answer)[1:-1]) for answer in answers)


@pytest.mark.parametrize("judgement", ["evidence", "stated"])
def test_the_judgement_chooses_among_the_answers(scripted, retriever, judgement):
    def reply(system, user):
        if "one word, yes or no" in user:
            return "yes" if "Quillon" in user else "no"
        return {"answer": "Ansa Merrow" if "Quillon" in user else "fog"}

    engine = scripted(reply)
    program = small_lm_finding.OneAtATime(retriever, k=5, judgement=judgement)
    prediction = program(question="Who is the harbour master?")
    assert prediction.answer == "Ansa Merrow"
    assert prediction.citations == ["p4"]
    assert [item["p_yes"] for item in prediction.details["judged"]] == [0, 0, 0, 0, 1]
    assert len(engine.requests) <= program.max_calls()


def test_without_an_answer_it_abstains(scripted, retriever):
    scripted(lambda system, user: {"answer": "unknown"})
    assert small_lm_finding.OneAtATime(retriever)(question="Who?").abstained
