"""Candidates for the demonstrations and instructions of a program, as plain JSON; and an LM that writes instructions.

A set of demonstrations is tried for the program as a whole: its demonstrations were made by the same runs, so that the
predictors see the same questions, and a study of some tens of trials can try each set more than once. Instructions are
tried for each predictor by itself: they are written independently of each other, and a good one helps in any company.

DSPy's `GroundedProposer` writes them (Opsahl-Ong et al., "Optimizing Instructions and Demonstrations for Multi-Stage
Language Model Programs", EMNLP 2024, section 3, https://arxiv.org/abs/2406.11695): it shows the LM a summary of the
questions, demonstrations of the predictor, its present instruction, and a tip that varies.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import dspy

from optimizers.evaluating import quiet
from optimizers.tuning.space import Dimension, Options
from programs.artifacts.state import apply_state, check_state, dump_state
from signatures.common.errors import UserError, one_line

PRESENT = "present"
DEMOS = "demos"
_INSTRUCTION = "instruction."


@dataclass(frozen=True)
class Prompts:
    """Candidates by label; the label "present" stands for what the program has.

    Args:
        demos: Label -> predictor -> demonstrations.
        instructions: Predictor -> label -> instruction.
    """

    demos: dict[str, dict[str, list[dict[str, Any]]]] = field(default_factory=dict)
    instructions: dict[str, dict[str, str]] = field(default_factory=dict)

    def dimensions(self) -> list[Dimension]:
        """Return what a study searches: which demonstrations, and which instruction of each predictor."""
        found: list[Dimension] = [Options(DEMOS, (PRESENT, *self.demos))] if self.demos else []
        named = {name: labels for name, labels in self.instructions.items() if labels}
        return found + [Options(f"{_INSTRUCTION}{name}", (PRESENT, *labels)) for name, labels in named.items()]

    def apply(self, program: dspy.Module, labels: Mapping[str, str]) -> dspy.Module:
        """Set the demonstrations and instructions that labels name on a program, and return it.

        Raises:
            UserError: A label is unknown, or a candidate is not one of this program's.
        """
        chosen = {name: label for name, label in labels.items() if is_prompt(name) and label != PRESENT}
        if not chosen:
            return program
        state = dump_state(program)
        for name, label in chosen.items():
            if name == DEMOS:
                for predictor, demos in _entry(self.demos, label).items():
                    if predictor in state:  # a switch may remove a predictor
                        state[predictor]["demos"] = demos
            elif (predictor := name.removeprefix(_INSTRUCTION)) in state:
                text = _entry(self.instructions.get(predictor, {}), label)
                state[predictor]["signature"]["instructions"] = text
        apply_state(program, state)
        return program

    def as_dict(self) -> dict[str, Any]:
        """Return the candidates as JSON values."""
        return {"demos": self.demos, "instructions": self.instructions}


def _entry(candidates: Mapping[str, Any], label: str) -> Any:
    if label not in candidates:
        raise UserError(f"The study has no candidate {label!r}; it has {', '.join(candidates) or 'none'}.")
    return candidates[label]


def is_prompt(name: str) -> bool:
    """Return whether a dimension chooses a prompt, not a knob."""
    return name == DEMOS or name.startswith(_INSTRUCTION)


def instruction_of(predictor: str) -> str:
    """Return the name of the dimension that chooses a predictor's instruction."""
    return f"{_INSTRUCTION}{predictor}"


def read_prompts(record: Mapping[str, Any], program: dspy.Module) -> Prompts:
    """Return candidates that `as_dict` wrote, checked against a program: a shared database may hold anything.

    Raises:
        UserError: A candidate is not one of this program's.
    """
    try:
        prompts = Prompts(record["demos"], record["instructions"])
        for group in (prompts.demos, prompts.instructions):
            if not (isinstance(group, dict) and all(isinstance(each, dict) for each in group.values())):
                raise TypeError("JSON objects were expected")
        if not all(isinstance(text, str) for labels in prompts.instructions.values() for text in labels.values()):
            raise TypeError("an instruction is not text")
    except (KeyError, TypeError) as error:
        raise UserError(f"The study's candidates for prompts are damaged ({error}): start another study.") from None
    state = dump_state(program)
    for label, by_predictor in prompts.demos.items():
        changed = {name: {**own, "demos": by_predictor.get(name, own["demos"])} for name, own in state.items()}
        try:
            check_state(changed, program)
        except UserError as error:
            raise UserError(f"The demonstrations {label!r} of the study are not this program's: {error}.") from None
    return prompts


def demos_of(program: dspy.Module) -> dict[str, list[dict[str, Any]]]:
    """Return the demonstrations of each predictor, as JSON values."""
    return {name: own["demos"] for name, own in dump_state(program).items()}


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
