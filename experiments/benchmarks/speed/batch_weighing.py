"""RetroRAG's `batch_weighing` on the simulated world: LM calls, rounds, tokens, prefix share and scores.

    python -m experiments.benchmarks.speed.batch_weighing

The world is frozen and cannot list scores for several pieces of evidence. A stand-in answers these lists with the
P(yes) that the simulated LM gives each piece alone, to two decimals: it shows what an LM saves that can list scores as
well as it judges one piece, not how well an LM lists them. `--without-lists` leaves the lists unanswered, which shows
what an LM costs that cannot.
"""

import argparse
import math
import os
import re
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dspy
from dspy.lm15 import Message, Request, Response, TextPart, Usage

from experiments.analysis.statistics import mean_of
from experiments.benchmarks.speed.prompt_prefix import embedded_tokenizer, open_world
from experiments.benchmarks.speed.prompt_shares import Recorder, Tokenize, shares
from experiments.runs.files import write_json
from experiments.runs.provenance import portable, provenance
from experiments.world.connect import connect_any
from experiments.world.reply import count_tokens
from optimizers.metrics.answer import exact_match
from programs.lms.adapter import ChatForm
from programs.lms.calls.metered import metered_lm
from programs.lms.requests import turns
from programs.parts.meter import metered
from programs.retro_rag import RetroRAG
from signatures.retro_rag import WeighEvidence, WeighPieces

if TYPE_CHECKING:
    from corpora.questions import Question
    from signatures.types import Retriever

SIZES = (1, 2, 5, 10)
DECIMALS = 2
RESULT = Path("experiments/results/batch_weighing.json")
_FIELD = re.compile(r"\[\[ ## (\w+) ## \]\]\n(.*?)(?=\n\n\[\[ ## |\n\nReply with)", re.DOTALL)


class Listing:
    """An engine that lists what another one judges one at a time; every other request is passed on.

    Args:
        engine: Answers yes/no questions with log-probabilities.
    """

    free = True
    supports_response_schema = False

    def __init__(self, engine: Any):
        self.engine = engine
        self.supported_params = engine.supported_params

    def __deepcopy__(self, memo: dict[int, Any]) -> "Listing":
        return self

    def complete(self, request: Request) -> Response:
        """Answer one request."""
        system, *_, last = turns(request)
        if not system["content"].startswith(WeighPieces.instructions):
            reply: Response = self.engine.complete(request)
            return reply
        fields = dict(_FIELD.findall(last["content"]))
        pieces = [line.partition("] ")[2] for line in fields["pieces"].splitlines()]
        listed = ", ".join(f"{self._p_yes(request, fields, piece):.{DECIMALS}f}" for piece in pieces)
        text = f"[[ ## scores ## ]]\n[{listed}]\n\n[[ ## completed ## ]]"
        asked, said = count_tokens(system["content"] + last["content"]), count_tokens(text)
        return Response(
            id=None,
            model=request.model,
            message=Message.assistant([TextPart(text)]),
            finish_reason="stop",
            usage=Usage(input_tokens=asked, output_tokens=said, total_tokens=asked + said),
        )

    def _p_yes(self, request: Request, fields: dict[str, str], piece: str) -> float:
        shown = {"evidence": piece, "question": fields["question"], "query": fields["query"].strip()}
        with dspy.context(callbacks=[]):  # not a call of the program
            system, user = ChatForm().format(WeighEvidence, [], shown)
        config = replace(request.config, logprobs=2, max_tokens=1)
        messages = (Message.user(user["content"]),)
        reply = self.engine.complete(replace(request, system=system["content"], messages=messages, config=config))
        return math.exp(next(top.logprob for top in reply.logprobs[0].top if top.token == "yes"))


def run(
    size: int, retrieve: "Retriever", questions: "list[Question]", tokenize: Tokenize, *, lists: bool
) -> dict[str, Any]:
    """Return costs and scores of RetroRAG that weighs up to `size` pieces of evidence in one call."""
    program, connection = RetroRAG(retrieve, batch_weighing=size), connect_any("simulated", cache=False)
    if lists:
        engine = Listing(connection.lm.engine)
        connection = replace(
            connection, lm=metered_lm(connection.lm.model, engine=engine, temperature=0.0, cache=False)
        )
    rows, prompts = [], []
    for question in questions:
        recorder = Recorder(program)
        with connection.use(), metered() as meter, recorder.recording():
            answer = program(question=question.question).answer
        tokens = meter.prompt_tokens + meter.completion_tokens
        em = exact_match(answer, question.answers) or 0.0
        rows.append({"calls": meter.calls, "rounds": meter.rounds, "tokens": tokens, "em": em})
        prompts.append([(call.predictor, tokenize(call.messages)) for call in recorder.calls])
    share = shares(prompts)
    weighing = sum(of["calls"] for name, of in share["predictors"].items() if name.startswith("weighing"))
    return {
        **{name: mean_of([float(row[name]) for row in rows]).as_dict() for name in rows[0]},
        "weighing_calls": weighing / len(questions),
        "computed_tokens": (share["prompt_tokens"] - share["shared_tokens"]) / len(questions),
        "share": share["share"],
    }


def main() -> None:
    """Measure, print the table, and write the result file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=60)
    parser.add_argument("--without-lists", action="store_true", help="leave lists unanswered")
    parser.add_argument("--out", type=Path, default=RESULT)
    arguments = parser.parse_args()
    if arguments.questions < 1:
        parser.error(f"--questions must be at least 1, got {arguments.questions}.")
    tokenize = embedded_tokenizer()
    sizes: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        retrieve, questions = open_world(Path(folder), arguments.questions)
        for size in SIZES:
            found = run(size, retrieve, questions, tokenize, lists=not arguments.without_lists)
            sizes[str(size)] = found
            means = ", ".join(f"{name} {found[name]['mean']:.2f}" for name in ("calls", "rounds", "tokens", "em"))
            print(
                f"{size:3} a call: {means}, weighing calls {found['weighing_calls']:.1f}, "
                f"computed prompt tokens {found['computed_tokens']:.0f}, share {found['share']:.3f}",
                flush=True,
            )
    head = provenance("experiments.benchmarks.speed.batch_weighing", connect_any("simulated", cache=False))
    write_json(arguments.out, portable({**head, "load": os.getloadavg(), "questions": len(questions), "sizes": sizes}))
    print(f"Written: {arguments.out}", file=sys.stderr)


if __name__ == "__main__":
    main()
