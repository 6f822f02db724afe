"""The Search-R1 loop: reason, then search or answer, with the passages of each search in view.

Jin et al., "Search-R1: Training LLMs to Reason and Leverage Search Engines with Reinforcement Learning", COLM 2025,
section 3.2 (algorithm 1, the loop), 3.3 (the template) and 4 (three passages). https://arxiv.org/abs/2503.09516

1. From the question and the transcript so far, reason, then search or finish.
2. A search appends k passages; anything else than a search or an answer appends a notice. Both use one of `max_turns`
   turns. Go to 1.
3. When the turns are used up, reason once more, as in the public code: an answer counts, a search is not run.

The paper's contribution is an LM that was trained on this loop by reinforcement. Its checkpoints act by tags in one
growing text, the preset `tags`; any other LM fills in typed fields. For small LMs, the preset `small` offers in each
turn only the actions that can be done (`programs/parts/agents/guided.py`).

With tags, the growing text is what the LM wrote, and what it was shown:

    <think>Who is the harbour master?</think>
    <search>harbour master of Quillon</search>

    <information>Doc 1(Title: Quillon) The harbour master of Quillon is Ansa Merrow.</information>

Tags are the agent's alone: in passages, titles and queries that are shown they lose their brackets, and a passage takes
one line, so that it can neither close its block, nor act, nor imitate another passage.
"""

import re
from collections.abc import Sequence
from typing import Annotated, Any

import dspy

from programs.parts.agents.guided import FIELDS, GUIDED, GuidedLoop, guided_predictors
from programs.parts.agents.transcript import (
    EXTRACT,
    OWN,
    PASSAGES,
    Turn,
    count,
    ended,
    ending_predictors,
    first_words,
    found_texts,
    transcript_lines,
    turn_of,
)
from programs.parts.knobs import Choice, Range, set_knobs
from programs.parts.longform import gives_answer
from programs.parts.passages import is_no_item
from programs.parts.prediction import drop_from_trace, retrieve_passages, settled, try_predict
from programs.parts.stop_reasons import CAP, FINISHED
from signatures.agents.search_r1 import ContinueWithTags, SearchOrAnswer
from signatures.types import Hop, Passage, Retriever

TAGS = "tags"
SEARCH, ANSWER = "search", "answer"
STOP = (f"</{SEARCH}>", f"</{ANSWER}>")  # a reply ends here; what a server does not stop at is cut
_ACTION = re.compile(rf"<({SEARCH}|{ANSWER})>(.*?)</\1>", re.DOTALL)
_TAG = re.compile(r"<\s*(/?)\s*(think|search|information|answer)\s*>", re.IGNORECASE)
_INVALID = "This was no valid action. Search with a query if something is missing, or finish with the answer."
_INVALID_TAGS = (  # in the first person, as the LM's own text goes on
    "That was no valid action. To search, I write the query between <search> and </search>; to finish, I write the "
    "answer between <answer> and </answer>. I try again."
)
_NOTHING_FOUND = "Nothing was found."


