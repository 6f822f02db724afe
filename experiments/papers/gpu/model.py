"""A small Llama model in torch whose sequences are decoded together, each in its own row of one cache.

The shapes of a step are fixed, so that a GPU replays it as one graph: it computes all rows, those without a sequence
too, and reads the cache up to the longest sequence, rounded up. Llama: Touvron et al., "LLaMA", 2023, section 2.2
(https://arxiv.org/abs/2302.13971); rotary embeddings: Su et al., "RoFormer", 2021, section 3.4
(https://arxiv.org/abs/2104.09864).
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

# Lengths that are computed: a graph is recorded for each that is met.
_PROMPTS = (64, 128, 192, 256, 384, 512, 640, 768, 896, 1024, 1280, 1536, 1792, 2048, 2560, 3072, 4096, 6144, 8192)
_READ = (512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192)
_TOGETHER = (1, 2, 4, 8)  # prompts
_WORD = 32  # tokens of a word of a mask


class BatchedLlama:
    """The weights, the cache and the current step of all rows.

    Args:
        path: A GGUF file of the architecture "llama"; its weights may be quantised.
        rows: Sequences decoded together, at least 1.
        length: Most tokens of a sequence, prompt and reply together.
        device: Of torch.
        dtype: Of weights, cache and products; norms, residuals and probabilities are computed in float32.
    """

    def __init__(self, path: Path, rows: int, length: int, device: str, dtype: torch.dtype):
        self.rows, self.length, self.device, self.dtype = rows, length, device, dtype
        tensors = self._read(path)
        self.vocabulary = len(self._embedding)
        self._layers = [self._layer(tensors, number) for number in range(self._count("block_count"))]
        place = torch.arange(length, device=device)
        turns = float(self.metadata["llama.rope.freq_base"]) ** (
            -torch.arange(0, self._size, 2, device=device, dtype=torch.float32) / self._size
        )
        self._cos, self._sin = (place[:, None] * turns).cos(), (place[:, None] * turns).sin()
        # A row more than is served: what fills a group of prompts up is written there.
        shape = (len(self._layers), rows + 1, self._shared, length, self._size)
        self._keys = torch.zeros(shape, device=device, dtype=dtype)
        self._values = torch.zeros(shape, device=device, dtype=dtype)
        self._place, self._row = place, torch.arange(rows, device=device)
        token = torch.arange(self.vocabulary, device=device)
        self._word, self._bit = token // _WORD, (token % _WORD).int()
        self.token = torch.zeros(rows, dtype=torch.long, device=device)  # read next
        self.at = torch.zeros(rows, dtype=torch.long, device=device)  # its place
        self.temperature = torch.ones(rows, device=device)
        self.noise = torch.zeros(rows, device=device)  # 1 where tokens are sampled, 0 where the most likely is taken
        self.allowed = torch.full((rows, mask_words(self.vocabulary)), -1, dtype=torch.int32, device=device)
        self.logits = torch.zeros(rows, self.vocabulary, device=device)
        self.logprob = torch.zeros(rows, device=device)  # of `token`, among those allowed
        self._graphs: dict[Any, Any] = {}
        self._prompts: dict[tuple[int, int], tuple[Tensor, Tensor]] = {}

    def fill(self, prompts: Sequence[Sequence[int]], rows: Sequence[int]) -> None:
        """Write prompts into the cache, all but their last tokens, which the next step reads.

        Args:
            prompts: Numbers of tokens; at least one each.
            rows: The row of each.
        """
        left = sorted((len(prompt) - 1, row, prompt) for prompt, row in zip(prompts, rows, strict=True))
        left = [each for each in left if each[0]]
        while left:
            longest = bisect_left(_PROMPTS, left[-1][0])
            size = min(_PROMPTS[longest], self.length)
            shortest = 0.7 * _PROMPTS[longest - 1] if longest else 0
            most = 8 if size <= 1024 else 4 if size <= 2048 else 1
            group = [left.pop()]
            while left and len(group) < most and left[-1][0] > shortest:
                group.append(left.pop())
            self._fill(group, _TOGETHER[bisect_left(_TOGETHER, len(group))], size)
        at = torch.tensor(rows, device=self.device)
        self.token[at] = torch.tensor([prompt[-1] for prompt in prompts], device=self.device)
        self.at[at] = torch.tensor([len(prompt) - 1 for prompt in prompts], device=self.device)

    def forward(self, longest: int) -> None:
        """Compute `logits` of all rows, whose sequences have at most `longest` tokens."""
        read = min(_READ[min(bisect_left(_READ, longest), len(_READ) - 1)], self.length)
        self._replay(("forward", read), lambda: self._forward(read))

    def choose(self) -> None:
        """Choose `token` of all rows among those `allowed`, a bit each, and go on to the next place."""
        self._replay("choose", self._choose)

    def _read(self, path: Path) -> dict[str, Tensor]:
        import gguf

        reader = gguf.GGUFReader(path)
        self.metadata = {name: field.contents() for name, field in reader.fields.items()}
        tensors = {
            each.name: torch.from_numpy(gguf.quants.dequantize(each.data, each.tensor_type).astype(np.float32))
            for each in reader.tensors
        }
        self._heads, self._shared = self._count("attention.head_count"), self._count("attention.head_count_kv")
        self._size = self._count("embedding_length") // self._heads
        self._epsilon = float(self.metadata["llama.attention.layer_norm_rms_epsilon"])
        self._embedding = self._put(tensors["token_embd.weight"])
        self._output = self._put(tensors["output.weight"]) if "output.weight" in tensors else self._embedding
        self._norm = tensors["output_norm.weight"].to(self.device)
        return tensors

    def _count(self, name: str) -> int:
        return int(self.metadata[f"llama.{name}"])

    def _put(self, *tensors: Tensor) -> Tensor:
        return torch.cat(tensors).to(device=self.device, dtype=self.dtype)

    def _layer(self, tensors: dict[str, Tensor], number: int) -> dict[str, Tensor]:
        def of(name: str) -> Tensor:
            return tensors[f"blk.{number}.{name}.weight"]

        return {
            "before": of("attn_norm").to(self.device),
            "attend": self._put(of("attn_q"), of("attn_k"), of("attn_v")),
            "join": self._put(of("attn_output")),
            "between": of("ffn_norm").to(self.device),
            "widen": self._put(of("ffn_gate"), of("ffn_up")),
            "narrow": self._put(of("ffn_down")),
        }

    def _replay(self, key: Any, step: Callable[[], None]) -> None:
        """Run a step; on a GPU as a graph, recorded when it is first met."""
        if self.device != "cuda":
            step()
            return
        if key not in self._graphs:
            kept = self.token.clone(), self.at.clone()
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                step()
            torch.cuda.current_stream().wait_stream(side)
            self._graphs[key] = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graphs[key]):
                step()
            self.token.copy_(kept[0])
            self.at.copy_(kept[1])
        self._graphs[key].replay()

    def _fill(self, group: Sequence[tuple[int, int, Sequence[int]]], count: int, size: int) -> None:
        ids = np.zeros((count, size), dtype=np.int64)
        rows = np.full(count, self.rows, dtype=np.int64)
        for number, (length, row, prompt) in enumerate(group):
            ids[number, :length], rows[number] = prompt[:-1], row
        key = (count, size)
        if key not in self._prompts:  # a graph reads from where it was recorded
            empty = torch.zeros(count, size, dtype=torch.long, device=self.device)
            self._prompts[key] = empty, torch.zeros(count, dtype=torch.long, device=self.device)
        shown, at = self._prompts[key]
        shown.copy_(torch.from_numpy(ids))
        at.copy_(torch.from_numpy(rows))
        self._replay(key, lambda: self._compute(shown, at))

    def _compute(self, ids: Tensor, rows: Tensor) -> None:
        """Write keys and values of prompts, shape (prompts, tokens), into the cache."""
        count, size = ids.shape
        x = self._embedding[ids].float()
        cos, sin = self._cos[:size, None], self._sin[:size, None]
        for number, layer in enumerate(self._layers):
            queries, keys, values = self._attending(x, layer)
            queries, keys = (self._turn(each, cos, sin).transpose(1, 2) for each in (queries, keys))
            values = values.transpose(1, 2)
            self._keys[number, :, :, :size].index_copy_(0, rows, keys)
            self._values[number, :, :, :size].index_copy_(0, rows, values)
            if number + 1 == len(self._layers):
                return  # nothing is said after a prompt without its last token
            each = self._heads // self._shared
            keys, values = keys.repeat_interleave(each, 1), values.repeat_interleave(each, 1)
            seen = functional.scaled_dot_product_attention(queries, keys, values, is_causal=True)
            x = self._after(x, seen.transpose(1, 2).reshape(count, size, -1), layer)

    def _forward(self, read: int) -> None:
        x = self._embedding[self.token].float()
        cos, sin = self._cos[self.at][:, None], self._sin[self.at][:, None]
        unseen = torch.where(self._place[None, :read] <= self.at[:, None], 0.0, float("-inf"))[:, None, None]
        for number, layer in enumerate(self._layers):
            queries, keys, values = self._attending(x, layer)
            queries = self._turn(queries, cos, sin).unflatten(1, (self._shared, -1))
            all_keys, all_values = self._keys[number, : self.rows], self._values[number, : self.rows]
            all_keys[self._row, :, self.at] = self._turn(keys, cos, sin)
            all_values[self._row, :, self.at] = values
            scores = torch.matmul(queries, all_keys[:, :, :read].transpose(-1, -2)).float() * self._size**-0.5
            weights = (scores + unseen).softmax(-1).to(self.dtype)
            x = self._after(x, torch.matmul(weights, all_values[:, :, :read]).flatten(1), layer)
        self.logits.copy_(functional.linear(self._normed(x, self._norm), self._output).float())

    def _choose(self) -> None:
        allowed = ((self.allowed[:, self._word] >> self._bit) & 1).bool()
        logprobs = (self.logits.masked_fill(~allowed, float("-inf")) / self.temperature[:, None]).log_softmax(-1)
        # The largest of log-probabilities with Gumbel noise is a sample.
        noise = -torch.log(-torch.log(torch.rand_like(logprobs).clamp_(1e-10, 1 - 1e-7)))
        chosen = (logprobs + noise * self.noise[:, None]).argmax(-1)
        self.logprob.copy_(logprobs.gather(1, chosen[:, None])[:, 0])
        self.token.copy_(chosen)
        self.at.add_(1).clamp_(max=self.length - 1)

    def _attending(self, x: Tensor, layer: dict[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values, each of shape (..., heads, size)."""
        wide = functional.linear(self._normed(x, layer["before"]), layer["attend"]).unflatten(-1, (-1, self._size))
        queries, keys, values = wide.split([self._heads, self._shared, self._shared], -2)
        return queries, keys, values

    def _after(self, x: Tensor, seen: Tensor, layer: dict[str, Tensor]) -> Tensor:
        """Return the residual after attention and feed-forward layer."""
        x = x + functional.linear(seen, layer["join"]).float()
        gate, up = functional.linear(self._normed(x, layer["between"]), layer["widen"]).float().chunk(2, -1)
        return x + functional.linear((functional.silu(gate) * up).to(self.dtype), layer["narrow"]).float()

    def _normed(self, x: Tensor, weight: Tensor) -> Tensor:
        return (x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self._epsilon) * weight).to(self.dtype)

    def _turn(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Return rotated queries or keys; GGUF files of Llama models have the two of a pair side by side."""
        one, two = x.float().unflatten(-1, (-1, 2)).unbind(-1)
        return torch.stack([one * cos - two * sin, one * sin + two * cos], -1).flatten(-2).to(self.dtype)


def mask_words(vocabulary: int) -> int:
    """Return the 32-bit words of a mask over a vocabulary."""
    return -(-vocabulary // _WORD)
