import itertools
import re

import dspy
import pytest

from programs.lms.adapter import JsonForm
from programs.lms.metered import metered_lm
from programs.parts.knobs import with_knobs
from programs.parts.meter import metered
from programs.retro_rag import RetroRAG
from signatures.common.errors import UserError
from signatures.types import Passage

KINDS = {
    "Name the key entities": "naming",
    "Decide whether the evidence contributes": "weighing",
    "Answer the question with the passages and the inferences": "answering",
    "Decide whether both answers": "agreement",
    "Decide whether the reply answers": "assessing",
    "State what follows from the passages": "inferring",
    "Decide whether the claim, on top of": "relevance",
    "Decide whether the passages state the claim": "attribution",
    "Write the search query": "searching",
}
JUDGEMENTS = {"weighing", "agreement", "assessing", "relevance", "attribution"}


def kind_of(system: str) -> str:
    (kind,) = {kind for start, kind in KINDS.items() if system.startswith(start)}
    return "monitoring" if kind == "answering" and "reasoning" not in system else kind


def field(user: str, name: str) -> str:
    """Return what a prompt shows under a header."""
    return re.search(rf"\[\[ ## {name} ## \]\]\n(.*?)(?=\n\n\[\[ ## |\n\n[A-Z][^\n]*\Z|\Z)", user, re.DOTALL)[1].strip()


class Story:
    """Replies by kind of prompt: a value, a function of the prompt, or a list of these, one per call.

    A judgement is a number, P(yes); "?" is a reply that nobody can read.
    """

    def __init__(self, **replies):
        self.replies = {
            "naming": ["Quillon"],
            "weighing": 0.5,
            "answering": "Ansa Merrow",
            "monitoring": "Ansa Merrow",
            "agreement": 0.0,
            "assessing": 1.0,
            "inferring": [[]],
            "relevance": 1.0,
            "attribution": 1.0,
            "searching": "harbour of Quillon",
            **replies,
        }
        self.asked: list[tuple[str, str]] = []
        self.turn = dict.fromkeys(self.replies, 0)

    def __call__(self, system: str, user: str):
        kind = kind_of(system)
        self.asked.append((kind, user))
        value = self.replies[kind]
        if isinstance(value, list) and kind != "naming":
            value = value[min(self.turn[kind], len(value) - 1)]
            self.turn[kind] += 1
        value = value(user) if callable(value) else value
        if value == "?":
            return "?"
        if kind in JUDGEMENTS:
            return {"probability": value}
        name = {"naming": "entities", "inferring": "inferences", "searching": "query"}.get(kind, "answer")
        return {"reasoning": f"because of {value}", name: value}

    def prompts(self, kind: str) -> list[str]:
        return [user for asked, user in self.asked if asked == kind]

    def count(self, kind: str) -> int:
        return len(self.prompts(kind))


@pytest.fixture
def tell(scripted):
    def start(**replies) -> Story:
        story = Story(**replies)
        scripted(story, JsonForm(probability_mode="verbalised"))
        return story

    return start


def on_a_meter(engine):
    """Return a context in which calls to a scripted engine are counted, and samples told apart by seeds."""
    return dspy.context(lm=metered_lm("scripted/metered", engine=engine, cache=False, temperature=0.0))


class Batches:
    """Finds other passages each time it is asked."""

    fingerprint = "batches"

    def __init__(self):
        self.queries: list[str] = []

    def __call__(self, query: str, k: int) -> list[Passage]:
        self.queries.append(query)
        number = len(self.queries)
        return [Passage(id=f"r{number}.{rank}", text=f"Passage {rank} of search {number}.") for rank in range(k)]

    def many(self, queries, k):
        return [self(query, k) for query in queries]

    def __deepcopy__(self, memo):
        return self


def by_text(**scores: float):
    """Return P(yes) by a word that stands in the evidence, else 0.5."""

    def score(user: str) -> float:
        shown = field(user, "evidence") if "## evidence ##" in user else field(user, "claim")
        return next((value for word, value in scores.items() if word in shown), 0.5)

    return score


def kept_of(hop) -> list[str]:
    return [candidate.passage_id or candidate.text for candidate in hop.candidates if candidate.kept]


