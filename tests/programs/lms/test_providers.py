"""Which providers there are, without the import of the library that knows them."""

import subprocess
import sys
from pathlib import Path

import pytest

from programs.lms import litellm_private


@pytest.mark.slow
def test_an_unknown_provider_lists_the_forms_without_the_import_of_litellm() -> None:
    code = (
        "import sys\n"
        "from programs.lms.connect import connect\n"
        "try: connect('no-such-provider/x', cache=False)\n"
        "except ValueError as error: print(error)\n"
        "print('litellm' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    error, imported = done.stdout.splitlines()
    assert "Unknown LM 'no-such-provider/x'. Choose from: embedded" in error
    assert imported == "False"


@pytest.mark.slow  # imports LiteLLM, which takes seconds
def test_no_provider_of_litellm_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    import litellm

    source = (Path(litellm.__file__).parent / "types" / "utils.py").read_text(encoding="utf-8")
    read = litellm_private.enumerated(source, "LlmProviders")
    assert read == {provider.value for provider in litellm.provider_list}
    litellm_private.litellm_providers.cache_clear()
    assert litellm_private.litellm_providers() == read  # by the import, since it is imported


def test_an_enumeration_is_read_whole_or_not_at_all() -> None:
    assert litellm_private.enumerated("class A(str, Enum):\n    B = 'b'  # c\n\n    D = 'd'\n\nE = 1\n", "A") == {
        "b",
        "d",
    }
    assert litellm_private.enumerated("class A(str, Enum):\n    B = 'b'\n    C = auto()\n", "A") == frozenset()
    assert litellm_private.enumerated("A = Enum('A', 'b d')\n", "A") == frozenset()
