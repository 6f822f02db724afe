"""Comparisons of two things as a step of programs: the LM states both values, and the program decides.

What is asked is `signatures.reading.CompareTwo`, and what follows from its reply `programs.parts.reasoning.comparing`.
None of the papers whose programs take this step has it; it is a knob, `compare`, which only presets for small LMs set.
"""

import dspy

from programs.parts.passages import deduplicate, passages_supporting
from programs.parts.prediction import (
    DONE,
    drop_from_trace,
    make_prediction,
    retrieve_passages,
    retrieve_rankings,
    settled,
    try_predict,
)
from programs.parts.reasoning.comparing import about_owners, compares_two, decide, with_names_of
from signatures.text_words import same_words
from signatures.types import Hop, Passage

COMPARED = 3  # passages that a comparison reads
MOST_CALLS = 2  # of a comparison


def compared(program: dspy.Module, question: str, fixed: list[Passage] | None) -> dspy.Prediction | None:
    """Return the prediction for a comparison that one search decides; None for any other question.

    Its one hop is the question, and it has no `details`. Nothing is searched for, and no LM asked, unless the question
    compares two things.

    Args:
        program: Has the knob `compare`, a retriever and, with the knob, the predictor `comparing` of `CompareTwo`.
        question: The question.
        fixed: Passages in place of the search.
    """
    if not program.compare or not compares_two(question):
        return None
    found = retrieve_passages(program, question, COMPARED, fixed=fixed)
    answer, read = compare(program, question, found, search=fixed is None) if found else ("", [])
    if not answer:
        return None
    hop = settled(Hop(question=question, answer=answer, passage_ids=[passage.id for passage in read]))
    cited = passages_supporting(question, answer, read)
    return make_prediction(answer, stop_reason=DONE, hops=[hop], passages=read, citations=cited)


def compare(program: dspy.Module, question: str, passages: list[Passage], *, search: bool) -> tuple[str, list[Passage]]:
    """Return the answer of a comparison and what was read; no answer if the values decide nothing.

    Where the passages name the owner of a value, such as a film's director, and not the value, the owners are searched
    for, and compared in place of what they belong to.

    Args:
        program: As for `compared`.
        question: That compares two things.
        passages: To read; at least one.
        search: Whether owners may be searched for.
    """
    reply = try_predict(program.comparing, question=question, passages=passages)
    if reply is None:
        return "", passages
    decided, told = decide(question, reply), str(reply.answer)
    owners = decided.owners if search else ()
    found = deduplicate(hit for ranking in retrieve_rankings(program, owners, 1) for hit in ranking) if owners else []
    if found:
        again = try_predict(program.comparing, question=about_owners(question, decided), passages=found)
        if again is not None:
            decided, told = decide(question, with_names_of(decided, again)), ""
            drop_from_trace(again)
            passages = deduplicate([*passages, *found]) if decided.answer else passages
    if not decided.answer or same_words(decided.answer) != same_words(told):  # not its answer: no demonstration
        drop_from_trace(reply)
    return decided.answer, passages
