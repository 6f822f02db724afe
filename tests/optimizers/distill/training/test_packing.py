"""Packed rows give the losses and gradients of single examples."""

from pathlib import Path

import pytest
import torch

from optimizers.distill.examples import Example
from optimizers.distill.training.data import EncodedExample, batches, encode, pack, single_rows, token_weights
from optimizers.distill.training.lm import attention
from optimizers.distill.training.lm.base_model import Device, load_base
from optimizers.distill.training.lm.student import Student
from optimizers.distill.training.settings import make_settings

CPU = Device("cpu", bfloat16=False)


def loss_and_gradients(tiny: Path, examples: list[Example], **settings: object) -> tuple[float, dict, int]:
    student = Student(load_base(str(tiny)), make_settings(**settings), CPU)
    with torch.no_grad():  # else B is zero, and so are the gradients of A
        chance = torch.Generator().manual_seed(1)
        for name, weight in student.weights.items():
            if "lora_B" in name:
                weight.copy_(torch.randn(weight.shape, generator=chance) * 0.1)
    total = torch.zeros(())
    rows = student.rows(encode(examples, student.base.tokenizer))
    for row in rows:
        loss, _ = student.losses(row)
        loss.backward()
        total += loss.detach()
    return total.item(), {name: weight.grad for name, weight in student.weights.items()}, len(rows)


@pytest.mark.parametrize("method", ["lora", "full"])
@pytest.mark.parametrize("loss", ["tokens", "examples"])
def test_packed_loss_and_gradients_equal_those_of_single_examples(
    tiny: Path, examples: list[Example], method: str, loss: str
) -> None:
    packed, packed_gradients, rows = loss_and_gradients(tiny, examples, method=method, loss=loss, row_tokens=150)
    single, gradients, single_rows = loss_and_gradients(tiny, examples, method=method, loss=loss, packing=False)
    assert 1 < rows < single_rows == len(examples)
    assert packed == pytest.approx(single, rel=1e-5)
    assert gradients.keys() == packed_gradients.keys()
    for name, gradient in gradients.items():
        assert gradient.abs().max() > 0, name
        torch.testing.assert_close(packed_gradients[name], gradient, rtol=1e-4, atol=1e-6, msg=name)


def test_the_loss_is_that_of_transformers_with_labels(tiny: Path, examples: list[Example]) -> None:
    """Token by token the same as the library's own loss with the prompt masked."""
    base = load_base(str(tiny))
    encoded = encode(examples[:1], base.tokenizer)[0]
    tokens = torch.tensor([[*encoded.prompt, *encoded.reply]])
    labels = tokens.clone()
    labels[:, : len(encoded.prompt)] = -100
    expected = base.model(input_ids=tokens, labels=labels).loss.item()
    ours, _, _ = loss_and_gradients(tiny, examples[:1], method="full")
    assert ours == pytest.approx(expected, rel=1e-5)


def encoded(prompt: list[int], reply: list[int], group: int = 0) -> EncodedExample:
    return EncodedExample(tuple(prompt), tuple(reply), group, "reading")


def test_a_packed_row_computes_the_shared_prefix_once() -> None:
    shared = list(range(10, 30))
    batch = [encoded([*shared, 40, 41], [50, 2]), encoded([*shared, 42], [51, 2]), encoded([7] * 9, [8, 2], group=1)]
    rows = pack(batch, 100, token_weights(batch, "tokens"))
    assert len(rows) == 1
    assert rows[0].tokens == [*shared, 42, 51, 40, 41, 50, *[7] * 9, 8]
    assert rows[0].lengths == [20, 2, 3, 10]
    assert rows[0].prefixes == [None, 0, 0, None]
    assert rows[0].positions == [*range(20), 20, 21, 20, 21, 22, *range(10)]
    predicted = {(place, token) for place, token, _, _ in rows[0].targets}
    assert predicted == {(20, 51), (21, 2), (23, 50), (24, 2), (33, 8), (34, 2)}


def test_rows_are_as_long_as_allowed_unless_one_example_is_longer() -> None:
    batch = [encoded(list(range(100, 100 + size)), [1, 2], group=size) for size in (40, 40, 45, 200)]
    rows = pack(batch, 90, token_weights(batch, "tokens"))
    assert sorted(len(row.tokens) for row in rows) == [46, 82, 201] or max(len(row.tokens) for row in rows) == 201
    assert sorted(member for row in rows for member in {target[3] for target in row.targets}) == [0, 1, 2, 3]
    assert [len(row.tokens) for row in single_rows(batch, token_weights(batch, "tokens"))] == [41, 41, 46, 201]


