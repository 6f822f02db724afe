"""RetroRAG: keep weighing all evidence against the question, so that a wrong turn can still be undone.

Xiao et al., "Retrieval-Augmented Generation by Evidence Retroactivity in LLMs", AAAI 2025: "Answerer" (equation 1),
"Evidence Collation" (2), "Evidence Discovery" (3 to 5), "Settings", Table 2 (ablations), Figure 4 (thresholds).
https://arxiv.org/abs/2501.05475

A round: collect passages and keep the best; answer twice; where both answers agree, stop; else draw inferences from the
passages, keep those that pass two gates and rank best, and search for what is missing. The evidence of an answer is
the round's passages and the inferences of the rounds before.

Departure: the prompts stand in figures that the paper's text lacks; ours are written from what it says they do.
Departure: the reasoned answer runs at the LM's own temperature (paper: 0.01); the second one at 1.0, as there.
Departure: the paper bounds inferences by nothing; a round tests the first K that are new and no longer than a passage.
Departure: the gates and the score of a new inference are asked side by side, so one that fails a gate is scored, too.
Departure: the paper does not describe its declarative assessor; ours asks whether the reply commits itself to an
answer. "unknown", the word our prompt asks for, and an empty answer are refused unasked.
Departure: the last round neither infers nor searches, for nothing would read it.
Departure: when the rounds run out the last answer stands, as in the paper; where that is empty or "unknown", the latest
answer before it that was not refused. Without any the program abstains.
Departure: a score that cannot be read passes no gate and ranks last; an agreement or assessment that cannot be read
does not stop the loop; an unreadable query, or one that repeats the question, searches with the question alone.
Departure: of the ablations the paper gives names and a sentence; what each leaves out stands under Args.
Departure: answers that were not accepted, inferences of which none was kept, and queries that ask nothing new are taken
out of the trace, so that no optimizer makes demos of them.
"""

from typing import Annotated, Any

import dspy

from programs.parts.evidence import Ask, Gate, failures, keep_best, new_claims
from programs.parts.fanout import fanout
from programs.parts.knobs import Range, set_knobs
from programs.parts.passages import passages_stating, without_repeats
from programs.parts.predict import attempt, withdraw
from programs.parts.prediction import outcome, retrieve_or_given
from programs.parts.probability import calls_per_belief
from programs.parts.trial import ACCEPTED, NO_ANSWER, UNREAD, Case, Judged, Trial, chosen, is_answer, verdict
from signatures import retro_rag as prompts
from signatures.text import normalize_answer
from signatures.types import Candidate, Passage, Retriever


