"""A search engine and its pages on loopback."""

import pytest

from tests.web_site import Site


@pytest.fixture
def site():
    running = Site()
    yield running
    running.close()