def test_two_agreeing_answers_end_the_first_round(tell, retriever):
    story = tell(agreement=0.71)
    result = RetroRAG(retriever, k=2)("Question?")
    (hop,) = result.hops
    assert (hop.question, hop.answer, hop.draft, hop.verdict) == (
        "Question?",
        "Ansa Merrow",
        "Ansa Merrow",
        "accepted",
    )
    assert hop.passage_ids == ["p0", "p1"]
    assert result.answer == "Ansa Merrow"
    assert result.details == {
        "inferential_evidence": False,
        "rounds": 1,
        "answered": [1.0],
        "agreement": [0.71],
        "probability_mode": "verbalised",
    }
    assert story.count("inferring") == story.count("searching") == 0


def test_an_agreement_at_the_threshold_is_not_above_it(tell, retriever):
    tell(agreement=0.7)
    result = RetroRAG(retriever, max_rounds=3)("Question?")
    assert [hop.verdict for hop in result.hops] == ["disagreed", "disagreed", "final"]
    assert RetroRAG(retriever, max_rounds=3, threshold=0.69)("Question?").details["rounds"] == 1


def test_the_second_answer_is_drawn_at_temperature_one_and_anew_each_round(scripted, retriever):
    engine = scripted(Story(searching=""), JsonForm(probability_mode="verbalised"))
    with on_a_meter(engine):
        RetroRAG(retriever, max_rounds=3)("Question?")
    drawn = [request for request in engine.requests if kind_of(str(request.system)) == "monitoring"]
    assert [request.config.temperature for request in drawn] == [1.0] * 3
    assert len({request.config.seed for request in drawn}) == 3
    assert {request.config.temperature for request in engine.requests if request not in drawn} == {0.0}


def test_the_assessor_rejects_a_reply_that_is_no_answer(tell, retriever):
    tell(agreement=1.0, assessing=[0.2, 0.9], answering=["the passages do not say", "Ansa Merrow"])
    result = RetroRAG(retriever)("Question?")
    assert [hop.verdict for hop in result.hops] == ["no answer", "accepted"]
    assert result.answer == "Ansa Merrow"


@pytest.mark.parametrize("reply", ["unknown", "Unknown.", ""])
def test_nothing_and_unknown_are_refused_without_asking(tell, retriever, reply):
    story = tell(answering=reply, agreement=1.0)
    result = RetroRAG(retriever, max_rounds=2)("Question?")
    assert (result.answer, result.abstained) == ("", True)
    assert [hop.verdict for hop in result.hops] == ["no answer", "no answer"]
    assert story.count("assessing") == story.count("agreement") == 0


def test_the_last_answer_stands_when_the_rounds_run_out(tell, retriever):
    tell(answering=["one", "two", "three"])
    result = RetroRAG(retriever, max_rounds=3)("Question?")
    assert (result.answer, result.abstained) == ("three", False)
    assert [hop.answer for hop in result.hops] == ["one", "two", "three"]


def test_the_last_answer_stands_even_where_the_assessor_refused_it(tell, retriever):
    tell(answering=["one", "two"], assessing=[1.0, 0.1])
    result = RetroRAG(retriever, max_rounds=2)("Question?")
    assert (result.answer, [hop.verdict for hop in result.hops]) == ("two", ["disagreed", "final"])


def test_where_the_last_is_none_the_latest_that_was_not_refused_stands(tell, retriever):
    tell(answering=["one", "two", "unknown"], assessing=[1.0, 0.1])
    assert RetroRAG(retriever, max_rounds=3)("Question?").answer == "one"
    tell(answering=["one", "unknown"])
    without = RetroRAG(retriever, max_rounds=2, evaluate_answer=False)("Question?")
    assert (without.answer, without.abstained) == ("one", False)
    tell(answering=["unknown"], assessing=[0.1])
    nothing = RetroRAG(retriever, max_rounds=2)("Question?")
    assert (nothing.answer, nothing.abstained) == ("", True)


def test_the_best_passages_are_kept_and_ties_keep_their_order(tell, passages):
    tell(weighing=by_text(harbour=0.9, **{"number 1": 0.2, "number 3": 0.8}), agreement=1.0)
    result = RetroRAG(source_size=3)("Question?", passages=passages[:6])
    (hop,) = result.hops
    assert [passage.id for passage in result.passages] == ["p4", "p3", "p0"]
    assert {candidate.passage_id: candidate.reason for candidate in hop.candidates} == {
        "p0": "score 0.50, rank 3 of 6",
        "p1": "score 0.20, rank 6 of 6, beyond the best 3",
        "p2": "score 0.50, rank 4 of 6, beyond the best 3",
        "p3": "score 0.80, rank 2 of 6",
        "p4": "score 0.90, rank 1 of 6",
        "p5": "score 0.50, rank 5 of 6, beyond the best 3",
    }
    assert [candidate.score for candidate in hop.candidates] == [0.5, 0.2, 0.5, 0.8, 0.9, 0.5]


