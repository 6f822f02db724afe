"""ReAct: think, then search, look up words or finish, one step at a time.

Yao et al., "ReAct: Synergizing Reasoning and Acting in Language Models", ICLR 2023, sections 2 and 3.1 to 3.2 (the
three actions, at most seven steps on HotpotQA). https://arxiv.org/abs/2210.03629

1. From the question and the transcript of the steps so far, write a thought and one action.
2. Search retrieves passages, whose first sentences are shown. Lookup shows the next sentence of the passages found last
   that contains the words. What is neither, or lacks its argument, is answered by a notice. Go to 1.
3. Finish ends the loop with the answer. After `max_steps` steps the answer is empty, unless `reader` reads one.

The form here has typed fields; a reply in the paper's plain text ("Action 1: Search[x]") is understood, too. For small
LMs, the preset `small` offers in each turn only the actions that can be done (`programs/parts/agents/guided.py`).

Departure: how long a step may get is a setting of the LM (public code: 100 tokens).
"""

from typing import Annotated, Any, NamedTuple

import dspy

from programs.parts.agents.guided import FIELDS, FINISH, GUIDED, SEARCH, GuidedLoop, guided_predictors
from programs.parts.agents.transcript import (
    EXTRACT,
    OWN,
    PASSAGES,
    Turn,
    ended,
    ending_predictors,
    transcript_lines,
    turn_of,
)
from programs.parts.knobs import Choice, Range, set_knobs
from programs.parts.longform import gives_answer
from programs.parts.passages import is_no_item, titled_text
from programs.parts.prediction import drop_from_trace, retrieve_passages, settled, try_predict
from programs.parts.stop_reasons import CAP, FINISHED
from signatures.agents.guided import GuidedStep
from signatures.agents.react import TakeStep
from signatures.text import split_sentences
from signatures.types import Hop, Passage, Retriever

LOOKUP = "lookup"
SEARCHED, LOOKED_UP = "searched", "looked up"
_INVALID = "This was no valid action: search, lookup or finish, each with its argument."
_NOTHING_FOUND = "Nothing was found. Search for something else."
_NO_MORE = "No more results."


class Page(NamedTuple):
    """The passages found last, which lookups read, and how far the last lookup came.

    Args:
        passages: As retrieved.
        words: Of the last lookup.
        place: The sentences with these words that were shown.
    """

    passages: tuple[Passage, ...] = ()
    words: str = ""
    place: int = 0

    def look_up(self, words: str) -> tuple["Page", Passage | None, str, int]:
        """Return the page after a lookup, the passage and the next sentence with the words, and how many there are."""
        wanted = words.strip().casefold()
        split = [(passage, text) for passage in self.passages for text in split_sentences(passage.text)]
        found = [(passage, text) for passage, text in split if wanted in text.casefold()]
        place = self.place if wanted == self.words else 0
        if place >= len(found):
            return self._replace(words=wanted, place=place), None, "", len(found)
        passage, text = found[place]
        return self._replace(words=wanted, place=place + 1), passage, text, len(found)


