"""Decodes requests of many processes together, each reply in the grammar of its JSON schema.

Between two steps, finished sequences leave and waiting ones join (Yu et al., "Orca", OSDI 2022, section 3.1:
https://www.usenix.org/conference/osdi22/presentation/yu). The model computes the next step while the last tokens are
looked at. Requests and replies are lines of JSON over a local socket.
"""

import json
import queue
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from typing import Any

import torch

from experiments.papers.gpu.model import BatchedLlama, mask_words
from signatures.common.errors import one_line
from signatures.common.strict_json import parse_strict_json

_JOINING = 32  # sequences that may join at once
_TAIL = 40  # tokens at the end of a reply in which stop strings are looked for


@dataclass
class Asked:
    """One sequence to decode.

    Args:
        prompt: Numbers of its tokens.
        limit: Most tokens of the reply.
        temperature: 0 for the most likely tokens.
        schema: JSON schema of the reply, as text; None for free text.
        stop: Texts before which the reply ends.
        top: If set, the reply is that many of the most likely first tokens, and nothing is decoded.
    """

    prompt: list[int]
    limit: int
    temperature: float = 0.0
    schema: str | None = None
    stop: list[str] = field(default_factory=list)
    top: int = 0
    ids: list[int] = field(default_factory=list, init=False)
    logprobs: list[float] = field(default_factory=list, init=False)
    error: str = field(default="", init=False)
    grammar: Any = field(default=None, init=False)
    ended: threading.Event = field(default_factory=threading.Event, init=False)

    def __post_init__(self) -> None:
        if not self.prompt or self.limit < 1:
            raise ValueError(f"a prompt of {len(self.prompt)} tokens, a limit of {self.limit}: each needs at least 1")


