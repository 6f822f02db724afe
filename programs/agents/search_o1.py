"""Search-o1: search inside the reasoning, and let a separate call read the passages for it.

Li et al., "Search-o1: Agentic Search-Enhanced Large Reasoning Models", EMNLP 2025, sections 3.3 (search inside the
reasoning), 3.4 (reason-in-documents) and 4 (limits). https://arxiv.org/abs/2501.05366

1. Reason on from the transcript, up to a query or the answer. An answer ends the loop.
2. A query that is new, within the limit of searches, retrieves k passages. A query that was searched for, or one beyond
   the limit, gets a notice instead. Go to 1.
3. Reason in the documents, in a separate call: from the reasoning so far, the query and the passages, but not from
   the question, extract what helps. That alone joins the reasoning; the passages do not. Go to 1.
4. After `max_turns` turns there is no answer, unless `reader` reads one. Departure: the public code can then take the
   answer that the LM gives without any search.

The form here has typed fields, for any LM; how long a turn may get is a setting of the LM (paper: 8,192 or 20,480
tokens in all). The special tags that a reasoning model writes into one long text are not supported yet. For small LMs,
the preset `small` offers in each turn only the actions that can be done (`programs/parts/agents/guided.py`).

Departure: the transcript is limited in words, oldest results first; the paper keeps what the LM's context holds. What
is kept of the reasoning for step 3 is counted in thoughts, in the public code in lines.
Departure: the paper samples (temperature 0.7, top-p 0.8, top-k 20); here sampling is a setting of the LM
(`--temperature`), 0 unless it is given.
"""

from collections.abc import Sequence
from typing import Annotated, Any

import dspy

from programs.parts.agents.guided import FIELDS, GUIDED, GuidedLoop, guided_predictors
from programs.parts.agents.transcript import (
    EXTRACT,
    OWN,
    PASSAGES,
    Turn,
    ended,
    ending_predictors,
    found_texts,
    transcript_lines,
    turn_of,
)
from programs.parts.knobs import Choice, Range, set_knobs
from programs.parts.longform import gives_answer
from programs.parts.passages import is_no_item
from programs.parts.prediction import drop_from_trace, retrieve_passages, settled, try_predict
from programs.parts.stop_reasons import CAP, FINISHED
from signatures.agents.search_o1 import ReasonInDocuments, ReasonOn
from signatures.text_words import same_words
from signatures.types import Hop, Passage, Retriever

_NOTHING_HELPS = "Nothing helpful was found."
_SEARCHED_BEFORE = "This was searched for before: go by the earlier result."
_NO_MORE_SEARCHES = "All searches are used up: reason on without."
_INVALID = "This was no valid action: search with a query, or finish with the answer."
_LAST_LINES, _ALL_LINES = 4, 5  # of the reasoning, as the public code shortens it


