"""The loss on the validation examples, by skill."""

from collections import defaultdict
from collections.abc import Sequence

from optimizers.distill.training.encoding import Encoded
from optimizers.distill.training.lm.student import Student


def validation_losses(student: Student, examples: Sequence[Encoded]) -> dict[str, float]:
    """Return the mean loss of the reply tokens of each skill, and of all as "all"; empty without examples."""
    import torch

    sums: dict[str, float] = defaultdict(float)
    counts: dict[str, int] = defaultdict(int)
    with torch.no_grad():
        for start in range(0, len(examples), 16):
            batch = examples[start : start + 16]
            for row in student.rows(batch):
                _, losses = student.losses(row)
                for (_, _, _, member), loss in zip(row.targets, losses.tolist(), strict=True):
                    for name in (batch[member].skill, "all"):
                        sums[name] += loss
                        counts[name] += 1
    return {name: sums[name] / counts[name] for name in sorted(sums)}
