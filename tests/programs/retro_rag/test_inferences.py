"""RetroRAG: inferences, their gates and their ranking."""

import itertools

from programs.retro_rag import RetroRAG


def test_both_gates_drop_inferences_and_say_why(tell, retriever, script):
    claims = ["Aa is so.", "Bb is so.", "Cc is so.", "Dd is so."]
    tell(
        inferring=[claims],
        relevance=script.by_text(Aa=0.9, Bb=0.5, Cc=0.51, Dd=0.1),
        attribution=script.by_text(Aa=0.8, Bb=0.9, Cc=0.51, Dd=0.0),
        weighing=script.by_text(Aa=0.3, Cc=0.6),
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


def test_a_better_inference_pushes_an_old_one_out(tell, retriever, script):
    """Retroaction: what was believed in one round is given up when later evidence ranks above it."""
    story = tell(
        inferring=[["The coach recruited her."], ["The manager recruited her."]],
        weighing=script.by_text(coach=0.4, manager=0.9),
    )
    result = RetroRAG(retriever, inferential_size=1, max_rounds=3)("Question?")
    assert [script.kept_of(hop)[-1] for hop in result.hops[:2]] == [
        "The coach recruited her.",
        "The manager recruited her.",
    ]
    (given_up,) = [candidate for candidate in result.hops[1].candidates if "coach" in candidate.text]
    assert given_up.reason == "score 0.40, rank 2 of 2, beyond the best 1"
    assert ["coach" in prompt for prompt in story.prompts("answering", "concluding")] == [False, True, False]
    assert ["manager" in prompt for prompt in story.prompts("answering", "concluding")] == [False, False, True]


def test_inferences_are_weighed_against_the_question_alone(tell, retriever, script):
    story = tell(inferring=[["Aa is so."], ["Bb is so."]])
    RetroRAG(retriever, k=1, max_rounds=3)("Question?")
    of_claims = [prompt for prompt in story.prompts("weighing") if "is so." in prompt]
    assert [script.field(prompt, "query") for prompt in of_claims] == ["", ""]
    assert [script.field(prompt, "query") for prompt in story.prompts("relevance")] == ["", "harbour of Quillon"]


def test_the_prompt_asks_for_as_many_inferences_as_there_are_or_for_a_few(tell, retriever, script):
    story = tell()
    RetroRAG(retriever, max_rounds=2)("Question?")
    RetroRAG(retriever, inferential_size=3, max_rounds=2, limit_inferences=True)("Question?")
    open_list, limited = story.prompts("inferring")
    assert "## limit ##" not in open_list
    assert script.field(limited, "limit") == "3"


def test_a_good_sixth_inference_gets_in(tell, retriever, script):
    """The first K are no better than the others: all are tested, and the best K that pass are kept."""
    claims = [f"{name * 2} is so." for name in "ABCDEFG"]
    story = tell(
        inferring=[claims],
        relevance=script.by_text(AA=0.0, BB=1.0, CC=1.0, DD=1.0, EE=1.0, FF=1.0, GG=0.9),
        attribution=lambda user: 0.0 if "BB" in script.field(user, "claim") else 1.0,
        weighing=script.by_text(CC=0.6, FF=0.9, GG=0.8),
    )
    result = RetroRAG(retriever, k=1, max_rounds=2)("Question?")
    assert story.count("relevance") == story.count("attribution") == 7
    candidates = {candidate.text: candidate for candidate in result.hops[0].candidates if not candidate.passage_id}
    assert list(candidates) == claims
    assert {text[:2] for text, candidate in candidates.items() if candidate.kept} == {"CC", "DD", "EE", "FF", "GG"}
    assert candidates["FF is so."].reason == "score 0.90, rank 1 of 5"
    (prompt,) = story.prompts("concluding")
    shown = [f"- {name * 2} is so." for name in "FGCDE"]  # best first
    assert script.field(prompt, "inferences").splitlines() == shown


def test_beyond_the_best_k_an_inference_that_passes_is_dropped(tell, retriever, script):
    tell(inferring=[["Aa is so.", "Bb is so.", "Cc is so."]], weighing=script.by_text(Bb=0.9, Cc=0.7))
    result = RetroRAG(retriever, k=1, inferential_size=2, max_rounds=2)("Question?")
    reasons = {candidate.text: candidate.reason for candidate in result.hops[0].candidates if not candidate.passage_id}
    assert reasons["Aa is so."] == "score 0.50, rank 3 of 3, beyond the best 2"


def test_of_a_runaway_list_twice_k_inferences_are_tested(tell, retriever):
    claims = ["Aa is so.", "aa is so", " "] + [f"Claim {number} is so." for number in range(30)]
    story = tell(inferring=[claims])
    result = RetroRAG(retriever, inferential_size=2, max_rounds=2)("Question?")
    assert story.count("relevance") == story.count("attribution") == 4
    texts = {candidate.text: candidate.reason for candidate in result.hops[0].candidates if not candidate.passage_id}
    assert list(texts) == ["Aa is so.", *claims[3:]]
    assert texts["Claim 3 is so."] == "beyond the first 4 of the round"
    assert "beyond the first" not in texts["Claim 2 is so."]


def test_at_equal_scores_a_new_inference_replaces_an_old_one(tell, retriever, script):
    tell(inferring=[["Aa is so.", "Bb is so."], ["Cc is so.", "Dd is so."], ["Aa is so."]], weighing=1.0)
    result = RetroRAG(retriever, k=1, inferential_size=3, max_rounds=4)("Question?")
    kept = [[text for text in script.kept_of(hop) if text != "p0"] for hop in result.hops]
    assert [[text[:2] for text in texts] for texts in kept] == [
        ["Aa", "Bb"],
        ["Cc", "Dd", "Aa"],
        ["Cc", "Dd", "Aa"],
        [],
    ]


def test_no_scoring_is_asked_twice(tell, retriever, script):
    """The searches repeat the question and the inferences repeat themselves: every round weighs the same."""
    story = tell(
        searching="question?", inferring=[["Aa is so.", "Bb is so."]], relevance=script.by_text(Aa=1.0, Bb=0.0)
    )
    result = RetroRAG(retriever, max_rounds=5)("Question?")
    assert result.details["rounds"] == 5
    asked = [prompt for kind, prompt in story.asked if kind in script.JUDGEMENTS]
    # Bb is drawn again each round; its relevance is asked anew once, when Aa has become what was inferred before.
    assert len(asked) == len(set(asked)) == 5 + 2 + 3 * 2 + 1


def test_unparseable_scores_rank_last_and_pass_no_gate(tell, passages):
    tell(
        weighing=lambda user: "?" if "number 0" in user or "Bb" in user else 0.0,
        inferring=[["Aa is so.", "Bb is so.", "Cc is so."]],
        relevance=lambda user: "?" if "Cc" in user else 1.0,
    )
    result = RetroRAG(source_size=1, inferential_size=5, max_rounds=2)("Question?", passages=passages[:2])
    reasons = {candidate.text: (candidate.kept, candidate.reason) for candidate in result.hops[0].candidates}
    assert reasons["Title 0: Filler sentence number 0 about fog."] == (
        False,
        "score unparseable, rank 2 of 2, beyond the best 1",
    )
    assert reasons["Bb is so."] == (True, "score unparseable, rank 2 of 2")
    assert reasons["Cc is so."] == (False, "relevance unparseable")
    gates = {candidate.text: candidate.gates for candidate in result.hops[0].candidates}
    assert gates["Bb is so."] == {"relevance": 1.0, "attribution": 1.0}
    assert gates["Cc is so."] == {"relevance": None, "attribution": 1.0}
    assert gates["Title 0: Filler sentence number 0 about fog."] == {}
