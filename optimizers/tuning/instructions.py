"""Instructions for the predictors of a program, written by an LM.

DSPy's `GroundedProposer` does it (Opsahl-Ong et al., "Optimizing Instructions and Demonstrations for Multi-Stage
Language Model Programs", EMNLP 2024, section 3, https://arxiv.org/abs/2406.11695): it shows the LM a summary of the
questions, demonstrations of the predictor, its present instruction, and a tip that varies.
"""

import random
from collections.abc import Callable, Sequence
from typing import Any

import dspy

from optimizers.quiet import quiet
from signatures.common.errors import UserError, one_line

_EXAMPLES = 10  # that the summary of the questions is made of; each further ten would take another call
_SUMMARY_CALLS = 2
_SHOWN_DEMOS = 3


def instruction_calls(program: dspy.Module, count: int) -> int:
    """Return the LM calls that `write_instructions` makes, at most."""
    return _SUMMARY_CALLS + count * len(program.predictors()) if count else 0


def write_instructions(
    program: dspy.Module,
    examples: Sequence[dspy.Example],
    demonstrated: Sequence[dspy.Module],
    *,
    count: int,
    seed: int,
    failed: Callable[[str], None],
) -> dict[str, list[str]]:
    """Return new instructions of each predictor, at most `count`, written by the LM of the running context.

    Args:
        program: With its present instructions.
        examples: Training questions, which the LM gets to see.
        demonstrated: The program with sets of demonstrations, if there are any.
        count: Instructions per predictor.
        seed: Of the tips and of the LM's samples.
        failed: Called with why an instruction could not be written.

    Raises:
        UserError: The LM cannot be reached.
        BudgetExceeded: The budget is spent.
    """
    from dspy.propose.grounded_proposer import TIPS, GroundedProposer

    rng = random.Random(seed)
    plain = [dspy.Example(question=each.question, answer=each.get("answer")) for each in examples[:_EXAMPLES]]
    found: dict[str, list[str]] = {}
    with quiet():
        proposer = GroundedProposer(
            prompt_model=dspy.settings.lm,
            program=program,
            trainset=[each.with_inputs("question") for each in plain],
            program_aware=False,  # two further calls per instruction, to describe our code
            use_dataset_summary=bool(plain),
            use_task_demos=bool(demonstrated),
            num_demos_in_context=_SHOWN_DEMOS,
            use_instruct_history=False,
            set_history_randomly=False,
            rng=rng,
        )
        sets = [[], *([predictor.demos for predictor in each.predictors()] for each in demonstrated)]
        for place, (name, predictor) in enumerate(program.named_predictors()):
            # DSPy shows no demonstrations with the first set.
            demos: Any = {place: [each[place] if each else [] for each in sets]} if demonstrated else None
            known = [str(predictor.signature.instructions)]
            for number in range(count):
                tip = rng.choice(sorted(TIPS))
                proposer.use_tip = bool(TIPS[tip])
                try:
                    text = proposer.propose_instruction_for_predictor(
                        program, predictor, place, demos, number % len(sets), {}, tip=TIPS[tip]
                    )
                except UserError:
                    raise
                except Exception as error:  # noqa: BLE001 - a reply that cannot be read is no instruction
                    failed(f"{name}: {one_line(error, 120)}")
                    continue
                text = text.strip()
                if text and text not in known:
                    known.append(text)
            found[name] = known[1:]
    return {name: texts for name, texts in found.items() if texts}
