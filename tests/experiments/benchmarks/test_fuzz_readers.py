"""The readers that the fuzzer calls: valid files are accepted, others refused in one line."""

import random

import pytest

from experiments.benchmarks.fuzz_readers import readers, write_seeds
from signatures.common.errors import UserError


@pytest.fixture(scope="module")
def seeds(tmp_path_factory):
    folder = tmp_path_factory.mktemp("seeds")
    write_seeds(folder, 1)
    return [path.read_bytes()[1:] for path in sorted(folder.iterdir())]


def test_every_reader_refuses_or_accepts_every_seed_and_random_bytes(seeds, tmp_path):
    rng = random.Random(0)
    accepted = set()
    for name, read in readers(tmp_path).items():
        for content in [*seeds, *(rng.randbytes(rng.randrange(80)) for _ in range(40)), b"", b"[" * 4000]:
            try:
                read(content)
            except UserError:
                continue
            accepted.add(name)
    assert {"artifact.json", "passages.jsonl", "questions.jsonl", "rows.jsonl", "run.json"} <= accepted
