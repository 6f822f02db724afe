"""RetroRAG: the passages that are evidence, and what the answers and the search see of it."""

import pytest

from programs.retro_rag import RetroRAG
from signatures.types import Passage


def test_the_best_passages_are_kept_and_ties_keep_the_order_of_retrieval(tell, passages, script):
    tell(weighing=script.by_text(harbour=0.9, **{"number 1": 0.2, "number 3": 0.8}), agreement=1.0)
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


def test_old_and_new_passages_are_weighed_together_for_question_and_query(tell, script):
    search = script.Batches()
    story = tell(weighing=script.by_text(**{"0 of search 1": 0.9, "1 of search 2": 0.8}))
    result = RetroRAG(search, k=2, source_size=2, max_rounds=2)("Question?")
    assert search.queries == ["Question?", "harbour of Quillon"]
    assert [script.kept_of(hop) for hop in result.hops] == [["r1.0", "r1.1"], ["r2.1", "r1.0"]]
    assert result.hops[1].passage_ids == ["r2.1"]  # r2.0 was dropped, and no step read it
    assert [passage.id for passage in result.passages] == ["r1.0", "r1.1", "r2.1"]  # read best first
    asked = [(script.field(prompt, "question"), script.field(prompt, "query")) for prompt in story.prompts("weighing")]
    assert asked == [("Question?", "")] * 2 + [("Question?", "harbour of Quillon")] * 4


@pytest.mark.parametrize("score", [1.0, 0.5, 0.0, "?"])
def test_at_equal_scores_new_passages_replace_old_ones(tell, script, score):
    """Sampled and verbalised scores are often equal: were the old ones preferred, no new passage would enter."""
    story = tell(weighing=score)
    result = RetroRAG(script.Batches(), k=2, source_size=2, max_rounds=3, inferential=False)("Question?")
    rounds = [["r1.0", "r1.1"], ["r2.0", "r2.1"], ["r3.0", "r3.1"]]
    assert [script.kept_of(hop) for hop in result.hops] == [hop.passage_ids for hop in result.hops] == rounds
    assert [passage.id for passage in result.passages] == [*rounds[0], *rounds[1], *rounds[2]]
    for number, prompt in enumerate(story.prompts("answering", "concluding"), start=1):
        shown = script.field(prompt, "passages").splitlines()
        assert shown == [f"[{rank + 1}] Passage {rank} of search {number}." for rank in (0, 1)]


def test_an_unparseable_score_is_not_a_tie(tell, script):
    tell(weighing=lambda user: "?" if "search 2" in user else 0.0)
    result = RetroRAG(script.Batches(), k=2, source_size=2, max_rounds=2)("Question?")
    assert [script.kept_of(hop) for hop in result.hops] == [["r1.0", "r1.1"]] * 2


def test_of_equal_passages_those_not_held_come_first_then_those_found_again(tell, script):
    class Overlapping(script.Batches):
        def find(self, query, k):
            names = "abc" if len(self.asked) == 1 else "cbd"
            return [Passage(id=name, text=f"Passage {name}.") for name in names]

    story = tell(weighing=1.0)
    result = RetroRAG(Overlapping(), k=3, source_size=3, max_rounds=2)("Question?")
    assert [candidate.passage_id for candidate in result.hops[1].candidates] == ["d", "c", "b", "a"]
    assert result.hops[1].passage_ids == ["d"]
    (prompt,) = story.prompts("concluding")
    assert script.field(prompt, "passages") == "[1] Passage d.\n[2] Passage c.\n[3] Passage b."


def test_of_given_passages_that_score_alike_others_are_read_in_the_next_round(tell, passages, script):
    tell(weighing=1.0)
    result = RetroRAG(source_size=2, max_rounds=2)("Question?", passages=passages[:4])
    assert [script.kept_of(hop) for hop in result.hops] == [["p0", "p1"], ["p2", "p3"]]


def test_an_answer_rests_on_the_passages_of_its_round_and_the_inferences_before(tell, script):
    story = tell(inferring=[["Merrow is of Quillon."], ["Quillon is an island."]])
    RetroRAG(script.Batches(), k=1, source_size=1, max_rounds=3, threshold=1.0)("Question?")
    for kinds in (("answering", "concluding"), ("monitoring",)):
        shown = story.prompts(*kinds)
        assert [f"search {number}" in prompt for number, prompt in enumerate(shown, start=1)] == [True, True, True]
        assert ["Merrow is of Quillon." in prompt for prompt in shown] == [False, True, True]
        assert ["Quillon is an island." in prompt for prompt in shown] == [False, False, True]


def test_the_search_sees_all_evidence_and_the_attempt_that_failed(tell, passages, script):
    story = tell(answering="Bert Oyle", inferring=[["Merrow is of Quillon."]])
    RetroRAG(max_rounds=2)("Question?", passages=passages[4:5])
    (prompt,) = story.prompts("searching")
    assert "The harbour master of Quillon" in script.field(prompt, "passages")
    assert "Merrow is of Quillon." in script.field(prompt, "inferences")
    assert script.field(prompt, "reasoning") == "because of Bert Oyle Answer: Bert Oyle"


def test_entities_are_named_once_and_guide_every_inference(tell, retriever, script):
    story = tell(naming=["Quillon", "Ansa Merrow"])
    RetroRAG(retriever, max_rounds=4)("Question?")
    assert story.count("naming") == 1
    assert story.count("inferring") == 3
    assert all("Ansa Merrow" in script.field(prompt, "entities") for prompt in story.prompts("inferring"))


def test_two_passages_with_the_same_words_are_weighed_once(tell):
    story = tell(agreement=1.0)
    twins = [Passage(id=id, title="Fog", text="There is fog.") for id in ("a", "b")]
    RetroRAG()("Question?", passages=twins)
    assert story.count("weighing") == 1


def test_given_passages_serve_the_first_round_only_beside_a_retriever(tell, retriever, passages):
    tell()
    result = RetroRAG(retriever, k=2, max_rounds=2)("Question?", passages=passages[4:6])
    assert [hop.passage_ids for hop in result.hops] == [["p4", "p5"], ["p0", "p1"]]
    assert retriever.queries == ["harbour of Quillon"]


def test_given_passages_are_weighed_again_without_a_retriever(tell, passages, script):
    """One that was dropped may come back when the search asks for what it holds."""
    tell(weighing=lambda user: 0.9 if ("## query ## ]]\nharbour" in user) == ("number 1" in user) else 0.1)
    result = RetroRAG(source_size=1, max_rounds=2)("Question?", passages=passages[:2])
    assert [script.kept_of(hop) for hop in result.hops] == [["p0"], ["p1"]]
    assert [passage.id for passage in result.passages] == ["p0", "p1"]


def test_it_cites_the_held_passages_that_state_the_answer(tell, passages):
    tell(agreement=1.0)
    assert RetroRAG()("Question?", passages=passages[:5]).citations == ["p4"]


def test_an_answer_of_an_earlier_round_cites_what_that_round_read(tell, passages):
    """Both passages state it; the second round reads the other one, and declines."""
    twin = passages[4].model_copy(update={"id": "p9", "title": "Port"})
    tell(
        answering=["Ansa Merrow", "unknown"],
        weighing=lambda user: 0.9 if ("## query ## ]]\nharbour" in user) == ("Port" in user) else 0.1,
    )
    result = RetroRAG(source_size=1, max_rounds=2)("Question?", passages=[passages[4], twin])
    assert [passage.id for passage in result.passages] == ["p4", "p9"]
    assert (result.answer, result.citations) == ("Ansa Merrow", ["p4"])