class SearchR1(dspy.Module):
    """Reason and search in turns until the LM answers, or the turns are used up.

    A hop is a search that was run: its question is the query, its answer is empty, since only the last turn answers.
    `details`: `turns` (calls of the loop, with the one that answered), `invalid` (those that were neither a search nor
    an answer).

    Args:
        retrieve: Ranks passages for a query; `passages` given are what the first search finds.
        k: Passages per search (paper: 3).
        max_turns: Turns before the last one, whose search is not run (paper's B: 4).
        result_words: Longest result of a search (paper: 500 tokens).
        transcript_words: Longest transcript that a turn is shown (paper: 4,096 tokens with prompt and reply).
        form: "fields" asks for thought, action and argument; "tags" (preset `tags`) is for the paper's checkpoints: the
            LM continues one text with `<think>`, `<search>`, `<information>` and `<answer>`, which its server must be
            able to do (`programs/lms/continuing.py`). Give it 500 tokens a reply, as the paper does (`--max-tokens`).
            "guided" (preset `small`) is for small LMs.
        template: The instruction of the form "tags", word for word, without "Question:" and what follows it. Departure:
            ours says the same in other words; checkpoints saw the one of their public code only, so give them that,
            from a file (`--set template=@FILE`).
        reader: "own", the paper's, takes the answer that the agent finishes with, and none where the turns run out;
            "extract" asks for it at the end of every question; "passages" reads all that was found with the reader that
            all programs share. Where these give no answer, it is the agent's own. The guided form has no transcript to
            extract from; with it, passages are read wherever the agent does not answer.
    """

    PRESETS: dict[str, dict[str, Any]] = {
        "paper": {},
        "code": {"max_turns": 2, "form": TAGS},  # of the public code's training scripts
        "tags": {"form": TAGS},
        "small": {"form": GUIDED, "reader": PASSAGES},
    }

    def __init__(
        self,
        retrieve: Retriever | None = None,
        *,
        k: Annotated[int, Range(1, 20)] = 3,
        max_turns: Annotated[int, Range(1, 10)] = 4,
        # Departure: both limits are in words; a program does not know the tokenizer, and 500 tokens are about 375
        # words.
        result_words: Annotated[int, Range(50, 2000, log=True)] = 375,
        transcript_words: Annotated[int, Range(100, 20_000, log=True)] = 3000,
        form: Annotated[str, Choice(FIELDS, TAGS, GUIDED)] = FIELDS,
        template: str = "",
        reader: Annotated[str, Choice(OWN, EXTRACT, PASSAGES)] = OWN,
    ):
        super().__init__()
        set_knobs(self, locals())
        self.retrieve = retrieve
        if form == TAGS:
            signature = ContinueWithTags.with_instructions(template) if template else ContinueWithTags
            self.continuing = dspy.Predict(signature, stop=list(STOP))
        elif form == FIELDS:
            self.reasoning = dspy.Predict(SearchOrAnswer)
        for name, predictor in (guided_predictors() if form == GUIDED else ending_predictors(reader)).items():
            setattr(self, name, predictor)

    def forward(self, question: str, passages: list[Passage] | None = None) -> dspy.Prediction:
        """Return the answer; fixed `passages` are what the first search finds (all searches, without a retriever)."""
        if self.form == GUIDED:
            return GuidedLoop(self, question, passages).run(self.max_turns + 1, "invalid", "turns")
        turns: list[Turn] = []
        hops: list[Hop] = []
        read: list[Passage] = []
        invalid, answer, stop_reason = 0, "", CAP
        while len(turns) <= self.max_turns and stop_reason == CAP:
            last = len(turns) == self.max_turns
            turn, reply = self._turn(question, turns)  # steps 1 and 3
            searches = turn.action == "search" and not is_no_item(turn.argument)
            if turn.action == ANSWER or (turn.action == "finish" and gives_answer(turn.argument)):
                answer, stop_reason = turn.argument, FINISHED
                turns.append(turn)
            elif searches and not last:  # step 2
                fixed = passages if not hops or self.retrieve is None else None
                found = retrieve_passages(self, turn.argument, self.k, fixed=fixed)
                turns.append(turn._replace(results=self._results(found)))
                read += found
                ids = [passage.id for passage in found]
                hops.append(settled(Hop(question=turn.argument, answer="", passage_ids=ids)))
            else:
                # Departure: a query that says nothing ("", "None") is invalid, too, and so is such an answer in fields;
                # the paper would search for the one, and takes the other, as the form with tags does.
                drop_from_trace(reply)
                invalid += not searches
                turns.append(turn if searches else self._invalid(turn))
        details = {"turns": len(turns), "invalid": invalid}
        return ended(
            self, question, turns, hops, read, own=answer, stop_reason=stop_reason, reply=reply, details=details
        )

    def max_calls(self) -> int:
        """Return the maximum number of LM calls for one question: all turns, the last one, and a reader not "own"."""
        if self.form == GUIDED:
            return self.max_turns
        return self.max_turns + 1 + (self.reader != OWN)

    def _turn(self, question: str, turns: list[Turn]) -> tuple[Turn, dspy.Prediction | None]:
        """Return the next turn, before its results, and its reply; None if that is unparseable."""
        if self.form == TAGS:
            text = grown_text(turns, self.transcript_words)
            reply = try_predict(self.continuing, question=question, text=text)
            return acted(reply.continuation) if reply else Turn(), reply
        lines = transcript_lines(turns, self.transcript_words)
        reply = try_predict(self.reasoning, question=question, transcript=lines)
        turn = turn_of(reply)
        return turn._replace(argument=turn.argument.strip()), reply

    def _results(self, found: list[Passage]) -> tuple[str, ...]:
        """Return what a search shows."""
        shown = information if self.form == TAGS else _titled
        return shown(found, self.result_words) or (_NOTHING_FOUND,)

    def _invalid(self, turn: Turn) -> Turn:
        """Return a turn that was no valid action, with the notice of it."""
        if self.form == TAGS:
            return turn._replace(action="", argument="", results=(_INVALID_TAGS,))
        return turn._replace(results=(_INVALID,))


def _titled(found: list[Passage], most_words: int) -> tuple[str, ...]:
    return found_texts(found, most_words=most_words)


def acted(reply: str) -> Turn:
    """Return the turn of a reply: the reply as its thought, up to its action, with the action and what it says.

    A reply is cut behind its first `</search>`, else behind its first `</answer>`; its first complete pair of tags is
    the action. Servers leave the string out at which they stop, so that an open tag at the end is closed.
    """
    if not any(end in reply for end in STOP):
        begun, name = max((reply.rfind(f"<{name}>"), name) for name in (SEARCH, ANSWER))
        reply = f"{reply}</{name}>" if begun >= 0 else reply
    for end in STOP:
        before, found, _ = reply.partition(end)
        if found:
            reply = before + found
            break
    action = _ACTION.search(reply)
    return Turn(reply, action[1], action[2].strip()) if action else Turn(reply)


def information(passages: Sequence[Passage], most_words: int) -> tuple[str, ...]:
    """Return passages as the lines of an information block, at most so many words in all."""
    lines = (
        f"Doc {number}(Title: {without_tags(passage.title)}) {without_tags(passage.text)}"
        for number, passage in enumerate(passages, start=1)
    )
    return tuple(first_words(lines, most_words))


def without_tags(text: str) -> str:
    """Return a text in one line, with round brackets around what would be a tag."""
    return _TAG.sub(r"(\1\2)", " ".join(text.split()))


def grown_text(turns: Sequence[Turn], most_words: int) -> str:
    """Return what the agent wrote and was shown: the results of a search in a block, a notice as a line.

    Turns that the limit has no room for are left out, oldest first; the last one stays. Departure: the public code cuts
    tokens at the left, those of the instruction first.
    """
    pieces = [turn.thought + _shown(turn) for turn in turns]
    sizes = list(map(count, pieces))
    first = 0
    while first < len(pieces) - 1 and sum(sizes[first:]) > most_words:
        first += 1
    return "".join(pieces[first:])


def _shown(turn: Turn) -> str:
    lines = "\n".join(turn.results)
    if not turn.results:
        return ""
    return f"\n\n<information>{lines}</information>\n\n" if turn.action == SEARCH else f"\n{lines}\n"
