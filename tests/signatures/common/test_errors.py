"""Errors that name the cure."""

import importlib

import pytest

from signatures.common.errors import UserError, needing


def test_the_absence_of_a_package_names_the_extra_that_brings_it():
    wanted = r"A cross-encoder needs .*No module named 'nowhere'.*'verihop\[torch\]'"
    with pytest.raises(UserError, match=wanted), needing("torch", "A cross-encoder"):
        importlib.import_module("nowhere")
