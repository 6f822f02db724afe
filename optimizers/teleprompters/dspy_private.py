"""What DSPy's optimizers leave in a program under private names; `tests/test_private_parts.py` pins each."""

import dspy


def forget_compilation(program: dspy.Module) -> None:
    """Take the marks of a compilation off a program."""
    # It would hide the predictors from `set_lm`, from saving and from compiling again.
    program._compiled = False
    # The tracing version of `forward` is left in a program that was traced, bound to that very program.
    vars(program).pop("forward", None)
