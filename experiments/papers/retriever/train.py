"""Train adapters of all-MiniLM-L6-v2 that find the passages of multi-hop questions, one hop after the other.

    python3 train.py --out DIR --seconds 200

Xiong et al., "Answering Complex Open-Domain Questions with Multi-Hop Dense Retrieval", ICLR 2021, sections 2.2 and 2.3
(https://arxiv.org/abs/2009.12756): the question finds the first passage, question and passage find the next. Low-rank
adapters as in Hu et al., "LoRA", ICLR 2022 (https://arxiv.org/abs/2106.09685).

Departures: one model of 22 million weights, of which only adapters are trained. The variants "query" leave the vectors
of passages as they are, so that every negative of the pool counts in the softmax, and an index needs no other vectors;
"both" adapts passages too, against in-batch and hard negatives. Questions of one hop are trained along: question and
passage find that passage again. A wrong passage leads back to the first one.

Needs torch, safetensors and tokenizers alone, and is run where this repository is not installed: it stands by itself.
"""

import argparse
import json
import math
import random
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch.nn import functional

LAYERS, WIDTH, HEADS = 6, 384, 12
TARGETS = (
    "attention.self.query",
    "attention.self.key",
    "attention.self.value",
    "attention.output.dense",
    "intermediate.dense",
    "output.dense",
)
LONGEST, LONGEST_QUESTION = 256, 96  # tokens
FACTOR = 2.0  # of the product of two factors
DROPPED = 0.1  # of the tokens of half of the queries
# Share of the time, and how an adapter is trained.
VARIANTS: dict[str, dict[str, Any]] = {
    "query": {"share": 0.45, "rank": 32, "scale": 30.0, "rate": 4e-4, "batch": 256, "anchor": 0.3},
    "both": {"share": 0.3, "rank": 32, "scale": 20.0, "rate": 2e-4, "batch": 128, "anchor": 1.0},
    "query-large": {"share": 0.25, "rank": 64, "scale": 40.0, "rate": 1e-3, "batch": 256, "anchor": 0.0},
}
# Kind of sample -> share in a batch.
MIX = {
    "first": 0.17,
    "next": 0.28,
    "return": 0.08,
    "made-first": 0.04,
    "made-next": 0.09,
    "cloze-first": 0.02,
    "cloze-next": 0.08,
    "single": 0.16,
    "single-again": 0.04,
    "single-return": 0.04,
}
MADE = ("2wikimultihopqa-composed", "hotpotqa-composed", "world", "silver")
SINGLE = ("nq_qed", "nq_open", "squad", "parts")
WEIGHTS = {"hotpotqa": 0.3, "2wikimultihopqa": 0.3, "musique": 0.15, "nq_open": 0.25}  # of families, in the choice
SAME = 0.93  # cosine above which a passage counts as the positive in other words
CONTEXTS, TEMPERATURE = 6, 25.0  # of the walk that is measured


Tokens = list[int]
Adapter = dict[str, tuple[torch.Tensor, torch.Tensor]]
Adapted = tuple[Adapter | None, float]  # and the factor of its products
Figures = dict[str, dict[str, float]]
# Tokens of the query, row of the positive, rows of other gold, place of the question, whether it stands alone.
Sample = tuple[Tokens, int, list[int], int, bool]


