"""Text files that options name, with one value per line."""

import sys
from pathlib import Path

from signatures.common.errors import UserError


def lines_of(path: Path, *, stripped: bool = True) -> list[str]:
    """Return the lines of a text file that are not blank, without the spaces around them; of standard input for `-`.

    Args:
        path: The file.
        stripped: Whether the spaces around lines are left out.

    Raises:
        UserError: The file cannot be read, or is not UTF-8.
    """
    try:
        content = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
        lines = (line for line in content.decode("utf-8-sig").splitlines() if line.strip())
        return [line.strip() if stripped else line for line in lines]
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8: convert the file.") from error
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}): check the path.") from error
