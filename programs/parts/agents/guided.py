"""The loop of agents for small LMs: in each state only those actions are offered that can be done in it.

1. The first search is the question, without a call.
2. While turns are left, the LM is shown the passages and takes an action. It cannot finish before anything was found.
3. An action that repeats one, echoes the prompt or names nothing to act with ends the loop, as does the last turn: all
   that is left to do then is to answer, and the shared reader reads what was found.
"""

from collections.abc import Sequence
from typing import Any, get_args

import dspy

from programs.parts.agents.transcript import PASSAGES, Turn
from programs.parts.longform import gives_answer, read_answer
from programs.parts.passages import deduplicate, is_no_item, passages_supporting
from programs.parts.prediction import drop_from_trace, make_prediction, retrieve_passages, settled, try_predict
from programs.parts.stop_reasons import CAP, FINISHED, REPEATED, UNPARSEABLE
from signatures.agents.guided import GuidedAction, allowing
from signatures.reading import ReadAnswer
from signatures.text_words import same_words
from signatures.types import Hop, Passage

FIELDS, GUIDED = "fields", "guided"
SEARCH, FINISH = "search", "finish"


def guided_predictors(signature: type[dspy.Signature] = GuidedAction) -> dict[str, dspy.Module]:
    """Return the predictors of the guided form, by the name of their attribute."""
    return {"guiding": dspy.Predict(signature), "reading": dspy.Predict(ReadAnswer)}


class GuidedLoop:
    """One question of an agent; agents with further actions say which are allowed, what they do and what is shown.

    Args:
        program: Has the knobs `k` and `reader`, and the predictors of the guided form.
        question: The question.
        fixed: Passages that the first search finds (every search, without a retriever).
    """

    def __init__(self, program: Any, question: str, fixed: list[Passage] | None):
        self.program, self.question, self.fixed = program, question, fixed
        self.turns: list[Turn] = []
        self.hops: list[Hop] = []
        self.found: list[Passage] = []

    def allowed(self) -> tuple[str, ...]:
        """Return the actions that can be done now."""
        return (SEARCH, FINISH) if self.found else (SEARCH,)

    def shown(self) -> list[Passage]:
        """Return what the LM is shown of the passages found."""
        return self.found

    def reads(self) -> list[Passage]:
        """Return the passages that the reader is given."""
        return self.found

    def queries(self) -> list[str]:
        """Return what was searched for."""
        return [hop.question for hop in self.hops]

    def results(self, hop: Hop) -> tuple[str, ...]:
        """Return what a transcript says of a hop; empty where no call is shown one."""
        return ()

    def details(self) -> dict[str, Any]:
        """Return what the prediction records besides the number of turns."""
        return {}

    def act(self, turn: Turn) -> Hop | None:
        """Do an action other than to finish; return its hop, None if it cannot be done."""
        return Hop(question=turn.argument, answer="", passage_ids=[each.id for each in self.search(turn.argument)])

    def given(self) -> list[Passage] | None:
        """Return the fixed passages that the next search finds; None if it asks the retriever."""
        return self.fixed if not self.hops or self.program.retrieve is None else None

    def search(self, query: str) -> list[Passage]:
        """Return what a query finds, which joins the passages found."""
        passages = retrieve_passages(self.program, query, self.program.k, fixed=self.given())
        self.found = deduplicate([*self.found, *passages])
        return passages

    def run(self, most_turns: int, invalid: str, count: str) -> dspy.Prediction:
        """Return the prediction; `invalid` and `count` name what the agent calls these two of its `details`."""
        turn, own, stop_reason, reply = Turn(action=SEARCH, argument=self.question), "", CAP, None
        while True:
            # The question is searched for whatever it looks like.
            hop = self.act(turn) if not self.turns or self.is_new(turn) else None
            self.turns.append(turn if hop is None else turn._replace(results=self.results(hop)))
            if hop is None:
                stop_reason = REPEATED if reply else UNPARSEABLE
                drop_from_trace(reply)
                break
            self.hops.append(settled(hop))
            if len(self.turns) + 1 >= most_turns:
                break
            turn, reply = self._ask()
            if turn.action == FINISH and gives_answer(turn.argument) and not self._echoes(turn.argument):
                own, stop_reason = turn.argument, FINISHED
                self.turns.append(turn)
                break
        answer = self._answer(own, reply)
        details = {count: len(self.turns), invalid: int(stop_reason in (REPEATED, UNPARSEABLE)), **self.details()}
        return make_prediction(
            answer,
            stop_reason=stop_reason,
            hops=self.hops,
            passages=self.found,
            citations=passages_supporting(self.question, answer, self.found),
            details=details,
        )

    def _ask(self) -> tuple[Turn, dspy.Prediction | None]:
        """Return the next turn and its reply, None if that is unparseable."""
        predictor = self.program.guiding
        asked = {"question": self.question, "searched": self.queries()}
        signature = allowing(predictor.signature, self.allowed())
        reply = try_predict(predictor, signature=signature, passages=self.shown(), **asked)
        if reply is None:
            return Turn(), None
        argument = reply.answer if reply.action == FINISH else reply.query
        return Turn(reply.thought, reply.action, argument.strip()), reply

    def is_new(self, turn: Turn) -> bool:
        """Return whether an action names something to act with that is neither a repeat nor an echo of the prompt.

        An echo is the whole description of an output field, or the name of one or of an action; a part of a description
        is none.
        """
        if turn.action in ("", FINISH) or is_no_item(turn.argument) or self._echoes(turn.argument):
            return False
        repeated = {(each.action, same_words(each.argument)) for each in self.turns}
        return (turn.action, same_words(turn.argument)) not in repeated

    def _echoes(self, argument: str) -> bool:
        fields = self.program.guiding.signature.output_fields
        actions = get_args(fields["action"].annotation)
        echoes = [*actions, *fields, *(field.json_schema_extra["desc"] for field in fields.values())]
        return same_words(argument) in map(same_words, echoes)

    def _answer(self, own: str, reply: dspy.Prediction | None) -> str:
        """Return the agent's own answer, or what the shared reader reads where there is none, or by its knob."""
        read: Sequence[Passage] = self.reads()
        if not read or (own and self.program.reader != PASSAGES):
            return own
        answer = read_answer(self.program.reading, self.question, read) or own
        if own and same_words(answer) != same_words(own):
            drop_from_trace(reply)  # a reply that finishes with another answer must not become a demo
        return answer
