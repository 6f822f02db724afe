"""A-RAG: an agent that searches by keywords or by meaning, sees snippets, and reads whole passages by number.

Du et al., "A-RAG: Scaling Agentic Retrieval-Augmented Generation via Hierarchical Retrieval Interfaces", 2026, section
3 (the three interfaces and the loop). https://arxiv.org/abs/2602.03442

1. From the question and the transcript so far, think and take one action.
2. Keywords ranks passages by how often, and how long, the keywords occur in them, and shows the sentences that have
   one. Search ranks by meaning and shows the nearest sentences. Read shows passages whole; one that is in view already
   gets a notice. Whatever cannot be done gets a notice. Go to 1.
3. Finish ends the loop. After `max_turns` turns, one call demands the answer from the transcript.

With `tools="native"` an LM that can calls the three as tools of its server: all calls of a reply are run, and a reply
without a call is the answer. For small LMs, the preset `small` offers in each turn only the actions that can be done
(`programs/parts/agents/guided.py`).

Departure: the preset `paper` names its actions in fields, for any LM; the paper's calls by the interface of the server,
several a reply, are the preset `native` (and `code`). How many passages a search shows is a knob; the paper's LM says.
"""

import re
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import dspy

from programs.parts.agents.guided import FIELDS, FINISH, GUIDED, GuidedLoop, guided_predictors
from programs.parts.agents.transcript import (
    OWN,
    PASSAGES,
    Turn,
    calls_tools,
    ending_predictors,
    final_answer,
    transcript_lines,
    try_call_tools,
)
from programs.parts.knobs import Choice, Range, set_knobs
from programs.parts.longform import gives_answer
from programs.parts.passages import closest, deduplicate, is_no_item, passages_stating, passages_supporting, titled_text
from programs.parts.prediction import drop_from_trace, make_prediction, retrieve_passages, settled, try_predict
from programs.parts.stop_reasons import CAP, FINISHED
from signatures.agents.a_rag import CallTools, UseTool
from signatures.agents.guided import GuidedTool
from signatures.agents.transcript import ExtractAnswer
from signatures.text import split_sentences
from signatures.text_words import text_words
from signatures.types import Hop, Passage, Retriever

KEYWORDS, SEARCH, READ = "keywords", "search", "read"
NATIVE = "native"
_INVALID = "This was no valid action: keywords, search, read with numbers of passages, or finish with the answer."
_NO_CALL = "This was neither a call nor an answer."
_NOTHING_TO_CALL_WITH = "The call names nothing to look for, or no number of a passage."
_NOTHING_FOUND = "Nothing was found. Try other words."
_IN_VIEW = "Passage {number} is above already."
_NO_PASSAGE = "There is no passage {number}."
_SNIPPETS = 5  # sentences at most
_GAP = " ... "  # between them
_COMMA = re.compile(r"[,，;；、\n]")
_EDGES = " \t\"'`*_“”‘’「」『』[]()（）"  # of a keyword, which LMs quote


class Found(NamedTuple):
    """What an action gives: the lines that are shown, and the passages in them, in the order that they are shown."""

    results: tuple[str, ...]
    passages: list[Passage] = []


class ReplyActions(NamedTuple):
    """What one reply of the LM asks for.

    Args:
        reply: The reply; None if it is unparseable.
        turns: Its actions, before they are done; those that cannot be have their result already.
        answer: The answer with which it ends the loop; None if it does not.
        notice: The result of an action that names nothing to act with.
    """

    reply: dspy.Prediction | None
    turns: list[Turn]
    answer: str | None
    notice: str


