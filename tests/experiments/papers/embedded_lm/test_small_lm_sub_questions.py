"""Programs that are given sub-questions, or write them first, with a scripted LM."""

from experiments.papers.embedded_lm.small_lm_sub_questions import SubQuestionsFirst, SubQuestionsOneByOne, gold_variants
from signatures.types import Passage
from tests.conftest import ListRetriever

GIVEN = {"Who rules?": ["Where is it?", "Who is there?"]}


def test_sub_questions_stand_before_the_question(scripted, retriever):
    engine = scripted(lambda system, user: {"answer": "Ansa"})
    program = SubQuestionsFirst(retriever, GIVEN)
    program(question="Who rules?")
    program(question="Another one?")
    assert retriever.queries == ["Who rules?", "Another one?"]
    assert "Where is it? Who is there? Who rules?" in engine.prompts[0]
    assert "\nAnother one?\n" in engine.prompts[1]
    assert program.max_calls() == 1


def test_the_lm_writes_sub_questions_until_it_repeats_itself(scripted, retriever):
    step = {"finished": False, "sub_question": "Who is the harbour master?", "answer": "Ansa"}
    engine = scripted(lambda system, user: step if "`finished`" in user else {"answer": "Ansa"})
    prediction = SubQuestionsFirst(retriever)(question="Who rules?")
    assert [hop.question for hop in prediction.hops] == ["Who is the harbour master?"]
    assert len(engine.requests) == 3  # two deductions and the reading
    assert "Who is the harbour master? Who rules?" in engine.prompts[-1]


def test_each_sub_question_is_answered_and_the_answer_concluded(scripted, retriever):
    answers = {"Where is it?": "in Ansa", "Who is there?": "a mayor"}

    def reply(system, user):
        read = [answer for asked, answer in answers.items() if f"\n{asked}\n" in user]
        return {"answer": read[0] if read else "the mayor of Ansa"}

    engine = scripted(reply)
    program = SubQuestionsOneByOne(retriever, GIVEN)
    prediction = program(question="Who rules?")
    assert sorted(retriever.queries) == sorted(GIVEN["Who rules?"])
    assert [(hop.question, hop.answer) for hop in prediction.hops] == list(answers.items())
    assert all(answer in engine.prompts[-1] for answer in answers.values())
    assert prediction.answer == "the mayor of Ansa"
    assert len(engine.requests) == program.max_calls() == 3


def test_the_conclusion_sees_the_sentence_that_states_an_answer(scripted):
    engine = scripted(lambda system, user: {"answer": "Ansa"})
    retriever = ListRetriever([Passage(id="p", text="Nothing of it. The port is Ansa. It is old.")])
    prediction = SubQuestionsOneByOne(retriever, GIVEN)(question="Who rules?")
    assert [hop.evidence for hop in prediction.hops] == ["The port is Ansa."] * 2
    assert "The port is Ansa." in engine.prompts[-1]
    assert "It is old." not in engine.prompts[-1]


def test_a_question_without_sub_questions_is_read_alone(scripted, retriever):
    engine = scripted(lambda system, user: {"answer": "Ansa"})
    assert SubQuestionsOneByOne(retriever, GIVEN)(question="Another one?").answer == "Ansa"
    assert len(engine.requests) == 1


def test_a_conclusion_that_cannot_be_read_leaves_the_last_answer(scripted, retriever):
    def reply(system, user):
        return {"answer": "a mayor"} if "Who is there?\n" in user and "Who rules?" not in user else "no object"

    scripted(reply)
    assert SubQuestionsOneByOne(retriever, GIVEN)(question="Who rules?").answer == "a mayor"


def test_questions_without_gold_sub_questions_give_no_runs():
    assert gold_variants([], k=3) == {}
