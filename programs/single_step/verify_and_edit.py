"""Verify-and-Edit: where sampled chains of thought disagree, correct one sentence by sentence with what passages say.

Zhao et al., "Verify-and-Edit: A Knowledge-Enhanced Chain-of-Thought Framework", ACL 2023, section 3 (the framework),
and its public code. https://arxiv.org/abs/2305.03268

1. Sample n chains of thought from memory; the answer that most of them give is the draft, with its rationale.
2. If at least half of n, rounded up, give it, keep it. Otherwise edit:
3. Write a verifying question for each sentence of the rationale.
4. Retrieve passages for each question; of their sentences, take the three closest to the question.
5. Answer each question from these; the answer replaces the sentence.
6. Answer the original question from the edited rationale.
"""

import math
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, NamedTuple

import dspy

from programs.parts.knobs import Choice, Range, set_knobs
from programs.parts.longform import gives_answer
from programs.parts.passages import closest, deduplicate, is_no_item, passages_supporting, titled_text
from programs.parts.prediction import drop_from_trace, make_prediction, retrieve_rankings, settled, try_predict
from programs.parts.stop_reasons import DONE, FINISHED, NOTHING_FOUND, UNPARSEABLE
from programs.parts.threads import fanout
from signatures.citation_marks import strip_citations
from signatures.reading import REASONING, AnswerFromMemory
from signatures.single_step import verify_and_edit as prompts
from signatures.text import is_chinese, split_sentences
from signatures.text_words import same_words
from signatures.types import Hop, Passage, Retriever, Similarity
from signatures.voting import answer_key, majority

KEPT, EDITED = "kept", "edited"


class Sampled(NamedTuple):
    """The sample chosen by the majority: its reply (None if all are unparseable), its answer and how many gave that."""

    reply: dspy.Prediction | None
    answer: str
    votes: int


