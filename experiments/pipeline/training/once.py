"""A connection to weights that are used once, such as those of a measurement while they are trained."""

from pathlib import Path

from programs.lms.connect import LOCAL_MAX_TOKENS, Connection, ModelTraits, local_connection
from programs.lms.embedded import EmbeddedEngine


def connect_once(folder: Path, converted: Path) -> Connection:
    """Return a connection that shares nothing with others and keeps nothing: no reply is cached, no model is kept.

    Args:
        folder: An adapter, or merged weights.
        converted: A folder that is not there yet, for the model in the format of the runtime (145 MB for an adapter of
            the embedded LM); to be deleted after the connection has been closed.

    Raises:
        UserError: The folder has no weights that can be served.
    """
    engine = EmbeddedEngine(source=str(folder), converted=converted)
    settings = {"temperature": 0.0, "max_tokens": LOCAL_MAX_TOKENS, "cache": False}
    return local_connection(f"embedded:{folder}", engine, settings, ModelTraits())
