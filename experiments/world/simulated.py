"""The simulated LM: an engine that answers prompts about the simulated world, with the error rates of its dials.

It sees only the prompt's text. The requested fields and the inputs determine what it does, whichever program asks: a
requested sub-question means decomposition, passages mean reading, requested evidence means grounding, and so on. At
temperature 0 a reply is a pure function of seed, dials and what the prompt is about, whatever its wording.
"""

import functools
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dspy.lm15 import Message, Request, Response, TextPart, Usage

from experiments.world.dials import Dials, read_dials
from experiments.world.draws import Draws
from experiments.world.facts import make_world
from experiments.world.output_fields import Task, compute_values, read_task
from experiments.world.prompt import parse_request
from experiments.world.reply import count_tokens, render, render_malformed, text_logprobs, word_logprobs
from experiments.world.skills.memory import Memory
from signatures.common.checkout import source_text
from signatures.common.files import sha256_text

# Code of other packages that decides replies, relative to the folder of the packages.
CODE_OF_OTHERS = (
    "signatures/citation_marks.py",
    "signatures/text.py",
    "programs/lms/requests.py",
)


@functools.cache
def code_hash() -> str:
    """Return eight hexadecimal digits that change with the source of the simulated LM.

    Replies are cached under the model's name, which contains these digits, so that no cached reply outlives a change.
    No reply depends on them.
    """
    folder = Path(__file__).parent
    files = [file for file in sorted(folder.rglob("*.py")) if file != folder / "connect.py"]
    files += [folder.parents[1] / name for name in CODE_OF_OTHERS]
    return sha256_text("\n".join(map(source_text, files)))[:8]


class SimulatedEngine:
    """An LM for `dspy.LM(engine=...)`; immutable, and so safe under threads.

    Args:
        seed: Seed of the world it remembers and of its random draws.
        dials: Its error rates; those of the committed file by default.
    """

    free = True
    supports_response_schema = False
    supported_params = ("temperature", "max_tokens", "logprobs", "top_logprobs", "seed")

    def __init__(self, seed: int = 0, dials: Dials | None = None):
        self.seed = seed
        self.dials = dials or read_dials()
        self._memory = Memory(make_world(seed), self.dials)

    @property
    def fingerprint(self) -> str:
        """Return the seed and hashes of dials and source, which identify a simulated LM."""
        return f"seed{self.seed}-{self.dials.fingerprint()}-{code_hash()}"

    def complete(self, request: Request) -> Response:
        """Return the reply to one request."""
        prompt = parse_request(request)
        task = read_task(prompt)
        draws = self._draws(request, task)
        logprobs = None
        if prompt.form == "word":
            p_yes = float(compute_values(task, self._memory, self.dials, draws)["yes"])  # type: ignore[arg-type]
            text = "yes" if self._threshold(request, draws) < p_yes else "no"
            if request.config.logprobs is not None:
                logprobs = word_logprobs(p_yes, text, request.config.logprobs)
        else:
            text = self._fields(task, draws)
            if request.config.logprobs is not None:
                logprobs = text_logprobs(text)
        prompt_tokens, reply_tokens = count_tokens(prompt.text), count_tokens(text)
        return Response(
            id=None,
            model=request.model,
            message=Message.assistant([TextPart(text)]),
            finish_reason="stop",
            usage=Usage(
                input_tokens=prompt_tokens,
                output_tokens=reply_tokens,
                total_tokens=prompt_tokens + reply_tokens,
            ),
            logprobs=logprobs,
        )

    def _fields(self, task: Task, draws: Draws) -> str:
        values = compute_values(task, self._memory, self.dials, draws)
        if task.prompt.requested and draws.happens(self.dials.form_malformed, "malformed"):
            return render_malformed(task.prompt, values, draws)
        return render(task.prompt, values)

    def _draws(self, request: Request, task: Task) -> Draws:
        temperature = request.config.temperature or 0.0
        if temperature <= 0:
            return Draws(self.seed, task.content)
        spread = min(1.0, temperature) * self.dials.sampling_spread
        return Draws(self.seed, task.content, sample=request.config.seed or 0, spread=spread)

    def _threshold(self, request: Request, draws: Draws) -> float:
        """Return the P(yes) above which the reply is yes: 0.5 at temperature 0, else a draw for each sampling seed."""
        if not request.config.temperature:
            return 0.5
        return draws.uniform("sampled word", request.config.seed or 0)

    def __deepcopy__(self, memo: dict[int, Any]) -> "SimulatedEngine":
        return self  # immutable, and optimizers copy whole programs

    def close(self) -> None:
        """Nothing to close."""

    def dump_state(self) -> dict[str, Any]:
        """Return the seed and the dials."""
        return {"seed": self.seed, "dials": asdict(self.dials)}

    @classmethod
    def load_state(cls, state: dict[str, Any]) -> "SimulatedEngine":
        """Return the engine that `dump_state` described."""
        return cls(state["seed"], Dials(**state["dials"]))
