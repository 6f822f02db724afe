"""Equal budgets at less than their price: what another row of the comparison has asked is not computed again.

Every row pays for each of its calls out of its own budget, as if it were alone: its LM has a cache of its own. Behind
these LMs stands one LM with the common cache, so that a prompt that several rows send is computed once.
"""

from dataclasses import replace
from typing import Any

from dspy.lm15 import Request, Response

from programs.lms.calls.budget import Budget
from programs.lms.calls.metered import MeteredLM, metered_lm
from programs.lms.connect import Connection
from programs.parts.meter import metered


class SharedEngine:
    """An engine that lets another LM answer, with its cache and without its costs.

    Args:
        lm: Answers; its budget should have no limit.
    """

    def __init__(self, lm: MeteredLM):
        self.lm = lm
        self.supports_response_schema = lm.supports_response_schema
        self.supported_params = tuple(lm.supported_params)
        self.free = getattr(lm.engine, "free", False)

    def __deepcopy__(self, memo: dict[int, Any]) -> "SharedEngine":
        return self

    def complete(self, request: Request) -> Response:
        """Answer a request; the row's own LM counts the call."""
        with metered():
            answered: Response = self.lm(replace(request, model=self.lm.model))
        return replace(answered, model=request.model)


def row_connection(connection: Connection, row: str, budget: Budget) -> Connection:
    """Return the connection of a row: the same LM with a budget and a cache of its own.

    Args:
        connection: The common LM, without limits.
        row: Names the cache; a row that is resumed under its name pays for no call twice.
        budget: Of the row.
    """
    lm = connection.lm
    own = metered_lm(f"{lm.model}#{row}", engine=SharedEngine(lm), budget=budget, cache=True, **lm.kwargs)
    return replace(connection, lm=own)
