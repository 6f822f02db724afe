"""Load what the first question would load, so that its seconds are those of answering."""

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import dspy


class HasLM(Protocol):
    """Whatever has an LM, such as a `programs.lms.connect.Connection`."""

    @property
    def lm(self) -> Any:
        """The `dspy.LM`."""
        ...


_GREETING = "Reply with the word ready."


def warm_up(program: "dspy.Module", connection: HasLM) -> None:
    """Load the weights of an LM in this process, and the embedders and files of the program and its index.

    No LM call is made: nothing is sent to a server, counted or paid.

    Raises:
        UserError: A model cannot be loaded.
    """
    from programs.artifact import all_parts

    engine, retriever = getattr(connection.lm, "engine", None), getattr(program, "retrieve", None)
    similarities = [getattr(part, "similarity", None) for part in all_parts(program)]
    loads: list[Any] = [getattr(each, "load", None) for each in (engine, retriever, *similarities)]
    for load in loads:
        if callable(load):
            load()


def warm(program: "dspy.Module", connection: HasLM) -> None:
    """Prepare a service, before its first user: do what `warm_up` does, and call an LM that is not in this process.

    The call opens a connection, which is kept, and lets a server that loads models on demand (Ollama, LM Studio) load
    this one. Its reply is a word, is neither cached nor taken from the cache, and counts in the budget of the LM.

    Args:
        program: A program of the catalog or a compiled one, with its retriever.
        connection: The LM it will run on.

    Raises:
        UserError: A model cannot be loaded, or the LM does not answer.
        BudgetExceeded: The budget allows no call.
    """
    from programs.parts.meter import metered

    warm_up(program, connection)
    if getattr(connection.lm, "remote", False):
        with metered():  # not of a question that is being counted
            connection.lm(_GREETING, cache=False)
