import base64
import json
import re
import zlib
from collections.abc import Callable
from typing import Any

import pytest
from rich.console import Console


@pytest.fixture(scope="session")
def unpack() -> Callable[[str, str], Any]:
    """Return a function that gives the JSON in a packed element of a page, as its script unpacks it."""

    def of(page: str, name: str) -> Any:
        found = re.search(rf'<script type="text/plain" id="{name}">([A-Za-z0-9+/=]*)</script>', page)
        assert found, name
        return json.loads(zlib.decompress(base64.b64decode(found[1])))

    return of


def shown(table: Any, width: int = 200) -> str:
    """Return what a terminal shows."""
    console = Console(width=width, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(table)
    return console.export_text()
