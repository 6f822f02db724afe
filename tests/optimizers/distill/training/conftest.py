"""Examples for a tiny random Llama."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from optimizers.distill.examples import Example, write_examples
from tests.tiny_llama import make_examples

pytest.importorskip("peft", reason="the extra [train] is not installed")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Compute on one thread: sums in a fixed order make equal runs equal to the last bit."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def examples() -> list[Example]:
    return make_examples()


@pytest.fixture
def folder(tmp_path: Path, examples: list[Example]) -> Path:
    """Return a folder with the examples."""
    write_examples(tmp_path / "data" / "examples.jsonl", examples)
    return tmp_path / "data"
