"""Two people judge, blind; a third is asked only where they differ."""

import pytest

from signatures.common.errors import UserError


@pytest.fixture
def stepwise(make_run, make_row, rate):
    return rate([make_run("one", *(make_row(f"q{n}", f"Answer {n}.", 1.0) for n in range(3)))], "stepwise")


def todo(session) -> list[str]:
    return [item.id for _, items in session.cards() for item in items if session.mine(item) is None]


def test_a_third_is_asked_only_for_disagreements(stepwise, session_of):
    first, second, third = (card.items[0].id for card in stepwise.cards)
    ann = session_of(stepwise, "Ann")
    for item, grade in ((first, "1"), (second, "0.5"), (third, "0")):
        ann.decide(item, grade)
    bo = session_of(stepwise, "Bo")
    assert set(todo(bo)) == {first, second, third}
    bo.decide(first, "1")
    bo.decide(second, "0")
    # The third item still lacks its second judge, the second item a third one.
    cy = session_of(stepwise, "Cy")
    assert set(todo(cy)) == {second, third}
    cy.decide(second, "0")
    dee = session_of(stepwise, "Dee")
    assert todo(dee) == [third]
    with pytest.raises(UserError, match="Others have already judged"):
        dee.decide(first, "0")


def test_nobody_sees_what_others_said(stepwise, session_of):
    session_of(stepwise, "Ann").decide(stepwise.cards[0].items[0].id, "0.5")
    shown = session_of(stepwise, "Bo").as_dict()
    assert {item["value"] for card in shown["cards"] for item in card["items"]} == {None}
    assert "Ann" not in str(shown)


def test_what_is_undecided_comes_first_and_own_decisions_can_be_changed(stepwise, session_of):
    ann = session_of(stepwise, "Ann")
    order = [card.id for card, _ in ann.cards()]
    ann.decide(stepwise.cards[0].items[0].id, "1")
    assert [card.id for card, _ in ann.cards()] == [*order[1:], order[0]]
    assert (ann.progress().decided, ann.progress().total) == (1, 3)
    ann.decide(stepwise.cards[0].items[0].id, "0")
    assert ann.mine(stepwise.cards[0].items[0]).value == "0"
    ann.decide(stepwise.cards[0].items[0].id, None)
    assert ann.progress().decided == 0
    with pytest.raises(UserError, match="No decision to undo"):
        ann.decide(stepwise.cards[0].items[0].id, None)


def test_what_cannot_be_decided_is_refused_and_nothing_written(stepwise, session_of):
    ann = session_of(stepwise, "Ann")
    with pytest.raises(UserError, match="no item 'nope'"):
        ann.decide("nope", "1")
    with pytest.raises(UserError, match="'accept' is not a grade of 'stepwise'"):
        ann.decide(stepwise.cards[0].items[0].id, "accept")
    assert stepwise.ratings().reviewers() == []


def test_an_edit_that_changes_nothing_is_an_acceptance_and_an_empty_one_is_refused(keyfacts, session_of):
    session, item = session_of(keyfacts, "Ann"), keyfacts.cards[0].items[0]
    assert session.decide(item.id, "edit", f" {item.text} ").value == "accept"
    with pytest.raises(UserError, match="needs words"):
        session.decide(item.id, "edit", " \n")
    with pytest.raises(UserError, match="2,001"):
        session.decide(item.id, "edit", "x" * 2001)
    with pytest.raises(UserError, match="half a character"):
        session.decide(item.id, "edit", "\ud83d")
    assert session.mine(item).value == "accept"
