"""The key-facts builder: from a known answer to a few checked facts, and nothing lost on the way."""

import pytest

from experiments.annotation.build_keyfacts import KeyFactsBuilder, check_facts
from signatures.text import normalize_answer

QUESTION = "In which sea lies the island where Ansa Merrow was born?"


def contained(pairs):
    """Entail what the premise holds word for word."""
    return [float(normalize_answer(hypothesis) in normalize_answer(premise)) for premise, hypothesis in pairs]


def replies(facts, steps=("First this.", "Then that.")):
    def reply(system, user):
        return {"key_facts": list(facts)} if "[[ ## steps ## ]]" in user else {"steps": list(steps)}

    return reply


def test_facts_come_with_what_the_references_say_of_them(scripted, passages):
    stated = passages[0].text.split(". ")[0] + "."
    engine = scripted(replies([stated, "Nobody ever said this."]))
    built = KeyFactsBuilder(contained)(QUESTION, passages, "the Amber Sea")
    assert [fact.sound for fact in built.facts] == [True, False]
    assert [fact.entailed for fact in built.facts] == [1.0, 0.0]
    assert built.steps == ["First this.", "Then that."]
    assert len(engine.requests) == 2 == KeyFactsBuilder(contained).max_calls()
    assert "- First this.\n- Then that." in engine.prompts[1]


def test_a_fact_said_twice_is_flagged_the_second_time(passages):
    facts = ["Quillon is an island.", "The Quillon is an island", "Quillon is far."]
    assert [fact.duplicate_of for fact in check_facts(facts, passages, contained)] == [None, 0, None]


def test_facts_that_entail_each_other_are_the_same_and_one_way_is_not_enough(passages):
    def oracle(pairs):
        return [
            float(premise == "long fact" or {premise, hypothesis} == {"one", "two"}) for premise, hypothesis in pairs
        ]

    found = check_facts(["one", "two", "long fact"], passages, oracle)
    assert [fact.duplicate_of for fact in found] == [None, 0, None]


def test_the_oracle_is_asked_once_for_everything(passages):
    calls = []

    def oracle(pairs):
        calls.append(len(pairs))
        return [1.0] * len(pairs)

    check_facts(["a", "b", "c"], passages, oracle)
    assert calls == [3 + 2 * 3]


def test_without_references_nothing_is_supported():
    assert not check_facts(["Quillon is an island."], [], lambda pairs: [1.0] * len(pairs))[0].supported


def test_more_than_four_facts_are_cut_and_counted(scripted, passages):
    scripted(replies([f"Fact {number}." for number in range(6)]))
    built = KeyFactsBuilder(contained)(QUESTION, passages, "x")
    assert (len(built.facts), built.surplus) == (4, 2)


def test_facts_that_repeat_others_word_for_word_are_cut_before_new_ones(scripted, passages):
    scripted(replies(["One.", "One.", "the one", "Two.", "Three."]))
    built = KeyFactsBuilder(contained)(QUESTION, passages, "x")
    assert [fact.text for fact in built.facts] == ["One.", "Two.", "Three.", "One."]


@pytest.mark.parametrize("reply", [lambda system, user: "?", replies([], steps=[]), replies(["  "])])
def test_what_cannot_be_read_gives_no_facts(scripted, passages, reply):
    scripted(reply)
    built = KeyFactsBuilder(contained)(QUESTION, passages, "x")
    assert built.facts == []