class ARAG(dspy.Module):
    """Search by keywords or by meaning, read passages whole, and answer when enough was read.

    A hop is an action with the corpus: its question is the keywords, the query or the numbers of the passages, its
    answer is empty, since only the last step answers. Its verdict: "keywords", "search" or "read". The passages of a
    prediction are all that were shown, if only by a snippet; their order is that of their numbers. `details`: `turns`
    (with the one that finished), `read` (ids of the passages read whole), `invalid` (actions or calls that could not be
    done), `forced` (whether the answer was demanded), and with native tools `native` (whether the LM has them).

    Args:
        retrieve: Ranks passages for keywords and for a query; `passages` given are the corpus of the first search.
        k: Passages that a search shows (the public code: the LM chooses, 5 unless it says, at most 20).
        candidates: Passages retrieved for keywords, which the counts then rank.
        max_turns: Turns before the answer is demanded (the public code: 10; the paper states no number).
        transcript_words: Longest transcript that a turn is shown (paper: 128,000 tokens).
        keyword_search: False leaves keywords out (an ablation of the paper): there is no such tool; in fields, they are
            searched for by meaning, though the prompt still offers them.
        tools: "native", the paper's, has the LM call tools by the interface of its server, if it declares that it can:
            a server by `--api-base` is taken to, the embedded LM is not, and LiteLLM needs its package `mcp`. Any other
            LM, and "fields", names action and argument in fields. "guided" (preset `small`) is for small LMs.
        reader: "own", the paper's, takes the answer that the agent finishes with, or the one demanded; "passages" reads
            what was read whole, or else what was shown, with the reader that all programs share.
    """

    PRESETS: dict[str, dict[str, Any]] = {
        "paper": {},
        "code": {"max_turns": 15, "tools": NATIVE},  # turns of the public code's example
        "native": {"tools": NATIVE},
        "small": {"k": 3, "max_turns": 5, "tools": GUIDED, "reader": PASSAGES},
    }

    def __init__(
        self,
        retrieve: Retriever | None = None,
        *,
        k: Annotated[int, Range(1, 20)] = 5,
        candidates: Annotated[int, Range(5, 100)] = 50,
        max_turns: Annotated[int, Range(1, 20)] = 10,
        # Departure: what the limit has no room for is left out, oldest first; the public code demands the answer then.
        transcript_words: Annotated[int, Range(100, 100_000, log=True)] = 6000,
        keyword_search: bool = True,
        tools: Annotated[str, Choice(FIELDS, NATIVE, GUIDED)] = FIELDS,
        reader: Annotated[str, Choice(OWN, PASSAGES)] = OWN,
    ):
        super().__init__()
        set_knobs(self, locals())
        self.retrieve = retrieve
        # Departure: the demanded answer is reasoned first; the public code asks for it at once.
        if tools != GUIDED:
            self.acting = dspy.Predict(UseTool)
            self.extracting = dspy.ChainOfThought(ExtractAnswer)
        if tools == NATIVE:
            self.calling = dspy.Predict(CallTools)
        predictors = guided_predictors(GuidedTool) if tools == GUIDED else ending_predictors(reader)
        for name, predictor in predictors.items():
            setattr(self, name, predictor)

    def forward(self, question: str, passages: list[Passage] | None = None) -> dspy.Prediction:
        """Return the answer; fixed `passages` are the corpus of the first search (of all, without a retriever)."""
        if self.tools == GUIDED:
            return _GuidedTools(self, question, passages).run(self.max_turns, "invalid", "turns")
        native = self.tools == NATIVE and calls_tools(self.calling)
        turns: list[Turn] = []
        hops: list[Hop] = []
        seen: list[Passage] = []
        asked, invalid, answer, stop_reason = 0, 0, "", CAP
        while asked < self.max_turns and stop_reason == CAP:
            asked += 1
            lines = transcript_lines(turns, self.transcript_words)
            step = self._call(question, lines) if native else self._choose(question, lines)  # step 1
            if step.answer is not None:  # step 3
                answer, stop_reason = step.answer, FINISHED
                turns += step.turns
                continue
            for turn in step.turns:
                lines = transcript_lines(turns, self.transcript_words)
                first = all(hop.verdict == READ for hop in hops)
                fixed = passages if first or self.retrieve is None else None
                found = None if turn.results else self._act(turn, seen, lines, fixed)  # step 2
                if found is None:
                    # Departure: an answer that says nothing ("", "unknown") is invalid, too, in fields; the paper takes
                    # any reply.
                    drop_from_trace(step.reply)
                    invalid += 1
                    turns.append(turn if turn.results else turn._replace(results=(step.notice,)))
                    continue
                seen = deduplicate([*seen, *found.passages])
                turns.append(turn._replace(results=found.results))
                ids = [passage.id for passage in found.passages]
                hops.append(settled(Hop(question=turn.argument, answer="", passage_ids=ids, verdict=turn.action)))
        lines = transcript_lines(turns, self.transcript_words)
        reply = step.reply
        forced = stop_reason == CAP
        if forced:
            reply = try_predict(self.extracting, question=question, transcript=lines)
            answer = reply.answer if reply else ""
        ids = [id for hop in hops if hop.verdict == READ for id in hop.passage_ids]
        whole = [passage for passage in seen if passage.id in ids]
        finish = reply if stop_reason == FINISHED else None
        answer = final_answer(self, question, answer, lines, whole or seen, finish=finish)
        details = {"turns": asked, "read": [each.id for each in whole], "invalid": invalid, "forced": forced}
        return make_prediction(
            answer,
            stop_reason=stop_reason,
            hops=hops,
            passages=seen,
            citations=passages_supporting(question, answer, whole if passages_stating(answer, whole) else seen),
            details={**details, "native": native} if self.tools == NATIVE else details,
        )

    def max_calls(self) -> int:
        """Return the maximum number of LM calls for one question: the turns, the demanded answer, the shared reader."""
        if self.tools == GUIDED:
            return max(1, self.max_turns - 1)
        return self.max_turns + 1 + (self.reader != OWN)

    def _choose(self, question: str, lines: Sequence[str]) -> ReplyActions:
        """Return the action that the LM names in fields, or the answer with which it finishes."""
        reply = try_predict(self.acting, question=question, transcript=list(lines))
        # Departure: one action a turn, as the paper describes it; the public code runs all calls of a reply.
        turn = Turn(reply.thought, reply.action, reply.argument.strip()) if reply else Turn()
        finishes = turn.action == "finish" and gives_answer(turn.argument)
        return ReplyActions(reply, [turn], turn.argument if finishes else None, _INVALID)

    def _call(self, question: str, lines: Sequence[str]) -> ReplyActions:
        """Return the calls of the LM's reply; without one, its text is the answer, whatever it says.

        Departure: what the calls return is shown in the transcript, as in fields, instead of in separate messages,
        so that it is escaped and shortened alike. A reply without text, which the public code takes for the answer, is
        invalid; one that declines ends the loop without an answer.
        """
        tools = _TOOLS if self.keyword_search else _TOOLS[1:]
        reply, calls = try_call_tools(self.calling, tools, question=question, transcript=list(lines))
        if reply is not None and not calls:
            if not gives_answer(reply.answer):
                drop_from_trace(reply)
            answer = reply.answer if gives_answer(reply.answer) else ""
            return ReplyActions(reply, [Turn(action="finish", argument=reply.answer)], answer, "")
        turns = [
            Turn("", call.tool, call.shown, (call.error,)) if call.error else Turn("", call.tool, call.result)
            for call in calls
        ]
        return ReplyActions(reply, turns or [Turn(results=(_NO_CALL,))], None, _NOTHING_TO_CALL_WITH)

    def _act(self, turn: Turn, seen: list[Passage], lines: Sequence[str], fixed: list[Passage] | None) -> Found | None:
        """Return what the action of a turn gives; None if it is no action, or names nothing to act with."""
        if turn.action == READ:
            return _read(turn.argument, seen, lines)
        if turn.action not in (KEYWORDS, SEARCH) or is_no_item(turn.argument):
            return None
        found = self.snippets(turn, fixed)
        passages = [passage for passage, _ in found]
        numbers = {passage.id: number for number, passage in enumerate(deduplicate([*seen, *passages]), start=1)}
        shown = [f"[{numbers[each.id]}] {titled_text(each.model_copy(update={'text': text}))}" for each, text in found]
        return Found(tuple(shown) or (_NOTHING_FOUND,), passages)

    def snippets(self, turn: Turn, fixed: list[Passage] | None) -> list[tuple[Passage, str]]:
        """Return the passages that keywords or a search find, each with the sentences of it that are shown."""
        if turn.action == KEYWORDS and self.keyword_search:
            terms = [term for part in _COMMA.split(turn.argument) if (term := part.strip(_EDGES))]
            words = [term.casefold() for term in terms]
            # Departure: the paper counts in the whole corpus; a retriever has no list of it, so counts rank its best.
            pool = retrieve_passages(self, " ".join(terms), self.candidates, fixed=fixed)
            counts = {place: _count(passage, words) for place, passage in enumerate(pool)}
            best = sorted((place for place in counts if counts[place]), key=lambda place: -counts[place])[: self.k]
            return [(pool[place], _with_words(pool[place], words)) for place in best]
        # Departure: the paper ranks sentences by an embedding; here the retriever ranks passages, and of each those
        # sentences are shown that share most words with the query.
        ranked = retrieve_passages(self, turn.argument, self.k, fixed=fixed)
        if fixed is not None:  # in the order given, which is no ranking
            texts = [titled_text(passage) for passage in ranked]
            ranked = [ranked[place] for place in closest(turn.argument, texts, None, self.k)]
        return [(passage, _nearest(passage, turn.argument)) for passage in ranked]