class ReAct(dspy.Module):
    """Think and act in turns: search, look up words in what was found, finish with the answer.

    A hop is a search or a lookup: its question is what was searched for or looked up, its answer is empty, since only
    the last step answers, and its evidence the sentence that a lookup showed. Its verdict: "searched" or "looked up".
    `details`: `steps` (all, with the one that finished), `invalid` (steps without a valid action).

    Args:
        retrieve: Ranks passages for a query; `passages` given are what the first search finds.
        k: Passages per search (paper: one page of Wikipedia, which is one or more passages).
        sentences: Sentences of each passage that a search shows; lookups read all (paper: 5 of the page).
        max_steps: Steps, with invalid ones and the one that finishes (paper: 7 on HotpotQA).
        transcript_words: Longest transcript that a step is shown, without the oldest results. Departure: the paper
            keeps what the LM's context holds.
        form: "fields" asks for thought, action and argument; "guided" (preset `small`) is for small LMs.
        reader: "own", the paper's, takes the answer that the agent finishes with, and none where the steps run out;
            "extract" asks for it at the end of every question, as `dspy.ReAct` does; "passages" reads all that was
            found with the reader that all programs share. The two are asked for an answer in any case; where they give
            none, it is the agent's own. The guided form has no transcript to extract from; with it, passages are read
            wherever the agent does not answer.
    """

    PRESETS: dict[str, dict[str, Any]] = {
        "paper": {},
        # Departure: DSPy's agent takes 20 steps, and an extracting call after the last one always answers. There an
        # invalid step ends the loop; here it gets a notice.
        "dspy": {"max_steps": 20, "reader": EXTRACT},
        "small": {"max_steps": 5, "form": GUIDED, "reader": PASSAGES},
    }

    def __init__(
        self,
        retrieve: Retriever | None = None,
        *,
        k: Annotated[int, Range(1, 10)] = 3,
        sentences: Annotated[int, Range(1, 20)] = 5,
        max_steps: Annotated[int, Range(1, 20)] = 7,
        transcript_words: Annotated[int, Range(100, 20_000, log=True)] = 3000,
        form: Annotated[str, Choice(FIELDS, GUIDED)] = FIELDS,
        reader: Annotated[str, Choice(OWN, EXTRACT, PASSAGES)] = OWN,
    ):
        super().__init__()
        set_knobs(self, locals())
        self.retrieve = retrieve
        if form == FIELDS:
            self.stepping = dspy.Predict(TakeStep)
        predictors = guided_predictors(GuidedStep) if form == GUIDED else ending_predictors(reader)
        for name, predictor in predictors.items():
            setattr(self, name, predictor)

    def forward(self, question: str, passages: list[Passage] | None = None) -> dspy.Prediction:
        """Return the answer; fixed `passages` are what the first search finds (all searches, without a retriever)."""
        if self.form == GUIDED:
            return _GuidedSteps(self, question, passages).run(self.max_steps, "invalid", "steps")
        turns: list[Turn] = []
        hops: list[Hop] = []
        read: list[Passage] = []
        page, answer, stop_reason = Page(), "", CAP
        while len(turns) < self.max_steps and stop_reason == CAP:
            lines = transcript_lines(turns, self.transcript_words)
            reply = try_predict(self.stepping, question=question, transcript=lines)  # step 1
            turn = turn_of(reply)
            if _is_invalid(turn):
                # Departure: the paper asks for the action of a malformed step again, behind its thought; typed fields
                # are asked for as a whole, in the next step.
                drop_from_trace(reply)
                turns.append(turn._replace(results=(_INVALID,)))
            elif turn.action == "finish":  # step 3
                answer, stop_reason = turn.argument, FINISHED
                # Departure: the paper takes any text; "unknown" and refusals are no answer, and no demonstration.
                if not gives_answer(answer):
                    drop_from_trace(reply)
                    answer = ""
                turns.append(turn)
            elif turn.action == "search":  # step 2
                first = all(hop.verdict != SEARCHED for hop in hops)
                fixed = passages if first or self.retrieve is None else None
                found = retrieve_passages(self, turn.argument.strip(), self.k, fixed=fixed)
                # As in the paper's code, a search that finds nothing leaves the passages that lookups read.
                page, read = Page(tuple(found)) if found else page, [*read, *found]
                results = tuple(map(titled_text, self.first_sentences(found)))
                turns.append(turn._replace(results=results or (_NOTHING_FOUND,)))
                hops.append(settled(_hop(turn, SEARCHED, found)))
            else:
                page, holder, sentence, total = page.look_up(turn.argument)
                result = f"(Result {page.place} / {total}) {sentence}" if holder else _NO_MORE
                turns.append(turn._replace(results=(result,)))
                hops.append(settled(_hop(turn, LOOKED_UP, [holder] if holder else [], sentence or None)))
        details = {"steps": len(turns), "invalid": sum(_is_invalid(turn) for turn in turns)}
        return ended(
            self, question, turns, hops, read, own=answer, stop_reason=stop_reason, reply=reply, details=details
        )

    def max_calls(self) -> int:
        """Return the maximum number of LM calls for one question: the steps, and one for a reader that is not "own"."""
        if self.form == GUIDED:
            return max(1, self.max_steps - 1)
        return self.max_steps + (self.reader != OWN)

    def first_sentences(self, found: list[Passage]) -> list[Passage]:
        """Return the passages with their first sentences alone.

        Departure: a search finds k passages instead of one page, so that lookups run over all of them. A title that no
        page has is answered by similar titles; a retriever of passages always ranks some.
        """
        cut = [" ".join(split_sentences(passage.text)[: self.sentences]) for passage in found]
        return [each.model_copy(update={"text": text}) for each, text in zip(found, cut, strict=True)]


class _GuidedSteps(GuidedLoop):
    """Shows the first sentences of the passages; words can be looked up while more of those found last is hidden."""

    page: Page = Page()
    sentences: tuple[Passage, ...] = ()

    def allowed(self) -> tuple[str, ...]:
        hidden = any(each.text for each in self.page.passages)
        return (SEARCH, LOOKUP, FINISH) if hidden else super().allowed()

    def queries(self) -> list[str]:
        return [hop.question for hop in self.hops if hop.verdict == SEARCHED]

    def is_new(self, turn: Turn) -> bool:
        # The same lookup again shows the next sentence; where there is none, it cannot be done.
        return bool(turn.argument.strip()) if turn.action == LOOKUP else super().is_new(turn)

    def _hidden(self, passage: Passage) -> Passage:
        """Return a passage with the sentences alone that a search does not show."""
        rest = split_sentences(passage.text)[self.program.sentences :]
        return passage.model_copy(update={"text": " ".join(rest)})

    def shown(self) -> list[Passage]:
        return [*self.program.first_sentences(self.found), *self.sentences]

    def act(self, turn: Turn) -> Hop | None:
        if turn.action == SEARCH:
            found = self.search(turn.argument)
            self.page = Page(tuple(map(self._hidden, found))) if found else self.page
            return _hop(turn, SEARCHED, found)
        self.page, holder, sentence, _ = self.page.look_up(turn.argument)
        if holder is None:
            return None
        self.sentences = (*self.sentences, holder.model_copy(update={"text": sentence}))
        return _hop(turn, LOOKED_UP, [holder], sentence)


def _is_invalid(turn: Turn) -> bool:
    """Return whether a turn has no action, or a search or lookup of nothing; to finish with nothing is valid."""
    if turn.action == "search":
        return is_no_item(turn.argument)
    return not turn.action or (turn.action == "lookup" and not turn.argument.strip())


def _hop(turn: Turn, verdict: str, passages: list[Passage], evidence: str | None = None) -> Hop:
    ids = [passage.id for passage in passages]
    match = "verbatim" if evidence else None  # a lookup shows a sentence as it stands
    return Hop(
        question=turn.argument.strip(), answer="", evidence=evidence, match=match, passage_ids=ids, verdict=verdict
    )