def test_old_and_new_passages_are_weighed_together_for_question_and_query(tell):
    search = Batches()
    story = tell(weighing=by_text(**{"0 of search 1": 0.9, "1 of search 2": 0.8}))
    result = RetroRAG(search, k=2, source_size=2, max_rounds=2)("Question?")
    assert search.queries == ["Question?", "harbour of Quillon"]
    assert [kept_of(hop) for hop in result.hops] == [["r1.0", "r1.1"], ["r1.0", "r2.1"]]
    assert result.hops[1].passage_ids == ["r2.0", "r2.1"]
    assert [passage.id for passage in result.passages] == ["r1.0", "r1.1", "r2.1"]
    asked = [(field(prompt, "question"), field(prompt, "query")) for prompt in story.prompts("weighing")]
    assert asked == [("Question?", "")] * 2 + [("Question?", "harbour of Quillon")] * 4


def test_an_answer_rests_on_the_passages_of_its_round_and_the_inferences_before(tell):
    story = tell(inferring=[["Merrow is of Quillon."], ["Quillon is an island."]])
    RetroRAG(Batches(), k=1, source_size=1, max_rounds=3, threshold=1.0)("Question?")
    for kind in ("answering", "monitoring"):
        shown = story.prompts(kind)
        assert ["search 1" in prompt for prompt in shown] == [True, True, True]  # ties: the older passage stays
        assert ["Merrow is of Quillon." in prompt for prompt in shown] == [False, True, True]
        assert ["Quillon is an island." in prompt for prompt in shown] == [False, False, True]


def test_the_search_sees_all_evidence_and_the_attempt_that_failed(tell, passages):
    story = tell(answering="Bert Oyle", inferring=[["Merrow is of Quillon."]])
    RetroRAG(max_rounds=2)("Question?", passages=passages[4:5])
    (prompt,) = story.prompts("searching")
    assert "The harbour master of Quillon" in field(prompt, "passages")
    assert "Merrow is of Quillon." in field(prompt, "inferences")
    assert field(prompt, "reasoning") == "because of Bert Oyle Answer: Bert Oyle"


def test_entities_are_named_once_and_guide_every_inference(tell, retriever):
    story = tell(naming=["Quillon", "Ansa Merrow"])
    RetroRAG(retriever, max_rounds=4)("Question?")
    assert story.count("naming") == 1
    assert story.count("inferring") == 3
    assert all("Ansa Merrow" in field(prompt, "entities") for prompt in story.prompts("inferring"))


def test_both_gates_drop_inferences_and_say_why(tell, retriever):
    claims = ["Aa is so.", "Bb is so.", "Cc is so.", "Dd is so."]
    tell(
        inferring=[claims],
        relevance=by_text(Aa=0.9, Bb=0.5, Cc=0.51, Dd=0.1),
        attribution=by_text(Aa=0.8, Bb=0.9, Cc=0.51, Dd=0.0),
        weighing=by_text(Aa=0.3, Cc=0.6),
    )
    result = RetroRAG(retriever, k=1, max_rounds=2)("Question?")
    weighed = [candidate for candidate in result.hops[0].candidates if candidate.passage_id is None]
    assert [(candidate.text, candidate.kept, candidate.reason) for candidate in weighed] == [
        ("Aa is so.", True, "score 0.30, rank 2 of 2"),
        ("Bb is so.", False, "relevance 0.50, not above 0.5"),
        ("Cc is so.", True, "score 0.60, rank 1 of 2"),
        ("Dd is so.", False, "relevance 0.10, not above 0.5; attribution 0.00, not above 0.5"),
    ]
    assert [candidate.score for candidate in weighed] == [0.3, 0.5, 0.6, 0.5]  # what fails a gate is scored, too
    assert result.details["inferential_evidence"] is True


def test_the_gates_are_knobs(tell, retriever):
    tell(inferring=[["Aa is so."]], relevance=0.6, attribution=0.6)
    made = {
        (relevance, attribution): RetroRAG(
            retriever, max_rounds=2, relevance_gate=relevance, attribution_gate=attribution
        )("Question?").details["inferential_evidence"]
        for relevance, attribution in itertools.product((0.5, 0.6), repeat=2)
    }
    assert made == {(0.5, 0.5): True, (0.5, 0.6): False, (0.6, 0.5): False, (0.6, 0.6): False}