class Encoder:
    """BERT with mean pooling; `adapter` maps names of linear maps to pairs (A, B)."""

    def __init__(self, folder: Path, device: torch.device):
        found = load_file(str(folder / "model.safetensors"))
        self.w = {k.removeprefix("bert."): v.float().to(device) for k, v in found.items() if v.is_floating_point()}
        self.device = device

    def __call__(
        self, batch: Sequence[Tokens], adapter: Adapter | None = None, factor: float = 1.0, dropout: float = 0.0
    ) -> torch.Tensor:
        """Return unit vectors of lists of token ids (with CLS and SEP), in their order."""
        longest = max(map(len, batch))
        padded = np.zeros((len(batch), longest), dtype=np.int64)
        read = np.zeros((len(batch), longest), dtype=bool)
        for row, tokens in enumerate(batch):
            padded[row, : len(tokens)] = tokens
            read[row, : len(tokens)] = True
        ids, mask = torch.from_numpy(padded).to(self.device), torch.from_numpy(read).to(self.device)
        w = self.w
        x = w["embeddings.word_embeddings.weight"][ids] + w["embeddings.token_type_embeddings.weight"][0]
        x = x + w["embeddings.position_embeddings.weight"][:longest]
        x = self._norm(x, "embeddings.LayerNorm")
        x = functional.dropout(x, dropout) if dropout else x
        seen = mask[:, None, None, :]
        for number in range(LAYERS):
            name = f"encoder.layer.{number}"

            def linear(tensor: torch.Tensor, part: str, name: str = name) -> torch.Tensor:
                return self._linear(tensor, f"{name}.{part}", adapter, factor)

            def heads(tensor: torch.Tensor) -> torch.Tensor:
                return tensor.view(len(batch), longest, HEADS, WIDTH // HEADS).transpose(1, 2)

            q, k, v = (heads(linear(x, f"attention.self.{part}")) for part in ("query", "key", "value"))
            y = functional.scaled_dot_product_attention(q, k, v, attn_mask=seen)
            y = linear(y.transpose(1, 2).reshape(len(batch), longest, WIDTH), "attention.output.dense")
            x = self._norm(x + (functional.dropout(y, dropout) if dropout else y), f"{name}.attention.output.LayerNorm")
            y = linear(functional.gelu(linear(x, "intermediate.dense")), "output.dense")
            x = self._norm(x + (functional.dropout(y, dropout) if dropout else y), f"{name}.output.LayerNorm")
        x = (x.float() * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
        return functional.normalize(x, dim=-1)

    def _linear(self, x: torch.Tensor, name: str, adapter: Adapter | None, factor: float) -> torch.Tensor:
        weight = self.w[f"{name}.weight"]
        if adapter is not None:
            a, b = adapter[name]
            weight = weight + factor * (b @ a)
        return functional.linear(x, weight, self.w[f"{name}.bias"])

    def _norm(self, x: torch.Tensor, name: str) -> torch.Tensor:
        return functional.layer_norm(x.float(), (WIDTH,), self.w[f"{name}.weight"], self.w[f"{name}.bias"], 1e-12)


def new_adapter(encoder: Encoder, rank: int, seed: int) -> Adapter:
    """Return factors of all linear maps whose products are 0."""
    generator = torch.Generator().manual_seed(seed)
    made = {}
    for number in range(LAYERS):
        for part in TARGETS:
            name = f"encoder.layer.{number}.{part}"
            out, width = encoder.w[f"{name}.weight"].shape
            a = torch.randn(rank, width, generator=generator) / math.sqrt(width)
            made[name] = (
                a.to(encoder.device).requires_grad_(),
                torch.zeros(out, rank, device=encoder.device).requires_grad_(),
            )
    return made


class Data:
    """Tokens of passages and questions, and the samples of each kind."""

    def __init__(self, folder: Path, model: Path, limit: int):
        passages = [json.loads(line) for line in (folder / "passages.jsonl").open(encoding="utf-8")]
        self.questions = [json.loads(line) for line in (folder / "questions.jsonl").open(encoding="utf-8")]
        if limit:
            self._cut(passages, limit)
            passages = self.kept
        tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
        tokenizer.no_padding()
        tokenizer.no_truncation()
        self.cls, self.sep = (int(tokenizer.token_to_id(name) or 0) for name in ("[CLS]", "[SEP]"))

        self.tokenizer = tokenizer
        texts = [f"{title}\n{text[:4000]}" if title else text[:4000] for title, text, _ in passages]
        self.passages = self.tokens(texts, LONGEST - 2)
        self.families = np.array([family for _, _, family in passages])
        self.asked = self.tokens([each["question"] for each in self.questions], LONGEST_QUESTION)
        self.samples: dict[str, list[tuple[int, tuple[int, int] | None]]] = defaultdict(list)
        for place, each in enumerate(self.questions):
            if not each["held_out"]:
                self._add(place, each)

    def tokens(self, texts: Sequence[str], most: int) -> list[Tokens]:
        """Return the first `most` tokens of each text."""
        return [each.ids[:most] for each in self.tokenizer.encode_batch_fast(texts, add_special_tokens=False)]

    def _cut(self, passages: Sequence[Any], limit: int) -> None:
        chosen = random.Random(0).sample(range(len(self.questions)), limit)
        self.questions = [self.questions[place] for place in sorted(chosen)]
        used = sorted({g for each in self.questions for g in (*each["gold"], *each["bm25"])})
        new = {old: place for place, old in enumerate(used)}
        self.kept = [passages[old] for old in used]
        for each in self.questions:
            each["gold"], each["bm25"] = [new[g] for g in each["gold"]], [new[g] for g in each["bm25"]]

    def _add(self, place: int, each: dict[str, Any]) -> None:
        single, made = each["source"] in SINGLE, "made-" if each["source"] in MADE else ""
        made = "cloze-" if each["source"] == "cloze" else made
        if len(each["gold"]) > 4:
            return
        if single or len(each["gold"]) == 1:
            for kind in ("single", "single-again", "single-return"):
                self.samples[kind].append((place, None))
            return
        self.samples[f"{made}first"].append((place, None))
        if not made:
            self.samples["return"].append((place, None))
        forward = [tuple(link) for link in each["links"]]
        for a, b in forward:
            # Both directions count, the one against the order of hops half as often: it finds the first passage where
            # the question found the second.
            self.samples[f"{made}next"] += [(place, (a, b))] * 2
            if (b, a) not in forward and made != "cloze-":
                self.samples[f"{made}next"].append((place, (b, a)))

    def passage(self, row: int) -> Tokens:
        """Return the tokens of a passage."""
        return [self.cls, *self.passages[row], self.sep]

    def query(self, place: int, context: int | None = None) -> Tokens:
        """Return the tokens of a question, or of a question and a passage."""
        if context is None:
            return [self.cls, *self.asked[place], self.sep]
        tokens = [self.cls, *self.asked[place], self.sep, *self.passages[context]]
        return [*tokens[: LONGEST - 1], self.sep]

    def draw(self, kind: str, rng: random.Random, near: Sequence[list[int]]) -> Sample:
        """Return tokens of the query, the row of the positive, rows of other gold, and the place of the question."""
        place, link = rng.choice(self.samples[kind])
        each = self.questions[place]
        gold = each["gold"]
        if link is not None:
            context, positive = gold[link[0]], gold[link[1]]
            # The passage at hand is a negative: it must lead on.
            others = [g for g in gold if g not in (context, positive)]
            return self.query(place, context), positive, others, place, False
        positive = gold[rng.choice(each["first"])]
        context = None
        if kind.endswith("again"):
            context = positive
        elif kind.endswith("return"):
            wrong = [row for row in (*near[place][:15], *each["bm25"]) if row not in gold]
            context = rng.choice(wrong) if wrong else None
        return self.query(place, context), positive, [g for g in gold if g != positive], place, context is None


@torch.no_grad()
def encode(
    encoder: Encoder, batches: Sequence[Tokens], adapter: Adapter | None = None, factor: float = 1.0, size: int = 512
) -> torch.Tensor:
    """Return the vectors of lists of tokens, in their order; encoded by length."""
    order = sorted(range(len(batches)), key=lambda place: -len(batches[place]))
    found = torch.empty(len(batches), WIDTH, device=encoder.device)
    for start in range(0, len(order), size):
        part = order[start : start + size]
        found[torch.tensor(part, device=encoder.device)] = encoder([batches[p] for p in part], adapter, factor)
    return found


class Measure:
    """Recall on the held-out questions, each in the passages of its own family."""

    def __init__(self, data: Data):
        self.data = data
        self.places = defaultdict(list)
        for place, each in enumerate(data.questions):
            if each["held_out"] and len(each["gold"]) < 5:
                self.places[str(data.families[each["gold"][0]])].append(place)

    def __call__(self, encoder: Encoder, vectors: torch.Tensor, first: Adapted, then: Adapted) -> Figures:
        """Return figures of each family; `first` and `then` are (adapter, factor) of the question alone and of hops."""
        result = {}
        for family, places in self.places.items():
            rows = np.flatnonzero(self.data.families == family)
            pool = vectors[torch.from_numpy(rows).to(vectors.device)]
            at = {row: number for number, row in enumerate(rows.tolist())}
            queries = encode(encoder, [self.data.query(place) for place in places], *first)
            one = queries @ pool.T
            share = (TEMPERATURE * one).softmax(1)
            top = share.topk(min(CONTEXTS, len(rows)), 1)
            pairs = [(number, context) for number, contexts in enumerate(top.indices.tolist()) for context in contexts]
            hops = encode(encoder, [self.data.query(places[n], int(rows[c])) for n, c in pairs], *then)
            two = (TEMPERATURE * (hops @ pool.T)).softmax(1).view(len(places), -1, len(rows))
            weights = top.values / top.values.sum(1, keepdim=True)
            walk = share + (weights[..., None] * two).sum(1)
            gold = [[at[g] for g in self.data.questions[place]["gold"] if g in at] for place in places]
            result[family] = {"questions": len(places), **_recall("one", one, gold), **_recall("walk", walk, gold)}
        return result


def _recall(name: str, scores: torch.Tensor, gold: Sequence[list[int]]) -> dict[str, float]:
    ranked = scores.topk(min(10, scores.shape[1]), 1).indices.tolist()
    figures = {}
    for k in (2, 5, 10):
        shares = [len(set(ids[:k]) & set(wanted)) / len(wanted) for ids, wanted in zip(ranked, gold, strict=True)]
        figures[f"{name} recall@{k}"] = round(sum(shares) / len(shares), 4)
        figures[f"{name} all@{k}"] = round(sum(share == 1 for share in shares) / len(shares), 4)
    return figures


def choice(figures: Figures) -> float:
    """Return the figure by which a checkpoint is chosen."""
    total = sum(WEIGHTS[family] for family in figures if family in WEIGHTS)
    found = 0.0
    for family, each in figures.items():
        if family in WEIGHTS:
            found += WEIGHTS[family] * (each["walk recall@5"] + each["walk all@5"] + each["one recall@5"] / 2) / 2.5
    return round(found / max(total, 1e-9), 5)


@dataclass(frozen=True)
class Given:
    """What all variants share; `base` and `asked` are vectors by the model as it is, `near` passages near questions."""

    encoder: Encoder
    data: Data
    measure: Measure
    base: torch.Tensor
    asked: torch.Tensor
    near: list[list[int]]
    encoding: float  # seconds that all passages take
    args: argparse.Namespace


class Training:
    """One variant in training."""

    def __init__(self, name: str, settings: dict[str, Any], given: Given):
        self.name, self.settings, self.given = name, settings, given
        self.both = name == "both"
        self.adapter = new_adapter(given.encoder, settings["rank"], given.args.seed)
        self.weights = [tensor for pair in self.adapter.values() for tensor in pair]
        self.optimizer = torch.optim.AdamW(self.weights, lr=settings["rate"], weight_decay=0.01)
        self.rng = random.Random(given.args.seed)
        torch.manual_seed(given.args.seed)
        self.kinds = [kind for kind in MIX if given.data.samples[kind]]
        self.batch = given.args.batch or settings["batch"]
        self.steps, self.losses = 0, list[torch.Tensor]()
        self.best: dict[str, Any] = {}
        self.history: list[dict[str, Any]] = []

    def run(self, seconds: float) -> dict[str, Any]:
        """Train for `seconds`, save the best checkpoint and return the figures."""
        began, due, most = time.monotonic(), 1, self.given.args.steps
        # Checks of "both" encode all passages again; they may take a quarter of the time.
        checks = max(1, min(3, int(seconds / 4 / max(self.given.encoding, 0.1)))) if self.both else 7
        while True:
            elapsed = time.monotonic() - began
            over = elapsed >= seconds or (most and self.steps >= most)
            if elapsed / seconds * checks >= due or over:
                due += 1
                self._check(elapsed)
                if over or time.monotonic() - began > seconds:
                    break
            self._step(elapsed / seconds)
        return {
            "settings": self.settings,
            "steps": self.steps,
            "batch": self.batch,
            "history": self.history,
            **self.best,
        }

    def _check(self, elapsed: float) -> None:
        """Measure, and save what is the best so far."""
        given, vectors, adapted = self.given, self.given.base, (self.adapter, FACTOR)
        if self.both:
            passages = [given.data.passage(row) for row in range(len(given.data.passages))]
            vectors = encode(given.encoder, passages, *adapted)
        figures = given.measure(given.encoder, vectors, adapted, adapted)
        value, loss = choice(figures), _mean(self.losses)
        self.history.append({"step": self.steps, "seconds": round(elapsed), "choice": value, "loss": loss})
        _show(f"{self.name} step {self.steps} {elapsed:.0f}s loss {loss} choice {value}", figures)
        self.losses = []
        if not self.best or value > self.best["choice"]:
            self.best = {"choice": value, "step": self.steps, "figures": figures}
            _save(given.args.out / f"{self.name}.safetensors", self.adapter, self.name, self.settings, self.steps)
            if not self.both:
                self.best["first_by_base"] = given.measure(given.encoder, vectors, (None, 1.0), adapted)

    def _step(self, progress: float) -> None:
        """Take one step of the optimizer."""
        given, settings = self.given, self.settings
        rate = settings["rate"] * min(1.0, (self.steps + 1) / 40) * max(0.03, 1 - progress * 0.98)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        chosen = self.rng.choices(self.kinds, [MIX[kind] for kind in self.kinds], k=self.batch)
        drawn = [given.data.draw(kind, self.rng, given.near) for kind in chosen]
        queries = self._encoded([_thinned(each[0], self.rng) for each in drawn])
        loss = self._of_both(drawn, queries) if self.both else self._of_pool(drawn, queries)
        alone = [number for number, each in enumerate(drawn) if each[4]]
        if settings["anchor"] and alone:
            before = given.asked[self._tensor([drawn[number][3] for number in alone])]
            loss = loss + settings["anchor"] * (1 - (queries[self._tensor(alone)] * before).sum(1)).mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.weights, 1.0)
        self.optimizer.step()
        self.losses.append(loss.detach())
        self.steps += 1

    def _encoded(self, batches: Sequence[Tokens]) -> torch.Tensor:
        device = self.given.encoder.device.type
        with torch.autocast(device, dtype=torch.bfloat16, enabled=device == "cuda"):
            return self.given.encoder(batches, self.adapter, FACTOR, dropout=0.1)

    def _tensor(self, numbers: Sequence[int]) -> torch.Tensor:
        return torch.tensor(numbers, dtype=torch.long, device=self.given.encoder.device)

    def _of_pool(self, drawn: Sequence[Sample], queries: torch.Tensor) -> torch.Tensor:
        """Return the loss with all passages of the pool as negatives, but gold and what says the same."""
        base, positive = self.given.base, self._tensor([each[1] for each in drawn])
        with torch.no_grad():
            blocked = base[positive] @ base.T > SAME
            for number, each in enumerate(drawn):
                if each[2]:
                    blocked[number, each[2]] = True
            blocked[torch.arange(len(drawn), device=base.device), positive] = False
        logits = self.settings["scale"] * queries @ base.T
        return functional.cross_entropy(logits.masked_fill(blocked, -1e4), positive)

    def _of_both(self, drawn: Sequence[Sample], queries: torch.Tensor) -> torch.Tensor:
        """Return the loss with in-batch and hard negatives, and how far passages are from where they were."""
        base, data, hard = self.given.base, self.given.data, []
        for _, row, others, place, _ in drawn:
            near = (*self.given.near[place], *data.questions[place]["bm25"])
            wrong = [each for each in near if each not in {row, *others}]
            hard.append(self.rng.choice(wrong) if wrong else row)
        rows = [*(each[1] for each in drawn), *hard]
        found = self._encoded([data.passage(row) for row in rows])
        numbers, places = self._tensor(rows), torch.arange(len(drawn), device=base.device)
        with torch.no_grad():
            blocked = base[numbers[: len(drawn)]] @ base[numbers].T > SAME
            for number, each in enumerate(drawn):
                for other in each[2]:
                    blocked[number] |= numbers == other
            blocked[places, places] = False
        logits = self.settings["scale"] * queries @ found.T
        loss = functional.cross_entropy(logits.masked_fill(blocked, -1e4), places)
        return loss + (1 - (found * base[numbers]).sum(1)).mean()


def _show(what: str, figures: Figures) -> None:
    print(what, flush=True)
    for family, each in figures.items():
        print("   ", family, {name: value for name, value in each.items() if "@5" in name}, flush=True)


def _mean(losses: list[torch.Tensor]) -> float | None:
    return round(float(torch.stack(losses).mean()), 4) if losses else None


def _save(path: Path, adapter: Adapter, name: str, settings: dict[str, Any], step: int) -> None:
    tensors = {}
    for key, (a, b) in adapter.items():
        tensors[f"{key}.lora_A.weight"] = a.detach().half().cpu().contiguous()
        tensors[f"{key}.lora_B.weight"] = b.detach().half().cpu().contiguous()
    about = {"variant": name, "rank": settings["rank"], "factor": FACTOR, "scale": settings["scale"], "step": step}
    save_file(tensors, str(path), metadata={"verihop": json.dumps(about)})


def _thinned(tokens: Tokens, rng: random.Random) -> Tokens:
    """Return the tokens of a query, of every other query without some of them."""
    if rng.random() < 0.5:
        return tokens
    return [tokens[0], *(each for each in tokens[1:-1] if rng.random() >= DROPPED), tokens[-1]]


def _write_measured(encoder: Encoder, data: Data, args: argparse.Namespace) -> None:
    """Write the vectors by the model as it is of the passages that are measured on; nothing is trained on them."""
    file = args.data / "measured.jsonl"
    if not file.is_file() or args.limit:
        return
    lines = [json.loads(line) for line in file.open(encoding="utf-8")]
    found = iter(data.tokens([each for each in lines if isinstance(each, str)], LONGEST - 2))
    tokens = [next(found) if isinstance(each, str) else data.passages[each] for each in lines]
    torch.set_float32_matmul_precision("highest")
    batches = [[data.cls, *each, data.sep] for each in tokens]
    vectors = encode(encoder, batches).half().cpu().numpy()
    torch.set_float32_matmul_precision("high")
    for number, part in enumerate(np.array_split(vectors, 2)):
        np.save(args.out / f"measured-{number}.npy", part)
    print(f"{len(lines)} passages to measure on encoded", flush=True)


def main() -> None:
    """Train the variants one after the other, with the options of the command line."""
    here = Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=200, help="of everything, loading included")
    parser.add_argument("--data", type=Path, default=here / "data")
    parser.add_argument("--model", type=Path, default=here / "model")
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=0, help="at most, for tests")
    parser.add_argument("--batch", type=int, default=0)
    parser.add_argument("--limit", type=int, default=0, help="questions, for tests")
    args = parser.parse_args()
    began = time.monotonic()
    args.out.mkdir(parents=True, exist_ok=True)
    torch.set_float32_matmul_precision("high")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    encoder = Encoder(args.model, device)
    data = Data(args.data, args.model, args.limit)
    print(f"{len(data.passages)} passages, {len(data.questions)} questions on {device}")
    print({kind: len(found) for kind, found in data.samples.items()}, flush=True)
    _write_measured(encoder, data, args)
    given = _given(encoder, data, args)
    before = given.measure(encoder, given.base, (None, 1.0), (None, 1.0))
    _show(f"base {time.monotonic() - began:.0f}s choice {choice(before)}", before)
    variants: dict[str, Any] = {}
    report = {
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu",
        "command": "python3 train.py " + " ".join(sys.argv[1:]),
        "torch": torch.__version__, "seed": args.seed, "mix": MIX, "before": before, "choice_before": choice(before),
        "variants": variants,
    }  # fmt: skip
    shares = sum(VARIANTS[name]["share"] for name in args.variants)
    for name in args.variants:
        settings = dict(VARIANTS[name])
        left = args.seconds - (time.monotonic() - began) - 6  # what the last check may take
        seconds = left * settings["share"] / max(shares, 1e-9)
        shares -= settings["share"]
        if seconds < 1:
            continue
        try:
            variants[name] = Training(name, settings, given).run(seconds)
        except RuntimeError as error:  # out of memory beside another process: the other variants go on
            print(f"{name} failed: {error}", flush=True)
            variants[name] = {"error": str(error)[:300]}
        (args.out / "result.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(f"done {time.monotonic() - began:.0f}s", {k: v.get("choice") for k, v in variants.items()}, flush=True)


def _given(encoder: Encoder, data: Data, args: argparse.Namespace) -> Given:
    """Encode passages and questions by the model as it is, and find the passages near each question."""
    since = time.monotonic()
    base = encode(encoder, [data.passage(row) for row in range(len(data.passages))])
    base.sum().item()  # waits for the GPU
    encoding = time.monotonic() - since
    asked = encode(encoder, [data.query(place) for place in range(len(data.questions))])
    near: list[list[int]] = []
    for start in range(0, len(asked), 2048):
        near += (asked[start : start + 2048] @ base.T).topk(min(40, len(base)), 1).indices.tolist()
    return Given(encoder, data, Measure(data), base, asked, near, encoding, args)


if __name__ == "__main__":
    main()