class RetroRAG(dspy.Module):
    """Collect, weigh and discover evidence in rounds until two answers from it agree.

    A hop is a round: its question is the search query, its answer the reasoned one, its draft the direct one, its
    passage ids those that the search added, its candidates all evidence weighed in the round. Its verdict: "accepted"
    (both agree; the loop ends), "disagreed", "no answer", "unread" (a reply could not be read), "final" (not accepted,
    but the rounds are over), None (answers are not checked). `details` hold `inferential_evidence` (whether any
    inference was ever kept; Figure 6 groups by it), `rounds`, P(yes) of `answered` and `agreement` (one per round, or
    None) and `probability_mode`.

    Args:
        retrieve: Ranks passages for a query.
        threshold: Agreement above which an answer is accepted (paper: t = 0.7; 0.5 suits HotpotQA).
        source_size: Passages kept as evidence (paper: N = 5).
        inferential_size: Inferences kept as evidence, and new ones tested per round (paper: K = 5).
        k: Passages retrieved per round (paper: 5).
        max_rounds: Rounds before the last answer stands (paper: 5).
        relevance_gate: P(yes) above which an inference counts as relevant to the question (paper: 0.5).
        attribution_gate: P(yes) above which it counts as found in the passages (paper: 0.5).
        evaluate_answer: False asks for no second answer and no judgement, and runs all rounds (w/o AE).
        ellery: False answers in one round without any evidence (w/o ELLERY).
        source: False shows the passages neither to the answers nor to the search; inferences still come from them
            (w/o SE).
        inferential: False draws no inferences (w/o IE).
        update: False scores no evidence and keeps all of it (w/o UoE).
        evaluate_evidence: False lets every inference through the gates unasked (w/o EoE).
    """

    PRESETS: dict[str, dict[str, Any]] = {"paper": {}, "hotpotqa": {"threshold": 0.5}}

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
    ):
        super().__init__()
        sizes = {"source_size": source_size, "inferential_size": inferential_size, "k": k, "max_rounds": max_rounds}
        gates = {"threshold": threshold, "relevance_gate": relevance_gate, "attribution_gate": attribution_gate}
        evidence = {"source": source, "inferential": inferential, "update": update}
        parts = {"evaluate_answer": evaluate_answer, "ellery": ellery, "evaluate_evidence": evaluate_evidence}
        set_knobs(self, {**sizes, **gates, **evidence, **parts})
        self.retrieve = retrieve
        self.naming = dspy.Predict(prompts.NameEntities)
        self.weighing = dspy.Predict(prompts.WeighEvidence)
        self.answering = dspy.ChainOfThought(prompts.AnswerFromEvidence)
        self.monitoring = dspy.Predict(prompts.AnswerFromEvidence)
        self.agreement = dspy.Predict(prompts.JudgeAgreement)
        self.assessing = dspy.Predict(prompts.JudgeAnswer)
        self.inferring = dspy.Predict(prompts.DrawInferences)
        self.relevance = dspy.Predict(prompts.JudgeRelevance)
        self.attribution = dspy.Predict(prompts.JudgeAttribution)
        self.searching = dspy.Predict(prompts.SearchFurther)

    def forward(self, question: str, passages: list[Passage] | None = None) -> dspy.Prediction:
        """Return the answer with its rounds; given `passages` serve the first, and every one without a retriever."""
        case = Case(question)
        for number in range(1, self._rounds() + 1):
            last, search = number == self._rounds(), case.query or question
            added, weighed = self._collate(case, search, passages if number == 1 or self.retrieve is None else None)
            trial = self._try(case, number)
            trial = trial.concluded() if last else trial
            ends = last or trial.verdict == ACCEPTED
            weighed += [] if ends else self._discover(case)
            case.trials.append(trial)
            case.hops.append(trial.hop(search, added, weighed))
            if ends:
                break
            self._look_further(case, trial)
        return self._outcome(case)

    def max_calls(self) -> int:
        """Return the most LM calls one question can take: every search and every inference new, no answer accepted.

        The bound counts k passages a round; more given passages than k take a call (P(yes) by samples: five) each, and
        without a retriever they do so in every round.
        """
        rounds, each = self._rounds(), calls_per_belief()
        calls = rounds * (1 + (1 + 2 * each) * self.evaluate_answer)
        if not self.ellery:
            return calls
        held = 0
        for _ in range(rounds if self.update else 0):
            calls += each * (held + self.k)
            held = min(self.source_size, held + self.k)
        if self.inferential and rounds > 1:
            per_claim = each * (self.update + 2 * self.evaluate_evidence)
            calls += 1 + (rounds - 1) * (1 + self.inferential_size * per_claim)
        return calls + rounds - 1

    def _rounds(self) -> int:
        return self.max_rounds if self.ellery else 1

    def _collate(self, case: Case, search: str, given: list[Passage] | None) -> tuple[list[str], list[Candidate]]:
        """Merge what the search finds with the passages held, and keep the best for question and query (equation 2).

        The first time the key entities are asked for on the side.
        """
        if not self.ellery:
            return [], []
        found = retrieve_or_given(self, search, self.k, given)
        held = {passage.id for passage in case.source}
        added = [passage.id for passage in without_repeats(found) if passage.id not in held]
        pool = without_repeats([*case.source, *found])
        texts = [f"{passage.title}: {passage.text}" if passage.title else passage.text for passage in pool]
        asks = [self._weigh(case, text, case.query) for text in texts]
        named_now = not case.trials and self.inferential and self._rounds() > 1
        naming = [lambda: attempt(self.naming, question=case.question)] if named_now else []
        for named in case.beliefs.ask(asks if self.update else [], *naming):
            case.entities = named.entities if named else []
        kept, reasons, scores = self._select(case, asks, self.source_size)
        case.source = [pool[place] for place in kept]
        case.read += case.source
        return added, [
            Candidate(text=text, passage_id=passage.id, score=score, kept=place in kept, reason=reason)
            for place, (text, passage, score, reason) in enumerate(zip(texts, pool, scores, reasons, strict=True))
        ]

    def _weigh(self, case: Case, evidence: str, query: str) -> Ask:
        return Ask(self.weighing, {"evidence": evidence, "question": case.question, "query": query})

    def _select(self, case: Case, asks: list[Ask], size: int) -> tuple[list[int], list[str], list[float | None]]:
        """Return which pieces of evidence to keep, best first, and for each why or why not, and its score."""
        if not self.update:
            return list(range(len(asks))), ["kept without a score"] * len(asks), [None] * len(asks)
        scores = [case.beliefs[ask] for ask in asks]
        return *keep_best(scores, size), scores

    def _shown(self, case: Case) -> dict[str, Any]:
        """Return the evidence as answers and search see it."""
        return {"passages": case.source if self.source else [], "inferences": case.claims, "question": case.question}

    def _try(self, case: Case, number: int) -> Trial:
        """Answer with reasoning and, unless told otherwise, directly; then judge the two (equation 1)."""
        shown = self._shown(case)
        tasks = [lambda: attempt(self.answering, **shown)]
        if self.evaluate_answer:
            apart = {"temperature": 1.0, "rollout_id": number}
            tasks.append(lambda: attempt(self.monitoring, config=apart, **shown))
        reasoned, *direct = fanout(tasks)
        answer = reasoned.answer.strip() if reasoned else ""
        draft = direct[0].answer.strip() if direct and direct[0] else None
        judged = self._judge(case, answer, draft) if reasoned else (None, None, UNREAD)
        reasoning = reasoned.reasoning if reasoned else ""
        return Trial([reasoned, *direct], answer, reasoning, draft, *judged)

    def _judge(self, case: Case, answer: str, draft: str | None) -> Judged:
        """Return P(yes) that the answer is one and that both answers agree, and the verdict."""
        if not is_answer(answer):
            return None, None, NO_ANSWER
        if not self.evaluate_answer:
            return None, None, None
        assessed = Ask(self.assessing, {"question": case.question, "reply": answer})
        compared = Ask(self.agreement, {"question": case.question, "answer": answer, "other_answer": draft})
        case.beliefs.ask([assessed, compared] if draft is not None else [assessed])
        agreement = case.beliefs[compared] if draft is not None else None
        return case.beliefs[assessed], agreement, verdict(case.beliefs[assessed], agreement, self.threshold)

    def _discover(self, case: Case) -> list[Candidate]:
        """Draw inferences, drop those that fail a gate, and keep the best of old and new for the question alone."""
        if not self.inferential or not case.source:
            return []
        drawn = attempt(self.inferring, passages=case.source, entities=case.entities, question=case.question)
        fresh = new_claims(drawn.inferences if drawn else [], known=case.claims)
        tested, beyond = fresh[: self.inferential_size], fresh[self.inferential_size :]
        gates = {claim: self._gates(case, claim) for claim in tested} if self.evaluate_evidence else {}
        weights = {claim: self._weigh(case, claim, "") for claim in [*case.claims, *tested]}
        gated = [gate.ask for group in gates.values() for gate in group]
        case.beliefs.ask([*gated, *weights.values()] if self.update else gated)

        failed = {claim: failures(case.beliefs, group) for claim, group in gates.items()}
        through = [claim for claim in weights if not failed.get(claim)]
        kept, reasons, _ = self._select(case, [weights[claim] for claim in through], self.inferential_size)
        case.claims = [through[place] for place in kept]
        case.inferred = case.inferred or bool(kept)
        if drawn and not set(case.claims) & set(tested):
            withdraw([drawn])
        why = failed | dict(zip(through, reasons, strict=True))
        score_of = {claim: case.beliefs[ask] for claim, ask in weights.items()} if self.update else {}
        too_many = f"beyond the first {self.inferential_size} of the round"
        return [
            Candidate(
                text=claim,
                score=score_of.get(claim),
                kept=claim in case.claims,
                reason=why.get(claim, too_many),
                gates={gate.name: case.beliefs[gate.ask] for gate in gates.get(claim, ())},
            )
            for claim in [*weights, *beyond]
        ]

    def _gates(self, case: Case, claim: str) -> list[Gate]:
        """Return the two tests of a new inference: does it bear on the question, and do the passages state it?"""
        about = {"inferences": case.claims, "claim": claim, "question": case.question, "query": case.query}
        sources = {"passages": case.source, "claim": claim}
        return [
            Gate("relevance", Ask(self.relevance, about), self.relevance_gate),
            Gate("attribution", Ask(self.attribution, sources), self.attribution_gate),
        ]

    def _look_further(self, case: Case, trial: Trial) -> None:
        """Write the next search query from all evidence and the attempt that did not convince (equation 5)."""
        reasoning = f"{trial.reasoning} Answer: {trial.answer}".strip() if trial.answer else trial.reasoning
        step = attempt(self.searching, reasoning=reasoning, **self._shown(case))
        query = step.query.strip() if step else ""
        case.query = "" if normalize_answer(query) in {"", normalize_answer(case.question)} else query
        if not case.query:
            withdraw([step])

    def _outcome(self, case: Case) -> dspy.Prediction:
        """Put out the answer that stands in the end, if any does."""
        last = chosen(case.trials)
        followed = set(map(id, last.followed)) if last else set()
        withdraw(reply for trial in case.trials for reply in trial.replies if id(reply) not in followed)
        answer = last.answer if last else ""
        details = {
            "inferential_evidence": case.inferred,
            "rounds": len(case.trials),
            "answered": [trial.answered for trial in case.trials],
            "agreement": [trial.agreement for trial in case.trials],
            "probability_mode": case.beliefs.mode,
        }
        citations = passages_stating(answer, case.source)
        return outcome(answer, hops=case.hops, passages=case.read, citations=citations, details=details)