def test_a_better_inference_pushes_an_old_one_out(tell, retriever):
    """Retroaction: what was believed in one round is given up when later evidence ranks above it."""
    story = tell(
        inferring=[["The coach recruited her."], ["The manager recruited her."]],
        weighing=by_text(coach=0.4, manager=0.9),
    )
    result = RetroRAG(retriever, inferential_size=1, max_rounds=3)("Question?")
    assert [kept_of(hop)[-1] for hop in result.hops[:2]] == ["The coach recruited her.", "The manager recruited her."]
    (given_up,) = [candidate for candidate in result.hops[1].candidates if "coach" in candidate.text]
    assert given_up.reason == "score 0.40, rank 2 of 2, beyond the best 1"
    assert ["coach" in prompt for prompt in story.prompts("answering")] == [False, True, False]
    assert ["manager" in prompt for prompt in story.prompts("answering")] == [False, False, True]


def test_inferences_are_weighed_against_the_question_alone(tell, retriever):
    story = tell(inferring=[["Aa is so."], ["Bb is so."]])
    RetroRAG(retriever, k=1, max_rounds=3)("Question?")
    of_claims = [prompt for prompt in story.prompts("weighing") if "is so." in prompt]
    assert [field(prompt, "query") for prompt in of_claims] == ["", ""]
    assert [field(prompt, "query") for prompt in story.prompts("relevance")] == ["", "harbour of Quillon"]


def test_no_more_than_k_new_inferences_are_tested(tell, retriever):
    story = tell(inferring=[["Aa is so.", "aa is so", " ", "Bb is so.", "Cc is so."]])
    result = RetroRAG(retriever, inferential_size=2, max_rounds=2)("Question?")
    assert story.count("relevance") == story.count("attribution") == 2
    texts = {candidate.text: candidate.reason for candidate in result.hops[0].candidates if not candidate.passage_id}
    assert list(texts) == ["Aa is so.", "Bb is so.", "Cc is so."]
    assert texts["Cc is so."] == "beyond the first 2 of the round"


def test_no_scoring_is_asked_twice(tell, retriever):
    """The searches repeat the question and the inferences repeat themselves: every round weighs the same."""
    story = tell(searching="question?", inferring=[["Aa is so.", "Bb is so."]], relevance=by_text(Aa=1.0, Bb=0.0))
    result = RetroRAG(retriever, max_rounds=5)("Question?")
    assert result.details["rounds"] == 5
    asked = [prompt for kind, prompt in story.asked if kind in JUDGEMENTS]
    # Bb is drawn again each round; its relevance is asked anew once, when Aa has become what was inferred before.
    assert len(asked) == len(set(asked)) == 5 + 2 + 3 * 2 + 1


def test_two_passages_with_the_same_words_are_weighed_once(tell):
    story = tell(agreement=1.0)
    twins = [Passage(id=id, title="Fog", text="There is fog.") for id in ("a", "b")]
    RetroRAG()("Question?", passages=twins)
    assert story.count("weighing") == 1


def test_unreadable_scores_rank_last_and_pass_no_gate(tell, passages):
    tell(
        weighing=lambda user: "?" if "number 0" in user or "Bb" in user else 0.0,
        inferring=[["Aa is so.", "Bb is so.", "Cc is so."]],
        relevance=lambda user: "?" if "Cc" in user else 1.0,
    )
    result = RetroRAG(source_size=1, inferential_size=5, max_rounds=2)("Question?", passages=passages[:2])
    reasons = {candidate.text: (candidate.kept, candidate.reason) for candidate in result.hops[0].candidates}
    assert reasons["Title 0: Filler sentence number 0 about fog."] == (
        False,
        "score unreadable, rank 2 of 2, beyond the best 1",
    )
    assert reasons["Bb is so."] == (True, "score unreadable, rank 2 of 2")
    assert reasons["Cc is so."] == (False, "relevance unreadable")
    gates = {candidate.text: candidate.gates for candidate in result.hops[0].candidates}
    assert gates["Bb is so."] == {"relevance": 1.0, "attribution": 1.0}
    assert gates["Cc is so."] == {"relevance": None, "attribution": 1.0}
    assert gates["Title 0: Filler sentence number 0 about fog."] == {}


