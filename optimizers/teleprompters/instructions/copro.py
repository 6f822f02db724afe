"""COPRO: better instructions by coordinate ascent, one predictor after the other.

The algorithm of `dspy.COPRO` with its prompts (Khattab et al., https://dspy.ai/api/optimizers/COPRO; after Yang et al.,
"Large Language Models as Optimizers", https://arxiv.org/abs/2309.03409): a prompt LM writes instructions, first from
the present one, then from those tried and their scores.

Departure: DSPy's class scores on the training set, proposes an output prefix that its adapters no longer show, scores
every earlier instruction again in each round, has no seed, and ends with an error at the first reply that it cannot
read. Here candidates are scored once, on the validation set, within the best program so far.
"""

from typing import Any

import dspy
from dspy.teleprompt.copro_optimizer import BasicGenerateInstruction, GenerateInstructionGivenAttempts

from optimizers.evaluating import instructions_of, set_instruction
from optimizers.teleprompters.instructions.prompt_lm import proposals
from optimizers.teleprompters.task import Optimizer, Option, Runs, Task, always_fits, score_candidate

_PREFIX = "proposed_prefix_for_output_field"
_FIRST, _NEXT = BasicGenerateInstruction.delete(_PREFIX), GenerateInstructionGivenAttempts.delete(_PREFIX)


def copro(student: dspy.Module, task: Task) -> dspy.Module:
    """Return the student with the instructions that scored best on the validation set."""
    best = score_candidate(student, task, "copro 0: as it was")
    tried = {name: {text: best.mean} for name, text in instructions_of(student).items()}
    breadth, count, number = task.options["breadth"], 0, 0
    for depth in range(task.options["depth"]):
        # All proposals of a round are made from the scores of the rounds before.
        proposed = {}
        for name, scores in tried.items():
            numbers = range(number, number + (breadth if depth else breadth - 1))
            number = numbers.stop
            inputs: dict[str, Any] = {"basic_instruction": next(iter(scores))}
            if depth:
                inputs = {"attempted_instructions": _attempts(scores, breadth)}
            signature = _NEXT if depth else _FIRST
            proposed[name] = proposals(task, signature, "proposed_instruction", numbers=numbers, **inputs)
        for name, texts in proposed.items():
            for text in texts:
                if text in tried[name]:
                    continue
                count += 1
                program = set_instruction(best.program, name, text)
                candidate = score_candidate(program, task, f"copro {count}: {name}, depth {depth + 1}")
                tried[name][text] = candidate.mean
                best = candidate if candidate.mean > best.mean else best
    return best.program.deepcopy()


def _attempts(scores: dict[str, float], most: int) -> list[str]:
    """Return the best instructions tried with their scores, the best one last."""
    best = sorted(scores.items(), key=lambda item: item[1], reverse=True)[:most]
    return [
        line
        for number, (text, score) in enumerate(reversed(best), start=1)
        for line in (f"Instruction #{number}: {text}", f"Resulting Score #{number}: {100 * score:.2f}")
    ]


def _estimate(student: dspy.Module, task: Task) -> Runs:
    breadth, depth = task.options["breadth"], task.options["depth"]
    proposed = len(student.predictors()) * (breadth - 1 + (depth - 1) * breadth)
    return Runs(student=(1 + proposed) * len(task.valset), prompt_calls=proposed)


COPRO = Optimizer(
    run=copro,
    summary="Instructions by coordinate ascent: a prompt LM proposes them from those tried and their scores.",
    source="https://dspy.ai/api/optimizers/COPRO",
    fits=always_fits,
    estimate=_estimate,
    options={
        "breadth": Option(10, "Instructions compared per predictor and round, the present one included.", 2, 100),
        "depth": Option(3, "Rounds.", 1, 50),
        "init_temperature": Option(1.4, "Temperature of the prompt LM.", 0, 2),
    },
    compares=True,
)
