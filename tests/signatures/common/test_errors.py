"""Errors that name the cure."""

import importlib

import pytest

from signatures.common.errors import UserError, needing, undone_by_error


def test_the_absence_of_a_package_names_the_extra_that_brings_it():
    wanted = r"A cross-encoder needs .*No module named 'nowhere'.*'verihop\[torch\]'"
    with pytest.raises(UserError, match=wanted), needing("torch", "A cross-encoder"):
        importlib.import_module("nowhere")


def test_what_a_block_has_begun_is_undone_after_ctrl_c_alone():
    done: list[str] = []
    with undone_by_error(lambda: done.append("kept")):
        pass
    with pytest.raises(KeyboardInterrupt), undone_by_error(lambda: done.append("undone")):
        raise KeyboardInterrupt
    assert done == ["undone"]
