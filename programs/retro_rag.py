"""RetroRAG: collate, infer and rerank evidence in rounds until two answers drawn from it agree.

Xiao et al., "Retrieval-Augmented Generation by Evidence Retroactivity in LLMs", arXiv 2025, sections Answerer
(equation 1), Evidence Collation (2), Evidence Discovery (3 to 5) and Settings. https://arxiv.org/abs/2501.05475

For a question q and its key entities k, which the first round names, each round

1. collates: retrieves passages for the search query q_s and scores them, with those kept before, for q and q_s
   (equation 2); the best N are the source evidence E_s;
2. answers twice from E_s and the inferential evidence E_i so far: a with reasoning r, a_sc directly at temperature 1;
3. judges: stops if a is an answer and P(yes) that both agree is above t (equation 1), or after the last round, whose a
   is the output (where that declines, an earlier one: `final_answer`);
4. infers what follows from E_s about k;
5. gates: drops the inferences that are not relevant to q and q_s or not attributable to E_s (equation 3);
6. ranks: scores the other inferences and those of E_i for q alone (equation 4); the best K are the new E_i;
7. searches further: writes the next q_s from E_s, E_i, r and q (equation 5).

The paper leaves open if an answer precedes the first retrieval (here: no). Departure: the first matching query is q; by
the formula it is [q, q]. Departure: in the last round a is asked for by a prompt that does not offer "unknown"; the
paper has one M_C for all rounds.
"""

from functools import partial
from itertools import count
from typing import Annotated, Any

import dspy

from programs.parts.evidence import candidate_records as records_of
from programs.parts.evidence.candidate_records import (
    ACCEPTANCE,
    Answer,
    State,
    Weighing,
    answer_hop,
    check_size,
    drop_unused,
    final_answer,
    refusal,
)
from programs.parts.gates import Gate, decide, within
from programs.parts.knobs import Range, set_knobs
from programs.parts.passages import deduplicate, is_no_item, new_items, passages_supporting, titled_text, top
from programs.parts.prediction import drop_from_trace, make_prediction, recall, retrieve_passages, settled, try_predict
from programs.parts.probability import YesNoQuestion, YesNoScores, calls_per_probability
from programs.parts.stop_reasons import NOTHING_FOUND
from programs.parts.threads import fanout, in_parallel
from signatures import retro_rag as prompts
from signatures.reading import AnswerFromMemory
from signatures.text_words import same_words
from signatures.types import Candidate, Hop, Passage, Retriever
from signatures.voting import is_answer

TESTED = 2  # times K: the new inferences tested in a round at most, however many the reply has