class Decoder:
    """Decodes what is submitted; `run` does the work.

    Args:
        model: Its metadata name the tokens.
    """

    def __init__(self, model: BatchedLlama):
        import xgrammar

        self.model = model
        self._end = int(model.metadata["tokenizer.ggml.eos_token_id"])
        tokens = model.metadata["tokenizer.ggml.tokens"]
        self._bytes = _as_bytes(tokens)
        info = xgrammar.TokenizerInfo(
            tokens, xgrammar.VocabType.BYTE_LEVEL, vocab_size=model.vocabulary, stop_token_ids=[self._end]
        )
        self._compiler = xgrammar.GrammarCompiler(info)
        self._matcher = xgrammar.GrammarMatcher
        self._waiting: queue.Queue[Asked | None] = queue.Queue()
        self._running: dict[int, Asked] = {}
        self._free = list(range(model.rows))
        pinned = model.device == "cuda"
        self._allowed = torch.full((model.rows, mask_words(model.vocabulary)), -1, dtype=torch.int32, pin_memory=pinned)
        self._sent = torch.empty_like(self._allowed, pin_memory=pinned)
        self._chosen = torch.zeros(2, model.rows, pin_memory=pinned)

    def answer(self, asked: Asked) -> Asked:
        """Return a request with its reply; waits until it has been decoded. Safe under threads."""
        if len(asked.prompt) + asked.limit > self.model.length:
            asked.error = f"{len(asked.prompt)} + {asked.limit} tokens, at most {self.model.length} are decoded"
            return asked
        if asked.schema:
            asked.grammar = self._matcher(self._compiler.compile_json_schema(asked.schema))
        self._waiting.put(asked)
        asked.ended.wait()
        return asked

    def stop(self) -> None:
        """Let `run` return once nothing is left to decode."""
        self._waiting.put(None)

    def run(self) -> None:
        """Decode until `stop`; an error ends all requests with it."""
        try:
            with torch.inference_mode():
                while self._join(wait=True):
                    self._ahead()
                    while self._running:
                        self._step()
        except BaseException as error:
            with self._waiting.mutex:
                waiting = [asked for asked in self._waiting.queue if asked]
            for asked in (*self._running.values(), *waiting):
                asked.error = one_line(error)
                asked.ended.set()
            raise

    def _step(self) -> None:
        """Choose a token of each sequence, let others join, begin the next step, and look at what was chosen."""
        model = self.model
        self._give_first()
        self._sent.copy_(self._allowed)
        model.allowed.copy_(self._sent, non_blocking=True)
        model.choose()
        self._chosen.copy_(torch.stack([model.token.float(), model.logprob]), non_blocking=True)  # exact below 2**24
        done = torch.cuda.Event() if model.device == "cuda" else None
        if done is not None:
            done.record()
        chosen_for = list(self._running)
        self._join(wait=False)
        if self._running:
            self._ahead()
        if done is not None:
            done.synchronize()
        tokens, logprobs = self._chosen.tolist()
        for row in chosen_for:
            self._take(row, int(tokens[row]), logprobs[row])

    def _ahead(self) -> None:
        """Compute the next step; the last tokens may not have been looked at."""
        self.model.forward(2 + max(len(asked.prompt) + len(asked.ids) for asked in self._running.values()))

    def _join(self, *, wait: bool) -> bool:
        """Let waiting requests join; return whether any did. With `wait`, wait for one; False then means `stop`."""
        new: dict[int, Asked] = {}
        while self._free and len(new) < _JOINING:
            try:
                asked = self._waiting.get(block=wait and not new)
            except queue.Empty:
                break
            if asked is None:
                if not wait or new:
                    self._waiting.put(None)  # for the next time that nothing is running
                break
            new[self._free.pop()] = asked
        if not new:
            return False
        self._running |= new
        model, rows = self.model, list(new)
        model.fill([asked.prompt for asked in new.values()], rows)
        at = torch.tensor(rows, device=model.device)
        hot = torch.tensor([asked.temperature for asked in new.values()], device=model.device)
        model.temperature[at] = hot.where(hot > 0, torch.ones_like(hot))
        model.noise[at] = (hot > 0).float()
        for row, asked in new.items():
            if asked.grammar is not None:
                asked.grammar.fill_next_token_bitmask(self._allowed, row)
        return True

    def _give_first(self) -> None:
        for row, asked in [each for each in self._running.items() if each[1].top]:
            logprobs, ids = self.model.logits[row].log_softmax(-1).topk(asked.top)
            asked.ids, asked.logprobs = ids.tolist(), logprobs.tolist()
            self._leave(row)

    def _take(self, row: int, token: int, logprob: float) -> None:
        """Add a token to a reply, and end it or say which tokens may follow."""
        asked = self._running[row]
        asked.ids.append(token)
        asked.logprobs.append(logprob)
        if token == self._end or len(asked.ids) >= asked.limit or (asked.stop and self._stops(asked)):
            self._leave(row)
        elif asked.grammar is not None:
            if not asked.grammar.accept_token(token):
                asked.error = f"token {token} is not in the grammar of {asked.schema:.200}"
            if asked.error or asked.grammar.is_terminated():
                self._leave(row)
            else:
                asked.grammar.fill_next_token_bitmask(self._allowed, row)

    def _leave(self, row: int) -> None:
        self._free.append(row)
        self._allowed[row].fill_(-1)
        self._running.pop(row).ended.set()

    def _stops(self, asked: Asked) -> bool:
        """Cut a reply before the first of its stop strings; return whether there is one."""
        if not any(text in self._tail(asked) for text in asked.stop):
            return False
        begun = tuple(text[:size] for text in asked.stop for size in range(1, len(text)))
        while any(text in self._tail(asked) for text in asked.stop) or self._tail(asked).endswith(begun):
            asked.ids.pop()
            asked.logprobs.pop()
        return True

    def _tail(self, asked: Asked) -> str:
        return b"".join(self._bytes[token] for token in asked.ids[-_TAIL:]).decode("utf-8", "ignore")


def _as_bytes(tokens: Sequence[str]) -> list[bytes]:
    """Return the bytes of each token of a byte-level vocabulary, in which a printable character stands for a byte.

    Radford et al., "Language Models are Unsupervised Multitask Learners", 2019, section 2.2.
    """
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    byte_of = {chr(byte): byte for byte in printable} | {chr(256 + place): byte for place, byte in enumerate(others)}
    return [bytes(byte_of.get(character, ord("?")) for character in token) for token in tokens]


def serve(decoder: Decoder, path: Path) -> None:
    """Answer the requests of other processes at a local socket, each connection in a thread; returns at once.

    Args:
        decoder: Whose `run` another thread calls.
        path: Of the socket, in a folder of this user alone.
    """
    listener = Listener(str(path), "AF_UNIX", backlog=1024)
    threading.Thread(target=_accept, args=(listener, decoder), daemon=True).start()


def _accept(listener: Listener, decoder: Decoder) -> None:
    while True:
        threading.Thread(target=_talk, args=(listener.accept(), decoder), daemon=True).start()


def _talk(connection: Connection, decoder: Decoder) -> None:
    while True:
        try:
            line = connection.recv_bytes()
        except (EOFError, OSError):  # the process is done
            return
        try:
            asked = decoder.answer(Asked(**parse_strict_json(line)))
            reply: dict[str, Any] = {"ids": asked.ids, "logprobs": asked.logprobs, "error": asked.error}
        except Exception as error:  # noqa: BLE001  (of one request: whoever asked is told)
            reply = {"ids": [], "logprobs": [], "error": one_line(error)}
        connection.send_bytes(json.dumps(reply).encode())
