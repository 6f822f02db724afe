import pytest


class Overlap:
    """Says yes if every word of the hypothesis is in the premise; records its calls."""

    name, fingerprint, threshold, agreement = "overlap", "overlap:1", 0.5, None

    def __init__(self):
        self.calls = []

    def __call__(self, pairs):
        self.calls.append(list(pairs))
        return [
            float(bool(hypothesis.split()) and set(hypothesis.split()) <= set(premise.split()))
            for premise, hypothesis in pairs
        ]


@pytest.fixture
def overlap():
    return Overlap()
