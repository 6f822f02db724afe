"""Fixtures that every test may use."""

from pathlib import Path

import pytest

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Return the folder with real development data, or skip with a reason where it is absent."""
    if not SHARED_DATA.is_dir():
        pytest.skip("the development data (../shared/data) is not beside this checkout")
    return SHARED_DATA
