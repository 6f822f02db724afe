"""Scripted agents: a library that finds by query, and replies that are taken in order."""

import pytest

from tests.programs.agents import library as story


@pytest.fixture
def library():
    return story.Library(Quillon=[story.QUILLON, story.MERROW], Ansa_Merrow=[story.MERROW])


@pytest.fixture
def replies(scripted):
    """Return a function that scripts replies in order, the last one for ever, and returns the engine."""

    def start(*said, other=None, adapter=None):
        left = list(said)

        def reply(system, user):
            for words, answer in (other or {}).items():
                if words in system:
                    return answer(user) if callable(answer) else answer
            return left.pop(0) if len(left) > 1 else left[0]

        return scripted(reply, adapter)

    return start