def test_every_example_is_used_once_in_an_epoch_in_an_order_of_its_own() -> None:
    examples = [encoded([number] * 9, [1], group=number % 3) for number in range(20)]
    first, second = (batches(examples, 6, {}, 0, epoch) for epoch in (0, 1))
    assert [len(batch) for batch in first] == [6, 6, 6, 2]
    assert sorted(place for batch in first for place in batch) == list(range(20))
    assert first != second
    assert first == batches(examples, 6, {}, 0, 0)
    assert first != batches(examples, 6, {}, 1, 0)


def test_a_skill_is_used_as_often_as_its_weight_says() -> None:
    examples = [encoded([number], [1]) for number in range(100)]
    used = [place for batch in batches(examples, 8, {"reading": 2.5}, 0, 0) for place in batch]
    assert len(used) == 250
    assert {used.count(place) for place in range(100)} == {2, 3}
    rare = [place for batch in batches(examples, 8, {"reading": 1e-9}, 0, 0) for place in batch]
    assert len(rare) == 1  # never none


@pytest.mark.parametrize(("heads", "groups"), [(4, 2), (3, 3)])
def test_both_ways_to_compute_attention_agree(heads: int, groups: int) -> None:
    """GPUs use the kernel, CPUs plain products."""
    chance = torch.Generator().manual_seed(0)
    query = torch.randn(heads, 5, 8, generator=chance)
    key, value = (torch.randn(groups, 9, 8, generator=chance) for _ in range(2))
    torch.testing.assert_close(attention.plain(query, key, value, 0.3), attention.fused(query, key, value, 0.3))


@pytest.mark.parametrize("heads", [1, 4])
def test_masks_are_parts_of_one(heads: int) -> None:
    """They are as many as the lengths of examples: kept one by one, they would fill the memory."""
    attention._masks.clear()
    chance = torch.Generator().manual_seed(0)
    for length, known in [(3, 3), (5, 9), (600, 700), (2, 520), (3, 3)]:
        query = torch.randn(heads, length, 8, generator=chance)
        key, value = (torch.randn(1, known, 8, generator=chance) for _ in range(2))
        seen = torch.ones(length, known, dtype=torch.bool).tril(known - length)
        expected = torch.nn.functional.scaled_dot_product_attention(
            query[None], key[None], value[None], attn_mask=seen, scale=0.3, enable_gqa=True
        )[0]
        for attend in (attention.plain, attention.fused):
            torch.testing.assert_close(attend(query, key, value, 0.3), expected)
    assert {kind: tuple(mask.shape) for kind, mask in attention._masks.items()} == {
        (torch.float32, None): (1024, 1024),
        (torch.bool, torch.device("cpu")): (1024, 1024),
    }


def kernel(query, key, value, starts, known_starts, longest, longest_known):
    """Attend as the kernel for GPUs does, segment by segment: (tokens, heads, size) each."""
    outputs = []
    for number in range(len(starts) - 1):
        own, known = slice(starts[number], starts[number + 1]), slice(known_starts[number], known_starts[number + 1])
        queries, keys, values = (states.transpose(0, 1) for states in (query[own], key[known], value[known]))
        assert (queries.shape[1], keys.shape[1]) <= (longest, longest_known)
        outputs.append(attention.plain(queries, keys, values, query.shape[-1] ** -0.5).transpose(0, 1))
    return torch.cat(outputs)


@pytest.mark.parametrize("prefixes", [(None, 0, 0, None), (None, None, None, None)])
def test_one_kernel_for_all_segments_sees_what_one_by_one_sees(
    prefixes: tuple[int | None, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention, "varlen_kernel", lambda: kernel)
    chance = torch.Generator().manual_seed(0)
    query = torch.randn(4, 17, 8, generator=chance)
    key, value = (torch.randn(2, 17, 8, generator=chance) for _ in range(2))
    given = (query, key, value, 8**-0.5, attention.Segments((6, 3, 2, 6), prefixes))
    torch.testing.assert_close(attention.together(*given), attention.one_by_one(*given))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_gpu_both_ways_agree() -> None:
    chance = torch.Generator().manual_seed(0)
    query = torch.randn(9, 170, 64, generator=chance).to("cuda", torch.bfloat16).requires_grad_()
    key, value = (torch.randn(3, 170, 64, generator=chance).to("cuda", torch.bfloat16) for _ in range(2))
    given = (query, key, value, 64**-0.5, attention.Segments((60, 30, 20, 60), (None, 0, 0, None)))
    found = [attend(*given) for attend in (attention.together, attention.one_by_one)]
    torch.testing.assert_close(*found, rtol=0.02, atol=0.02)
    gradients = [torch.autograd.grad(each.float().square().sum(), query)[0] for each in found]
    torch.testing.assert_close(*gradients, rtol=0.05, atol=0.05)
