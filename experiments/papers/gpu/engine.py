"""The embedded LM, with the decoding left to the processes of `decoder`."""

import json
import queue
import random
from collections.abc import Sequence
from multiprocessing.connection import Client, Connection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from programs.lms.calls.metered import LMUnavailable
from programs.lms.embedded import EmbeddedEngine, Job, encoded
from signatures.common.strict_json import parse_strict_json


class SharedEngine(EmbeddedEngine):
    """Asks decoders on this machine instead of decoding; prompts, limits and schemas are those of the embedded LM.

    Args:
        sockets: Each with the most tokens of a sequence that is decoded behind it, the short ones first. Of those with
            the fewest that suffice, one is drawn.
        device: What they compute on, for the name.
    """

    def __init__(self, sockets: Sequence[tuple[Path, int]], device: str):
        super().__init__()
        self._sockets, self._device = sockets, device
        self._kept: dict[Path, queue.LifoQueue[Connection]] = {path: queue.LifoQueue() for path, _ in sockets}

    @property
    def name(self) -> str:
        """The name of the embedded LM and the device: products are rounded otherwise, so that some replies differ."""
        return f"{super().name}-{self._device}"

    def load(self) -> None:
        """Load the tokenizer; the decoders have the model. To be called before threads ask."""
        # Two threads that are the first to read the data of a tensor wait for each other for ever.
        np.asarray(encoded(self._load_tokenizer(), "first").data)

    def _decode(self, jobs: list[Job]) -> list[list[Any]]:
        return [self._decode_one(job) for job in jobs]

    def _decode_one(self, job: Job) -> list[Any]:
        config = job.config
        asked: dict[str, Any] = {"prompt": np.asarray(job.prompt.data).ravel().tolist(), "limit": config.max_new_tokens}
        if config.num_beams > 1:
            asked["top"] = config.num_beams
        elif config.do_sample:
            if config.top_p < 1:
                raise NotImplementedError(f"top_p={config.top_p}: the decoder samples from all tokens")
            asked["temperature"] = config.temperature
        if config.stop_strings:
            asked["stop"] = sorted(config.stop_strings)
        if config.structured_output_config is not None:
            asked["schema"] = config.structured_output_config.json_schema
        reply = self._ask(self._socket(len(asked["prompt"]) + asked["limit"]), asked)
        if "top" in asked:
            return [_sequence([token], [value]) for token, value in zip(reply["ids"], reply["logprobs"], strict=True)]
        return [_sequence(reply["ids"], reply["logprobs"])]

    def _socket(self, length: int) -> Path:
        least = next((most for _, most in self._sockets if most >= length), self._sockets[-1][1])
        return random.choice([path for path, most in self._sockets if most == least])

    def _ask(self, socket: Path, asked: dict[str, Any]) -> dict[str, Any]:
        """Return the reply of a decoder; its connections are kept, one for each request at a time."""
        try:
            try:
                connection = self._kept[socket].get_nowait()
            except queue.Empty:
                connection = Client(str(socket), "AF_UNIX")
            connection.send_bytes(json.dumps(asked).encode())
            reply: dict[str, Any] = parse_strict_json(connection.recv_bytes())
        except (EOFError, OSError) as error:
            raise LMUnavailable(f"The decoder at {socket.name} has ended; its error is above.") from error
        self._kept[socket].put(connection)
        if reply["error"]:
            raise LMUnavailable(f"The decoder at {socket.name} says: {reply['error']}")
        return reply


def _sequence(ids: list[int], logprobs: list[float]) -> SimpleNamespace:
    """Return a sequence as the runtime of the embedded LM does."""
    return SimpleNamespace(generated_ids=ids, generated_log_probs=logprobs)