class _GuidedTools(GuidedLoop):
    """Shows the sentences that a search shows, and whole passages once they were read."""

    def __init__(self, program: Any, question: str, fixed: list[Passage] | None):
        super().__init__(program, question, fixed)
        self.sentences: dict[str, str] = {}  # of the passages that are not shown whole, by id

    def allowed(self) -> tuple[str, ...]:
        keywords = (KEYWORDS,) if self.program.keyword_search else ()
        return (*keywords, SEARCH, *((READ,) if self.sentences else ()), *((FINISH,) if self.found else ()))

    def shown(self) -> list[Passage]:
        return [each.model_copy(update={"text": self.sentences.get(each.id, each.text)}) for each in self.found]

    def reads(self) -> list[Passage]:
        return [each for each in self.found if each.id not in self.sentences] or self.found

    def queries(self) -> list[str]:
        return [hop.question for hop in self.hops if hop.verdict != READ]

    def details(self) -> dict[str, Any]:
        read = dict.fromkeys(id for hop in self.hops if hop.verdict == READ for id in hop.passage_ids)
        return {"read": list(read), "forced": self.turns[-1].action != FINISH}

    def act(self, turn: Turn) -> Hop | None:
        if turn.action == READ:
            asked = {int(number) for number in re.findall(r"\d{1,6}", turn.argument)}
            found = [each for place, each in enumerate(self.found, start=1) if place in asked]
            opened = [self.sentences.pop(each.id, None) for each in found]
            if not any(opened):
                return None
        else:
            snippets = self.program.snippets(turn, self.given())
            found, known = [each for each, _ in snippets], {each.id for each in self.found}
            for each, text in snippets:
                before = self.sentences.get(each.id)
                if before is not None:
                    shown = dict.fromkeys([*before.split(_GAP), *text.split(_GAP)])
                    self.sentences[each.id] = _GAP.join(shown)
                elif each.id not in known and text != each.text:
                    self.sentences[each.id] = text
            self.found = deduplicate([*self.found, *found])
        return Hop(question=turn.argument, answer="", passage_ids=[each.id for each in found], verdict=turn.action)


