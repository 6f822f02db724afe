"""Own metrics: a function or a `Metric` in a module of the user, named `module:name`.

A name is imported only where the user typed it, on the command line or in Python (`own_metric`, `RunConfig`).
"""

import copy
import inspect
import math
from dataclasses import replace
from typing import Any

from optimizers.metrics.metric import Metric
from signatures.common.errors import UserError, one_line
from signatures.common.own_code import code_digest, import_own


def own_metric(name: str) -> Metric:
    """Import and return the metric `module:name`.

    Args:
        name: A function `(example, prediction)` that returns a number in [0, 1], True, False, or None where it is
            undefined; or a `Metric`. Several threads call it, with copies of both. The module is
            looked for among the installed ones, then in the current directory.

    Returns:
        A metric of that name. The first paragraph of the function's docstring is its definition, together with a hash
        of the module's file, so that runs scored with different code are not compared.

    Raises:
        UserError: The module or the name does not exist, the module raises, or the value is neither function nor
            `Metric`, or takes other arguments. Scoring raises it if the function does, or returns anything else.
    """
    module, value = import_own(name, "metric")
    _check_call(value.function if isinstance(value, Metric) else value, name)
    code = f"Own metric {name}, code {code_digest(module)}."
    if isinstance(value, Metric):
        definition = f"{value.definition.rstrip()} {code}"
        return replace(value, name=name, definition=definition, function=_checked(value.function, name))
    if not callable(value) or inspect.isclass(value):
        raise UserError(f"Own metric {name!r} is of type {type(value).__name__}: it must be a function or a Metric.")
    text = one_line((inspect.getdoc(value) or "").partition("\n\n")[0])
    definition = f"{text if not text or text[-1] in '.!?' else text + '.'} {code}".strip()
    return Metric(name, definition, _checked(value, name), f"{module.__name__} (your code)")


def _check_call(function: Any, name: str) -> None:
    """Check before any LM is asked that a function takes an example and a prediction."""
    if not callable(function) or inspect.isclass(function):
        return  # another message says so
    if inspect.iscoroutinefunction(function):
        raise UserError(f"Own metric {name!r} is asynchronous: write it as a plain function.")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some built-in functions have none
        return
    try:
        signature.bind(None, None)
    except TypeError:
        raise UserError(
            f"Own metric {name!r} takes {one_line(str(signature), 80)}: it must take two arguments, (example, "
            "prediction)."
        ) from None


def _number(value: Any) -> float:
    """Return a number of Python or of a library as a float, NaN for anything else."""
    try:
        return float(value) if hasattr(value, "__float__") else math.nan
    except (TypeError, ValueError, OverflowError):  # an array, a huge int
        return math.nan


def _checked(function: Any, name: str) -> Any:
    """Return the function with its errors and wrong values as UserErrors, and bools as numbers."""

    def score(example: Any, prediction: Any) -> float | None:
        asked = getattr(example, "id", None)
        try:
            # Copies, because the program's prediction is still needed, and by other metrics, too.
            value = function(copy.deepcopy(example), copy.deepcopy(prediction))
        except UserError:
            raise
        except (Exception, SystemExit) as error:  # the user's code may raise anything
            raise UserError(
                f"Own metric {name!r} failed on question {asked!r}: {type(error).__name__}: {one_line(error)}."
            ) from error
        if value is None:
            return None
        number = _number(value)
        if not 0 <= number <= 1:
            raise UserError(
                f"Own metric {name!r} returned {one_line(repr(value), 60)} on question {asked!r}: return a number from "
                "0 to 1, True, False or None."
            )
        return number

    return score
