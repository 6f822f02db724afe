"""The instructions of a program's predictors."""

import dspy


def instructions_of(program: dspy.Module) -> dict[str, str]:
    """Return the instruction of each predictor by its name."""
    return {name: str(predictor.signature.instructions) for name, predictor in program.named_predictors()}


def set_instruction(program: dspy.Module, name: str, instruction: str) -> dspy.Module:
    """Return a copy of a program with the instruction of one predictor replaced."""
    copy = program.deepcopy()
    predictor = dict(copy.named_predictors())[name]
    predictor.signature = predictor.signature.with_instructions(instruction)
    return copy
