"""The figures of a file of examples beside its counts: licences, demonstrations, wordings, tokens and balance."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from experiments.papers.embedded_lm.instructions import wordings_of
from optimizers.distill.examples import Example
from optimizers.distill.gold.catalog import signature_of
from optimizers.distill.varied import share_with_demos, tokens_of


def figures_of(examples: Sequence[Example], count_tokens: Callable[[str], int]) -> dict[str, Any]:
    """Return the figures of the examples.

    Args:
        examples: At least one.
        count_tokens: Returns the tokens of a text.
    """
    tokens = [tokens_of(example, count_tokens) for example in examples]
    by_predictor: dict[str, Counter[str]] = {}
    for example in examples:
        if example.verdict:
            by_predictor.setdefault(f"{example.program}.{example.predictor}", Counter())[example.verdict] += 1
    return {
        "by_licence": dict(sorted(Counter(example.licence for example in examples).items())),
        "licences": dict(sorted({example.source: example.licence for example in examples}.items())),
        "share_with_demos": round(share_with_demos(examples), 4),
        "by_number_of_demos": dict(sorted(Counter(_demos(example) for example in examples).items())),
        "share_reworded": round(sum(map(_reworded, examples)) / len(examples), 4),
        "tokens": sum(tokens),
        "tokens_mean": round(sum(tokens) / len(tokens), 1),
        "tokens_longest": max(tokens),
        "tokens_of_replies": sum(count_tokens(example.completion) for example in examples),
        "verdicts": dict(sorted(Counter(example.verdict for example in examples if example.verdict).items())),
        "verdicts_by_predictor": {name: dict(sorted(counts.items())) for name, counts in sorted(by_predictor.items())},
    }


def _demos(example: Example) -> str:
    return str(sum(message.role == "assistant" for message in example.messages))


def _reworded(example: Example) -> bool:
    wordings = wordings_of(signature_of(example.program, example.predictor))
    return example.messages[0].content.startswith(wordings) if wordings else False