class SearchO1(dspy.Module):
    """Reason in turns; search for what is uncertain, and let a separate call say what the passages tell about it.

    A hop is a search that was run: its question is the query, its answer what was extracted from the passages, empty if
    nothing helps. `details`: `turns` (calls that reasoned), `notices` (queries that were not run, and invalid replies).

    Args:
        retrieve: Ranks passages for a query; `passages` given are what the first search finds.
        k: Passages per search (paper: 10 pages).
        max_searches: Searches that are run (paper: 10 for multi-hop questions, 5 for others).
        max_turns: Turns of the reasoning (paper: 15).
        transcript_words: Longest transcript that a call is shown (paper: what the LM's context holds).
        documents: False shows the passages to the reasoning as they are, without step 3.
        form: "fields" asks for thought, action and argument; "guided" (preset `small`) is for small LMs.
        reader: "own", the paper's, takes the answer that the reasoning finishes with, and none where the turns run out;
            "extract" asks for it at the end of every question; "passages" reads all that was found with the reader that
            all programs share. Where these give no answer, it is the reasoning's own. The guided form has no transcript
            to extract from; with it, passages are read wherever the reasoning does not answer.
    """

    PRESETS: dict[str, dict[str, Any]] = {
        "paper": {},
        "single_hop": {"max_searches": 5},
        "small": {"k": 3, "max_turns": 5, "transcript_words": 500, "form": GUIDED, "reader": PASSAGES},
    }

    def __init__(
        self,
        retrieve: Retriever | None = None,
        *,
        k: Annotated[int, Range(1, 20)] = 10,
        max_searches: Annotated[int, Range(1, 15)] = 10,
        max_turns: Annotated[int, Range(1, 20)] = 15,
        transcript_words: Annotated[int, Range(100, 20_000, log=True)] = 4000,
        documents: bool = True,
        form: Annotated[str, Choice(FIELDS, GUIDED)] = FIELDS,
        reader: Annotated[str, Choice(OWN, EXTRACT, PASSAGES)] = OWN,
    ):
        super().__init__()
        set_knobs(self, locals())
        self.retrieve = retrieve
        if form == FIELDS:
            self.reasoning = dspy.Predict(ReasonOn)
        if documents:
            self.extraction = dspy.Predict(ReasonInDocuments)
        for name, predictor in (guided_predictors() if form == GUIDED else ending_predictors(reader)).items():
            setattr(self, name, predictor)

    def forward(self, question: str, passages: list[Passage] | None = None) -> dspy.Prediction:
        """Return the answer; fixed `passages` are what the first search finds (all searches, without a retriever)."""
        if self.form == GUIDED:
            most = min(self.max_turns, self.max_searches + 1)
            return _GuidedReasoning(self, question, passages).run(most, "notices", "turns")
        turns: list[Turn] = []
        hops: list[Hop] = []
        read: list[Passage] = []
        notices, answer, stop_reason = 0, "", CAP
        while len(turns) < self.max_turns and stop_reason == CAP:
            shown = {"question": question, "transcript": transcript_lines(turns, self.transcript_words)}
            reply = try_predict(self.reasoning, limit=self.max_searches, **shown)  # step 1
            turn = turn_of(reply)
            last = len(turns) + 1 == self.max_turns
            if turn.action == "finish" and gives_answer(turn.argument):
                answer, stop_reason = turn.argument, FINISHED
                turns.append(turn)
            elif notice := self._notice(turn, hops):
                notices += 1
                drop_from_trace(reply)
                turns.append(turn._replace(results=(notice,)))
            elif last:  # Departure: the search of the last turn is not run, because nothing would use what it finds.
                drop_from_trace(reply)
                turns.append(turn)
            else:
                fixed = passages if not hops or self.retrieve is None else None
                found = retrieve_passages(self, turn.argument.strip(), self.k, fixed=fixed)  # step 2
                read += found
                information = self.read_documents(turn, turns, found)  # step 3
                results = (information,) if information else () if self.documents else found_texts(found)
                turns.append(turn._replace(results=results or (_NOTHING_HELPS,)))
                ids = [passage.id for passage in found]
                hops.append(settled(Hop(question=turn.argument.strip(), answer=information, passage_ids=ids)))
        details = {"turns": len(turns), "notices": notices}
        return ended(
            self, question, turns, hops, read, own=answer, stop_reason=stop_reason, reply=reply, details=details
        )

    def max_calls(self) -> int:
        """Return the maximum number of LM calls for one question: all turns, a reading per search, and the reader's."""
        readings = min(self.max_searches, self.max_turns - 1) if self.documents else 0
        if self.form == GUIDED:  # one search is the question, and the last turn is the reader's
            readings = self.documents * max(1, readings)
            return max(1, min(self.max_turns - 1, self.max_searches)) + readings
        return self.max_turns + readings + (self.reader != OWN)

    def _notice(self, turn: Turn, hops: Sequence[Hop]) -> str:
        """Return the notice that a turn gets instead of a search; empty if its query is to be searched for.

        Departure: an unparseable reply, and one that names neither a query nor an answer, gets a notice as well. The
        paper ends the reasoning at any text without a query, and takes what it boxed, if anything, as the answer.
        """
        if turn.action != "search" or is_no_item(turn.argument):
            return _INVALID
        if len(hops) >= self.max_searches:
            return _NO_MORE_SEARCHES
        # Departure: queries are compared by their words, in the public code as texts.
        repeated = same_words(turn.argument) in {same_words(hop.question) for hop in hops}
        return _SEARCHED_BEFORE if repeated else ""

    def read_documents(self, turn: Turn, turns: Sequence[Turn], found: list[Passage]) -> str:
        """Return what the passages say that helps the reasoning, empty for nothing; nothing found costs no call.

        Departure: the paper reads 3,000 characters of each page around the snippet of the search engine; passages are
        short, and read whole.
        """
        if not found or not self.documents:
            return ""
        lines = _shortened(transcript_lines([*turns, turn], self.transcript_words))
        reply = try_predict(self.extraction, transcript=lines, query=turn.argument.strip(), passages=found)
        information = reply.information.strip() if reply else ""
        return "" if is_no_item(information) or not gives_answer(information) else information


class _GuidedReasoning(GuidedLoop):
    """Shows what was extracted from the passages of each search; the passages themselves while that is nothing."""

    def act(self, turn: Turn) -> Hop | None:
        passages = self.search(turn.argument)
        information = self.program.read_documents(turn, self.turns, passages)
        return Hop(question=turn.argument, answer=information, passage_ids=[passage.id for passage in passages])

    def results(self, hop: Hop) -> tuple[str, ...]:
        return (hop.answer or _NOTHING_HELPS,)

    def shown(self) -> list[Passage]:
        told = [Passage(id=hop.question, title=hop.question, text=hop.answer) for hop in self.hops if hop.answer]
        return told or self.found


def _shortened(lines: Sequence[str]) -> list[str]:
    """Return the reasoning for step 3: of more than five lines the first, the last four, queries and results.

    What is left out between them is one line of dots.
    """
    if len(lines) <= _ALL_LINES:
        return list(lines)
    kept: list[str] = []
    for place, line in enumerate(lines):
        if place == 0 or place >= len(lines) - _LAST_LINES or not line.startswith("Thought "):
            kept.append(line)
        elif kept[-1] != "...":
            kept.append("...")
    return kept
