"""The simulated LM: an engine that answers prompts about the simulated world, with the faults its dials give it.

It sees the prompt's text and nothing else, and what it does follows from the fields asked for and the inputs given:
a sub-question asked for means taking the next step; passages mean reading; a quote asked for means grounding; and so
on, whichever program asks. At temperature 0 a reply is a pure function of seed, dials and prompt.
"""

import functools
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dspy.lm15 import Message, Request, Response, TextPart, Usage

from experiments.world.chance import Dice
from experiments.world.dials import Dials, read_dials
from experiments.world.facts import make_world
from experiments.world.fields import fill
from experiments.world.prompt import Prompt, understand
from experiments.world.reply import count_tokens, spoil, text_logprobs, word_logprobs, write
from experiments.world.skills.memory import Memory
from signatures.common.files import sha256_text


@functools.cache
def rules() -> str:
    """Return eight hexadecimal digits that change with the program text of the simulated LM.

    Replies are cached under the model's name; without this, a mended skill would go on giving its old replies.
    """
    files = sorted(Path(__file__).parent.rglob("*.py"))
    return sha256_text("\n".join(file.read_text(encoding="utf-8") for file in files))[:8]


class SimulatedEngine:
    """An LM for `dspy.LM(engine=...)`; safe under threads, for nothing in it changes.

    Args:
        seed: Of the world it remembers, of its faults and of its chance.
        dials: Its faults; those of the committed file by default.
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
        """Return what tells two simulated LMs apart: seed, dials and rules."""
        return f"seed{self.seed}-{self.dials.fingerprint()}-{rules()}"

    def complete(self, request: Request) -> Response:
        """Return the reply to one request."""
        prompt = understand(request)
        dice = self._dice(request, prompt)
        logprobs = None
        if prompt.form == "word":
            p_yes = float(fill(prompt, self._memory, self.dials, dice)["yes"])  # type: ignore[arg-type]
            text = "yes" if self._threshold(request, dice) < p_yes else "no"
            if request.config.logprobs is not None:
                logprobs = word_logprobs(p_yes, text, request.config.logprobs)
        else:
            text = self._fields(prompt, dice)
            if request.config.logprobs is not None:
                logprobs = text_logprobs(text)
        sent, said = count_tokens(prompt.text), count_tokens(text)
        return Response(
            id=None,
            model=request.model,
            message=Message.assistant([TextPart(text)]),
            finish_reason="stop",
            usage=Usage(input_tokens=sent, output_tokens=said, total_tokens=sent + said),
            logprobs=logprobs,
        )

    def _fields(self, prompt: Prompt, dice: Dice) -> str:
        values = fill(prompt, self._memory, self.dials, dice)
        relief = self.dials.demonstrations_malformed * (1 - 0.5**prompt.demos)
        if prompt.asked and dice.happens(self.dials.form_malformed * (1 - relief), "malformed"):
            return spoil(prompt, values, dice)
        return write(prompt, values)

    def _dice(self, request: Request, prompt: Prompt) -> Dice:
        temperature = request.config.temperature or 0.0
        if temperature <= 0:
            return Dice(self.seed, prompt.text)
        spread = min(1.0, temperature) * self.dials.sampling_spread
        return Dice(self.seed, prompt.text, sample=request.config.seed or 0, spread=spread)

    def _threshold(self, request: Request, dice: Dice) -> float:
        """Return what P(yes) must exceed: a half at temperature 0, else a fresh number for each sampling seed."""
        if not request.config.temperature:
            return 0.5
        return dice.roll("sampled word", request.config.seed or 0)

    def __deepcopy__(self, memo: dict[int, Any]) -> "SimulatedEngine":
        return self  # nothing changes, and optimizers copy whole programs

    def close(self) -> None:
        """Nothing to close."""

    def dump_state(self) -> dict[str, Any]:
        """Return the seed and the dials."""
        return {"seed": self.seed, "dials": asdict(self.dials)}

    @classmethod
    def load_state(cls, state: dict[str, Any]) -> "SimulatedEngine":
        """Return the engine that `dump_state` described."""
        return cls(state["seed"], Dials(**state["dials"]))
