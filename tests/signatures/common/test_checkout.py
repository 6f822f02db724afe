"""In a checkout `verihop.programs` is another name of `programs`."""

import importlib
import sys

import pytest

import programs.parts.knobs
import verihop
from signatures.common.checkout import Aliases, name_as_in_wheel


def test_both_names_are_of_one_module():
    module = importlib.import_module("verihop.programs.parts.knobs")
    assert module is programs.parts.knobs
    assert sys.modules["verihop.programs"] is programs
    assert verihop.programs is programs
    assert module.__spec__.name == module.__name__ == "programs.parts.knobs"


def test_other_modules_are_not_there():
    for name in ("verihop.nothing", "verihop.programs.nothing", "verihop.tests"):
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module(name)


def test_the_finder_is_added_once():
    name_as_in_wheel("verihop")
    assert sum(isinstance(finder, Aliases) for finder in sys.meta_path) == 1