@pytest.mark.parametrize("unread", ["agreement", "assessing", "monitoring"])
def test_what_cannot_be_read_does_not_stop_the_loop(tell, retriever, unread):
    tell(**{"agreement": 1.0, unread: "?"})
    result = RetroRAG(retriever, max_rounds=2)("Question?")
    assert [hop.verdict for hop in result.hops] == ["unread", "final"]
    assert result.answer == "Ansa Merrow"
    assert result.details["agreement"] == ([1.0, 1.0] if unread == "assessing" else [None, None])


def test_the_loop_outlives_every_unreadable_reply(tell, retriever):
    tell(answering=["?", "Ansa Merrow"], inferring="?", searching="?", naming="?", agreement=1.0)
    result = RetroRAG(retriever)("Question?")
    assert [(hop.answer, hop.verdict) for hop in result.hops] == [("", "unread"), ("Ansa Merrow", "accepted")]
    assert retriever.queries == ["Question?", "Question?"]


def test_given_passages_serve_the_first_round_only_beside_a_retriever(tell, retriever, passages):
    tell()
    result = RetroRAG(retriever, k=2, max_rounds=2)("Question?", passages=passages[4:6])
    assert [hop.passage_ids for hop in result.hops] == [["p4", "p5"], ["p0", "p1"]]
    assert retriever.queries == ["harbour of Quillon"]


def test_given_passages_are_weighed_again_without_a_retriever(tell, passages):
    """One that was dropped may come back when the search asks for what it holds."""
    tell(weighing=lambda user: 0.9 if ("## query ## ]]\nharbour" in user) == ("number 1" in user) else 0.1)
    result = RetroRAG(source_size=1, max_rounds=2)("Question?", passages=passages[:2])
    assert [kept_of(hop) for hop in result.hops] == [["p0"], ["p1"]]
    assert [passage.id for passage in result.passages] == ["p0", "p1"]


def test_it_cites_the_held_passages_that_state_the_answer(tell, passages):
    tell(agreement=1.0)
    assert RetroRAG()("Question?", passages=passages[:5]).citations == ["p4"]


def test_rounds_per_iteration_do_not_grow_with_the_evidence(scripted):
    for size, rounds in itertools.product((1, 5, 10), (1, 2, 5)):
        engine = scripted(Story(**worst(size)), JsonForm(probability_mode="verbalised"))
        program = RetroRAG(Batches(), k=size, source_size=size, inferential_size=size, max_rounds=rounds)
        with on_a_meter(engine), metered() as meter:
            program("Question?")
        assert meter.rounds == 6 * (rounds - 1) + 3


def worst(claims: int = 5) -> dict:
    """Return replies with which nothing is ever accepted and everything is always new."""
    count = itertools.count()
    return {
        "answering": lambda user: f"answer number {next(count)}",
        "inferring": lambda user: [f"Claim {next(count)} is so." for _ in range(claims)],
        "searching": lambda user: f"search number {next(count)}",
    }


ABLATIONS = ["evaluate_answer", "ellery", "source", "inferential", "update", "evaluate_evidence"]


@pytest.mark.parametrize("knobs", [{}, *({name: False} for name in ABLATIONS), {"max_rounds": 1}, {"k": 2}])
@pytest.mark.parametrize("mode", ["verbalised", "samples"])
def test_the_call_bound_is_tight(scripted, knobs, mode):
    story = Story(**worst())

    def reply(system, user):
        answer = story(system, user)
        return "no" if mode == "samples" and kind_of(system) == "agreement" else _plain(answer, mode)

    engine = scripted(reply, JsonForm(probability_mode=mode))
    program = RetroRAG(Batches(), **knobs)
    program("Question?")
    assert len(engine.requests) == program.max_calls()


def _plain(answer, mode: str):
    return "yes" if mode == "samples" and isinstance(answer, dict) and "probability" in answer else answer


def kinds_asked(story: Story) -> set[str]:
    return {kind for kind, _ in story.asked}


def run(tell, **knobs) -> tuple[Story, dspy.Prediction]:
    story = tell(**worst(2), relevance=0.1)
    return story, RetroRAG(Batches(), k=2, source_size=2, inferential_size=2, max_rounds=3, **knobs)("Question?")


EVERYTHING = set(KINDS.values()) | {"monitoring"}


def test_the_whole_asks_everything(tell):
    story, result = run(tell)
    assert kinds_asked(story) == EVERYTHING
    assert not result.details["inferential_evidence"]


