"""CoRAG, prompted: a chain of sub-questions, each retrieved for and answered, then the answer from the whole chain.

Wang et al., "Chain-of-Retrieval Augmented Generation", NeurIPS 2025, sections 3.1 (chains) and 3.3 (decoding: greedy
and best-of-N). https://arxiv.org/abs/2501.14342

1. From the question and the pairs so far, ask the next sub-question. One that repeats an earlier one is discarded and
   asked for again at a higher temperature; a chain makes at most 4 such calls per hop that it may have.
2. Retrieve k passages for the sub-question and answer it from them. Until there are `max_hops` pairs, go to 1; there is
   no earlier stop.
3. Best-of-N: take `chains` chains, the first at the LM's temperature, the others sampled, and choose one of them.
4. Answer the question from the pairs of the chosen chain and the passages of the question itself.

The paper's contribution is an LM that was trained on such chains by rejection sampling; this is their decoding with any
LM. Departure: tree search and the template of the trained checkpoint are not supported yet, and the passages of step 4
are shown best first. How long a reply may get is a setting of the LM (public code: 64 tokens for a sub-question, 128
for an answer).
"""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, NamedTuple

import dspy

from programs.parts.knobs import Choice, Range, set_knobs
from programs.parts.longform import answer_in, gives_answer
from programs.parts.passages import deduplicate, is_no_item, passages_supporting
from programs.parts.prediction import drop_from_trace, make_prediction, retrieve_passages, settled, try_predict
from programs.parts.probability import YesProbability, calls_per_probability, probability
from programs.parts.stop_reasons import DONE, REPEATED, UNPARSEABLE
from programs.parts.threads import fanout
from signatures.agents.corag import AnswerFollowUp, AskFurther, ConcludeChain, JudgeChain
from signatures.reading import ReadAnswer
from signatures.text_words import same_words
from signatures.types import Hop, Passage, Retriever

_TRIES = 4  # calls for sub-questions per hop, as in the public code
_RETRY = 0.7  # temperature at least, after a sub-question that was discarded
_UNKNOWN = "unknown"


class Chain(NamedTuple):
    """One chain of pairs.

    Args:
        hops: The pairs, oldest first.
        read: The passages of each hop, one after the other.
        replies: That it consists of.
        stop_reason: Why it ended.
    """

    hops: list[Hop]
    read: list[Passage]
    replies: list[dspy.Prediction]
    stop_reason: str


