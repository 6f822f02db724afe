"""A review in the terminal: one item after another; each decision is on disk before the next item is shown."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from rich.markup import escape

from experiments.annotation.review.cards import EDIT, Card, Item
from experiments.annotation.review.server import Session
from signatures.common.errors import UserError
from signatures.common.terminal import shown as visible

if TYPE_CHECKING:
    from rich.console import Console

SKIP, BACK, QUIT = "skip", "back", "quit"
Ask = Callable[[str], str]


def plain(text: str) -> str:
    """Return `text` for a terminal: rich markup escaped, control characters visible."""
    return escape(visible(text))


def review_in_terminal(session: Session, console: "Console", ask: Ask) -> None:
    """Show a reviewer their undecided items until all are decided or they quit.

    Args:
        session: The reviewer's session.
        console: Console to print to.
        ask: Prints a prompt and returns the line typed; raises EOFError at the end of input.
    """
    items = [(card, item) for card, own in session.cards() for item in own if session.mine(item) is None]
    if not items:
        console.print("No items are left to judge.")
    place, shown = 0, None
    while place < len(items):
        card, item = items[place]
        if card.id != shown:
            _show_card(console, card, session)
            shown = card.id
        _show_item(console, item, session, f"{place + 1} of {len(items)}")
        try:
            done = _decide(session, console, item, ask)
        except EOFError:
            return
        if done == QUIT:
            return
        place = max(0, place - 1) if done == BACK else place + 1
        shown = None if done == BACK else shown


def _show_card(console: "Console", card: Card, session: Session) -> None:
    console.rule()
    console.print(f"[bold]{plain(card.question)}[/bold]")
    if card.golds:
        console.print(f"Accepted answers: {plain(' / '.join(card.golds))}")
    if card.response is not None:
        console.print(f"\n[bold]Answer[/bold]\n{plain(card.response)}")
    for number, step in enumerate(card.steps, start=1):
        console.print(f"  {number}. {plain(step.question)} [bold]{plain(step.answer)}[/bold]")
    for reference in card.references:
        tag = " (gold)" if reference.gold else ""
        console.print(f"\n[bold]{plain(reference.title)}[/bold]{tag}")
        marked = (f"[u]{plain(text)}[/u]" if gold else plain(text) for text, gold in reference.segments)
        console.print("".join(marked))
    console.print(f"\n[dim]{plain(session.review.scale.task)}[/dim]")


def _show_item(console: "Console", item: Item, session: Session, place: str) -> None:
    console.print(f"\n[dim]{place}[/dim]")
    if session.review.scale.unit != "answer":  # a whole answer is already shown above
        console.print(plain(item.text))
    for label, text in item.details:
        console.print(f"  {label}: {plain(text)}")
    if (decision := session.mine(item)) is not None:
        console.print(f"[dim]decided: {plain(decision.text or str(decision.value))}[/dim]")


def _decide(session: Session, console: "Console", item: Item, ask: Ask) -> str:
    """Ask until a decision is on disk or the reviewer moves on; return SKIP, BACK, QUIT or the grade."""
    grades = {grade.key: grade for grade in session.review.scale.grades}
    choices = ", ".join(f"{key} {grade.label.lower()}" for key, grade in grades.items())
    while True:
        typed = ask(f"{choices}; Enter skips, b goes back, q ends: ").strip().lower()
        if typed in ("", "b", "q"):
            return {"": SKIP, "b": BACK, "q": QUIT}[typed]
        if typed not in grades:
            console.print(f"Type one of: {', '.join(grades)}, b, q or nothing.")
            continue
        value = grades[typed].value
        wording = ask("New wording: ") if value == EDIT else None
        try:
            session.decide(item.id, value, wording)
        except UserError as error:
            console.print(f"[red]Not saved: {plain(str(error))}[/red]")
            continue
        console.print("[green]Saved.[/green]")
        return value
