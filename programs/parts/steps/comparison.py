"""Comparisons of two things as a step of programs: the LM states both values, and the program decides.

What is asked is `signatures.reading.CompareTwo`, and what follows from its reply `programs.parts.reasoning.comparing`;
no LM is asked where the words of passages decide (`programs.parts.reasoning.stated`).
None of the papers whose programs take this step has it; it is a knob, `compare`, which only presets for small LMs set.
"""

from collections.abc import Sequence

import dspy

from programs.parts.passages import deduplicate, passages_named, passages_supporting
from programs.parts.prediction import (
    drop_from_trace,
    make_prediction,
    retrieve_passages,
    retrieve_rankings,
    settled,
    try_predict,
)
from programs.parts.reasoning.comparing import Decided, about_owners, alike, compares_two, decide, with_names_of
from programs.parts.reasoning.stated import answer_by_words, names_two
from programs.parts.stop_reasons import DONE
from signatures.text_words import same_words
from signatures.types import Hop, Passage

COMPARED = 3  # passages that a comparison reads
MOST_CALLS = 2  # of a comparison


def compared(program: dspy.Module, question: str, fixed: list[Passage] | None) -> dspy.Prediction | None:
    """Return the prediction for a comparison that one search decides; None for any other question.

    Its one hop is the question, and it has no `details`. Nothing is searched for unless the question seems to be about
    two things; where they then decide nothing, that search leaves no trace in the prediction.

    Args:
        program: Has the knob `compare`, a retriever and, with the knob, the predictor `comparing` of `CompareTwo`.
        question: The question.
        fixed: Passages in place of the search.
    """
    if not program.compare or not (compares_two(question) or names_two(question)):
        return None
    found = retrieve_passages(program, question, COMPARED, fixed=fixed)
    answer, read = compare(program, question, found, search=fixed is None) if found else ("", [])
    if not answer:
        return None
    hop = settled(Hop(question=question, answer=answer, passage_ids=[passage.id for passage in read]))
    cited = passages_supporting(question, answer, read)
    return make_prediction(answer, stop_reason=DONE, hops=[hop], passages=read, citations=cited)


def compare(program: dspy.Module, question: str, passages: list[Passage], *, search: bool) -> tuple[str, list[Passage]]:
    """Return the answer of a comparison and what was read; no answer if neither words nor values decide.

    The LM is asked for values if the question compares two things and words decide nothing. Where the question names
    the titles of two passages or more, these alone are read for the values. Where a value belongs to someone whose
    passage was not read, such as a film's director, the owners of both are searched for by name, and compared in place
    of what they belong to.

    Args:
        program: As for `compared`.
        question: The question, of any kind.
        passages: To read; at least one.
        search: Whether owners may be searched for.
    """
    if (answer := answer_by_words(question, passages)) or not compares_two(question):
        return answer, passages
    named = passages_named(question, passages)
    read = named if len({passage.title for passage in named}) > 1 else passages
    reply = try_predict(program.comparing, question=question, passages=read)
    if reply is None:
        return "", passages
    decided = decide(question, reply)
    owned = _passages_of(program, decided.owners, read) if search else []
    if owned:
        decided = _by_owners(program, question, decided, owned)
        passages = deduplicate([*passages, *owned]) if decided.answer else passages
    told = "" if owned else str(reply.answer)
    if not decided.answer or same_words(decided.answer) != same_words(told):  # not its answer: no demonstration
        drop_from_trace(reply)
    return decided.answer, passages


def _passages_of(program: dspy.Module, owners: Sequence[str], read: list[Passage]) -> list[Passage]:
    """Return a passage about each owner; none if all were read, or none is found about one of them."""
    if not owners or all(any(_is_about(owner, passage) for passage in read) for owner in owners):
        return []
    rankings = retrieve_rankings(program, owners, COMPARED)
    found = [[hit for hit in ranking if _is_about(owner, hit)] for owner, ranking in zip(owners, rankings, strict=True)]
    return deduplicate(hits[0] for hits in found) if all(found) else []


def _is_about(owner: str, passage: Passage) -> bool:
    """Return whether a passage has the owner's name as its title, or begins with it where it has none."""
    if passage.title:
        return alike(owner, passage.title)
    return same_words(passage.text).startswith(same_words(owner))


def _by_owners(program: dspy.Module, question: str, decided: Decided, owned: list[Passage]) -> Decided:
    """Return what the owners' values decide; what was decided before if they decide nothing."""
    again = try_predict(program.comparing, question=about_owners(question, decided), passages=owned)
    if again is None:
        return decided
    drop_from_trace(again)
    about = decide(question, with_names_of(decided, again))
    return about if about.answer else decided
