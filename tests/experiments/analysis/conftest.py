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


def shown(table: Any) -> str:
    """Return what a terminal of 200 columns shows."""
    console = Console(width=200, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(table)
    return console.export_text()