class VerifyAndEdit(dspy.Module):
    """Vote over chains of thought; where the vote is not clear, edit the winning rationale by retrieved sentences.

    A hop is one sentence that was verified: `question` is the verifying question, `draft` the sentence, `answer` what
    stands in its place, `passage_ids` the passages whose sentences were read. The verdict: "edited" (replaced) or
    "kept" (the sentences found do not answer the question). The prediction's `response` is the rationale followed by
    the answer, its `passages` those of the hops. Fixed contexts replace all retrievals, as the paper's variant with
    given paragraphs does.

    `stop_reason`: "finished" if the vote was clear, "done" if sentences were verified, "nothing found" if there was
    nothing to verify them by. `details`: `answers` (of the samples, in order; empty if unparseable), `count` (the votes
    of the majority), `edited` (the number of sentences replaced).

    The last step reads the edited rationale and no passages, so the answer is not that of the shared reader.

    Args:
        retrieve: Ranks passages for a verifying question.
        similarity: Compares verifying questions and sentences (the paper: a MiniLM of Sentence-BERT). Without one, the
            closest sentences are those that share most terms with the question.
        samples: Chains of thought, n (paper: 5).
        temperature: Sampling temperature of the chains (paper: 0.7).
        edit: "uncertain" edits where fewer than half of n, rounded up, agree (paper); "always" edits every question,
            which is what the public code does: it compares a share of the samples with 3.
        k: Passages retrieved for a verifying question (the paper: the pages or paragraphs that a search returns).
        sentences: Sentences of the retrieved passages that are shown (paper: 3).
        max_edits: Sentences of the rationale that are verified at most (paper: all).
    """

    # Departure: the public code's threshold, see `edit`. The code also ranks sentences by the sentence of the rationale
    # instead of the verifying question, and some of its searches take the first three without ranking; no preset does.
    PRESETS: dict[str, dict[str, Any]] = {"paper": {}, "code": {"edit": "always"}}

    def __init__(
        self,
        retrieve: Retriever | None = None,
        *,
        similarity: Similarity | None = None,
        samples: Annotated[int, Range(1, 40)] = 5,
        temperature: Annotated[float, Range(0.1, 1.5)] = 0.7,
        edit: Annotated[str, Choice("uncertain", "always")] = "uncertain",
        k: Annotated[int, Range(1, 20)] = 5,
        sentences: Annotated[int, Range(1, 10)] = 3,
        max_edits: Annotated[int, Range(1, 10)] = 6,
    ):
        super().__init__()
        set_knobs(self, locals())
        self.retrieve = retrieve
        self.similarity = similarity
        # Departure: the paper's prompts have six demonstrations each; here compiling adds them. Nor is any reply cut,
        # in the public code a chain at 144 tokens and an answer at 70.
        self.sampling = dspy.ChainOfThought(AnswerFromMemory, REASONING)
        self.questioning = dspy.Predict(prompts.WriteVerifyingQuestion)
        self.verifying = dspy.Predict(prompts.AnswerVerifyingQuestion)
        self.concluding = dspy.Predict(prompts.AnswerFromReasoning)

    def forward(self, question: str, passages: list[Passage] | None = None) -> dspy.Prediction:
        """Return the majority's answer, or that of the edited rationale; fixed `passages` replace all retrievals."""
        answers, draft = self._sample(question)  # step 1
        details = {"answers": answers, "count": draft.votes, "edited": 0}
        if draft.reply is None:
            return make_prediction("", stop_reason=UNPARSEABLE, details=details)
        rationale = draft.reply.reasoning.strip()
        if self.edit == "uncertain" and draft.votes >= math.ceil(self.samples / 2):  # step 2
            response = f"{rationale}\n{draft.answer}".strip()
            return make_prediction(draft.answer, stop_reason=FINISHED, response=response, details=details)
        parts = split_sentences(rationale)
        hops, read, places = self._verify(question, parts, passages)  # steps 3 to 5
        for place, hop in zip(places, hops, strict=True):
            parts[place] = hop.answer
        details["edited"] = sum(hop.verdict == EDITED for hop in hops)
        answer = draft.answer
        # Departure: a rationale of which nothing was replaced is not read again; the paper asks for the answer anew.
        if details["edited"] or not answer:
            rationale = ("" if is_chinese(rationale) else " ").join(parts)
            answer = self._conclude(question, rationale, draft)  # step 6
        return make_prediction(
            answer,
            stop_reason=DONE if hops else NOTHING_FOUND,
            hops=hops,
            passages=read,
            citations=passages_supporting(question, answer, read),
            response=f"{rationale}\n{answer}" if answer else "",
            details=details,
        )

    def max_calls(self) -> int:
        """Return the maximum number of LM calls for one question: samples, two for each sentence, the conclusion."""
        return self.samples + 2 * self.max_edits + 1

    def max_sequential_calls(self) -> int:
        """Return the most LM calls in sequence for one question: samples, queries, edits, and the conclusion."""
        return 4

    def _sample(self, question: str) -> tuple[list[str], Sampled]:
        """Return the answers of all samples, and the first sample with the answer that most of them give."""
        calls = [
            partial(
                try_predict,
                self.sampling,
                question=question,
                config={"temperature": self.temperature, "rollout_id": number},
            )
            for number in range(1, self.samples + 1)
        ]
        replies = fanout(calls)
        answers = [reply.answer.strip() if reply else "" for reply in replies]
        # Departure: answers are compared by their words, not as raw strings, and "unknown" does not vote. Of equal
        # counts the earliest answer wins, as in the code, whose rationale is the most probable one with that answer;
        # here it is the first.
        keys = [answer_key(answer) for answer in answers]
        if any(keys):
            place = majority(keys).place
            chosen = Sampled(replies[place], answers[place], keys.count(keys[place]))
        else:  # Departure: without any answer, the first rationale is edited.
            chosen = Sampled(next((reply for reply in replies if reply), None), "", 0)
        others = [reply for reply in replies if reply is not chosen.reply or not chosen.answer]
        drop_from_trace(*others)  # one demo a question, and none of a reply that was outvoted
        return answers, chosen

    def _verify(
        self, question: str, parts: Sequence[str], fixed: list[Passage] | None
    ) -> tuple[list[Hop], list[Passage], list[int]]:
        """Return a settled hop for each sentence that could be verified, the passages read, and the places of these."""
        # Departure: sentences beyond `max_edits`, those for which no question was written, and those for whose question
        # nothing is found stay as they are. The paper replaces every sentence.
        checked = parts[: self.max_edits]
        asked = fanout([partial(self._question, question, sentence) for sentence in checked])  # step 3
        places = [place for place, text in enumerate(asked) if text]
        questions = [asked[place] for place in places]
        given = None if fixed is None else [list(fixed)] * len(questions)
        rankings = retrieve_rankings(self, questions, self.k) if given is None else given  # step 4
        shown = [self._closest(text, ranking) for text, ranking in zip(questions, rankings, strict=True)]
        found = [number for number, sentences in enumerate(shown) if sentences]
        calls = [partial(self._answer, parts[places[number]], questions[number], shown[number]) for number in found]
        hops = [settled(hop) for hop in fanout(calls)]  # step 5
        ids = {id for hop in hops for id in hop.passage_ids}
        all_found = deduplicate(passage for ranking in rankings for passage in ranking)
        read = [passage for passage in all_found if passage.id in ids]
        return hops, read, [places[number] for number in found]

    def _question(self, question: str, sentence: str) -> str:
        """Return the verifying question of a sentence; empty if there is none."""
        reply = try_predict(self.questioning, question=question, claim=sentence)
        if reply is None or is_no_item(reply.sub_question):
            drop_from_trace(reply)
            return ""
        return reply.sub_question.strip()

    def _closest(self, question: str, passages: Sequence[Passage]) -> list[Passage]:
        """Return the sentences closest to a question, best first, each as a passage with the id of its source."""
        # Departure: a sentence is compared and shown with the title of its passage, since "He was born there" says
        # nothing without it.
        pieces = [
            passage.model_copy(update={"text": sentence})
            for passage in deduplicate(passages)
            for sentence in split_sentences(passage.text)
        ]
        best = closest(question, list(map(titled_text, pieces)), self.similarity, self.sentences)
        return [pieces[place] for place in best]

    def _answer(self, sentence: str, question: str, shown: list[Passage]) -> Hop:
        """Answer a verifying question; without an answer the sentence is kept."""
        reply = try_predict(self.verifying, passages=shown, sub_question=question)
        answer = strip_citations(reply.response) if reply and gives_answer(reply.response) else ""
        if not answer:  # Departure: in the paper any reply, a refusal included, takes the place of the sentence.
            drop_from_trace(reply)
        return Hop(
            question=question,
            answer=answer or sentence,
            draft=sentence,
            passage_ids=list(dict.fromkeys(passage.id for passage in shown)),
            verdict=EDITED if answer else KEPT,
        )

    def _conclude(self, question: str, rationale: str, draft: Sampled) -> str:
        """Return the answer that the edited rationale leads to; the draft's if the reply gives none."""
        reply = try_predict(self.concluding, question=question, reasoning=rationale)
        if reply is None or not gives_answer(reply.answer):
            drop_from_trace(reply)
            return draft.answer
        if same_words(reply.answer) != same_words(draft.answer):
            drop_from_trace(draft.reply)
        return reply.answer.strip()
