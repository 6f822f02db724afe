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
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer

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
DROPPED = 0.1  # of the tokens of half of the queries
# Share of the time, and how an adapter is trained.
VARIANTS = {
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


class Encoder:
    """BERT with mean pooling; `adapter` maps names of linear maps to pairs (A, B)."""

    def __init__(self, folder, device):
        found = load_file(str(folder / "model.safetensors"))
        self.w = {k.removeprefix("bert."): v.float().to(device) for k, v in found.items() if v.is_floating_point()}
        self.device = device

    def __call__(self, batch, adapter=None, factor=1.0, dropout=0.0):
        """Return unit vectors of lists of token ids (with CLS and SEP), in their order."""
        longest = max(map(len, batch))
        ids = np.zeros((len(batch), longest), dtype=np.int64)
        mask = np.zeros((len(batch), longest), dtype=bool)
        for row, tokens in enumerate(batch):
            ids[row, : len(tokens)] = tokens
            mask[row, : len(tokens)] = True
        ids, mask = torch.from_numpy(ids).to(self.device), torch.from_numpy(mask).to(self.device)
        w = self.w
        x = w["embeddings.word_embeddings.weight"][ids] + w["embeddings.token_type_embeddings.weight"][0]
        x = x + w["embeddings.position_embeddings.weight"][:longest]
        x = self._norm(x, "embeddings.LayerNorm")
        x = F.dropout(x, dropout) if dropout else x
        seen = mask[:, None, None, :]
        for number in range(LAYERS):
            name = f"encoder.layer.{number}"

            def linear(tensor, part, name=name):
                return self._linear(tensor, f"{name}.{part}", adapter, factor)

            def heads(tensor):
                return tensor.view(len(batch), longest, HEADS, WIDTH // HEADS).transpose(1, 2)

            q, k, v = (heads(linear(x, f"attention.self.{part}")) for part in ("query", "key", "value"))
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
            y = linear(y.transpose(1, 2).reshape(len(batch), longest, WIDTH), "attention.output.dense")
            x = self._norm(x + (F.dropout(y, dropout) if dropout else y), f"{name}.attention.output.LayerNorm")
            y = linear(F.gelu(linear(x, "intermediate.dense")), "output.dense")
            x = self._norm(x + (F.dropout(y, dropout) if dropout else y), f"{name}.output.LayerNorm")
        x = (x.float() * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
        return F.normalize(x, dim=-1)

    def _linear(self, x, name, adapter, factor):
        weight = self.w[f"{name}.weight"]
        if adapter is not None:
            a, b = adapter[name]
            weight = weight + factor * (b @ a)
        return F.linear(x, weight, self.w[f"{name}.bias"])

    def _norm(self, x, name):
        return F.layer_norm(x.float(), (WIDTH,), self.w[f"{name}.weight"], self.w[f"{name}.bias"], 1e-12)


def new_adapter(encoder, rank, seed):
    generator = torch.Generator().manual_seed(seed)
    made = {}
    for number in range(LAYERS):
        for part in TARGETS:
            name = f"encoder.layer.{number}.{part}"
            out, width = encoder.w[f"{name}.weight"].shape
            a = torch.randn(rank, width, generator=generator) / math.sqrt(width)
            made[name] = (a.to(encoder.device).requires_grad_(), torch.zeros(out, rank, device=encoder.device).requires_grad_())
    return made


class Data:
    """Tokens of passages and questions, and the samples of each kind."""

    def __init__(self, folder, model, limit):
        passages = [json.loads(line) for line in (folder / "passages.jsonl").open(encoding="utf-8")]
        self.questions = [json.loads(line) for line in (folder / "questions.jsonl").open(encoding="utf-8")]
        if limit:
            self._cut(passages, limit)
            passages = self.kept
        tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
        tokenizer.no_padding()
        tokenizer.no_truncation()
        self.cls, self.sep = tokenizer.token_to_id("[CLS]"), tokenizer.token_to_id("[SEP]")

        self.tokenizer = tokenizer
        texts = [f"{title}\n{text[:4000]}" if title else text[:4000] for title, text, _ in passages]
        self.passages = self.tokens(texts, LONGEST - 2)
        self.families = np.array([family for _, _, family in passages])
        self.asked = self.tokens([each["question"] for each in self.questions], LONGEST_QUESTION)
        self.samples = defaultdict(list)
        for place, each in enumerate(self.questions):
            if not each["held_out"]:
                self._add(place, each)

    def tokens(self, texts, most):
        """Return the first `most` tokens of each text."""
        return [each.ids[:most] for each in self.tokenizer.encode_batch_fast(texts, add_special_tokens=False)]

    def _cut(self, passages, limit):
        chosen = random.Random(0).sample(range(len(self.questions)), limit)
        self.questions = [self.questions[place] for place in sorted(chosen)]
        used = sorted({g for each in self.questions for g in (*each["gold"], *each["bm25"])})
        new = {old: place for place, old in enumerate(used)}
        self.kept = [passages[old] for old in used]
        for each in self.questions:
            each["gold"], each["bm25"] = [new[g] for g in each["gold"]], [new[g] for g in each["bm25"]]

    def _add(self, place, each):
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

    def passage(self, row):
        return [self.cls, *self.passages[row], self.sep]

    def query(self, place, context=None):
        """Return the tokens of a question, or of a question and a passage."""
        if context is None:
            return [self.cls, *self.asked[place], self.sep]
        return [self.cls, *self.asked[place], self.sep, *self.passages[context]][: LONGEST - 1] + [self.sep]

    def draw(self, kind, rng, near):
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
def encode(encoder, batches, adapter=None, factor=1.0, size=512):
    """Return the vectors of lists of tokens, in their order; encoded by length."""
    order = sorted(range(len(batches)), key=lambda place: -len(batches[place]))
    found = torch.empty(len(batches), WIDTH, device=encoder.device)
    for start in range(0, len(order), size):
        part = order[start : start + size]
        found[torch.tensor(part, device=encoder.device)] = encoder([batches[p] for p in part], adapter, factor)
    return found


class Measure:
    """Recall on the held-out questions, each in the passages of its own family."""

    def __init__(self, data):
        self.data = data
        self.places = defaultdict(list)
        for place, each in enumerate(data.questions):
            if each["held_out"] and len(each["gold"]) < 5:
                self.places[str(data.families[each["gold"][0]])].append(place)

    def __call__(self, encoder, vectors, first, then):
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
            pairs = [
                (number, context)
                for number, contexts in enumerate(top.indices.tolist())
                for context in contexts
            ]
            hops = encode(encoder, [self.data.query(places[n], int(rows[c])) for n, c in pairs], *then)
            two = (TEMPERATURE * (hops @ pool.T)).softmax(1).view(len(places), -1, len(rows))
            weights = top.values / top.values.sum(1, keepdim=True)
            walk = share + (weights[..., None] * two).sum(1)
            gold = [[at[g] for g in self.data.questions[place]["gold"] if g in at] for place in places]
            result[family] = {"questions": len(places), **_recall("one", one, gold), **_recall("walk", walk, gold)}
        return result


def _recall(name, scores, gold):
    ranked = scores.topk(min(10, scores.shape[1]), 1).indices.tolist()
    figures = {}
    for k in (2, 5, 10):
        shares = [len(set(ids[:k]) & set(wanted)) / len(wanted) for ids, wanted in zip(ranked, gold)]
        figures[f"{name} recall@{k}"] = round(sum(shares) / len(shares), 4)
        figures[f"{name} all@{k}"] = round(sum(share == 1 for share in shares) / len(shares), 4)
    return figures


def choice(figures):
    """Return the figure by which a checkpoint is chosen."""
    total = sum(WEIGHTS[family] for family in figures if family in WEIGHTS)
    found = 0.0
    for family, each in figures.items():
        if family in WEIGHTS:
            found += WEIGHTS[family] * (each["walk recall@5"] + each["walk all@5"] + each["one recall@5"] / 2) / 2.5
    return round(found / max(total, 1e-9), 5)


def train(name, settings, encoder, data, base, asked, near, measure, seconds, args, report):
    """Train one variant for `seconds`; save its best checkpoint and return the figures."""
    began = time.monotonic()
    rank, scale = settings["rank"], settings["scale"]
    factor, both = 2.0, name == "both"
    adapter = new_adapter(encoder, rank, args.seed)
    weights = [tensor for pair in adapter.values() for tensor in pair]
    optimizer = torch.optim.AdamW(weights, lr=settings["rate"], weight_decay=0.01)
    rng = random.Random(args.seed)
    torch.manual_seed(args.seed)
    kinds = [kind for kind in MIX if data.samples[kind]]
    batch = args.batch or settings["batch"]
    on_gpu = encoder.device.type == "cuda"
    spent_measuring, step, best, history = 0.0, 0, None, []
    # Checks of "both" encode all passages again; they may take a quarter of the time.
    checks = max(1, min(3, int(seconds / 4 / max(args.encoding, 0.1)))) if both else 7
    due = 1
    losses = []
    while True:
        elapsed = time.monotonic() - began
        progress = elapsed / seconds
        over = progress >= 1 or (args.steps and step >= args.steps)
        if progress * checks >= due or over:
            due += 1
            since = time.monotonic()
            vectors = base
            if both:
                vectors = encode(encoder, [data.passage(row) for row in range(len(data.passages))], adapter, factor)
            figures = measure(encoder, vectors, (adapter, factor), (adapter, factor))
            value = choice(figures)
            history.append({"step": step, "seconds": round(elapsed), "choice": value, "loss": _mean(losses)})
            print(f"{name} step {step} {elapsed:.0f}s loss {_mean(losses)} choice {value}", flush=True)
            for family, each in figures.items():
                print("   ", family, {k: v for k, v in each.items() if "@5" in k}, flush=True)
            losses = []
            if best is None or value > best["choice"]:
                best = {"choice": value, "step": step, "figures": figures}
                _save(args.out / f"{name}.safetensors", adapter, name, settings, factor, step)
                if not both:
                    best["first_by_base"] = measure(encoder, vectors, (None, 1.0), (adapter, factor))
            spent_measuring = max(spent_measuring, time.monotonic() - since)
            if over or time.monotonic() - began > seconds:
                break
        rate = settings["rate"] * min(1.0, (step + 1) / 40) * max(0.03, 1 - progress * 0.98)
        for group in optimizer.param_groups:
            group["lr"] = rate
        drawn = [data.draw(kind, rng, near) for kind in rng.choices(kinds, [MIX[k] for k in kinds], k=batch)]
        drawn = [(_thinned(each[0], rng), *each[1:]) for each in drawn]
        positive = torch.tensor([each[1] for each in drawn], device=encoder.device)
        with torch.autocast(encoder.device.type, dtype=torch.bfloat16, enabled=on_gpu):
            queries = encoder([each[0] for each in drawn], adapter, factor, dropout=0.1)
        plain = torch.tensor([number for number, each in enumerate(drawn) if each[4]], dtype=torch.long, device=encoder.device)
        before = asked[torch.tensor([drawn[n][3] for n in plain.tolist()], dtype=torch.long, device=encoder.device)]
        if both:
            loss = _loss_of_both(encoder, adapter, factor, scale, data, drawn, queries, positive, base, near, rng, on_gpu)
            if len(plain):
                loss = loss + settings["anchor"] * (1 - (queries[plain] * before).sum(1)).mean()
        else:
            logits = scale * queries @ base.T
            with torch.no_grad():
                blocked = base[positive] @ base.T > SAME
                for number, each in enumerate(drawn):
                    if each[2]:
                        blocked[number, each[2]] = True
                blocked[torch.arange(batch, device=encoder.device), positive] = False
            loss = F.cross_entropy(logits.masked_fill(blocked, -1e4), positive)
            if settings["anchor"] and len(plain):
                loss = loss + settings["anchor"] * (1 - (queries[plain] * before).sum(1)).mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        losses.append(loss.detach())
        step += 1
    report[name] = {"settings": settings, "steps": step, "batch": batch, "history": history, **best}
    return report[name]


def _loss_of_both(encoder, adapter, factor, scale, data, drawn, queries, positive, base, near, rng, on_gpu):
    """Return the contrastive loss with in-batch and hard negatives, and how far passages are from where they were."""
    hard = []
    for _, row, others, place, _ in drawn:
        known = {row, *others}
        wrong = [each for each in (*near[place], *data.questions[place]["bm25"]) if each not in known]
        hard.append(rng.choice(wrong) if wrong else row)
    rows = [*positive.tolist(), *hard]
    with torch.autocast(encoder.device.type, dtype=torch.bfloat16, enabled=on_gpu):
        found = encoder([data.passage(row) for row in rows], adapter, factor, dropout=0.1)
    logits = scale * queries @ found.T
    numbers = torch.tensor(rows, device=encoder.device)
    with torch.no_grad():
        blocked = base[positive] @ base[numbers].T > SAME
        for number, each in enumerate(drawn):
            for other in each[2]:
                blocked[number] |= numbers == other
        places = torch.arange(len(drawn), device=encoder.device)
        blocked[places, places] = False
    loss = F.cross_entropy(logits.masked_fill(blocked, -1e4), places)
    return loss + (1 - (found * base[numbers]).sum(1)).mean()


def _thinned(tokens, rng):
    """Return the tokens of a query, of every other query without some of them."""
    if rng.random() < 0.5:
        return tokens
    return [tokens[0], *(each for each in tokens[1:-1] if rng.random() >= DROPPED), tokens[-1]]


def _mean(losses):
    return round(float(torch.stack(losses).mean()), 4) if losses else None


def _save(path, adapter, name, settings, factor, step):
    tensors = {}
    for key, (a, b) in adapter.items():
        tensors[f"{key}.lora_A.weight"] = a.detach().half().cpu().contiguous()
        tensors[f"{key}.lora_B.weight"] = b.detach().half().cpu().contiguous()
    about = {"variant": name, "rank": settings["rank"], "factor": factor, "scale": settings["scale"], "step": step}
    save_file(tensors, str(path), metadata={"verihop": json.dumps(about)})


def _write_measured(encoder, data, args):
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


def main():
    here = Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
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
    print(f"{len(data.passages)} passages, {len(data.questions)} questions on {device}, {time.monotonic() - began:.0f}s")
    print({kind: len(found) for kind, found in data.samples.items()}, flush=True)
    _write_measured(encoder, data, args)
    since = time.monotonic()
    base = encode(encoder, [data.passage(row) for row in range(len(data.passages))])
    _ = base.sum().item()
    args.encoding = time.monotonic() - since
    print(f"passages encoded in {args.encoding:.1f}s", flush=True)
    asked = encode(encoder, [data.query(place) for place in range(len(data.questions))])
    near = []
    for start in range(0, len(asked), 2048):
        near += (asked[start : start + 2048] @ base.T).topk(min(40, len(base)), 1).indices.tolist()
    measure = Measure(data)
    before = measure(encoder, base, (None, 1.0), (None, 1.0))
    print(f"base {time.monotonic() - began:.0f}s choice {choice(before)}")
    for family, each in before.items():
        print("   ", family, {k: v for k, v in each.items() if "@5" in k}, flush=True)
    report = {
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu",
        "torch": torch.__version__, "seed": args.seed, "mix": MIX, "before": before, "choice_before": choice(before),
    }  # fmt: skip
    shares = sum(VARIANTS[name]["share"] for name in args.variants)
    variants = {}
    for name in args.variants:
        settings = dict(VARIANTS[name])
        left = args.seconds - (time.monotonic() - began) - 6  # what the last check may take
        seconds = left * settings["share"] / max(shares, 1e-9)
        shares -= settings["share"]
        if seconds < 1:
            continue
        try:
            train(name, settings, encoder, data, base, asked, near, measure, seconds, args, variants)
        except RuntimeError as error:  # out of memory beside another process: the other variants go on
            print(f"{name} failed: {error}", flush=True)
            variants[name] = {"error": str(error)[:300]}
        report["variants"] = variants
        (args.out / "result.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(f"done {time.monotonic() - began:.0f}s", {k: v.get("choice") for k, v in variants.items()}, flush=True)


if __name__ == "__main__":
    main()
