"""Which licences of training data let weights be shipped: those that are named here, and no other."""

import re

from signatures.common.errors import UserError

SHIPPED = ("Apache-2.0", "MIT", "CC0", "CC BY 3.0", "CC BY 4.0", "CC BY-SA 3.0", "CC BY-SA 4.0", "ODC-BY")
_NAMED = re.compile(rf"(?:{'|'.join(map(re.escape, SHIPPED))})(?:\s*\([^()]*\))?")
_LIMITS = re.compile(r"not stated|research|academic|non-?commercial|\bNC\b|\bND\b", re.IGNORECASE)


def may_ship(licence: str) -> bool:
    """Return whether weights that were trained on data of a licence may be shipped.

    Args:
        licence: One or more of `SHIPPED` with "; " between them, each with a remark in parentheses or without.
    """
    parts = [part.strip() for part in licence.split(";")]
    return all(_NAMED.fullmatch(part) for part in parts) and _LIMITS.search(licence) is None


def check_licence(licence: str, what: str) -> None:
    """Raise UserError if weights that were trained on data of a licence may not be shipped.

    Args:
        licence: As `may_ship` takes it.
        what: Whose licence it is, for the message.
    """
    if not may_ship(licence):
        raise UserError(
            f"{what}: the licence {licence!r} is not one that shipped weights may be trained on. "
            f"Leave it out, or state one of: {', '.join(SHIPPED)}."
        )