def keywords(words: list[str]) -> str:
    """Find passages that contain exact names or terms. Shows the sentences with one of them."""
    return ", ".join(words)


def search(query: str) -> str:
    """Find passages by their meaning. Shows the sentences of each that are nearest to the query."""
    return query.strip()


def read(numbers: list[int]) -> str:
    """Read passages as a whole, by the numbers in brackets that the other tools show."""
    return ", ".join(map(str, numbers))


_TOOLS = (keywords, search, read)  # they return the argument of the action that is then taken


def _read(argument: str, seen: Sequence[Passage], lines: Sequence[str]) -> Found | None:
    """Return passages whole by their numbers; None if there is no number.

    A passage is not shown twice, unless the transcript had no room for it any longer.
    """
    numbers = list(dict.fromkeys(int(number) for number in re.findall(r"\d{1,6}", argument)))
    shown: list[str] = []
    read: list[Passage] = []
    for number in numbers:
        if not 1 <= number <= len(seen):
            shown.append(_NO_PASSAGE.format(number=number))
            continue
        text = f"[{number}] {titled_text(seen[number - 1])}"
        in_view = any(line.partition(": ")[2] == text for line in lines)
        shown.append(_IN_VIEW.format(number=number) if in_view else text)
        read.append(seen[number - 1])
    return Found(tuple(shown), read) if numbers else None


def _count(passage: Passage, words: Sequence[str]) -> int:
    """Return the sum over keywords of how often each occurs, times its length."""
    text = f"{passage.title} {passage.text}".casefold()
    return sum(text.count(word) * len(word) for word in words)


def _with_words(passage: Passage, words: Sequence[str]) -> str:
    """Return the first sentences with a keyword; where only the title has one, the first sentence."""
    sentences = split_sentences(passage.text)
    chosen = [text for text in sentences if any(word in text.casefold() for word in words)]
    return _GAP.join((chosen or sentences[:1])[:_SNIPPETS])


def _nearest(passage: Passage, query: str) -> str:
    """Return the two sentences that share most words with the query, in the order of the passage."""
    sentences, wanted = split_sentences(passage.text), set(text_words(query))
    shares = [len(wanted & set(text_words(text))) for text in sentences]
    best = sorted(range(len(sentences)), key=lambda place: -shares[place])[:2]
    return _GAP.join(sentences[place] for place in sorted(best))