class CoRAG(dspy.Module):
    """Ask and answer a chain of sub-questions, or choose one of several chains; then answer from chain and passages.

    A hop is a pair: a sub-question and its answer, "unknown" if its passages do not state it. Hops are those of the
    chosen chain. `details`: `scores` (what each chain was chosen by: P(yes), None if unparseable, or the number of
    chains that agree with its answer; empty for one chain), `chosen` (its number from 0) and `probability_mode`.

    Args:
        retrieve: Ranks passages for a sub-question, and for the question; `passages` given are what the first
            sub-question of each chain and the question find.
        k: Passages per sub-question (paper: 5).
        final_k: Passages of the question that the last step reads beside the chain (paper: at most 20).
        max_hops: Length L of a chain (paper: 1, 6 or 10; 6 in the public script).
        chains: N of best-of-N (paper: 4); 1 is greedy decoding.
        temperature: Sampling temperature of the chains after the first (paper: 0.7).
        choose: How the best of several chains is chosen: "probability", by P(yes) of holding the answer, or
            "agreement", each chain being concluded by itself: the answer that most chains give, of equally frequent
            ones the earliest.
        reader: "chain", the paper's, reads pairs and passages, since the reader that all programs share has no place
            for the pairs, which are what this strategy adds; "passages" is that reader, over the passages of the chain
            and of the question.
    """

    PRESETS: dict[str, dict[str, Any]] = {
        "paper": {},
        "code": {"max_hops": 3},  # of the public code's configuration; its script says 6
        "best_of_4": {"chains": 4},
        "small": {"k": 3, "final_k": 3, "max_hops": 3},
    }

    def __init__(
        self,
        retrieve: Retriever | None = None,
        *,
        k: Annotated[int, Range(1, 20)] = 5,
        final_k: Annotated[int, Range(0, 20)] = 20,
        max_hops: Annotated[int, Range(1, 10)] = 6,
        chains: Annotated[int, Range(1, 8)] = 1,
        temperature: Annotated[float, Range(0.1, 1.5)] = 0.7,
        choose: Annotated[str, Choice("probability", "agreement")] = "probability",
        reader: Annotated[str, Choice("chain", "passages")] = "chain",
    ):
        super().__init__()
        set_knobs(self, locals())
        self.retrieve = retrieve
        self.asking = dspy.Predict(AskFurther)
        self.answering = dspy.Predict(AnswerFollowUp)
        if chains > 1 and choose == "probability":
            self.judging = dspy.Predict(JudgeChain)
        if reader == "chain":
            self.concluding = dspy.Predict(ConcludeChain)
        else:
            self.reading = dspy.Predict(ReadAnswer)

    def forward(self, question: str, passages: list[Passage] | None = None) -> dspy.Prediction:
        """Return the answer; fixed `passages` are the first of each chain and those of the question.

        Without a retriever they are the passages of all sub-questions.
        """
        if self.chains == 1:
            chains = [self._chain(question, passages, 0)]
        else:
            chains = fanout([partial(self._chain, question, passages, number) for number in range(self.chains)])
        documents = retrieve_passages(self, question, self.final_k, fixed=passages) if self.final_k else []
        conclude = partial(self._conclude, question, documents)
        if self.choose == "agreement":
            answers = fanout([partial(conclude, chain) for chain in chains])  # step 4, before step 3
            chosen, scores = _most_agreed([answer for answer, _ in answers])
            drop_from_trace(*(reply for number, (_, reply) in enumerate(answers) if number != chosen))
            mode = None
        else:
            chosen, scores, mode = self._most_probable(question, chains)  # step 3
        chain = chains[chosen]
        drop_from_trace(*(reply for other in chains if other is not chain for reply in other.replies))
        hops = chain.hops if self.chains == 1 else [settled(hop) for hop in chain.hops]
        answer, _ = answers[chosen] if self.choose == "agreement" else conclude(chain)  # step 4
        read = deduplicate([*chain.read, *documents])
        return make_prediction(
            answer,
            stop_reason=chain.stop_reason,
            hops=hops,
            passages=read,
            citations=passages_supporting(question, answer, read),
            details={"scores": scores if self.chains > 1 else [], "chosen": chosen, "probability_mode": mode},
        )

    def max_calls(self) -> int:
        """Return the most LM calls of one question: tries and answers of each chain, choice, conclusion."""
        chains = self.chains * self.max_hops * (_TRIES + 1)
        if self.chains == 1:
            return chains + 1
        if self.choose == "agreement":
            return chains + self.chains
        return chains + self.chains * calls_per_probability() + 1

    def max_sequential_calls(self) -> int:
        """Return the most LM calls in sequence for one question: the chains go on in parallel."""
        return self.max_hops * (_TRIES + 1) + 1 + (self.chains > 1 and self.choose != "agreement")

    def _chain(self, question: str, fixed: list[Passage] | None, number: int) -> Chain:
        """Return a chain (steps 1 and 2); that of number 0 is greedy, the others are samples."""
        hops: list[Hop] = []
        read: list[Passage] = []
        replies: list[dspy.Prediction] = []
        temperature = self.temperature if number else None
        for call in range(_TRIES * self.max_hops):
            sampled = {"temperature": temperature, "rollout_id": 1000 * number + call + 1}
            reply = try_predict(self.asking, config=sampled if temperature else {}, question=question, hops=list(hops))
            if reply is None:  # Departure: any text is a sub-question in the paper; what is unparseable ends the chain.
                return Chain(hops, read, replies, UNPARSEABLE)
            sub_question = reply.sub_question.strip()
            # Departure: sub-questions are compared by their words (code: as texts); "None" is discarded like a repeat.
            if is_no_item(sub_question) or same_words(sub_question) in {same_words(hop.question) for hop in hops}:
                drop_from_trace(reply)
                temperature = max(temperature or 0.0, _RETRY)
                continue
            temperature = self.temperature if number else None
            first = fixed if not hops or self.retrieve is None else None
            # Departure: best first, as in all prompts here (paper: best last); a full context cuts the last ones.
            found = retrieve_passages(self, sub_question, self.k, fixed=first)
            # Departure: where nothing is found, the answer is "unknown" without a call.
            step = try_predict(self.answering, passages=found, question=sub_question) if found else None
            replies += [reply, *([step] if step else [])]
            answer = answer_in(step) or _UNKNOWN
            hop = Hop(question=sub_question, answer=answer, passage_ids=[passage.id for passage in found])
            hops.append(settled(hop) if self.chains == 1 else hop)  # of several chains, the chosen one settles its hops
            read += found
            if len(hops) == self.max_hops:
                return Chain(hops, read, replies, DONE)
        return Chain(hops, read, replies, REPEATED)

    def _most_probable(self, question: str, chains: Sequence[Chain]) -> tuple[int, list[float | None], str | None]:
        """Return the chain with the highest P(yes), the earliest of equals, all scores, and how P(yes) was computed.

        Departure: the paper takes the chain with the lowest log-probability of a fixed sentence, that no relevant
        information was found, after question and pairs. That needs the log-probabilities of a prompt, which hardly any
        API gives; P(yes) of holding the information asks the opposite. A chain without pairs has no score.
        """
        if len(chains) == 1:
            return 0, [], None

        def judge(chain: Chain) -> YesProbability | None:
            return probability(self.judging, question=question, hops=chain.hops) if chain.hops else None

        judged = fanout([partial(judge, chain) for chain in chains])
        scores = [each.value if each else None for each in judged]
        best = max(range(len(chains)), key=lambda place: (scores[place] is not None, scores[place] or 0.0, -place))
        return best, scores, next((each.mode for each in judged if each), None)

    def _conclude(self, question: str, documents: list[Passage], chain: Chain) -> tuple[str, dspy.Prediction | None]:
        """Return the answer from a chain, and the reply; the last known answer of the chain if it gives none."""
        read, reply = deduplicate([*chain.read, *documents]), None
        if self.reader == "chain":
            reply = try_predict(self.concluding, passages=documents, hops=chain.hops, question=question)
        elif read:
            reply = try_predict(self.reading, passages=read, question=question)
        if answer := answer_in(reply):
            return answer, reply
        # Departure: the paper does not say what an empty answer, or one that declines, becomes.
        drop_from_trace(reply)
        return next((hop.answer for hop in reversed(chain.hops) if hop.answer != _UNKNOWN), ""), reply


def _most_agreed(answers: Sequence[str]) -> tuple[int, list[float | None]]:
    """Return the place of the answer that is given most often, the earliest of equals, and how often each is given."""
    votes = Counter(same_words(answer) for answer in answers if gives_answer(answer))
    scores: list[float | None] = [float(votes[same_words(answer)]) for answer in answers]
    return max(range(len(answers)), key=lambda place: (scores[place] or 0.0, -place)), scores
