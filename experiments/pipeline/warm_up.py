"""Load what the first question would load, so that its seconds are those of answering."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import dspy

    from experiments.runs.config import Connected


def warm_up(program: "dspy.Module", connection: "Connected") -> None:
    """Load the weights of an LM in this process, and the embedder and files of the program's index.

    No LM call is made: nothing is sent to a server, counted or paid.

    Raises:
        UserError: A model cannot be loaded.
    """
    engine, retriever = getattr(connection.lm, "engine", None), getattr(program, "retrieve", None)
    loads: list[Any] = [getattr(engine, "load", None), getattr(retriever, "load", None)]
    for load in loads:
        if callable(load):
            load()