class RetroRAG(dspy.Module):
    """Collate, infer and rerank evidence in rounds until two answers drawn from it agree.

    `concluding`, the predictor of the last round, shows the demos of `answering` if it has none of its own.

    A hop is a round: its question is the search query, its answer the reasoned one, its draft the direct one, its
    passage ids those that the search added, its candidates all evidence scored. Its verdict: "accepted" (both answers
    agree), "disagreed", "no answer", "unparseable" (a reply was), "final" (of the last round: output, but not
    accepted), None (usable, but not judged: `evaluate_answer` is off, or with nothing to read, as with `passages=[]`,
    the answer is from memory). `details`: `inferential_evidence` (whether any inference was ever kept; Figure 6),
    `rounds`, `answered` and `agreement` (P(yes) per round, or None), `probability_mode`. An answer cites passages of
    the E_s of its round.

    Args:
        retrieve: Ranks passages for a query.
        threshold: Agreement above which an answer is accepted (paper: t = 0.7; 0.5 suits HotpotQA, Figure 4).
        source_size: Passages kept as evidence (paper: N = 5).
        inferential_size: Inferences kept as evidence (paper: K = 5).
        limit_inferences: True asks for at most K useful new inferences per round; False, the paper's, for as many as
            the passages support, of which the gates drop what does not help.
        k: Passages retrieved per round (paper: 5).
        max_rounds: Rounds at most (paper: 5).
        relevance_gate: P(yes) above which an inference counts as relevant to the question (paper: 0.5).
        attribution_gate: P(yes) above which an inference counts as stated in the passages (paper: 0.5).
        evaluate_answer: False generates and judges no second answer, and runs all rounds (w/o AE).
        ellery: False answers from memory, in one round (w/o ELLERY).
        source: False shows the passages neither to the answers nor to the search, only to the inferences (w/o SE).
        inferential: False makes no inferences (w/o IE).
        update: False scores no evidence and keeps all of it, newest first (w/o UoE).
        evaluate_evidence: False applies no gates to inferences (w/o EoE).
        batch_weighing: Pieces of evidence weighed in one call (paper: 1). Above 1 the LM lists a number for each, which
            ranks them as P(yes) does otherwise: fewer calls and tokens, coarser scores
            (`parts/evidence/candidate_records.py`).
    """

    PRESETS: dict[str, dict[str, Any]] = {
        "paper": {},
        "hotpotqa": {"threshold": 0.5},
        "small": {"k": 3, "source_size": 3, "limit_inferences": True},  # a limit, as the embedded LM was trained
    }
    GATES: dict[str, Gate] = {"rounds": within("max_rounds"), "acceptance": ACCEPTANCE, "evidence": records_of.EVIDENCE}

    # Departure: the paper names its ablations (Table 2; the bools) in one sentence; Args says what each omits.
    def __init__(
        self,
        retrieve: Retriever | None = None,
        *,
        threshold: Annotated[float, Range(0, 1)] = 0.7,
        source_size: Annotated[int, Range(1, 10)] = 5,
        inferential_size: Annotated[int, Range(1, 10)] = 5,
        k: Annotated[int, Range(1, 20)] = 5,
        max_rounds: Annotated[int, Range(1, 8)] = 5,
        relevance_gate: Annotated[float, Range(0, 1)] = 0.5,
        attribution_gate: Annotated[float, Range(0, 1)] = 0.5,
        evaluate_answer: bool = True,
        ellery: bool = True,
        source: bool = True,
        inferential: bool = True,
        update: bool = True,
        evaluate_evidence: bool = True,
        limit_inferences: bool = False,
        batch_weighing: int = 1,
    ):
        super().__init__()
        set_knobs(self, locals())
        check_size("batch_weighing", batch_weighing)
        self.retrieve = retrieve
        # Departure: the paper's prompts are figures missing from its text; ours follow its description, without demos.
        self.naming = dspy.Predict(prompts.NameEntities)
        self.weighing = dspy.Predict(prompts.WeighEvidence)  # M_e
        if batch_weighing > 1:
            self.weighing_together = dspy.Predict(prompts.WeighPieces)  # M_e for several pieces
        self.answering = dspy.ChainOfThought(prompts.AnswerFromEvidence)  # M_C
        self.concluding = dspy.ChainOfThought(prompts.GiveFinalAnswer)  # M_C in the last round
        self.monitoring = dspy.Predict(prompts.AnswerFromEvidence)  # M_D
        self.agreement = dspy.Predict(prompts.JudgeAgreement)  # M_sc
        self.assessing = dspy.Predict(prompts.JudgeAnswer)  # declarative assessor
        drawing = prompts.DrawFewInferences if limit_inferences else prompts.DrawInferences
        self.inferring = dspy.Predict(drawing)  # M_IE
        self.relevance = dspy.Predict(prompts.JudgeRelevance)  # M_qr
        self.attribution = dspy.Predict(prompts.JudgeAttribution)  # M_ra
        self.searching = dspy.Predict(prompts.SearchFurther)  # M_R
        if not ellery:
            self.recalling = dspy.ChainOfThought(AnswerFromMemory)  # M_C without evidence
            self.recalling_directly = dspy.Predict(AnswerFromMemory)  # M_D without evidence

    def forward(self, question: str, passages: list[Passage] | None = None) -> dspy.Prediction:
        """Return the answer and its rounds; fixed `passages` replace the first retrieval (all without a retriever)."""
        state = State(question, YesNoScores())
        answers: list[Answer] = []
        hops: list[Hop] = []
        for number in count(1):
            search, last = state.query or question, not (self.ellery and decide(self, "rounds", done=number))
            fixed = passages if number == 1 or self.retrieve is None else None
            last = last or (self.retrieve is None and not fixed)  # nothing to read, nor to search
            state, added, records = self._collate(state._replace(last=last), fixed)  # step 1: equation 2
            if answers and self._has_nothing_to_read(state):
                answer = answers[-1]  # which was recalled, too: evidence that is held stays
            else:
                answer = self._judge(state, self._answer(state, number))  # steps 2 and 3: equation 1
            stop = last or answer.accepted
            if not stop:  # Departure: the last round neither infers nor searches, because nothing would use the result.
                state, inferred = self._discover(state)  # steps 4 to 6: equations 3 and 4
                state = state._replace(query=self._next_query(state, answer, hops))  # step 7: equation 5
                records += inferred
            answers.append(answer)
            final = stop and final_answer(answers) is answer
            hops.append(settled(answer_hop(search, added, answer, records, final=final)))
            if stop:
                break
        return self._prediction(state, answers, hops)

    def max_calls(self) -> int:
        """Return the most LM calls of one question with k passages a round; a fixed context beyond k adds a P(yes)."""
        rounds = self.max_rounds if self.ellery else 1
        score, weigh = calls_per_probability(), self._weighing().max_calls
        calls = rounds * (1 + self.evaluate_answer * (1 + 2 * score)) + rounds - 1
        if self.ellery and self.update:
            calls += sum(weigh(min(self.source_size, number * self.k) + self.k, score) for number in range(rounds))
        if self.inferential and rounds > 1:
            tested = TESTED * self.inferential_size
            gates = 2 * self.evaluate_evidence * tested * score
            calls += 1 + (rounds - 1) * (1 + gates + self.update * weigh(tested, score))
        return calls

    def max_sequential_calls(self) -> int:
        """Return the most LM calls in sequence for one question: by default six a round, three in the last."""
        further = self.max_rounds - 1 if self.ellery else 0
        weigh = self.update * (1 + (self.batch_weighing > 1))  # a list in vain is followed by single questions
        collate = self.ellery * weigh
        named = bool(self.inferential and further and not collate)  # else while passages are weighed
        discover = self.inferential * (1 + max(int(self.evaluate_evidence), weigh)) + 1  # and the next query
        return named + (further + 1) * (collate + 1 + self.evaluate_answer) + further * discover

    # The evaluators S of equations 1 to 4: yes/no questions whose P(yes) is the score.
    # Departure: none is asked twice; without log-probabilities, P(yes) is estimated (parts/probability.py).

    def _weighing(self) -> Weighing:
        """Equations 2 and 4, s_Es and s_Ei: does a piece contribute to answering q_m = [q, q_s], or q alone?"""
        return Weighing(self.weighing, getattr(self, "weighing_together", None), self.batch_weighing)

    def _gates(self, claim: str, state: State) -> dict[tuple[str, str], YesNoQuestion]:
        """Equation 3, s_qr and s_ra: is an inference relevant to q_m, given E_i, and is it stated in E_s?"""
        context = {"question": state.question, "inferences": state.inferences, "query": state.query}
        relevance = YesNoQuestion(self.relevance, **context, claim=claim)
        attribution = YesNoQuestion(self.attribution, passages=state.source, claim=claim)
        return {(claim, "relevance"): relevance, (claim, "attribution"): attribution}

    def _collate(self, state: State, fixed: list[Passage] | None) -> tuple[State, list[str], list[Candidate]]:
        """Step 1: return the state with the new E_s, the ids that the search added to E_s, and records of all."""
        if not self.ellery:
            return state, [], []
        retrieved = retrieve_passages(self, state.query or state.question, self.k, fixed=fixed)
        held = {passage.id for passage in state.source}
        new = [passage for passage in retrieved if passage.id not in held]
        # Departure: the paper has no rule for ties; at equal scores, which sampled and verbalised P(yes) often are,
        # what is not held yet comes first, as retrieved. Otherwise no new passage would ever replace an old one.
        pool = {passage.id: passage for passage in deduplicate([*new, *retrieved, *state.source])}
        pieces = {id: titled_text(passage) for id, passage in pool.items()} if self.update else {}
        weigh = partial(self._weighing().ask, state.scores, pieces, question=state.question, query=state.query)
        entities, scores = in_parallel(partial(self._key_entities, state), weigh)
        kept = top(scores, self.source_size) if self.update else list(pool)  # equation 2
        records = records_of.passage_candidates(list(pool.values()), scores, kept, self.source_size)
        source, added = [pool[id] for id in kept], [passage.id for passage in deduplicate(new) if passage.id in kept]
        return state._replace(entities=entities, source=source, read=state.read + source), added, records

    def _key_entities(self, state: State) -> list[str]:
        """Return k, named in the first round if inferences follow. Departure: by an LM call; the paper is silent."""
        if state.entities is not None or not self.inferential or state.last:
            return state.entities or []
        reply = try_predict(self.naming, question=state.question)
        return reply.entities if reply else []

    def _answer(self, state: State, number: int) -> Answer:
        """Step 2: answer with reasoning and, to check that answer, directly at temperature 1."""
        if self._has_nothing_to_read(state):
            # Departure: the paper does not say what is answered from no evidence; here one answer is recalled, and it
            # is not judged, since a second one from memory would agree with it and end the search.
            reply = recall(state.question)
            return Answer([reply], reply.answer.strip() if reply else "", "", None, source=[])
        reasoned, direct, shown = self.answering, self.monitoring, self._evidence(state)
        demos: dict[str, Any] = {}
        if not self.ellery:  # Departure: the paper does not say how; as in all rounds, a with reasoning, a_sc without.
            reasoned, direct, shown = self.recalling, self.recalling_directly, {"question": state.question}
        elif state.last:  # Only a must not be "unknown"; an a_sc that is does not agree with a, as s_sc then records.
            reasoned = self.concluding  # few questions come here, so that it may have no demos; the fields are the same
            demos = {"demos": reasoned.predict.demos or self.answering.predict.demos}
        calls = [partial(try_predict, reasoned, **demos, **shown)]  # Departure: at the LM's temperature (paper: 0.01)
        if self.evaluate_answer:
            sampling = {"temperature": 1.0, "rollout_id": number}  # another sample in each round
            calls.append(partial(try_predict, direct, config=sampling, **shown))
        first, *second = replies = fanout(calls)
        text, reasoning = (first.answer.strip(), first.reasoning) if first else ("", "")
        again = second[0].answer.strip() if second and second[0] else None
        return Answer(replies, text, reasoning, again, source=state.source)

    def _has_nothing_to_read(self, state: State) -> bool:
        """Return whether a round that answers from evidence has none."""
        return self.ellery and not state.source

    def _evidence(self, state: State) -> dict[str, Any]:
        passages = state.source if self.source else []
        return {"passages": passages, "inferences": state.inferences, "question": state.question}

    def _judge(self, state: State, answer: Answer) -> Answer:
        """Step 3: return the answer with its verdict: accepted if it is an answer and s_sc > t (equation 1)."""
        if refused := refusal(answer):  # Departure: what is no answer ("unknown", say) is refused without a call.
            return answer._replace(verdict=refused)
        if not self.evaluate_answer or self._has_nothing_to_read(state):
            return answer
        # Departure: the paper takes its declarative assessor, which standardises the answer, from MetaRAG (three kinds
        # of fault); ours only asks if the reply commits to an answer.
        questions = {"answered": YesNoQuestion(self.assessing, question=state.question, reply=answer.text)}
        empty = answer.direct is not None and not is_answer(answer.direct)
        if answer.direct is not None and not empty:
            said = {"question": state.question, "answer": answer.text, "other_answer": answer.direct}
            questions["agreement"] = YesNoQuestion(self.agreement, **said)  # equation 1, s_sc
        judged = state.scores.ask(questions)
        # Departure: an a_sc that is empty or "unknown" does not agree with an answer; no judge is asked to say so.
        answered, s_sc = judged["answered"], 0.0 if empty else judged.get("agreement")
        accepted = decide(self, "acceptance", answered=answered, agreement=s_sc)
        return answer._replace(answered=answered, agreement=s_sc, verdict=accepted)

    def _discover(self, state: State) -> tuple[State, list[Candidate]]:
        """Steps 4 to 6: return the state with the new E_i, and the records of all inferences."""
        if not self.inferential or not state.source:
            return state, []
        shown = {"passages": state.source, "entities": state.entities, "question": state.question}
        if self.limit_inferences:
            shown["limit"] = self.inferential_size
        # Departure: the paper does not bound its inferences; here only the first 2K new ones of at most 100 words are
        # tested, so that a runaway list does not cost any number of calls.
        reply = try_predict(self.inferring, **shown)
        new = new_items(reply.inferences if reply else [], state.inferences, max_words=100)
        most = TESTED * self.inferential_size
        tested, untested = new[:most], new[most:]
        claims = [*tested, *state.inferences]  # at equal scores the new ones come first, as for passages
        gated = tested if self.evaluate_evidence else []
        gates = {key: gate for claim in gated for key, gate in self._gates(claim, state).items()}
        pieces = {claim: claim for claim in claims} if self.update else {}
        weigh = partial(self._weighing().ask, state.scores, pieces, question=state.question, query="")
        # Departure: gates and scores are asked in parallel, so all are scored; unparseable scores fail and rank last.
        gate_scores, scores = in_parallel(partial(state.scores.ask, gates), weigh)
        thresholds = {"relevance": self.relevance_gate, "attribution": self.attribution_gate}
        judged = records_of.gate_values(claims, gate_scores, scores, self.inferential_size)
        kept = [claims[place] for place in decide(self, "evidence", **judged)]  # equations 3 and 4
        if not set(kept) & set(tested):
            drop_from_trace(reply)  # Departure: a reply of which nothing is kept must not become a demo.
        records = records_of.inference_candidates(claims, scores, kept, self.inferential_size, gate_scores, thresholds)
        return state._replace(inferences=kept), records + records_of.untested_candidates(untested, most)

    def _next_query(self, state: State, answer: Answer, hops: list[Hop]) -> str:
        """Step 7, equation 5: return the next q_s, empty if that is q itself."""
        # Departure: a is shown after r. In the paper's chain of thought it is the end of the text; here r need not name
        # the answer that was wrong.
        reasoning = f"{answer.reasoning} Answer: {answer.text}".strip() if answer.text else answer.reasoning
        reply = try_predict(self.searching, reasoning=reasoning, **self._evidence(state))
        query = reply.query.strip() if reply else ""
        searched = map(same_words, [state.question, state.query, *(hop.question for hop in hops)])
        # Departure: if the query is unparseable, "None" or one that was searched for, the next search is for q.
        if is_no_item(query) or same_words(query) in searched:
            drop_from_trace(reply)
            return ""
        return query

    def _prediction(self, state: State, answers: list[Answer], hops: list[Hop]) -> dspy.Prediction:
        final = final_answer(answers)
        drop_unused(answers, final)
        text, kept = final.text if final else "", [each for hop in hops for each in hop.candidates if each.kept]
        details = {
            "inferential_evidence": any(each.passage_id is None for each in kept),
            "rounds": len(hops),
            "answered": [answer.answered for answer in answers],
            "agreement": [answer.agreement for answer in answers],
            "probability_mode": state.scores.mode,
        }
        told: dict[str, Any] = {
            "hops": hops,
            "passages": state.read,
            "citations": passages_supporting(state.question, text, final.source if final else []),
        }
        stop_reason = answers[-1].stop_reason if state.read or not self.ellery else NOTHING_FOUND
        return make_prediction(text, stop_reason=stop_reason, **told, details=details)
