"""Self-Ask with retrieval: ask follow-up questions one by one, answer each from its passages, then answer.

Press et al., "Measuring and Narrowing the Compositionality Gap in Language Models", Findings of EMNLP 2023, sections 3
(self-ask) and 3.3 (with a search engine). https://arxiv.org/abs/2210.03350

1. Ask: from the follow-up questions answered so far, either finish with the final answer, or ask the next one.
2. Answer it: retrieve k passages for the follow-up question and read the intermediate answer from them; go to 1.
3. After `max_hops` follow-up questions, give the final answer from the intermediate ones.

Departure: the paper's search engine returns an answer; here a corpus returns passages, and the shared reader reads the
answer. An instruction takes the place of the paper's demonstrations, which compiling adds.
Departure: where a step cannot be read or repeats a question, and where the final answer says nothing, the answer is
drawn from the hops in a separate call; the paper's one text continues until "So the final answer is:", and public code
returns an empty answer, or adds that cue, where it never comes.
"""

from collections.abc import Sequence
from typing import Annotated, Any

import dspy

from programs.parts.knobs import Range, set_knobs
from programs.parts.longform import answer_in, gives_answer
from programs.parts.passages import is_no_item, passages_supporting
from programs.parts.prediction import drop_from_trace, make_prediction, recall, retrieve_passages, settled, try_predict
from programs.parts.stop_reasons import CAP, FINISHED, REPEATED, UNPARSEABLE
from signatures.genground import ConcludeAnswer
from signatures.multi_step.self_ask import AskFollowUp
from signatures.reading import AnswerFromMemory, ReadAnswer
from signatures.text_words import same_words
from signatures.types import Hop, Passage, Retriever

READ, RECALLED = "read", "recalled"


class SelfAsk(dspy.Module):
    """Ask and answer follow-up questions until the final answer follows from the intermediate ones.

    The final answer is that of the asking LM, which sees intermediate answers and no passages, as in the paper. A hop
    is a follow-up question with its intermediate answer (empty if that reply was unparseable). Its verdict: "read"
    (from its passages) or "recalled" (from memory: nothing was found, or `search` is off).

    Args:
        retrieve: Ranks passages for a follow-up question.
        k: Passages per follow-up question (the paper's search engine returns one answer; standard in the field: 5).
        max_hops: Follow-up questions (the paper states no cap; public implementations with retrieval: 5).
        search: False answers the follow-up questions from memory (section 3, self-ask without the search engine).
        forced: False gives no answer where the LM did not finish by itself (as in public code that asks for none).
    """

    PRESETS: dict[str, dict[str, Any]] = {"paper": {}, "small": {"k": 3, "max_hops": 4}}

    def __init__(
        self,
        retrieve: Retriever | None = None,
        *,
        k: Annotated[int, Range(1, 20)] = 5,
        max_hops: Annotated[int, Range(1, 8)] = 5,
        search: bool = True,
        forced: bool = True,
    ):
        super().__init__()
        set_knobs(self, locals())
        self.retrieve = retrieve
        self.asking = dspy.Predict(AskFollowUp)
        if search:
            self.reading = dspy.Predict(ReadAnswer)
        else:
            self.memory = dspy.Predict(AnswerFromMemory)
        if forced:
            self.conclusion = dspy.Predict(ConcludeAnswer)

    def forward(self, question: str, passages: list[Passage] | None = None) -> dspy.Prediction:
        """Return the answer with its hops; fixed `passages` replace the first retrieval (all without a retriever)."""
        hops: list[Hop] = []
        read: list[Passage] = []
        citations: list[str] = []
        answer, stop_reason = "", CAP
        while len(hops) < self.max_hops:
            reply = try_predict(self.asking, question=question, hops=hops)  # step 1
            if reply is not None and reply.finished and hops:
                answer, stop_reason = reply.answer, FINISHED
                break
            asked = self._follow_up(question, reply, hops)
            if asked is None:
                drop_from_trace(reply)
                stop_reason = REPEATED if reply else UNPARSEABLE
                break
            fixed = passages if not hops or self.retrieve is None else None
            hop, found = self._answer(asked, fixed)  # step 2
            hops.append(settled(hop))
            read += found
            citations += passages_supporting(hop.question, hop.answer, found)
        if not gives_answer(answer):
            if stop_reason == FINISHED:
                drop_from_trace(reply)
            answer = self._conclude(question, hops) if self.forced else ""  # step 3
        citations += passages_supporting(question, answer, read)
        return make_prediction(answer, stop_reason=stop_reason, hops=hops, passages=read, citations=citations)

    def max_calls(self) -> int:
        """Return the maximum number of LM calls for one question: each hop asked and answered, a forced answer."""
        return 2 * self.max_hops + self.forced

    def _follow_up(self, question: str, reply: dspy.Prediction | None, hops: Sequence[Hop]) -> str | None:
        """Return the follow-up question of a reply; None if it names no new one, or is unparseable.

        Departure: where the LM wants none before anything was answered, names none, or cannot be read, the question is
        its own first follow-up question. The paper's LM would answer it from memory, but its demonstrations all ask.
        Departure: a follow-up question that repeats an earlier one ends the loop, since it would find nothing new.
        """
        asked = reply.sub_question.strip() if reply and not reply.finished else ""
        if not hops and is_no_item(asked):
            drop_from_trace(reply)
            return question
        known = {same_words(hop.question) for hop in hops}
        return None if is_no_item(asked) or same_words(asked) in known else asked

    def _answer(self, asked: str, fixed: list[Passage] | None) -> tuple[Hop, list[Passage]]:
        """Return a follow-up question with its intermediate answer, and the passages that were read for it.

        If the search finds nothing, the LM answers from memory, as the paper's does where its search engine has none.
        """
        found = retrieve_passages(self, asked, self.k, fixed=fixed) if self.search else []
        if found:
            reply = try_predict(self.reading, passages=found, question=asked)
        else:
            reply = recall(asked) if self.search else try_predict(self.memory, question=asked)
        hop = Hop(
            question=asked,
            # Departure: "unknown" and refusals are no intermediate answers. Where the paper's search has none, its LM
            # writes one; here it does if nothing is found, while passages that do not tell leave the hop empty.
            answer=answer_in(reply),
            passage_ids=[passage.id for passage in found],
            verdict=READ if found else RECALLED,
        )
        return hop, found

    def _conclude(self, question: str, hops: list[Hop]) -> str:
        """Ask for the final answer from the hops; return the last intermediate answer if that reply has none.

        Departure: the paper does not say what happens if the LM does not finish; public implementations force it.
        """
        reply = try_predict(self.conclusion, question=question, hops=hops)
        return answer_in(reply) or next((hop.answer for hop in reversed(hops) if hop.answer), "")