def test_without_answer_evaluation_all_rounds_run_and_the_last_answer_wins(tell):
    story, result = run(tell, evaluate_answer=False)
    assert kinds_asked(story) == EVERYTHING - {"monitoring", "agreement", "assessing"}
    assert [(hop.draft, hop.verdict) for hop in result.hops] == [(None, None), (None, None), (None, "final")]
    assert result.details["agreement"] == [None, None, None]


def test_without_ellery_one_answer_is_given_from_no_evidence(tell):
    story, result = run(tell, ellery=False)
    assert kinds_asked(story) == {"answering", "monitoring", "agreement", "assessing"}
    assert (result.answer, result.passages, result.details["rounds"]) == ("answer number 0", [], 1)
    assert result.hops[0].candidates == result.hops[0].passage_ids == []
    (prompt,) = story.prompts("answering")
    assert "Passage" not in field(prompt, "passages")


def test_without_source_evidence_only_inferences_see_the_passages(tell):
    story, result = run(tell, source=False)
    assert kinds_asked(story) == EVERYTHING
    for kind in ("answering", "monitoring", "searching"):
        assert not any("of search" in prompt for prompt in story.prompts(kind))
    assert all("of search" in prompt for prompt in story.prompts("inferring"))
    assert [passage.id for passage in result.passages] == ["r1.0", "r1.1"]


def test_without_inferential_evidence_no_claim_is_drawn(tell):
    story, result = run(tell, inferential=False)
    assert kinds_asked(story) == EVERYTHING - {"naming", "inferring", "relevance", "attribution"}
    assert all(candidate.passage_id for hop in result.hops for candidate in hop.candidates)


def test_without_updating_all_evidence_stays(tell):
    story, result = run(tell, update=False)
    assert kinds_asked(story) == EVERYTHING - {"weighing"}
    assert [len(kept_of(hop)) for hop in result.hops] == [2, 4, 6]
    assert {candidate.reason for candidate in result.hops[0].candidates if candidate.kept} == {"kept without a score"}
    assert not result.details["inferential_evidence"]  # the gates still stand


def test_without_evidence_evaluation_every_inference_passes(tell):
    story, result = run(tell, evaluate_evidence=False)
    assert kinds_asked(story) == EVERYTHING - {"relevance", "attribution"}
    assert result.details["inferential_evidence"]
    assert [len(kept_of(hop)) for hop in result.hops] == [4, 4, 2]  # two passages, and two inferences but at the end


def test_demonstrations_are_made_of_what_was_followed(tell, retriever):
    tell(answering=["Bert Oyle", "Ansa Merrow"], agreement=[0.0, 1.0], inferring=[["Aa is so."]], relevance=0.0)
    program = RetroRAG(retriever)
    with dspy.context(trace=[]):
        program("Question?")
        trace = list(dspy.settings.trace)
    by_predictor = {name: [] for name, _ in program.named_predictors()}
    names = {id(predictor): name for name, predictor in program.named_predictors()}
    for predictor, _, reply in trace:
        by_predictor[names[id(predictor)]].append(reply)
    assert [reply.answer for reply in by_predictor["answering.predict"]] == ["Ansa Merrow"]
    assert len(by_predictor["monitoring"]) == 1
    assert by_predictor["inferring"] == []
    assert len(by_predictor["searching"]) == 1
    assert len(by_predictor["agreement"]) == 2


@pytest.mark.parametrize(("query", "left"), [("harbour of Quillon", 1), ("the question", 0), ("", 0)])
def test_a_query_that_asks_nothing_new_is_no_example_to_follow(tell, retriever, query, left):
    tell(searching=query)
    program = RetroRAG(retriever, max_rounds=2)
    with dspy.context(trace=[]):
        program("Question?")
        assert [predictor for predictor, *_ in dspy.settings.trace].count(program.searching) == left


def test_a_threshold_out_of_range_is_refused(retriever):
    with pytest.raises(UserError, match=r"Knob threshold must be a number from 0 to 1, got 1\.5"):
        RetroRAG(retriever, threshold=1.5)


def test_knobs_change_on_a_new_program_only(retriever):
    program = RetroRAG(retriever)
    program.naming.demos = [dspy.Example(question="q", entities=["e"])]
    changed = with_knobs(program, threshold=0.2, inferential=False)
    assert (program.threshold, changed.threshold, changed.inferential) == (0.7, 0.2, False)
    assert [dict(demo) for demo in changed.naming.demos] == [{"question": "q", "entities": ["e"]}]
